"""`kriss datasets`: which benchmarks there are, which of them the user has, and how to obtain the others."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kriss.documents.corpora.statistics import Statistics
    from kriss.documents.datasets import Dataset


def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One dataset, with all its figures.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of the benchmarks; default: the variable KRISS_DATA."),
    ] = None,
) -> None:
    """List the benchmarks of 'kriss evaluate': status, size, and how to obtain them."""
    from kriss.documents.datasets import DATASETS, VARIABLE, data_folder, find_dataset

    chosen = find_dataset(name) if name else None
    folder = data_folder(data)
    if chosen:
        _show(chosen, folder)
    else:
        _list(list(DATASETS.values()), folder)
    if folder is None:
        typer.echo(f"note: no data folder was given; give --data DIR or set {VARIABLE}", err=True)


def _list(datasets: list[Dataset], data: Path | None) -> None:
    from kriss.cli.console import listing, output
    from kriss.errors import InputError

    rows, missing, damaged = [], [], []
    for dataset in datasets:
        try:
            figures = _figures(dataset, data)
        except InputError as error:
            damaged.append(error)
            rows.append((dataset.name, "damaged", *["–"] * 4))
            continue
        total = figures.get("all")
        counts = [f"{count:,}" for count in astuple(total)[:3]] if total else ["–"] * 3
        paper = f"{dataset.paper.mentions:,} / {dataset.paper.entities:,}" if dataset.paper else "–"
        rows.append((dataset.name, _status(dataset, figures), *counts, paper))
        if len(figures) - 1 < len(dataset.splits):
            missing.append((dataset.name, dataset.obtain))
    header = ["dataset", "status", "documents", "mentions", "entities", "paper: mentions / entities"]
    output().print(listing(f"benchmarks in {data}" if data else "benchmarks", header, rows))
    if missing:
        output().print(listing("how to obtain", ["dataset", "from its owners"], missing))
    for other in damaged[1:]:
        typer.echo(f"damaged: {other}", err=True)
    if damaged:
        raise damaged[0]


def _show(dataset: Dataset, data: Path | None) -> None:
    from kriss.cli.console import listing, output

    figures = _figures(dataset, data)
    facts = [
        ("status", _status(dataset, figures)),
        ("ids", dataset.ontology),
        ("types kept", ", ".join(dataset.types) or "all"),
        ("folder", f"gold/{dataset.folder} or {dataset.folder} in the data folder"),
        *((f"files of {split}", dataset.corpus.wanted(split)) for split in dataset.splits),
        ("how to obtain", dataset.obtain),
    ]
    if paper := dataset.paper:
        counts = f"{paper.mentions:,} mentions, {paper.entities:,} entities, {paper.domain_entities:,} candidates"
        facts.append(("Table 1 of the paper", counts))
    if dataset.note:
        facts.append(("note", dataset.note))
    output().print(listing(f"{dataset.name}: {dataset.title}", [], facts))
    if figures:
        header = "split, documents, mentions, entities, without an id, composite, ids by document, repeated".split(", ")
        rows = [(split, *map("{:,}".format, astuple(found))) for split, found in figures.items()]
        output().print(listing("as found", header, rows))


def _figures(dataset: Dataset, data: Path | None) -> dict[str, Statistics]:
    """Count every split that is there, and all of them together."""
    from kriss.documents.corpora.statistics import statistics
    from kriss.documents.datasets import read_splits

    if not data or not (splits := list(dataset.found(data))):
        return {}
    read = read_splits(dataset.name, splits, data)
    found = {split: statistics(read[split]) for split in splits}
    return found | {"all": statistics(document for split in splits for document in read[split])}


def _status(dataset: Dataset, figures: dict[str, Statistics]) -> str:
    there = [split for split in dataset.splits if split in figures]
    if len(there) == len(dataset.splits):
        return "found"
    missing = ", ".join(split for split in dataset.splits if split not in there)
    return f"partly: {', '.join(there)}; not {missing}" if there else "not found"
