"""`kriss datasets`: which benchmarks there are, which of them the user has, and how to obtain the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kriss.documents.datasets import Dataset
    from kriss.records import Document


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
            read = _read(dataset, data)
        except InputError as error:
            damaged.append(error)
            rows.append((dataset.name, "damaged", "–", "–", "–"))
            continue
        rows.append(
            (dataset.name, _status(dataset, read), *_figures([one for found in read.values() for one in found]))
        )
        if len(read) < len(dataset.splits):
            missing.append((dataset.name, dataset.obtain))
    header = ["dataset", "status", "documents", "mentions", "entities"]
    output().print(listing(f"benchmarks in {data}" if data else "benchmarks", header, rows))
    if missing:
        output().print(listing("how to obtain", ["dataset", "from its owners"], missing))
    for other in damaged[1:]:
        typer.echo(f"damaged: {other}", err=True)
    if damaged:
        raise damaged[0]


def _show(dataset: Dataset, data: Path | None) -> None:
    from kriss.cli.console import listing, output

    read = _read(dataset, data)
    facts = [
        ("status", _status(dataset, read)),
        ("ids", dataset.ontology),
        ("types kept", ", ".join(dataset.types) or "all"),
        ("folder", f"gold/{dataset.folder} or {dataset.folder} in the data folder"),
        *((f"files of {split}", dataset.wanted(split)) for split in dataset.splits),
        ("how to obtain", dataset.obtain),
        *([("note", dataset.note)] if dataset.note else []),
    ]
    output().print(listing(f"{dataset.name}: {dataset.title}", [], facts))
    if read:
        rows = [(split, *_figures(documents)) for split, documents in read.items()]
        output().print(listing("as found", ["split", "documents", "mentions", "entities"], rows))


def _read(dataset: Dataset, data: Path | None) -> dict[str, list[Document]]:
    """Read every split that is there."""
    found = {split: dataset.find(data, split) for split in dataset.splits} if data else {}
    return {split: list(documents) for split, documents in found.items() if documents is not None}


def _figures(documents: list[Document]) -> tuple[str, str, str]:
    """Count documents, mentions and distinct ids as the files have them."""
    spans = [span for document in documents for span in document.spans]
    entities = {entity for span in spans for entity in span.entities}
    counts = [f"{len(these):,}" if documents else "–" for these in (documents, spans, entities)]
    return counts[0], counts[1], counts[2]


def _status(dataset: Dataset, read: dict[str, list[Document]]) -> str:
    if len(read) == len(dataset.splits):
        return "found"
    missing = ", ".join(split for split in dataset.splits if split not in read)
    return f"partly: {', '.join(read)}; not {missing}" if read else "not found"
