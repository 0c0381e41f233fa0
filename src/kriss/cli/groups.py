"""A command that is also a group: `kriss mine ONTOLOGY TEXT...` beside `kriss mine report DIR`."""

from __future__ import annotations

from typing import Any

import typer


class DefaultGroup(typer.core.TyperGroup):
    """A first word that is no subcommand means the subcommand `run`, the usual call."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's own
        """Put `run` in front of arguments that begin with no subcommand."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)
