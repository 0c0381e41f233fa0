"""`kriss link` and `kriss annotate`: mentions to entities, given or found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kriss.records import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kriss.documents.marked import Format
    from kriss.documents.write import Linked, OutputFormat
    from kriss.link.linker import Linker

LinkerFolder = Annotated[Path, typer.Argument(metavar="LINKER", help="A linker written by 'kriss index'.")]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write the links.  [default: standard output]")]
To = Annotated[str, typer.Option(metavar="FORMAT", help="jsonl, predictions, pubtator, bioc-xml, bioc-json or table.")]
Top = Annotated[int, typer.Option(metavar="N", min=1, help="Candidates shown of each mention.")]
Context = Annotated[
    float | None,
    typer.Option(metavar="W", help="Weight of the context, from 0 to 1 (the paper).  [default: as calibrated]"),
]
Abbreviations = Annotated[bool, typer.Option(help="Read abbreviations as the document defines them.")]
ShortForms = Annotated[bool, typer.Option(help="Read those that it does not define as the mined text explains them.")]
Ngrams = Annotated[
    float | None,
    typer.Option(metavar="W", help="Weight of likeness in spelling; 0 for none.  [default: as calibrated]"),
]
Broader = Annotated[
    float | None,
    typer.Option(
        metavar="W",
        help="Weight of what narrower candidates say for a broader one; 0 for none.  [default: as calibrated]",
    ),
]
Ties = Annotated[bool, typer.Option(help="Settle which of several entities with the same name is meant.")]
Rerank = Annotated[bool, typer.Option(help="Let the linker's re-ranker read the first candidates with the mention.")]
RerankTop = Annotated[
    int | None, typer.Option(metavar="K", help="Candidates that it reads.  [default: as chosen on dev]")
]
RerankSure = Annotated[
    float | None,
    typer.Option(metavar="P", help="Not asked where the linker is so sure; 2 for always.  [default: as chosen on dev]"),
]
Types = Annotated[
    str, typer.Option(metavar="LIST", help="Link to entities of these types alone: names, codes, tree prefixes.")
]
Ids = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Link to these entities alone: a file of ids, one a line.")
]
Threshold = Annotated[float, typer.Option(metavar="P", help="Link to nothing where it is less likely right than this.")]
Gold = Annotated[
    float,
    typer.Option(metavar="W", help="How much more a learned example counts, fourfold if spelled alike; 0 for no more."),
]
Mode = Annotated[
    str, typer.Option(metavar="MODE", help="lazy: all prototypes; self-supervised; supervised: learned ones alone.")
]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads that encode; 0 for all cores.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", envvar="KRISS_DATA", help="Where data sets are; see 'kriss datasets'."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file at --out.")]


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
    context: Context = None,
    abbreviations: Abbreviations = True,
    short_forms: ShortForms = True,
    ngrams: Ngrams = None,
    broader: Broader = None,
    ties: Ties = True,
    rerank: Rerank = False,
    rerank_top: RerankTop = None,
    rerank_sure: RerankSure = None,
    types: Types = "",
    ids: Ids = None,
    threshold: Threshold = 0.0,
    gold: Gold = 0.05,
    mode: Mode = "lazy",
    threads: Threads = 0,
    force: Force = False,
) -> None:
    """Link the mentions that documents mark, with the evidence for each link."""
    from kriss.evaluate.datasets import documents as read

    asked = _options(context, abbreviations, short_forms, ngrams, broader, ties, types, ids, threshold, gold, mode)
    options = asked | _reranking(rerank, rerank_top, rerank_sure)
    target = _output_format(to)
    chosen = input_format(format)
    _write(_load(linker, threads, options), read(documents, chosen, data), out, target, top, force=force)


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
    context: Context = None,
    abbreviations: Abbreviations = True,
    short_forms: ShortForms = True,
    ngrams: Ngrams = None,
    broader: Broader = None,
    ties: Ties = True,
    rerank: Rerank = False,
    rerank_top: RerankTop = None,
    rerank_sure: RerankSure = None,
    types: Types = "",
    ids: Ids = None,
    threshold: Threshold = 0.0,
    gold: Gold = 0.05,
    mode: Mode = "lazy",
    threads: Threads = 0,
    force: Force = False,
) -> None:
    """Find mentions in text and link them: by the ontology's names and learned examples, or by spaCy."""
    from kriss.documents.problems import Problems
    from kriss.link.annotate import Dictionary, SpacyEntities, annotated

    asked = _options(context, abbreviations, short_forms, ngrams, broader, ties, types, ids, threshold, gold, mode)
    options = asked | _reranking(rerank, rerank_top, rerank_sure)
    target = _output_format(to)
    finder = SpacyEntities(spacy) if spacy else None
    loaded = _load(linker, threads, options)
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
    to: OutputFormat,
    top: int,
    *,
    force: bool,
) -> None:
    from kriss.documents.write import output, write_links
    from kriss.link.run import link_documents

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


def _load(folder: Path, threads: int, options: dict[str, Any]) -> Linker:
    from kriss.link.linker import Linker

    return Linker.load(folder, threads=threads, **options)


def _reranking(rerank: bool, top: int | None, sure: float | None) -> dict[str, Any]:
    from kriss.errors import ConfigError

    if not rerank and (top is not None or sure is not None):
        raise ConfigError("--rerank-top and --rerank-sure say how to re-rank: give --rerank as well")
    return {"rerank": rerank, "rerank_top": top, "rerank_sure": sure}


def _options(
    context: float | None,
    abbreviations: bool,
    short_forms: bool,
    ngrams: float | None,
    broader: float | None,
    ties: bool,
    types: str,
    ids: Path | None,
    threshold: float,
    gold: float,
    mode: str,
) -> dict[str, Any]:
    from kriss.errors import ConfigError
    from kriss.files import BadRows, read_lines

    chosen = [text for _, line in read_lines(ids, BadRows(skip=False)) if (text := line.strip())] if ids else []
    if ids and not chosen:
        raise ConfigError(f"{ids} has no ids to link to; write one a line")
    kinds = [kind.strip() for kind in types.split(",") if kind.strip()]
    if types and not kinds:
        raise ConfigError("--types names no type; write one or several, with commas between them")
    return {
        "context": context,
        "abbreviations": abbreviations,
        "short_forms": short_forms,
        "ngrams": ngrams,
        "broader": broader,
        "ties": ties,
        "types": kinds,
        "ids": chosen,
        "threshold": threshold,
        "gold": gold,
        "mode": mode,
    }


def input_format(name: str | None) -> Format | None:
    """Return the format that an option names."""
    from kriss.documents.marked import Format
    from kriss.errors import ConfigError

    if name is not None and name not in list(Format):
        raise ConfigError(f"--format is one of {', '.join(Format)}, not '{name}'")
    return None if name is None else Format(name)


def _output_format(name: str) -> OutputFormat:
    from kriss.documents.write import OutputFormat
    from kriss.errors import ConfigError

    if name not in list(OutputFormat):
        raise ConfigError(f"--to is one of {', '.join(OutputFormat)}, not '{name}'")
    return OutputFormat(name)
