"""`kriss mine`: find self-supervised mentions in text, and look at what was found."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kriss.cli.console import Display, listing, output
from kriss.cli.console import figures as figures_table
from kriss.cli.groups import DefaultGroup
from kriss.cli.options import with_settings
from kriss.mine.config import MineConfig

app = typer.Typer(
    cls=DefaultGroup,
    help="Find an ontology's names in text: kriss mine ONTOLOGY TEXT... --out DIR.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OntologyFolder = Annotated[
    Path, typer.Argument(metavar="ONTOLOGY", help="An ontology written by 'kriss ontology build'.")
]


@app.command()
@with_settings
def run(
    ontology: OntologyFolder,
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...", help="Files, folders or globs: PubMed XML, PubTator, BioC, JSONL, text, brat."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the mentions.")],
    exclude: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ids of documents to leave out, one a line.")
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes on this machine, or on each node.")] = 1,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray for a cluster.")] = "local",
    ray_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="ray: the cluster to join; default: start one here.")
    ] = "",
    skip_bad_files: Annotated[
        bool, typer.Option("--skip-bad-files", help="Leave files out that cannot be read, instead of stopping.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the mentions at --out.")] = False,
    settings: MineConfig,
) -> None:
    """Mine text for mentions. Interrupted, the same command goes on where it stopped."""
    from kriss.stages import mine
    from kriss.work import engine_named

    with Display("planning") as progress:
        report = mine(
            ontology,
            text,
            out,
            settings,
            exclude=exclude,
            engine=engine_named(engine, ray_address, workers),
            skip_bad_files=skip_bad_files,
            force=force,
            progress=progress,
        )
    typer.echo(
        f"{out}: {report.mentions:,} mentions of {report.entities:,} entities kept, of {report.hits:,} hits in "
        f"{report.documents:,} documents ({report.characters:,} characters)"
    )
    if report.excluded or report.superseded:
        typer.echo(f"note: {report.excluded:,} documents excluded, {report.superseded:,} replaced or deleted", err=True)
    for line in report.shown:
        typer.echo(f"skipped: {line}", err=True)
    if report.bad_documents:
        typer.echo(f"skipped {report.bad_documents:,} bad documents in all", err=True)
    for line in report.bad_files:
        typer.echo(f"skipped the file: {line}", err=True)


@app.command()
@partial(with_settings, only=("aliases", "casing", "min_length"))
def names(
    ontology: OntologyFolder,
    *,
    examples: Annotated[int, typer.Option(metavar="N", help="Names shown for each verdict.")] = 8,
    settings: MineConfig,
) -> None:
    """Show which names would be looked for, which are dropped, and why."""
    import random
    import tempfile

    from kriss.mine.names import Names, write_names
    from kriss.ontology import Ontology

    loaded = Ontology.load(ontology)
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        dropped = write_names(loaded.names_table(), settings, Path(folder))
        for name, verdict in (*Names(Path(folder), settings).judged(), *dropped):
            found.setdefault(verdict, []).append(name)
    draw = random.Random(0)  # noqa: S311 - not a secret
    rows = [
        (verdict, f"{len(listed):,}", " | ".join(draw.sample(listed, min(examples, len(listed)))))
        for verdict, listed in found.items()
    ]
    output().print(listing(f"names of {ontology}", ["verdict", "names", "for example"], rows, figures_in=1))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Mentions written by 'kriss mine'.")],
    ontology: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The ontology they were mined with: adds names.")
    ] = None,
    sample: Annotated[int, typer.Option(metavar="N", min=0, help="Print so many mentions in context.")] = 0,
    forms: Annotated[int, typer.Option(metavar="N", min=0, help="Show so many of the most frequent forms.")] = 50,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws another sample.")] = 0,
) -> None:
    """Show what was mined, and examples to judge its precision by."""
    from rich.text import Text

    from kriss.mine.store import examples, figures, frequent
    from kriss.ontology import Ontology

    known = Ontology.load(ontology) if ontology else None
    console = output()
    console.print(figures_table(str(folder), [(label, f"{value:,}") for label, value in figures(folder).items()]))
    rows = [
        (surface, f"{entity} {known[entity].name}" if known else entity, f"{hits:,}")
        for surface, entity, hits in frequent(folder, forms)
    ]
    console.print(listing("the most frequent forms", ["form", "entity", "hits"], rows, figures_in=2))
    for number, (entity, document, text) in enumerate(examples(folder, sample, seed), start=1):
        name = f" {known[entity].name}" if known else ""
        line = Text(f"{number:>4}  ", style="dim")
        line.append(f"{entity}{name}", style="bold").append(f"  [{document}]\n      ", style="dim")
        line.append(" ".join(text.left[-160:].split()) + " ")
        line.append(f"[[{text.surface}]]", style="bold reverse").append(" " + " ".join(text.right[:160].split()))
        console.print(line)
