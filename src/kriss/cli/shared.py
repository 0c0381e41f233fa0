"""What several commands have: arguments, options, groups of commands, and a look at what is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from kriss.errors import MissingExtraError

OntologyFolder = Annotated[
    Path, typer.Argument(metavar="ONTOLOGY", help="An ontology written by 'kriss ontology build'.")
]
MentionsFolder = Annotated[Path, typer.Argument(metavar="MENTIONS", help="Mentions written by 'kriss mine'.")]
LinkerFolder = Annotated[Path, typer.Argument(metavar="LINKER", help="A linker written by 'kriss index'.")]
Text = Annotated[
    list[str],
    typer.Argument(metavar="TEXT...", help="Files, folders or globs: PubMed XML, PubTator, BioC, JSONL, text, brat."),
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT", help="jsonl, pubtator, bioc-xml, bioc-json, brat or text.  [default: told by content]"
    ),
]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", envvar="KRISS_DATA", help="Where data sets are; see 'kriss datasets'.")
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")]
OutFile = Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write.  [default: standard output]")]
Force = Annotated[bool, typer.Option("--force", help="Replace what stands at --out.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads that encode; 0 for all cores.")]
EngineName = Annotated[str, typer.Option("--engine", metavar="NAME", help="local, or ray for a cluster.")]
RayAddress = Annotated[str, typer.Option(metavar="ADDRESS", help="ray: the cluster to join; default: start one here.")]


class DefaultGroup(typer.core.TyperGroup):
    """A command that is also a group, as `kriss mine ONTOLOGY TEXT...` beside `kriss mine report DIR`.

    A first word that is no subcommand means the subcommand `run`, the usual call.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's own
        """Put `run` in front of arguments that begin with no subcommand."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def group(help: str, cls: type[typer.core.TyperGroup] = typer.core.TyperGroup) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(cls=cls, help=help, no_args_is_help=True, rich_markup_mode=None)


def need_training(purpose: str, *packages: str) -> None:
    """Say which package of the extra `train` is missing, before anything is read."""
    for package in ("torch", "transformers", *packages):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "train", purpose)
