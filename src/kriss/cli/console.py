"""What commands show: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from kriss.rerank.run import RerankReport
    from kriss.train.run import TrainReport

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


def shares(values: Mapping[str, float], digits: int = 3) -> str:
    """Return named figures on one line."""
    return "  ".join(f"{name} {value:.{digits}f}" for name, value in values.items())


def show_training(report: TrainReport | RerankReport, learned_from: str) -> None:
    """Say what a training came to, and what it brought on the dev set."""
    kept = f"best on dev at step {report.best_step:,}" if report.after else "no dev mentions: the last weights are kept"
    typer.echo(f"{report.path}: trained {report.steps:,} steps on {learned_from}; {kept}")
    for label, score in (("before", report.before), ("after", report.after)):
        if score:
            typer.echo(f"dev {label:<7}{shares(score.figures)}")


def progress_bar(*columns: str | ProgressColumn) -> Progress:
    """Return a bar on standard error with what is to be shown beside it; in a log a bar is noise."""
    console = Console(stderr=True)
    shown = [TextColumn(one) if isinstance(one, str) else one for one in columns]
    first = (TextColumn("{task.description}"), BarColumn())
    return Progress(
        *first, *shown, TimeElapsedColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal
    )


_DOING = {
    "prepare": "preparing",
    "choosing": "choosing prototypes",
    "indexing": "writing the index",
    "tuning": "choosing weights",
}


class Display:
    """The progress of any stage: a context manager that is called with the events of the run.

    The bar appears with the first event: of several processes that train together only one has any.
    """

    def __init__(self, doing: str) -> None:
        self._bar = progress_bar(MofNCompleteColumn(), "{task.fields[pace]}", "{task.fields[dev]}")
        self._task = self._bar.add_task(doing, total=None, pace="", dev="")
        self._counts: dict[str, float] = {}
        self._since = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event."""
        self._bar.start()
        match event:
            case {"event": "note", "text": text}:
                self._bar.console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
            case {"event": "plan", "shards": total}:
                self._begin("mining", total)
            case {"event": "plan", "steps": total, "step": done}:
                self._begin("training", total, done)
            case {"event": "encode", "total": total, "done": done}:
                self._begin("encoding", total, done)
            case {"event": "examples", "total": total, "done": done}:
                self._begin("asking the linker", total, done)
            case {"event": "again", "shards": more}:
                self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + more)
            case {"event": "resumed", "shards": done}:
                self._bar.update(self._task, advance=done)
            case {"event": "done", "documents": documents, "characters": characters}:
                self._advance(1, documents=documents, MB=characters / 1e6)
            case {"event": "encoded", "count": count}:
                self._advance(count, sequences=count)
            case {"step": step, "loss": loss, "sequences_per_second": pace}:
                self._bar.update(self._task, completed=step, pace=f"loss {loss:.3f}  {pace:.0f} sequences/s")
            case {"step": step, "dev": scores}:
                self._dev(step, shares({name: value for name, value in scores.items() if name.endswith("@1")}))
            case {"event": name}:
                self._bar.update(self._task, description=_DOING.get(name, name), pace="")

    def _begin(self, doing: str, total: int, done: int = 0) -> None:
        if self._bar.tasks[0].description != doing:
            self._since = self._bar.get_time()
            self._counts.clear()
        self._bar.update(self._task, description=doing, total=total, completed=done)

    def _advance(self, steps: int, **counts: float) -> None:
        for name, count in counts.items():
            self._counts[name] = self._counts.get(name, 0) + count
        seconds = max(self._bar.get_time() - self._since, 1e-6)
        pace = "  ".join(f"{count / seconds:,.0f} {name}/s" for name, count in self._counts.items())
        self._bar.update(self._task, advance=steps, pace=pace)

    def _dev(self, step: int, shown: str) -> None:
        self._bar.update(self._task, dev=f"dev {shown}")
        if self._bar.disable:  # a log wants these, too
            sys.stderr.write(f"step {step:,}: dev {shown}\n")
            sys.stderr.flush()
