"""The progress bar of `kriss index`: sequences encoded, sequences a second."""

from __future__ import annotations

from typing import Any

from kriss.cli.console import StageProgress


class IndexProgress(StageProgress):
    """Called with the events of a build; a context manager, as rich's bars are."""

    def __init__(self) -> None:
        super().__init__("choosing prototypes", "{task.fields[pace]}", pace="")
        self._since = 0.0
        self._encoded = 0

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event."""
        match event["event"]:
            case "encode":
                self._since = self._bar.get_time()
                self._bar.update(self._task, description="encoding", total=event["total"], completed=event["done"])
            case "encoded":
                self._encoded += event["count"]
                pace = self._encoded / max(self._bar.get_time() - self._since, 1e-6)
                self._bar.update(self._task, advance=event["count"], pace=f"{pace:,.0f} sequences/s")
            case "indexing":
                self._bar.update(self._task, description=f"writing the {event['kind']} index", pace="")
            case "calibrating":
                self._bar.update(self._task, description="calibrating")
