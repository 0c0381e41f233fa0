"""`kriss link` and `kriss annotate`: mentions to entities, given or found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.options import with_settings
from kriss.link.config import LinkConfig
from kriss.records import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kriss.documents.format import Format, Linked
    from kriss.link.linker import Linker

LinkerFolder = Annotated[Path, typer.Argument(metavar="LINKER", help="A linker written by 'kriss index'.")]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write the links.  [default: standard output]")]
To = Annotated[str, typer.Option(metavar="FORMAT", help="jsonl, predictions, pubtator, bioc-xml, bioc-json or table.")]
Top = Annotated[int, typer.Option(metavar="N", min=1, help="Candidates shown of each mention.")]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads that encode; 0 for all cores.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", envvar="KRISS_DATA", help="Where data sets are; see 'kriss datasets'."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file at --out.")]


@with_settings
def link(
    linker: LinkerFolder,
    documents: Annotated[
        list[str],
        typer.Argument(
            metavar="DOCUMENTS...",
            help="With marked mentions: JSONL, PubTator, BioC, brat, text with [[...]], a data set as "
            "ncbi-disease:test; - for standard input.",
        ),
    ],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="jsonl, pubtator, bioc-xml, bioc-json, brat or text.  [default: told by content]"
        ),
    ] = None,
    data: Data = None,
    out: Out = None,
    to: To = "jsonl",
    top: Top = 5,
    threads: Threads = 0,
    force: Force = False,
    settings: LinkConfig,
) -> None:
    """Link the mentions that documents mark, with the evidence for each link."""
    from kriss.documents.read import read
    from kriss.documents.registry import find_format

    target, found = find_format(to, "write"), read(documents, format, data=data)
    _write(_load(linker, threads, settings), found, out, target, top, force=force)


@with_settings
def annotate(
    linker: LinkerFolder,
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...", help="Files, folders or globs: PubMed XML, PubTator, BioC, JSONL, text, brat."
        ),
    ],
    *,
    spacy: Annotated[
        str, typer.Option(metavar="PIPELINE", help="Take the entities of a spaCy pipeline, instead of known names.")
    ] = "",
    out: Out = None,
    to: To = "jsonl",
    top: Top = 5,
    threads: Threads = 0,
    force: Force = False,
    settings: LinkConfig,
) -> None:
    """Find mentions in text and link them: by the ontology's names and learned examples, or by spaCy."""
    from kriss.documents.registry import find_format
    from kriss.files import Problems
    from kriss.link.annotate import Dictionary, SpacyEntities, annotated

    target = find_format(to, "write")
    finder = SpacyEntities(spacy) if spacy else None
    loaded = _load(linker, threads, settings)
    problems = Problems()
    found = annotated(finder or Dictionary(loaded), text, problems)
    _write(loaded, found, out, target, top, force=force)
    for line in problems.shown:
        typer.echo(f"skipped: {line}", err=True)
    if problems.count:
        typer.echo(f"skipped {problems.count:,} bad documents in all", err=True)


def _write(
    linker: Linker,
    documents: Iterable[Document],
    out: Path | None,
    to: Format,
    top: int,
    *,
    force: bool,
) -> None:
    from kriss.documents.write import output, write_links
    from kriss.link.linker import link_documents

    counts = {"documents": 0, "mentions": 0, "linked": 0}

    def counted() -> Iterator[Linked]:
        for document, links in link_documents(linker, documents, top):
            counts["documents"] += 1
            counts["mentions"] += len(links)
            counts["linked"] += sum(link.entity is not None for link in links)
            yield document, links

    with output(out, force=force) as stream:
        write_links(counted(), stream, to)
    where = f"{out}: " if out else ""
    typer.echo(
        f"{where}{counts['linked']:,} of {counts['mentions']:,} mentions linked in {counts['documents']:,} documents",
        err=True,
    )


def _load(folder: Path, threads: int, settings: LinkConfig) -> Linker:
    from kriss.artifacts import open_artifact
    from kriss.link.linker import Linker

    return Linker(open_artifact(folder, "linker"), threads, settings)
