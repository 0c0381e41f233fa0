"""`kriss mine` and `kriss download`: self-supervised mentions found in text, and text to find them in."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.console import Display, figures, listing, output, progress_bar
from kriss.cli.options import with_settings
from kriss.cli.shared import DefaultGroup, EngineName, Force, OntologyFolder, Out, RayAddress, Text, group
from kriss.mine.config import MineConfig

if TYPE_CHECKING:
    from kriss.mine.download import DownloadProgress

app = group("Find an ontology's names in text: kriss mine ONTOLOGY TEXT... --out DIR.", DefaultGroup)
download = group("Fetch public text to mine.")


@app.command()
@with_settings
def run(
    ontology: OntologyFolder,
    text: Text,
    *,
    out: Out,
    exclude: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ids of documents to leave out, one a line.")
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes on this machine, or on each node.")] = 1,
    engine: EngineName = "local",
    ray_address: RayAddress = "",
    skip_bad_files: Annotated[
        bool, typer.Option("--skip-bad-files", help="Leave files out that cannot be read, instead of stopping.")
    ] = False,
    force: Force = False,
    settings: MineConfig,
) -> None:
    """Mine text for mentions. Interrupted, the same command goes on where it stopped."""
    from kriss.mine.run import mine
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

    from kriss.mine import store
    from kriss.ontology import Ontology

    known = Ontology.load(ontology) if ontology else None
    console = output()
    console.print(figures(str(folder), [(label, f"{value:,}") for label, value in store.figures(folder).items()]))
    rows = [
        (surface, f"{entity} {known[entity].name}" if known else entity, f"{hits:,}")
        for surface, entity, hits in store.frequent(folder, forms)
    ]
    console.print(listing("the most frequent forms", ["form", "entity", "hits"], rows, figures_in=2))
    for number, (entity, document, text) in enumerate(store.examples(folder, sample, seed), start=1):
        name = f" {known[entity].name}" if known else ""
        line = Text(f"{number:>4}  ", style="dim")
        line.append(f"{entity}{name}", style="bold").append(f"  [{document}]\n      ", style="dim")
        line.append(" ".join(text.left[-160:].split()) + " ")
        line.append(f"[[{text.surface}]]", style="bold reverse").append(" " + " ".join(text.right[:160].split()))
        console.print(line)


@download.command()
def pubmed(
    files: Annotated[str, typer.Option(metavar="NUMBERS", help="Which files: 3, 1-10, 1,5-7, or all.")],
    out: Out,
    updates: Annotated[bool, typer.Option("--updates", help="The daily updates instead of the baseline.")] = False,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="A mirror of https://ftp.ncbi.nlm.nih.gov/pubmed.")
    ] = None,
) -> None:
    """Fetch PubMed's baseline from NLM, with checksums; the same command again resumes."""
    from rich.progress import DownloadColumn, TransferSpeedColumn

    from kriss.mine.download import BASE_URL, download_pubmed, parse_files

    numbers = parse_files(files)
    with progress_bar(DownloadColumn(), TransferSpeedColumn()) as bar:
        task = bar.add_task("reading the list of files", total=None)

        def advance(now: DownloadProgress) -> None:
            if not now.received:  # speed and time are those of one file
                bar.reset(task, description=f"{now.index}/{now.files} {now.name}")
            bar.update(task, completed=now.received, total=now.size)

        def warn(message: str) -> None:
            bar.console.print(f"note: {message}", markup=False, highlight=False, soft_wrap=True)

        url = BASE_URL if base_url is None else base_url
        found, skipped = download_pubmed(numbers, out, base_url=url, updates=updates, progress=advance, notice=warn)
    count = len(found)
    typer.echo(f"{out}: {count:,} files, {count - skipped:,} downloaded, {skipped:,} that were there already")
