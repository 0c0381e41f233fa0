"""`kriss link` and `kriss annotate`: mentions to entities, given or found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.options import with_settings
from kriss.cli.shared import Data, Force, Format, LinkerFolder, OutFile, Text, Threads
from kriss.link.config import LinkConfig
from kriss.records import Document

if TYPE_CHECKING:
    from kriss.documents.format import Linked
    from kriss.link.linker import Linker

To = Annotated[str, typer.Option(metavar="FORMAT", help="jsonl, predictions, pubtator, bioc-xml, bioc-json or table.")]
Top = Annotated[int, typer.Option(metavar="N", min=1, help="Candidates shown of each mention.")]


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
    format: Format = None,
    data: Data = None,
    out: OutFile = None,
    to: To = "jsonl",
    top: Top = 5,
    threads: Threads = 0,
    force: Force = False,
    settings: LinkConfig,
) -> None:
    """Link the mentions that documents mark, with the evidence for each link."""
    from kriss.documents.read import read

    found = read(documents, format, data=data)
    _write(linker, lambda _: found, out, to, top, threads, settings, force=force)


@with_settings
def annotate(
    linker: LinkerFolder,
    text: Text,
    *,
    spacy: Annotated[
        str, typer.Option(metavar="PIPELINE", help="Take the entities of a spaCy pipeline, instead of known names.")
    ] = "",
    out: OutFile = None,
    to: To = "jsonl",
    top: Top = 5,
    threads: Threads = 0,
    force: Force = False,
    settings: LinkConfig,
) -> None:
    """Find mentions in text and link them: by the ontology's names and learned examples, or by spaCy."""
    from kriss.files import Problems
    from kriss.link.annotate import Dictionary, SpacyEntities, annotated

    finder, problems = SpacyEntities(spacy) if spacy else None, Problems()
    find = lambda linker: annotated(finder or Dictionary(linker), text, problems)  # noqa: E731
    _write(linker, find, out, to, top, threads, settings, force=force)
    for line in problems.shown:
        typer.echo(f"skipped: {line}", err=True)
    if problems.count:
        typer.echo(f"skipped {problems.count:,} bad documents in all", err=True)


def _write(
    folder: Path,
    find: Callable[[Linker], Iterable[Document]],
    out: Path | None,
    to: str,
    top: int,
    threads: int,
    settings: LinkConfig,
    *,
    force: bool,
) -> None:
    from kriss.artifacts import open_artifact
    from kriss.documents.registry import find_format
    from kriss.documents.write import output, write_links
    from kriss.link.documents import link_documents
    from kriss.link.linker import Linker

    target = find_format(to, "write")
    linker = Linker(open_artifact(folder, "linker"), threads, settings)
    counts = Counter[str]()

    def counted() -> Iterator[Linked]:
        for document, links in link_documents(linker, find(linker), top):
            counts.update(documents=1, mentions=len(links), linked=sum(one.entity is not None for one in links))
            yield document, links

    with output(out, force=force) as stream:
        write_links(counted(), stream, target)
    where = f"{out}: " if out else ""
    linked = f"{counts['linked']:,} of {counts['mentions']:,} mentions linked in {counts['documents']:,} documents"
    typer.echo(where + linked, err=True)
