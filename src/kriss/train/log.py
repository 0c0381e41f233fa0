"""What a training says of itself while it runs: a line of JSON for each look at its loss or dev set, and curves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Progress = Callable[[dict[str, Any]], None]
LOG = "log.jsonl"
_COLOURS = {"masked": "#c0504d", "linker": "#8a8a8a", "recall": "#3b6ea5"}


@dataclass(frozen=True, slots=True)
class Score:
    """How a model does on its dev set."""

    mean: float
    """What the best step is chosen by."""
    figures: Mapping[str, float]


class Log:
    """The log of a run in its folder; entries after `step`, of a run that was cut short, are taken out."""

    def __init__(self, folder: Path, progress: Progress, step: int = 0) -> None:
        self._file = folder / LOG
        self._progress = progress
        self.entries = [entry for entry in read_log(self._file) if entry["step"] <= step] if step else []
        self._file.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries), encoding="utf-8")

    def write(self, entry: dict[str, Any]) -> None:
        """Add an entry: a step, and its loss and pace or its scores on dev."""
        self.entries.append(entry)
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry) + "\n")
        self._progress({"event": "log", **entry})

    def score_at(self, step: int) -> Score | None:
        """Return how the model did on dev at a step, if it was scored there."""
        found = (entry for entry in self.entries if entry["step"] == step and "dev" in entry)
        return next((Score(entry["mean"], entry["dev"]) for entry in found), None)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the log of a run; a line that a kill cut short is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries


def draw_curves(log: list[dict[str, Any]], path: Path) -> None:
    """Write a PNG of the loss and the dev figures in a log."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    losses = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    if losses:
        left.plot(*zip(*losses, strict=True), color="#3b6ea5", linewidth=1.2)
    left.set(title="loss", xlabel="step")
    left.set_ylim(bottom=0)
    scores = [(entry["step"], entry["dev"]) for entry in log if "dev" in entry]
    for key in scores[0][1] if scores else ():
        steps, values = zip(*((step, found[key]) for step, found in scores), strict=True)
        colour = _COLOURS.get(key.partition("@")[0], "#4f8a4c")
        dashes = "--" if key.endswith("@5") else "-"
        right.plot(steps, values, dashes, color=colour, linewidth=1.4, label=key, marker="o", markersize=3)
    right.set(title="linking accuracy on dev", xlabel="step", ylim=(0, 1))
    if scores:
        right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=120, metadata={"Software": None})
