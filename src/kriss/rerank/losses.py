"""The loss of section 3.5. A pure function of tensors."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy


def rerank_loss(scores: Tensor, real: Tensor, gold: Tensor) -> Tensor:
    """Return the sum over mentions: each must give its correct entity the best score among its candidates.

    Row i of `scores` are the candidates of a mention, `gold` the place of the correct one; where `real` is False
    there is no candidate, for lists may differ in length.

    l(m_i) = -log( exp(s(m_i, e_gold)) / sum_{k=1..K} exp(s(m_i, e_k)) )
    """
    return cross_entropy(scores.masked_fill(~real, float("-inf")), gold, reduction="sum")
