"""The report of an evaluation as one HTML file: figures, plots and every kind of error, to be sent to anybody.

Nothing is loaded from elsewhere, and a policy in the page forbids it, as it forbids every script but its own: text of
corpora and systems is shown and never run. Without scripts the page is whole; they only add the filter.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.resources import files
from math import isnan
from pathlib import Path

from kriss.documents.write import output
from kriss.evaluate.html_errors import KindOfErrors, error_list, errors_by_kind
from kriss.evaluate.kinds import KINDS
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.score import DEPTHS, Evaluation, Row
from kriss.evaluate.svg import Bar, Series, bar_chart, escaped, line_chart, percent, swatch

System = tuple[str, Evaluation]
_PROTOTYPES = " prototypes"
_COUNTED = (
    "Every mention with a gold id counts, also where the ontology lacks that id. Right is one answer that is a gold "
    "id; no link, no prediction and a tie left unbroken count as wrong."
)


def write_html(
    path: Path,
    title: str,
    evaluation: Evaluation,
    knowledge: Knowledge,
    *,
    protocol: Sequence[str] = (),
    others: Sequence[System] = (),
    force: bool = False,
) -> None:
    """Write the report; `others` are systems that the first is plotted against."""
    systems = [(title, evaluation), *others]
    kinds = errors_by_kind(evaluation, knowledge)
    body = [
        _headline(title, evaluation, protocol),
        _systems(systems) if others else "",
        _slices(evaluation),
        _plots(systems),
        _kinds(kinds, len(evaluation.outcomes)),
        _errors(kinds, knowledge),
    ]
    with output(path, force=force) as stream:
        stream.write(_page(title, "\n".join(filter(None, body))))


def _page(title: str, body: str) -> str:
    style, script = ((files("kriss.evaluate") / name).read_text("utf-8") for name in ("report.css", "report.js"))
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}; form-action \'none\'">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


# --- figures ------------------------------------------------------------------------------------


def _headline(title: str, evaluation: Evaluation, protocol: Sequence[str]) -> str:
    row = evaluation.overall
    documents = len({outcome.mention.document for outcome in evaluation.outcomes})
    facts = [
        ("mentions", f"{row.mentions:,}"),
        ("documents", f"{documents:,}"),
        ("wrong", f"{sum(not outcome.strict for outcome in evaluation.outcomes):,}"),
        ("without a prediction", f"{len(evaluation.missing):,}"),
        ("gold ids mapped to the ontology's", f"{evaluation.mapped:,}"),
    ]
    if evaluation.surplus:
        facts.append(("predictions passed over, as gold has no such mention", f"{evaluation.surplus:,}"))
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    lines = "".join(f"<li><bdi>{escaped(line)}</bdi></li>" for line in protocol)
    return (
        f'<header>\n<h1><bdi>{escaped(title)}</bdi></h1>\n<p class="headline"><strong>{percent(row.strict)}%</strong> '
        f'<span>strict accuracy<br><span class="whole">95% interval {_interval(row)}</span></span></p>\n'
        f'<dl class="facts">{shown}</dl>\n<p class="muted">{_COUNTED}</p>\n'
        + (f'<h2>Protocol</h2>\n<ul class="protocol">{lines}</ul>\n' if lines else "")
        + "</header>"
    )


def _systems(systems: Sequence[System]) -> str:
    rows = [(f"<bdi>{escaped(name)}</bdi>", one.overall) for name, one in systems]
    return (
        "<section>\n<h2>Systems</h2>\n"
        + _table("Systems on all mentions", "system", rows, _ties(systems))
        + "</section>"
    )


def _slices(evaluation: Evaluation) -> str:
    rows = [(f"<bdi>{escaped(row.name)}</bdi> <small>{escaped(row.meaning)}</small>", row) for row in evaluation.rows]
    ties = _ties([("", evaluation)])
    note = " Ties at random: the mean over all ways to break ties." if ties else ""
    return (
        "<section>\n<h2>Slices</h2>\n<p>Percent of a slice's mentions; intervals of 95% draw whole documents. Lenient "
        "is inflated: any entity that owns the predicted name may be gold. R@k: gold is among the first k candidates."
        f"{note}</p>\n" + _table("Accuracy by slice", "slice", rows, ties) + "</section>"
    )


def _ties(systems: Iterable[System]) -> bool:
    return any(outcome.tied for _, one in systems for outcome in one.outcomes)


def _table(caption: str, first: str, rows: Sequence[tuple[str, Row]], ties: bool) -> str:
    """Return a table of rows with heads that are HTML; what breaking ties would give stands in it if there are any."""
    columns = ["mentions", "strict", "95%&nbsp;interval", *["ties at random"] * ties, "lenient (inflated)"]
    columns += [f"R@{depth}" for depth in DEPTHS]
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = []
    for name, row in rows:
        shares = [*[row.expected] * ties, row.lenient, *row.recall]
        cells = [f"{row.mentions:,}", f"<strong>{percent(row.strict)}</strong>", _interval(row), *map(percent, shares)]
        body.append(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n')
    return _scrolling(
        caption, f'<thead><tr><th scope="col">{first}</th>{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody>'
    )


def _scrolling(caption: str, rows: str) -> str:
    """Return a table in a box that scrolls by itself, by keys too, where the window is narrow."""
    return (
        f'<div class="wide" role="region" aria-label="{caption}" tabindex="0">\n'
        f"<table>\n<caption>{caption}</caption>\n{rows}\n</table>\n</div>\n"
    )


def _interval(row: Row) -> str:
    return "–" if isnan(row.low) else f"{percent(row.low)} – {percent(row.high)}"


# --- plots --------------------------------------------------------------------------------------


def _plots(systems: Sequence[System]) -> str:
    rows = systems[0][1].rows
    by_prototypes = [row for row in rows if row.name.endswith(_PROTOTYPES)]
    by_slice = [row for row in rows if row not in by_prototypes]
    parts = [_curves(systems), _bars("Strict accuracy by slice", by_slice)]
    if by_prototypes:
        parts.append(_bars("Strict accuracy by number of prototypes", by_prototypes))
    return f'<section>\n<h2>Plots</h2>\n<div class="plots">\n{"".join(parts)}</div>\n</section>'


def _curves(systems: Sequence[System]) -> str:
    series = [Series(name, one.curve, one.overall.strict) for name, one in systems]
    title = "Accuracy by k"
    legend = "".join(
        f"<li>{swatch(number)} <span><bdi>{escaped(name)}</bdi>, strict {percent(one.overall.strict)}</span></li>"
        for number, (name, one) in enumerate(systems)
    )
    head = "".join(f'<th scope="col">{k}</th>' for k, _ in series[0].points)
    rows = "".join(
        f'<tr><th scope="row"><bdi>{escaped(one.name)}</bdi></th>'
        + "".join(f"<td>{percent(share)}</td>" for _, share in one.points)
        + "</tr>\n"
        for one in series
    )
    table = f'<thead><tr><th scope="col">k</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody>'
    return (
        f"<figure>\n<figcaption>{title} <small>How right a perfect choice among the first k candidates would be. "
        "Dashed: strict accuracy.</small></figcaption>\n"
        + line_chart(series, title=f"{title}, as a curve", across="k, candidates looked at", up="R@k, %")
        + f'\n<ul class="legend">{legend}</ul>\n<details><summary>Figures of the plot</summary>\n'
        + _scrolling(title, table)
        + "</details>\n</figure>\n"
    )


def _bars(title: str, rows: Sequence[Row]) -> str:
    bars = [Bar(row.name.removesuffix(_PROTOTYPES), row.strict, row.low, row.high, f"{row.mentions:,}") for row in rows]
    chart = bar_chart(bars, title=f"{title}, as bars with 95% intervals", note="mentions")
    of = "by mined mentions of the gold entity in the linker" if rows[0].name.endswith(_PROTOTYPES) else "of each slice"
    return (
        f"<figure>\n<figcaption>{title} <small>Percent right, {of}; lines are 95% intervals.</small></figcaption>\n"
        f"{chart}\n</figure>\n"
    )


# --- errors -------------------------------------------------------------------------------------


def _kinds(kinds: Sequence[KindOfErrors], mentions: int) -> str:
    wrong = sum(kind.count for kind in kinds)
    if not wrong:
        return "<section>\n<h2>Errors</h2>\n<p>There are none.</p>\n</section>"
    rows = "".join(
        f'<tr><th scope="row"><a href="#{kind.anchor}">{kind.name}</a> <small>{KINDS[kind.name]}</small></th>'
        f"<td>{kind.count:,}</td><td>{percent(kind.count / wrong)}</td><td>{percent(kind.count / mentions)}</td>"
        "</tr>\n"
        for kind in kinds
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("kind", "errors", "% of errors", "% of mentions"))
    return (
        f"<section>\n<h2>Kinds of error</h2>\n<p>{wrong:,} of {mentions:,} mentions are wrong; each counts under the "
        "first kind that fits it.</p>\n"
        + _scrolling("Errors by kind", f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>")
        + "</section>"
    )


def _errors(kinds: Sequence[KindOfErrors], knowledge: Knowledge) -> str:
    if not kinds:
        return ""
    wrong = sum(kind.count for kind in kinds)
    listed, shown = error_list(kinds, knowledge)
    cut = f"{shown:,} of the {wrong:,} errors are listed" if shown < wrong else f"All {wrong:,} errors are listed"
    options = "".join(f'<option value="{kind.name}">{kind.name} ({kind.count:,})</option>' for kind in kinds)
    return (
        f"<section>\n<h2>Errors</h2>\n<p>{cut}, by kind, the most frequent confusion first.</p>\n"
        '<form id="filter" hidden>\n<label>Kind <select id="filter-kind"><option value="">all kinds</option>'
        f'{options}</select></label>\n<label>Text <input id="filter-text" type="search" '
        'placeholder="a name, an id, a document"></label>\n<output id="filter-count" aria-live="polite"></output>\n'
        f"</form>\n{listed}</section>"
    )
