"""`kriss run`: the stages of a recipe, those that are not up to date."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer


def run_stages(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A TOML file of stages; see docs/how-to/recipes.md.")
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where all stages write.")] = Path("out"),
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", envvar="KRISS_DATA", help="What {data} stands for.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="STAGE", help="Run this stage and what it uses. Repeatable.")
    ] = None,
    again: Annotated[
        list[str] | None, typer.Option(metavar="STAGE", help="Run this stage even if nothing changed. Repeatable.")
    ] = None,
    list_stages: Annotated[bool, typer.Option("--list", help="Show the stages and run none.")] = False,
) -> None:
    """Run the stages of a recipe; those whose commands and inputs are unchanged are skipped."""
    from kriss.recipe import Recipe, run_recipe

    read = Recipe.load(recipe)
    if list_stages:
        for stage in read.needed(only or []):
            typer.echo(f"{stage.name}: {'kriss ' if stage.run else 'python '}{stage.command}")
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        run_recipe(read, out, data, lambda line: typer.echo(line, err=True), only=only or (), again=again or ())
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: object) -> None:
    """End as on Ctrl-C: the command that runs is ended too, and what it was replacing is put back."""
    sys.exit(128 + number)
