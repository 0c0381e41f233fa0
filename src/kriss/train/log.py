"""What a run says of itself while it runs: lines of JSON, and TensorBoard's scalars if that is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Progress = Callable[[dict[str, Any]], None]
LOG, BOARD = "log.jsonl", "tensorboard"


class Log:
    """The log of a run in its folder; entries after `step`, of a run that was cut short, are taken out."""

    def __init__(self, folder: Path, progress: Progress, step: int = 0) -> None:
        self._file = folder / LOG
        self._progress = progress
        self.entries = [entry for entry in read_log(self._file) if entry["step"] <= step] if step else []
        self._file.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries), encoding="utf-8")
        self._board = _board(folder / BOARD, step)

    def write(self, entry: dict[str, Any]) -> None:
        """Add an entry: a step, and its loss and pace or its scores on dev."""
        self.entries.append(entry)
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry) + "\n")
        if self._board:
            figures = {key: value for key, value in entry.items() if key not in ("step", "dev")}
            for key, value in {
                **figures,
                **{f"dev/{key}": value for key, value in entry.get("dev", {}).items()},
            }.items():
                self._board.add_scalar(key, value, entry["step"])
        self._progress({"event": "log", **entry})

    def close(self) -> None:
        """Write what TensorBoard still holds back."""
        if self._board:
            self._board.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the log of a run; a line that a kill cut short is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries


def _board(folder: Path, step: int) -> Any:  # noqa: ANN401 - a class of a package that may be absent
    if find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder, purge_step=step + 1 if step else None)
