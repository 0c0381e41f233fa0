"""`kriss datasets`: which benchmarks there are, which of them the user has, and how to obtain the others."""

from __future__ import annotations

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
        counts = (total.documents, total.mentions, total.entities) if total else ()
        paper = f"{dataset.paper.mentions:,} / {dataset.paper.entities:,}" if dataset.paper else "–"
        shown = [f"{count:,}" for count in counts] or ["–"] * 3
        rows.append((dataset.name, _status(dataset, figures), *shown, paper))
        if len(figures) - 1 < len(dataset.splits):
            missing.append((dataset.name, dataset.obtain))
    header = ["dataset", "status", "documents", "mentions", "entities", "paper: mentions / entities"]
    console = output()
    console.print(listing(f"benchmarks in {data}" if data else "benchmarks", header, rows))
    if missing:
        console.print(listing("how to obtain", ["dataset", "from its owners"], missing))
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
    if dataset.paper:
        paper = dataset.paper
        counts = f"{paper.mentions:,} mentions, {paper.entities:,} entities, {paper.domain_entities:,} candidates"
        facts.append(("Table 1 of the paper", counts))
    if dataset.note:
        facts.append(("note", dataset.note))
    console = output()
    console.print(listing(f"{dataset.name}: {dataset.title}", [], facts))
    if figures:
        header = [
            "split",
            "documents",
            "mentions",
            "entities",
            "without an id",
            "composite",
            "ids by document",
            "repeated",
        ]
        rows = [(split, *map("{:,}".format, _cells(found))) for split, found in figures.items()]
        console.print(listing("as found", header, rows))


def _figures(dataset: Dataset, data: Path | None) -> dict[str, Statistics]:
    """Count every split that is there, and all of them together."""
    from kriss.documents.corpora.statistics import statistics
    from kriss.documents.datasets import read_splits

    splits = list(dataset.found(data)) if data else []
    if not data or not splits:
        return {}
    read = read_splits(dataset.name, splits, data)
    found = {split: statistics(read[split]) for split in splits}
    return found | {"all": statistics(document for split in splits for document in read[split])}


def _cells(found: Statistics) -> tuple[int, ...]:
    counts = (found.documents, found.mentions, found.entities, found.without_entity)
    return (*counts, found.composite, found.in_documents, found.repeated)


def _status(dataset: Dataset, figures: dict[str, Statistics]) -> str:
    there = [split for split in dataset.splits if split in figures]
    if len(there) == len(dataset.splits):
        return "found"
    missing = ", ".join(split for split in dataset.splits if split not in there)
    return f"partly: {', '.join(there)}; not {missing}" if there else "not found"
