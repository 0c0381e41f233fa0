"""How likely an answer is right, by its score and by its lead over the second: a logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RIDGE = 1e-3
_ROUNDS = 50
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Logistic:
    """An intercept and two slopes."""

    intercept: float
    score: float
    margin: float

    def probability(self, score: Floats, margin: Floats) -> Floats:
        """Return how likely an answer with this score and this lead over the second is right."""
        return _sigmoid(self.intercept + self.score * score + self.margin * margin)

    @classmethod
    def fitted(cls, score: Floats, margin: Floats, right: NDArray[np.bool_]) -> Logistic:
        """Return what fits best, by Newton's method on standardised figures."""
        features = np.stack([np.ones_like(score), score, margin], axis=1)
        mean, scale = features.mean(axis=0), features.std(axis=0)
        mean[0], scale[0] = 0.0, 1.0
        scale[scale == 0] = 1.0
        standard = (features - mean) / scale
        ridge = np.full(3, _RIDGE * len(score))
        weights = np.zeros(3)
        # Not all right, nor all wrong: Platt's targets keep the figures finite.
        positive = right.sum()
        target = np.where(right, (positive + 1) / (positive + 2), 1 / (len(right) - positive + 2))
        for _ in range(_ROUNDS):
            guess = _sigmoid(standard @ weights)
            gradient = standard.T @ (guess - target) + ridge * weights * [0, 1, 1]
            curvature = (standard * (guess * (1 - guess))[:, None]).T @ standard + np.diag(ridge)
            step = np.linalg.solve(curvature, gradient)
            weights -= step
            if np.abs(step).max() < 1e-8:
                break
        slopes = weights / scale
        return cls(float(weights[0] - (slopes[1:] * mean[1:]).sum()), float(slopes[1]), float(slopes[2]))


def _sigmoid(value: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(value, -60, 60))))
