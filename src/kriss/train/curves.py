"""The log of a run as a picture: the loss, and accuracy on the dev set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_COLOURS = {"masked": "#c0504d", "linker": "#8a8a8a", "recall": "#3b6ea5"}


def draw_curves(log: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG with the curves of a log."""
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
