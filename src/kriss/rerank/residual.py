"""What the linker knows already, so that a re-ranker need only learn the rest.

A re-ranker that must find the correct entity by its own scores first learns for long what the linker could have told
it. So its scores are added to the linker's while it trains, as they are when it is used:

    s(m, e) = t s_linker(m, e) + s_cross(m, e)

with the t at which the linker alone has the least cross-entropy over the training examples for which it found the
correct entity. The model then starts at what the linker achieves, and what it learns are corrections.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SHARPEST = 1e4
_DOUBT = 0.05
"""Share of certainty that is spread over all candidates: where the linker is always right, t would have no end."""
_HALVINGS = 60
Floats = NDArray[np.float64]


def sharpness(scores: Sequence[Floats], gold: Sequence[int]) -> float:
    """Return the t >= 0 with the least cross-entropy of softmax(t s); `gold` are the places of the correct ones.

    The correct ones count for 0.95, all candidates alike for the rest. The cross-entropy is convex in t, so that its
    slope has at most one root. 0: the scores tell nothing.
    """
    if _slope(0.0, scores, gold) >= 0:
        return 0.0
    low, high = 0.0, _SHARPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(middle, scores, gold) < 0 else (low, middle)
    return (low + high) / 2


def _slope(t: float, scores: Sequence[Floats], gold: Sequence[int]) -> float:
    """Return the derivative: by how much the scores that softmax expects exceed those that it should."""
    total = 0.0
    for own, place in zip(scores, gold, strict=True):
        share = np.exp(t * (own - own.max()))
        total += float(share @ own / share.sum() - (1 - _DOUBT) * own[place] - _DOUBT * own.mean())
    return total
