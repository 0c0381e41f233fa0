"""How likely an answer is right: a logistic regression on what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RIDGE = 1e-3
_ROUNDS = 50
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Logistic:
    """An intercept, and a slope for each figure."""

    intercept: float
    slopes: tuple[float, ...]

    def probability(self, figures: Floats) -> Floats:
        """Return how likely answers with these figures are right; the last axis holds the figures of one."""
        return _sigmoid(self.intercept + figures @ np.array(self.slopes))

    @classmethod
    def fitted(cls, figures: Floats, right: NDArray[np.bool_], labels: float = 1.0) -> Logistic:
        """Return what fits best, by Newton's method on standardised figures, a row an answer.

        `labels` is the share of labels that are right themselves: an answer like its label counts as right by
        so much.
        """
        mean, scale = figures.mean(axis=0), figures.std(axis=0)
        scale[scale == 0] = 1.0
        standard = np.column_stack([np.ones(len(figures)), (figures - mean) / scale])
        ridge = np.full(standard.shape[1], _RIDGE * len(figures))
        bent = np.arange(standard.shape[1]) > 0  # the intercept is free
        weights = np.zeros(standard.shape[1])
        # Not all right, nor all wrong: Platt's targets keep the figures finite.
        positive = right.sum()
        target = np.where(right, labels * (positive + 1) / (positive + 2), 1 / (len(right) - positive + 2))
        for _ in range(_ROUNDS):
            guess = _sigmoid(standard @ weights)
            gradient = standard.T @ (guess - target) + ridge * weights * bent
            curvature = (standard * (guess * (1 - guess))[:, None]).T @ standard + np.diag(ridge)
            step = np.linalg.solve(curvature, gradient)
            weights -= step
            if np.abs(step).max() < 1e-8:
                break
        slopes = weights[1:] / scale
        return cls(float(weights[0] - (slopes * mean).sum()), tuple(map(float, slopes)))


def _sigmoid(value: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(value, -60, 60))))
