"""How sharp the linker's scores are best taken, against a search over all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kriss.rerank.residual import sharpness


def cross_entropy(t: float, scores: list[NDArray[np.float64]], gold: list[int]) -> float:
    """The definition."""
    total = 0.0
    for own, place in zip(scores, gold, strict=True):
        logits = t * own
        wanted = 0.05 * logits.mean() + 0.95 * logits[place]
        total += float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - wanted)
    return total


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**20), noise=st.floats(0.05, 3.0))
def test_no_other_is_better(seed: int, noise: float) -> None:
    draw = np.random.default_rng(seed)
    gold = draw.integers(0, 3, 40).tolist()
    scores = [draw.normal(0, noise, draw.integers(3, 7)) for _ in gold]
    for own, place in zip(scores, gold, strict=True):
        own[place] += 0.5
    found = sharpness(scores, gold)
    least = cross_entropy(found, scores, gold)
    assert all(least <= cross_entropy(t, scores, gold) + 1e-9 for t in np.linspace(0, 30, 301))


def test_scores_that_tell_nothing_or_the_contrary_count_for_nothing() -> None:
    flat = [np.ones(4)] * 3
    assert sharpness(flat, [0, 1, 2]) == 0
    assert sharpness([np.array([1.0, 0.0])] * 3, [1, 1, 1]) == 0
    assert sharpness([], []) == 0


def test_scores_that_are_always_right_are_not_taken_for_certain() -> None:
    t = sharpness([np.array([1.0, 0.0])] * 3, [0, 0, 0])
    assert 1 / (1 + np.exp(-t)) == pytest.approx(0.975)


@pytest.mark.parametrize("factor", [0.1, 7.0])
def test_the_scale_of_the_scores_does_not_matter(factor: float) -> None:
    draw = np.random.default_rng(0)
    scores = [draw.normal(0, 1, 5) for _ in range(50)]
    gold = [int(np.argmax(own + draw.normal(0, 1, 5))) for own in scores]
    assert sharpness([factor * own for own in scores], gold) * factor == pytest.approx(sharpness(scores, gold), 1e-6)
