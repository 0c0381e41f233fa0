"""The losses against a transcription of their equations, term by term."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kriss.train.losses import joint_loss, mention_loss, reference_loss

Floats = NDArray[np.float64]
cases = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 10_000), st.floats(0.05, 3), st.floats(0.05, 3))


def drawn(entities: int, width: int, seed: int) -> tuple[Floats, Floats]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(2 * entities, width)), draw.normal(size=(entities, width))


def dot(a: Floats, b: Floats) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def plain_mention_loss(c: Floats, tau: float) -> float:
    """Eq. 1 and the line after it: i and j run over the two mentions of each entity, k over all others than i."""

    def pair(i: int, j: int) -> float:
        others = [math.exp(dot(c[i], c[k]) / tau) for k in range(len(c)) if k != i]
        assert len(others) == len(c) - 1
        return -math.log(math.exp(dot(c[i], c[j]) / tau) / sum(others))

    return sum(pair(2 * k, 2 * k + 1) + pair(2 * k + 1, 2 * k) for k in range(len(c) // 2)) / len(c)


def plain_reference_loss(c: Floats, r: Floats, pi: float) -> float:
    total = 0.0
    for i in range(len(c)):
        all_of_them = [math.exp(dot(c[i], r[k]) / pi) for k in range(len(r))]
        total -= math.log(all_of_them[i // 2] / sum(all_of_them))
    return total / len(c)


@given(cases)
def test_losses_equal_the_equations(case: tuple[int, int, int, float, float]) -> None:
    entities, width, seed, tau, pi = case
    c, r = drawn(entities, width, seed)
    mentions, references = plain_mention_loss(c, tau), plain_reference_loss(c, r, pi)
    assert float(mention_loss(torch.tensor(c), tau)) == pytest.approx(mentions, rel=1e-9, abs=1e-9)
    assert float(reference_loss(torch.tensor(c), torch.tensor(r), pi)) == pytest.approx(references, rel=1e-9, abs=1e-9)
    for alpha, beta in ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.3, 2.0)):
        found = joint_loss(torch.tensor(c), torch.tensor(r), tau=tau, pi=pi, alpha=alpha, beta=beta)
        assert float(found) == pytest.approx(alpha * mentions + beta * references, rel=1e-9, abs=1e-9)


@given(cases)
def test_the_order_of_entities_changes_nothing(case: tuple[int, int, int, float, float]) -> None:
    entities, width, seed, tau, pi = case
    c, r = drawn(entities, width, seed)
    order = np.random.default_rng(seed + 1).permutation(entities)
    rows = np.stack([2 * order, 2 * order + 1], axis=1)
    swapped = rows[:, ::-1]  # nor which of the two mentions comes first
    expected = joint_loss(torch.tensor(c), torch.tensor(r), tau=tau, pi=pi, alpha=0.4, beta=0.6)
    for places in (rows, swapped):
        moved = torch.tensor(c[places.reshape(-1)]), torch.tensor(r[order])
        found = joint_loss(*moved, tau=tau, pi=pi, alpha=0.4, beta=0.6)
        assert float(found) == pytest.approx(float(expected), rel=1e-9)


def test_gradients_are_those_of_the_losses() -> None:
    c, r = (torch.tensor(part, requires_grad=True) for part in drawn(3, 4, 1))
    assert torch.autograd.gradcheck(lambda a, b: joint_loss(a, b, tau=0.7, pi=0.4, alpha=0.3, beta=0.6), (c, r))


def test_large_scores_do_not_overflow() -> None:
    c, r = (torch.tensor(part * 100, dtype=torch.float32) for part in drawn(4, 8, 2))
    assert math.isfinite(joint_loss(c, r, tau=0.01, pi=0.01, alpha=0.5, beta=0.5))


def test_without_references_only_mentions_count() -> None:
    c, _ = drawn(3, 4, 5)
    found = joint_loss(torch.tensor(c), None, tau=1.0, pi=1.0, alpha=0.5, beta=0.0)
    assert float(found) == pytest.approx(0.5 * plain_mention_loss(c, 1.0))
