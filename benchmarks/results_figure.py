"""The pictures of docs/results.md, drawn from its own tables: no figure stands in one and not in the other.

    python benchmarks/results_figure.py docs/results.md --out docs

Writes `results-systems.svg`, strict accuracy of kriss and the baselines with its interval, and `results-curves.svg`,
the figure of the paper: what an oracle among the first k candidates would reach (k = 1: ties at random), and what a few
examples bring.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, `benchmarks` is not found by itself

from benchmarks.svg import WIDTH, Bar, Series, bar_chart, escaped, line_chart, swatch

CORPORA = {
    "ncbi-disease": "NCBI-disease",
    "bc5cdr-d": "BC5CDR, diseases",
    "bc5cdr-c": "BC5CDR, chemicals",
    "medmentions-st21pv": "MedMentions, names of its train split",
}
SHOWN = {
    "exact name": "exact name",
    "exact name + abbreviations": "the same, long forms",
    "QuickUMLS": "QuickUMLS",
    "scispaCy": "scispaCy",
    "MiniLM, not trained, names": "MiniLM's nearest name",
    "MiniLM, not trained, names + abbreviations": "MiniLM, long forms",
    "SapBERT": "SapBERT",
    "SapBERT + abbreviations": "SapBERT, long forms",
    "BLINK, bi-encoder": "BLINK",
    "MedLinker (supervised)": "MedLinker, supervised",
    "kriss, self-supervised": "kriss, no labels",
    "kriss, the train split's surfaces as names": "kriss, names alone",
    "kriss, lazy supervised": "kriss, lazy",
}
"""The systems of the first picture, by the names that the tables have."""
CURVES = {
    "MiniLM, not trained, names + abbreviations": "MiniLM, long forms",
    "SapBERT + abbreviations": "SapBERT, long forms",
    "kriss, self-supervised": "kriss, no labels",
    "kriss, lazy supervised": "kriss, lazy",
}
DEPTHS = {"ties at random": 1, "R@5": 5, "R@16": 16, "R@64": 64}
_LINE, _GAP, _HEAD = 20, 24, 26
Table = list[dict[str, str]]


def tables(text: str) -> dict[str, list[Table]]:
    r"""Return the tables of a Markdown page below each heading, a row as its cells by their column.

    >>> tables("## one\n\n|  | strict |\n| --- | --- |\n| **kriss** | 86.2 |\n")
    {'one': [[{'': 'kriss', 'strict': '86.2'}]]}
    """
    found: dict[str, list[Table]] = {}
    heading, columns = "", list[str]()
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").split(",")[0]
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
        if not columns:
            columns = cells
            found.setdefault(heading, []).append([])
        elif not all(re.fullmatch(":?-+:?", cell) for cell in cells):
            found[heading][-1].append(dict(zip(columns, cells, strict=True)))
    return found


def systems(rows: Table) -> str:
    """Draw the systems of one corpus."""
    bars = []
    for row in rows:
        if name := SHOWN.get(row[""]):
            bounds = [float(bound) / 100 for bound in row["95%"].split("–") if bound]
            low, high = bounds or (math.nan, math.nan)  # what lies in one document has no interval
            by_lot = row["ties at random"]
            bars.append(Bar(name, float(row["strict"]) / 100, low, high, by_lot if by_lot != row["strict"] else ""))
    return bar_chart(bars, title="strict accuracy by system", note="ties at random")


def curves(rows: Table) -> tuple[list[str], str]:
    """Draw R@k of some systems; return their names, too."""
    by_system = {row[""]: row for row in rows}
    if missing := [system for system in CURVES if system not in by_system]:
        sys.exit(f"the page has no row of '{missing[0]}'; give docs/results.md")
    series = [
        Series(name, tuple((k, float(by_system[system][column]) / 100) for column, k in DEPTHS.items()))
        for system, name in CURVES.items()
    ]
    return [one.name for one in series], line_chart(series, title="R@k", across="first k candidates", up="right, %")


def few(rows: Table) -> tuple[list[str], str]:
    """Draw accuracy by the number of examples an entity; that without any is a level."""
    series = []
    for corpus, name in list(CORPORA.items())[:2]:
        share = {row["examples an entity"]: float(row[corpus]) / 100 for row in rows}
        points = tuple((int(count), value) for count, value in share.items() if count.isdigit() and count != "0")
        series += [Series(name, points, share["0"])]
    return [one.name for one in series], line_chart(series, title="few examples", across="examples", up="strict, %")


def panel(title: str, names: Sequence[str], chart: str) -> tuple[str, float]:
    """Put a title and a legend around a chart; return how high it all is."""
    parts = [f'<text class="title" x="0" y="14">{escaped(title)}</text>']
    below = float(_HEAD + _LINE / 2 if names else _HEAD)
    for number, name in enumerate(names):
        x, y = WIDTH / 2 * (number % 2), below + _LINE * (number // 2)
        mark = swatch(number).replace("<svg ", f'<svg x="{x:g}" y="{y - 12:g}" ', 1)
        parts.append(f'{mark}<text class="name" x="{x + 34:g}" y="{y:g}">{escaped(name)}</text>')
    below += _LINE * ((len(names) + 1) // 2)
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', chart)
    assert size
    width, height = size.groups()
    parts.append(chart.replace("<svg ", f'<svg y="{below:g}" width="{width}" height="{height}" ', 1))
    return "".join(parts), below + float(height)


def page(panels: Sequence[tuple[str, float]], title: str) -> str:
    """Put panels side by side, two in a row, on a ground of their own; colours are those of the report."""
    placed, top = [], float(_GAP)
    for first in range(0, len(panels), 2):
        some = panels[first : first + 2]
        for number, (body, _) in enumerate(some):
            placed.append(f'<g transform="translate({_GAP + number * (WIDTH + 2 * _GAP)} {top:g})">{body}</g>')
        top += max(height for _, height in some) + _GAP
    width = 2 * WIDTH + 4 * _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top:g}" role="img" '
        f'aria-label="{escaped(title)}" font-family="system-ui, sans-serif">\n<style>{_style()}</style>\n'
        f'<rect width="{width}" height="{top:g}" fill="var(--ground)"/>\n' + "\n".join(placed) + "\n</svg>\n"
    )


def _style() -> str:
    """Return what the report's style sheet says of plots, and of colours by day and by night."""
    sheet = (files("kriss.evaluate") / "report.css").read_text("utf-8")
    colours = sheet[: sheet.index("* { box-sizing")]
    plots = "\n".join(
        line
        for line in sheet.splitlines()
        if re.match(r"svg text|\.(grid|axis|bar|interval|level|s\d)|polyline|path", line)
    )
    return f"{colours}{plots}\nsvg text.title {{ font-size: 14px; font-weight: 600; fill: var(--text); }}"


def pictures(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each picture."""
    found = tables(text)
    if missing := [heading for heading in (*CORPORA, "Few examples") if heading not in found]:
        sys.exit(f"the page has no table below a heading '{missing[0]}'; give docs/results.md")
    main = {corpus: found[corpus][0] for corpus in CORPORA}
    bars = [panel(title, [], systems(main[corpus])) for corpus, title in CORPORA.items()]
    yield "results-systems.svg", page(bars, "strict accuracy of kriss and the baselines, with 95% intervals")
    lines = [panel(f"{CORPORA[corpus]}: among the first k", *curves(main[corpus])) for corpus in list(CORPORA)[:3]]
    lines.append(panel("Few examples of each entity; dashed: none", *few(found["Few examples"][0])))
    yield "results-curves.svg", page(lines, "accuracy by the number of candidates, and by that of examples")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description="The pictures of docs/results.md.")
    parser.add_argument("page", type=Path, help="docs/results.md")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    given = parser.parse_args(arguments)
    if not given.page.is_file():
        sys.exit(f"{given.page} is no file; give docs/results.md")
    given.out.mkdir(parents=True, exist_ok=True)
    for name, content in pictures(given.page.read_text(encoding="utf-8")):
        (given.out / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
