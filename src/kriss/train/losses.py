"""The losses of sections 3.2 and 3.4, each beside its equation. Pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def mention_loss(c: Tensor, tau: float) -> Tensor:
    """Return L: each of 2N mentions must find the other mention of its entity among the 2N-1 others.

    Rows 2k and 2k+1 of `c` belong to one entity.

    l(c_i, c_j) = -log( exp(c_i.c_j / tau) / sum_{k != i} exp(c_i.c_k / tau) )
    L = 1/2N sum_k [ l(c_2k-1, c_2k) + l(c_2k, c_2k-1) ]
    """
    scores = c @ c.T / tau
    scores = scores.masked_fill(torch.eye(len(c), dtype=torch.bool, device=c.device), float("-inf"))
    return cross_entropy(scores, torch.arange(len(c), device=c.device) ^ 1)


def reference_loss(c: Tensor, r: Tensor, pi: float) -> Tensor:
    """Return L': each of 2N mentions must find the reference of its entity among N.

    l(c_i, r_e) = -log( exp(c_i.r_e / pi) / sum_{k=1..N} exp(c_i.r_k / pi) )
    L' = 1/2N sum_k [ l(c_2k-1, r_k) + l(c_2k, r_k) ]
    """
    scores = c @ r.T / pi
    return cross_entropy(scores, torch.arange(len(c), device=c.device) // 2)


def joint_loss(c: Tensor, r: Tensor | None, *, tau: float, pi: float, alpha: float, beta: float) -> Tensor:
    """Return alpha L + beta L'; a part of weight 0 is not computed."""
    total = c.new_zeros(())
    if alpha:
        total = total + alpha * mention_loss(c, tau)
    if beta and r is not None:
        total = total + beta * reference_loss(c, r, pi)
    return total
