"""`kriss evaluate`: score anybody's links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.shared import Data, Force

if TYPE_CHECKING:
    from kriss.evaluate.report import Result


def evaluate(
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="JSON lines; what 'kriss link' writes.")],
    *,
    gold: Annotated[
        list[str],
        typer.Option(metavar="GOLD", help="A data set and its split (ncbi-disease:test), or files. Repeatable."),
    ],
    data: Data = None,
    ontology: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Maps ids, and tells slices and kinds of error apart.")
    ] = None,
    linker: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Its ontology; and slices by number of prototypes.")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(metavar="GOLD", help="Tells seen entities from unseen ones. Repeatable.")
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Predictions of another system, to compare. Repeatable.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="What to call the system.  [default: the file's]")] = "",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write Markdown, CSV, JSON and an HTML report here.")
    ] = None,
    skip_surplus: Annotated[
        bool, typer.Option("--skip-surplus", help="Pass over predictions of mentions that gold lacks.")
    ] = False,
    force: Force = False,
) -> None:
    """Score predictions strictly, with slices, intervals and kinds of error."""
    from kriss.evaluate.run import evaluate as score

    result = score(
        predictions,
        gold,
        data=data,
        ontology=ontology,
        linker=linker,
        train=train or (),
        against=against or (),
        name=name,
        out=out,
        skip_surplus=skip_surplus,
        force=force,
    )
    _show(result)
    if out:
        typer.echo(f"{out}: table.md, table.csv, scores.json, report.html")


def _show(scored: Result) -> None:
    from kriss.cli.console import listing, output
    from kriss.evaluate.metrics import calibration_error
    from kriss.evaluate.report import cells, error_counts, header, sentence

    console, ties = output(), scored.has_ties
    names = header(ties=ties)
    rows = [tuple(cells(row, ties=ties)) for row in scored.evaluation.rows]
    console.print(listing(f"{scored.system} on {scored.corpus}", names, rows, figures_in=range(1, len(names))))
    kinds = [(kind, f"{count:,}") for kind, count in error_counts(scored).items()]
    if kinds:
        console.print(listing("errors by kind", ["kind", "mentions"], kinds, figures_in=1))
    for one in scored.against:
        typer.echo(sentence(scored.system, one))
    if bins := scored.evaluation.reliability:
        typer.echo(f"expected calibration error: {calibration_error(bins):.3f}")
    for line in scored.protocol():
        typer.echo(f"note: {line}", err=True)
    for document, start, end in scored.evaluation.missing[:5]:
        typer.echo(f"no prediction: the mention of '{document}' from {start} to {end}", err=True)
