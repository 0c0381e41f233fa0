"""Every command and option as Markdown, from the commands themselves: `python -m kriss.cli.reference` writes a page.

docs/reference/commands.md is what it writes; a test says that they agree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer

from kriss.cli import app
from kriss.cli.options import PANEL
from kriss.cli.shared import DefaultGroup

_TYPE = re.compile(r" <[^ ]+>")
_HEAD = """# Commands

Made by `python -m kriss.cli.reference`. Every command answers to `--help`. Settings are also keys of the TOML file that
`--config` names, written with underscores, and keywords of the function in Python.
"""


def reference() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_sections(typer.main.get_command(app), "kriss", None)]).rstrip() + "\n"


def _sections(command: Any, path: str, parent: Any) -> Iterator[str]:  # noqa: ANN401 - click's own, which typer hides
    context = typer.Context(command, info_name=path, parent=parent)
    below = getattr(command, "commands", {})
    if isinstance(command, DefaultGroup):  # what its usual command says is enough
        for name, one in below.items():
            yield from _sections(one, path if name == "run" else f"{path} {name}", parent)
        return
    yield f"{'#' * min(path.count(' ') + 2, 3)} {path}\n"
    yield f"{' '.join((command.help or '').split())}\n"
    usage = " ".join(one for one in command.collect_usage_pieces(context) if one != "[OPTIONS]")
    if not below:
        yield f"    {path} {usage.replace('{', '').replace('}', '').replace('......', '...')} [OPTIONS]\n"
    records = [(one, one.get_help_record(context)) for one in command.params if one.name != "help"]
    for title, settings in (("", False), ("Settings:\n", True)):
        rows = [row for one, row in records if row and (getattr(one, "rich_help_panel", None) == PANEL) == settings]
        if rows and title:
            yield title
        yield from (f"- `{_TYPE.sub('', name)}`: {' '.join(text.split())}" for name, text in rows)
        if rows:
            yield ""
    for name, one in below.items():
        yield from _sections(one, f"{path} {name}", parent)


if __name__ == "__main__":
    sys.stdout.write(reference())
