"""The progress bar of `kriss train`: steps, loss, sequences a second, the dev score."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from kriss.cli.console import progress_bar


class TrainProgress:
    """Called with the events of a run; a context manager, as rich's bars are."""

    def __init__(self) -> None:
        self._bar = progress_bar("{task.fields[loss]}  {task.fields[dev]}")
        self._log = self._bar.disable  # dev scores are wanted in a log, too
        self._task = self._bar.add_task("preparing", total=None, loss="", dev="")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event; the bar appears with the first, and of several processes only one has any."""
        self._bar.start()
        if event["event"] == "note":
            self._bar.console.print(event["text"], style="yellow", highlight=False, soft_wrap=True)
        elif event["event"] == "plan":
            self._bar.update(self._task, description="training", total=event["steps"], completed=event["step"])
        elif "loss" in event:
            pace = f"loss {event['loss']:.3f}  {event['sequences_per_second']:.0f} sequences/s"
            self._bar.update(self._task, completed=event["step"], loss=pace)
        elif "dev" in event:
            shown = "  ".join(f"{key} {value:.3f}" for key, value in event["dev"].items() if key.endswith("@1"))
            self._bar.update(self._task, dev=f"dev {shown}")
            if self._log:
                sys.stderr.write(f"step {event['step']:,}: dev {shown}\n")
                sys.stderr.flush()
