"""`kriss ontology`: build an ontology, and look into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.options import with_settings
from kriss.cli.shared import Force, Out, group
from kriss.ontology.config import OntologyConfig

if TYPE_CHECKING:
    from kriss.records import Entity

app = group("Build an ontology from UMLS, MeSH, OBO or tables, and look into it.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="An ontology written by 'kriss ontology build'.")]


@app.command()
@with_settings
def build(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOURCE...", help="Files, or a UMLS META folder; none for hpo."),
    ] = None,
    *,
    out: Out,
    merge: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Add names and more from this ontology. Repeatable."),
    ] = None,
    retired: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of retired ids: old, tab, new.")] = None,
    force: Force = False,
    settings: OntologyConfig,
) -> None:
    """Read an ontology in one of the field's formats and write it in kriss's own."""
    from rich.console import Console
    from rich.markup import escape

    from kriss.ontology import build_ontology

    messages = Console(stderr=True)
    with messages.status(escape(f"building the ontology at {out}")):
        report = build_ontology(
            settings, tuple(files or ()), out, merge_with=tuple(merge or ()), retired=retired, force=force
        )
    typer.echo(f"{out}: {report.entities:,} entities, {report.names:,} names, {report.retired:,} retired ids")
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    if report.bad_rows:
        for error in report.shown:
            typer.echo(f"skipped: {error}", err=True)
        typer.echo(f"skipped {report.bad_rows:,} bad rows in all", err=True)


@app.command()
def info(folder: Folder) -> None:
    """Show what an ontology holds: entities, names, ambiguity, types, definitions."""
    from kriss.cli.console import figures, listing, output
    from kriss.ontology import Ontology
    from kriss.ontology.info import describe, types

    ontology = Ontology.load(folder)
    rows = [("built from", str(ontology.artifact.config["format"]))]
    rows += [(label, f"{count:,}") for label, count in describe(ontology).items()]
    console = output()
    console.print(figures(str(folder), rows))
    kinds = [(name, f"{count:,}") for name, count in types(ontology)[:20]]
    console.print(listing("the largest types", ["type", "entities"], kinds, figures_in=1))


@app.command()
def search(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="A name, a piece of one, or an id.")],
    limit: Annotated[int, typer.Option(min=1, help="How many entities to show.")] = 20,
) -> None:
    """Find entities by name, alias or id."""
    from kriss.cli.console import listing, output
    from kriss.ontology import Ontology

    matches = Ontology.load(folder).search(text, limit)
    if not matches:
        raise typer.Exit(_say(f"nothing in {folder} matches '{text}'"))
    rows = [(m.entity.id, m.entity.name, m.matched, ", ".join(m.entity.types)) for m in matches]
    output().print(listing("", ["id", "name", "matched", "types"], rows))


@app.command()
def show(
    folder: Folder,
    entity_id: Annotated[
        str, typer.Argument(metavar="ID", help="An entity's id; a retired one leads to its successor.")
    ],
) -> None:
    """Print one entity whole."""
    from kriss.ontology import Ontology

    ontology = Ontology.load(folder)
    entity = ontology[entity_id]
    if entity.id != entity_id:
        typer.echo(f"{entity_id} is retired; its successor is {entity.id}", err=True)
    path = [step.name for step in ontology.path_to(entity.id)]
    for label, values in _fields(entity, path):
        for index, value in enumerate(values):
            typer.echo(f"{label if index == 0 else '':<12}  {value}")


def _fields(entity: Entity, path: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("id", (entity.id,)),
        ("name", (entity.name,)),
        ("aliases", entity.aliases),
        ("types", entity.types),
        ("tree numbers", entity.tree_numbers),
        ("path", (" > ".join(path),)),
        ("parents", entity.parents),
        ("xrefs", entity.xrefs),
        ("definition", (entity.definition,) if entity.definition else ()),
    ]


def _say(message: str) -> int:
    typer.echo(message, err=True)
    return 1
