"""The figures, as pure functions: right or wrong for one mention, and intervals for many.

Mentions of one document are not independent: an abstract says the same name again and again. So documents, not
mentions, are drawn anew for an interval and change sides in a test.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000
SWAPS = 10_000
BINS = 10
"""Bins of probability, of equal width."""
_AT_ONCE = 50


def percent(share: float) -> str:
    """Return a share as tables show it.

    >>> percent(0.12345), percent(float("nan"))
    ('12.3', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.1f}"


def strict(answer: Sequence[str], gold: Collection[str]) -> float:
    """Return 1 if the answer is one entity and that is gold, else 0: no link and a tie left unbroken are wrong."""
    return float(len(answer) == 1 and answer[0] in gold)


def expected(answer: Sequence[str], gold: Collection[str]) -> float:
    """Return how likely the answer is right if a tie is broken at random: the mean over all seeds."""
    return sum(entity in gold for entity in answer) / len(answer) if answer else 0.0


def rank(candidates: Sequence[str], gold: Collection[str]) -> int:
    """Return the place of the first gold entity among the distinct candidates, from 1; 0 if none is there."""
    return next((place for place, entity in enumerate(dict.fromkeys(candidates), 1) if entity in gold), 0)


def recall_at(ranks: Sequence[int], k: int) -> float:
    """Return the share of mentions with a gold entity among their first k candidates."""
    return sum(0 < one <= k for one in ranks) / len(ranks) if ranks else 0.0


def intervals(values: Floats, groups: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return the 95% intervals of the means of some columns, as rows of low and high: a percentile bootstrap.

    `values` has a row for each mention; one that does not belong to a column's slice is nan there. What lies in one
    group has no interval, but nan: drawn anew it is always the same.
    """
    sums, counts = _by_group(values, groups)
    drawn = np.vstack([_ratios(weights, sums, counts) for weights in _draws(len(sums), resamples, seed)])
    found = np.full((values.shape[1], 2), np.nan)
    for column in np.flatnonzero((counts > 0).sum(axis=0) > 1):
        found[column] = np.nanpercentile(drawn[:, column], [2.5, 97.5])
    return found


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers whose probability lies in one bin: how many, how likely they said to be right, how many were right."""

    mentions: int
    probability: float
    accuracy: float


def reliability(answers: Sequence[tuple[float, bool]], bins: int = BINS) -> list[Bin]:
    """Sort answers, each a probability and whether it is right, into bins of equal width; empty bins are left out."""
    shown, correct = np.array(answers, dtype=np.float64).reshape(-1, 2).T
    number = np.minimum((shown * bins).astype(np.int64), bins - 1)
    chosen = (number == one for one in np.unique(number))
    return [Bin(int(one.sum()), float(shown[one].mean()), float(correct[one].mean())) for one in chosen]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error (Guo et al. 2017): the mean gap of bins, weighted by their answers."""
    total = sum(one.mentions for one in bins)
    return sum(one.mentions * abs(one.accuracy - one.probability) for one in bins) / total


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one system is than another on the same mentions."""

    mean: float
    low: float
    high: float
    p: float
    """How likely so large a difference is, either way, if it made no difference which system is which."""


def difference(
    one: Sequence[float],
    other: Sequence[float],
    groups: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    swaps: int = SWAPS,
    seed: int = 0,
) -> Difference:
    """Compare two systems mention by mention: a paired bootstrap, and a randomization test, both by documents."""
    apart = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    [(low, high)] = intervals(apart[:, None], groups, resamples=resamples, seed=seed)
    sums, _ = _by_group(apart[:, None], groups)
    moved = sums[sums[:, 0] != 0, 0]
    draw = np.random.default_rng(seed)
    as_far = 0
    for first in range(0, swaps, 1000):
        signs = draw.integers(0, 2, (min(1000, swaps - first), len(moved))) * 2 - 1
        as_far += int((np.abs(signs @ moved) >= abs(moved.sum()) - 1e-9).sum())
    return Difference(float(apart.mean()), float(low), float(high), (as_far + 1) / (swaps + 1))


def _by_group(values: Floats, groups: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the sums and the counts of each column, group by group."""
    number: dict[str, int] = {}
    rows = np.array([number.setdefault(group, len(number)) for group in groups], dtype=np.int64)
    sums, counts = np.zeros((2, len(number), values.shape[1]))
    known = ~np.isnan(values)
    np.add.at(sums, rows, np.where(known, values, 0.0))
    np.add.at(counts, rows, known.astype(np.float64))
    return sums, counts


def _draws(groups: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each group is drawn, some resamples at a time: all at once would not fit for large corpora."""
    draw = np.random.default_rng(seed)
    for first in range(0, resamples, _AT_ONCE):
        size = min(_AT_ONCE, resamples - first)
        rows = draw.integers(0, groups, (size, groups))
        yield np.stack([np.bincount(row, minlength=groups) for row in rows]).astype(np.float64)


def _ratios(weights: Floats, sums: Floats, counts: Floats) -> Floats:
    total = weights @ counts
    return np.divide(weights @ sums, total, out=np.full_like(total, np.nan), where=total > 0)
