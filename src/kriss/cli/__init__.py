"""The command line: a thin shell over the library, one module a stage.

Nothing heavy is imported here; a command imports its stage when it runs, so `kriss --help`
answers at once. Every error of `kriss.errors` becomes one line on standard error and status 1.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kriss import __version__
from kriss.cli.datasets import datasets
from kriss.cli.evaluate import evaluate
from kriss.cli.index import index
from kriss.cli.learn import app as learn_app
from kriss.cli.link import annotate, link
from kriss.cli.mine import app as mine_app
from kriss.cli.mine import download
from kriss.cli.ontology import app as ontology_app
from kriss.cli.recipe import run_stages
from kriss.cli.rerank import app as rerank_app
from kriss.cli.train import app as train_app
from kriss.cli.train import export
from kriss.errors import KrissError

app = typer.Typer(
    name="kriss",
    help="Link mentions in text to the entities of an ontology, without labeled data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ontology_app, name="ontology")
app.add_typer(mine_app, name="mine")
app.add_typer(train_app, name="train")
app.add_typer(rerank_app, name="rerank")
app.add_typer(download, name="download")
app.command()(export)
app.command()(index)
app.command()(link)
app.command()(annotate)
app.command()(datasets)
app.command()(evaluate)
app.command("run")(run_stages)
app.add_typer(learn_app, name="learn")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"kriss {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


@app.command()
def verify(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that kriss wrote.")],
) -> None:
    """Compare every file of an artifact with the digest in its manifest."""
    from kriss.artifacts import verify as verify_artifact

    for folder in folders:
        artifact = verify_artifact(folder)
        size = sum(int(file["bytes"]) for file in artifact.files.values())
        typer.echo(f"{folder}: {artifact.kind}, {len(artifact.files)} files, {size:,} bytes, all as written")


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; a known error is one line, not a traceback."""
    try:
        app(arguments, prog_name="kriss")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KrissError as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return 0


def main() -> None:
    """Entry point of the `kriss` command."""
    sys.exit(run())


def _fail(message: str) -> int:
    typer.echo(f"kriss: error: {' '.join(message.split())}", err=True)
    return 1
