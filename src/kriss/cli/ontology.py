"""`kriss ontology`: build an ontology, and look into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.errors import ConfigError

if TYPE_CHECKING:
    from kriss.records import Entity

app = typer.Typer(
    help="Build an ontology from UMLS, MeSH, OBO or tables, and look into it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="An ontology written by 'kriss ontology build'.")]


@app.command()
def build(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="umls, mesh, obo, hpo, tsv, jsonl or dictionary.")],
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOURCE...", help="Files, or a UMLS META folder; none for hpo."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the ontology.")],
    types: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE",
            help="Keep only these: st21pv, disease, chemical, a type, a TUI, a tree prefix. Repeatable.",
        ),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Add names and more from this ontology. Repeatable."),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Xref prefix that --merge matches by, or NAME, or NAMES. Repeatable."),
    ] = None,
    keep_unmatched: Annotated[
        bool, typer.Option("--keep-unmatched", help="Keep entities of --merge that match none: the union of both.")
    ] = False,
    retired: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of retired ids: old, tab, new.")] = None,
    default_type: Annotated[str, typer.Option(metavar="NAME", help="Type where nothing else gives one.")] = "Entity",
    language: Annotated[
        list[str] | None, typer.Option(metavar="LAT", help="umls: languages to keep, or 'all'. Default ENG.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--sab", metavar="SAB", help="umls: vocabularies to keep, or st21pv for its 18. Repeatable."),
    ] = None,
    keep_suppressed: Annotated[bool, typer.Option("--keep-suppressed", help="umls: keep suppressed rows.")] = False,
    keep_obsolete: Annotated[bool, typer.Option("--keep-obsolete", help="umls: keep obsolete rows.")] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="SCOPE", help="obo: synonym scopes to keep. Default EXACT. Repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=HEADER", help="tsv, jsonl: where a field stands. Repeatable."),
    ] = None,
    separator: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=CHARS", help="tsv, jsonl: what separates its values; default |. Repeatable."),
    ] = None,
    delimiter: Annotated[
        str, typer.Option(metavar="CHAR", help="tsv: between columns; default tab, comma for .csv.")
    ] = "",
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave bad rows out and count them, instead of stopping.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the ontology at --out.")] = False,
) -> None:
    """Read an ontology in one of the field's formats and write it in kriss's own."""
    from rich.console import Console
    from rich.markup import escape

    from kriss.config import from_mapping
    from kriss.ontology import OntologyConfig, build_ontology

    given = {
        "format": format,
        "types": tuple(types or ()),
        "merge_on": tuple(on or ()),
        "keep_unmatched": keep_unmatched,
        "default_type": default_type,
        "skip_bad_rows": skip_bad_rows,
        "keep_suppressed": keep_suppressed,
        "keep_obsolete": keep_obsolete,
        "columns": _pairs(column, "--column"),
        "separators": _pairs(separator, "--separator"),
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        **({"languages": tuple(language)} if language else {}),
        **({"sources": tuple(source)} if source else {}),
        **({"scopes": tuple(name.upper() for name in scope)} if scope else {}),
    }
    config = from_mapping(OntologyConfig, given, "kriss ontology build")
    messages = Console(stderr=True)
    with messages.status(escape(f"building the ontology at {out}")):
        report = build_ontology(
            config, tuple(sources or ()), out, merge_with=tuple(merge or ()), retired=retired, force=force
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
    from kriss.ontology.info import describe

    found = describe(Ontology.load(folder))
    kinds = [(name, f"{count:,}") for name, count in found.largest_types]
    console = output()
    console.print(figures(str(folder), found.rows()))
    console.print(listing(f"types ({found.types:,} in all)", ["type", "entities"], kinds, figures_in=1))


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


def _pairs(options: list[str] | None, flag: str) -> dict[str, str]:
    pairs = {}
    for option in options or ():
        name, found, value = option.partition("=")
        if not found or not name or not value:
            raise ConfigError(f"{flag} wants FIELD=VALUE, not '{option}'")
        pairs[name] = value
    return pairs


def _say(message: str) -> int:
    typer.echo(message, err=True)
    return 1
