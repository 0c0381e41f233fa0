"""The progress bar of `kriss index`: sequences encoded, sequences a second."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from kriss.cli.console import progress_bar


class IndexProgress:
    """Called with the events of a build; a context manager, as rich's bars are."""

    def __init__(self) -> None:
        self._bar = progress_bar("{task.fields[pace]}")
        self._task = self._bar.add_task("choosing prototypes", total=None, pace="")
        self._since = 0.0
        self._encoded = 0

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
