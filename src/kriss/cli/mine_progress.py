"""The progress bar of `kriss mine`: shards done, documents and characters a second, hits."""

from __future__ import annotations

from typing import Any

from kriss.cli.console import StageProgress


class MineProgress(StageProgress):
    """Called with the events of a run; a context manager, as rich's bars are."""

    def __init__(self) -> None:
        super().__init__("planning", "{task.fields[pace]}", pace="")
        self._documents = self._characters = self._hits = 0
        self._since = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event."""
        match event["event"]:
            case "plan":
                self._since = self._bar.get_time()
                self._bar.update(self._task, description="mining", total=event["shards"])
            case "resumed" if event["shards"]:
                self._bar.update(self._task, advance=event["shards"])
            case "again" if event["shards"]:
                self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + event["shards"])
            case "done":
                self._documents += event["documents"]
                self._characters += event["characters"]
                self._hits += event["hits"]
                self._bar.update(self._task, advance=1, pace=self._pace())

    def _pace(self) -> str:
        seconds = max(self._bar.get_time() - self._since, 1e-9)
        return (
            f"{self._documents / seconds:,.0f} documents/s  {self._characters / 1e6 / seconds:.1f} MB/s  "
            f"{self._hits:,} hits"
        )
