"""The last layer of a Transformer for its first token alone.

A score is made of the top [CLS]. What the last layer makes of all other tokens is thrown away, so a graph need not make
it: of these the layer needs keys and values, a sixth of its work. The score is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.bert.modeling_bert import BertLayer


class FirstTokenLayer(torch.nn.Module):
    """A layer of BERT that returns a sequence of one: what becomes of the first token."""

    def __init__(self, layer: BertLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:  # noqa: ANN401
        """Take what a layer takes; there is no cache and nothing to attend to beside the sequence."""
        attention = self.layer.attention.self
        first = hidden[:, :1]
        query, key, value = (
            part.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)
            for part in (attention.query(first), attention.key(hidden), attention.value(hidden))
        )
        own = mask if mask is None else mask[:, :, :1]
        seen = scaled_dot_product_attention(query, key, value, attn_mask=own)
        attended = self.layer.attention.output(seen.transpose(1, 2).flatten(2), first)
        found: Tensor = self.layer.output(self.layer.intermediate(attended), attended)
        return found


@contextmanager
def only_first_token(model: Any) -> Iterator[None]:  # noqa: ANN401 - transformers has no common type
    """Let a model of the kind of BERT make its top layer for the first token alone; another one is left as it is."""
    layers = getattr(getattr(model.base_model, "encoder", None), "layer", None)
    if layers is None or type(layers[-1]) is not BertLayer:
        yield
        return
    whole = layers[-1]
    layers[-1] = FirstTokenLayer(whole)
    try:
        yield
    finally:
        layers[-1] = whole
