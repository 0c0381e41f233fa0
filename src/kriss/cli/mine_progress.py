"""The progress bar of `kriss mine`: shards done, documents and characters a second, hits."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from kriss.cli.console import progress_bar


class MineProgress:
    """Called with the events of a run; a context manager, as rich's bars are."""

    def __init__(self) -> None:
        self._bar = progress_bar("{task.fields[pace]}")
        self._task = self._bar.add_task("planning", total=None, pace="")
        self._documents = self._characters = self._hits = 0
        self._since: float | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event."""
        match event["event"]:
            case "plan":
                self._bar.update(self._task, description="building the automaton", total=event["shards"])
            case "resumed" if event["shards"]:
                self._bar.update(self._task, advance=event["shards"])
            case "again" if event["shards"]:
                self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + event["shards"])
            case "ready":
                self._since = self._bar.get_time()
                self._bar.update(self._task, description="mining")
            case "beat":
                self._documents += event["documents"]
                self._characters += event["characters"]
                self._hits += event["hits"]
                self._bar.update(self._task, pace=self._pace())
            case "done":
                self._bar.update(self._task, advance=1)

    def _pace(self) -> str:
        seconds = max(self._bar.get_time() - (self._since or 0.0), 1e-9)
        return (
            f"{self._documents / seconds:,.0f} documents/s  {self._characters / 1e6 / seconds:.1f} MB/s  "
            f"{self._hits:,} hits"
        )
