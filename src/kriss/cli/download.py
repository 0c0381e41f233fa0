"""`kriss download`: public text to mine, from where it is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kriss.mine.download import DownloadProgress

app = typer.Typer(help="Fetch public text to mine.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _download() -> None:  # keeps `pubmed` a command of its own while it is the only one
    pass


@app.command()
def pubmed(
    files: Annotated[str, typer.Option(metavar="NUMBERS", help="Which files: 3, 1-10, 1,5-7, or all.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to put them.")],
    updates: Annotated[bool, typer.Option("--updates", help="The daily updates instead of the baseline.")] = False,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="A mirror of https://ftp.ncbi.nlm.nih.gov/pubmed.")
    ] = None,
) -> None:
    """Fetch PubMed's baseline from NLM, with checksums; the same command again resumes."""
    from rich.progress import DownloadColumn, TransferSpeedColumn

    from kriss.cli.console import progress_bar
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
