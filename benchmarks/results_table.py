"""The tables of docs/results.md from the predictions that `make results` left: every figure is scored here, again.

    python benchmarks/results_table.py OUT [--data DIR] > tables.md

Rows are the files `SYSTEM.jsonl.gz` below `OUT/links/CORPUS`; the order and the names of systems are below.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kriss.documents.read import gold
from kriss.errors import KrissError
from kriss.evaluate.gold import GoldMention, gold_mentions, unlinked
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.metrics import percent
from kriss.evaluate.predictions import read_predictions
from kriss.evaluate.report import Comparison, markdown_table, sentence
from kriss.evaluate.score import Evaluation, Row, compare, evaluate

CORPORA = {
    "ncbi-disease": "medic",
    "bc5cdr-d": "mesh-disease",
    "bc5cdr-c": "mesh-chemical",
    "medmentions-st21pv": "st21pv",
}
SYSTEMS = {
    "mention": "mention as is",
    "exact": "exact name",
    "exact-abbreviations": "exact name + abbreviations",
    "quickumls": "QuickUMLS",
    "scispacy": "scispaCy",
    "scispacy-abbreviations": "scispaCy + its abbreviations",
    "minilm-abbreviations": "MiniLM, not trained, names + abbreviations",
    "minilm": "MiniLM, not trained, names",
    "sapbert": "SapBERT",
    "sapbert-abbreviations": "SapBERT + abbreviations",
    "blink": "BLINK, bi-encoder",
    "blink-cross": "BLINK, bi-encoder and cross-encoder",
    "medlinker": "MedLinker (supervised)",
    "kriss": "**kriss, self-supervised**",
    "untrained": "kriss, MiniLM not trained",
    "rerank": "**kriss, self-supervised, re-ranked**",
    "without-abbreviations": "kriss without abbreviations",
    "without-short-forms": "kriss, only the document explains abbreviations",
    "without-shared-names": "kriss, shared names by Eq. 4",
    "without-children": "kriss, child terms do not boost their parent",
    "without-spelling": "kriss without spelling",
    "without-match": "kriss without exact matches",
    "bare": "kriss, bare query",
    "paper-query": "kriss, the paper's query: no switch of ours",
    "names": "kriss, the train split's surfaces as names",
    "supervised-only": "kriss, supervised only",
    "lazy": "**kriss, lazy supervised**",
    "lazy-bare": "kriss, lazy supervised, bare query",
    "lazy-context": "kriss, lazy supervised, query in context alone",
    "lazy-rerank": "kriss, lazy supervised, re-ranked",
}
ABLATED = {
    "nothing": "all parts",
    "pairs": "without mention pairs (`alpha=0`)",
    "aliases": "without aliases in references",
    "hierarchy": "without tree and type in references",
    "description": "without definitions in references",
    "masking": "without masking",
    "replacement": "without replacement",
}
SLICES = (
    "all",
    "unambiguous",
    "no owner",
    "several owners",
    "abbreviations",
    "composite",
    "seen",
    "seen, new surface",
    "unseen",
)

SLICED = (
    "exact-abbreviations",
    "sapbert-abbreviations",
    "bare",
    "paper-query",
    "kriss",
    "rerank",
    "names",
    "lazy-bare",
    "lazy-context",
    "lazy",
)
COMPARED = (("kriss", "exact-abbreviations"), ("kriss", "sapbert-abbreviations"), ("kriss", "bare"), ("lazy", "kriss"),
            ("kriss", "untrained"), ("rerank", "kriss"), ("lazy-rerank", "lazy"), ("lazy", "names"),
            ("lazy", "lazy-bare"))  # fmt: skip


def predictions(folder: Path, system: str) -> Path | None:
    """Return the file with a system's links: in the folder of a corpus, or in that of a stage which links many ways."""
    name = f"{system}.jsonl.gz"
    found = [path for path in (folder / name, *folder.glob(f"[!.]*/{name}")) if path.is_file()]
    if len(found) > 1:
        sys.exit(f"{found[0]} and {found[1]} are both of {system}; remove the one that is out of date")
    return found[0] if found else None


class Corpus:
    """A test set with what is known about it."""

    def __init__(self, name: str, out: Path, data: Path | None) -> None:
        documents = gold(f"{name}:test", data)
        splits = ("train",) if name.startswith("medmentions") else ("train", "dev")
        train = [mention for split in splits for mention in gold_mentions(gold(f"{name}:{split}", data))]
        self.name = name
        self.mentions: list[GoldMention] = gold_mentions(documents)
        self._unlinked = unlinked(documents)
        linker = out / f"linker-{CORPORA[name]}"
        self.knowledge = Knowledge.load(out / CORPORA[name], linker if linker.is_dir() else None, train)
        self._links = out / "links" / name

    def few(self) -> Iterator[list[str]]:
        """Yield strict accuracy with few examples an entity: the mean over draws, the least and the most."""
        for examples in (1, 2, 4, 8):
            files = sorted(self._links.glob(f"few-{examples}-*.jsonl.gz"))
            shares = [self._score(path).overall.strict for path in files]
            if shares:
                spread = f"{percent(min(shares))}–{percent(max(shares))}"
                yield [f"{examples}", percent(sum(shares) / len(shares)), spread, str(len(shares))]

    def ablations(self) -> Iterator[list[str]]:
        """Yield strict accuracy without a part of training, by Eq. 4 alone and as the linker comes, and the change."""
        whole: dict[str, Evaluation] = {}
        for part, name in ABLATED.items():
            row = [name]
            for way in ("-plain", ""):
                path = self._links / f"ablated-{part}{way}.jsonl.gz"
                if not path.is_file():
                    row += ["", ""]
                    continue
                found = self._score(path)
                if part == "nothing":
                    whole[way] = found
                row += [percent(found.overall.strict), _change(found, whole.get(way))]
            if any(row[1:]):
                yield row

    def _score(self, path: Path) -> Evaluation:
        return evaluate(self.mentions, read_predictions(path), self.knowledge, unlinked=self._unlinked, source=path)

    def evaluations(self) -> Iterator[tuple[str, Evaluation]]:
        """Score the systems whose predictions are there."""
        for system in SYSTEMS:
            if path := predictions(self._links, system):
                yield system, self._score(path)


def _change(found: Evaluation, base: Evaluation | None) -> str:
    """Return what leaving a part out changes; nothing where all parts are there, or were not measured."""
    if base is None or base is found:
        return ""
    change = compare(found, base)
    return f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"


def overall(row: Row, system: str) -> list[str]:
    """Return a row of the main table: ties are broken at random, which is strict for all that break them."""
    interval = f"{percent(row.low)}–{percent(row.high)}"
    shares = (row.expected, row.lenient, *row.recall[1:])
    return [SYSTEMS[system], percent(row.strict), interval, *map(percent, shares)]


def tables(corpus: Corpus) -> Iterator[str]:
    """Yield the lines of one corpus: all systems, slices of the main ones, comparisons."""
    found = dict(corpus.evaluations())
    yield f"## {corpus.name}, {len(corpus.mentions):,} test mentions"
    yield ""
    names = ["", "strict", "95%", "ties at random", "lenient (inflated)", "R@5", "R@16", "R@64"]
    yield from markdown_table(names, [overall(one.overall, system) for system, one in found.items()])
    shown = [system for system in SLICED if system in found]
    yield ""
    rows = []
    for name in SLICES:
        by_system = [_slice(found[system], name) for system in shown]
        first = next((row for row in by_system if row), None)
        if first:
            figures = [percent(row.expected) if row else "" for row in by_system]
            rows.append([name, f"{first.mentions:,}", *figures])
    yield from markdown_table(["slice, ties at random", "mentions", *(SYSTEMS[system] for system in shown)], rows)
    yield ""
    for one, other in COMPARED:
        if one in found and other in found:
            peer = Comparison(SYSTEMS[other].strip("*"), found[other], compare(found[one], found[other]))
            yield f"- {sentence(SYSTEMS[one].strip('*'), peer)}"
    yield ""
    if few := list(corpus.few()):
        yield from markdown_table(["examples an entity, lazily", "strict, mean", "range", "draws"], few)
        yield ""
    if ablated := list(corpus.ablations()):
        names = ["trained", "by Eq. 4 alone", "change, 95%", "as the linker comes", "change, 95%"]
        yield from markdown_table(names, ablated)
        yield ""


def _slice(evaluation: Evaluation, name: str) -> Row | None:
    return next((row for row in evaluation.rows if row.name == name), None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables to standard output."""
    parser = argparse.ArgumentParser(description="The tables of docs/results.md.")
    parser.add_argument("out", type=Path, help="where 'make results' wrote")
    parser.add_argument("--data", type=Path, default=None, help="the data folder; default KRISS_DATA")
    parser.add_argument("--corpus", action="append", choices=list(CORPORA), help="only this one; repeatable")
    given = parser.parse_args(arguments)
    data = given.data or (Path(os.environ["KRISS_DATA"]) if "KRISS_DATA" in os.environ else None)
    if not (given.out / "links").is_dir():
        sys.exit(f"{given.out} has no folder 'links'; give what 'make results' wrote")
    try:
        for name in given.corpus or CORPORA:
            if (given.out / "links" / name).is_dir():
                sys.stdout.writelines(f"{line}\n" for line in tables(Corpus(name, given.out, data)))
    except KrissError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
