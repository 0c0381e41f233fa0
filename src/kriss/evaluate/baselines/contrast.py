"""SapBERT's loss: which pairs of names are hard, and what they cost. Pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def hard_pairs(vectors: Tensor, labels: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return masks of the positive and of the negative pairs that are in a triplet which violates the margin.

    Liu et al. (2021), section 2: of all triplets of an anchor, a name of the same entity and one of another, those
    with d(a, n) - d(a, p) <= margin, d being the distance of unit vectors ("all" in their code). A pair is kept if
    any third name makes such a triplet of it, so the farthest positive and the nearest negative decide, and the
    n^3 triplets need not be made. `vectors` have length 1; rows are anchors.
    """
    distance = (2 - 2 * vectors.detach() @ vectors.detach().T).clamp(min=0).sqrt()
    same = labels[:, None] == labels[None, :]
    positive = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    farthest = distance.masked_fill(~positive, float("-inf")).amax(dim=1, keepdim=True)
    nearest = distance.masked_fill(same, float("inf")).amin(dim=1, keepdim=True)
    return positive & (nearest - distance <= margin), ~same & (distance - farthest <= margin)


def multi_similarity_loss(
    vectors: Tensor, positive: Tensor, negative: Tensor, *, alpha: float, beta: float, base: float
) -> Tensor:
    """Return the multi-similarity loss of Wang et al. (2019) over the given pairs, S being their cosines.

    L = 1/m sum_i { 1/alpha log[1 + sum_{k in P_i} exp(-alpha (S_ik - base))]
                  + 1/beta  log[1 + sum_{k in N_i} exp( beta  (S_ik - base))] }
    """
    scores = vectors @ vectors.T - base
    pull = _log_of_one_and(-alpha * scores, positive) / alpha
    push = _log_of_one_and(beta * scores, negative) / beta
    return (pull + push).mean()


def _log_of_one_and(exponents: Tensor, chosen: Tensor) -> Tensor:
    """Return log(1 + sum of exp) over the chosen ones of each row, without overflow."""
    one = exponents.new_zeros((len(exponents), 1))
    return torch.cat([one, exponents.masked_fill(~chosen, float("-inf"))], dim=1).logsumexp(dim=1)
