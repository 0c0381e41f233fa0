"""Where commands print their tables."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

_WIDE = 400


def output() -> Console:
    """Return standard output; piped into grep or cut it is wide, so that no id is cut in two."""
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def figures(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return a table of labels and figures."""
    return listing(title, [], rows, figures_in=1)


def listing(
    title: str, header: list[str], rows: Sequence[tuple[str, ...]], figures_in: int | Collection[int] = ()
) -> Table:
    """Return a table whose cells are shown as they are: square brackets in a name are no markup."""
    table = Table(title=Text(title) if title else None, show_header=bool(header), title_justify="left")
    right = {figures_in} if isinstance(figures_in, int) else set(figures_in)
    for index in range(len(rows[0]) if rows else len(header)):
        name = header[index] if header else ""
        table.add_column(name, justify="right" if index in right else "left", no_wrap=index == 0 and bool(header))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def progress_bar(shown: str) -> Progress:
    """Return a bar on standard error with what a stage wants to show beside it; in a log a bar is noise."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(shown),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


class StageProgress:
    """The bar of a stage while it runs, a context manager; what it is called with, each stage says."""

    def __init__(self, first: str, shown: str, **fields: Any) -> None:  # noqa: ANN401 - rich takes any
        self._bar = progress_bar(shown)
        self._task = self._bar.add_task(first, total=None, **fields)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
