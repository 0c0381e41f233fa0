"""From torch to ONNX: the graph of a re-ranker, compared with torch before anybody relies on it.

Eight bits are a gain in speed and a loss in nearness. A graph whose scores order candidates as the original does
is kept and preferred; one that does not is removed, and the re-ranker calculates in 32 bits.

A score is made of the top [CLS]. What the last layer makes of all other tokens is thrown away, so a graph need not make
it: of these the layer needs keys and values, a sixth of its work. The score is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.bert.modeling_bert import BertLayer

from kriss.encoder.config import Precision
from kriss.encoder.export import trace
from kriss.encoder.quantize import quantize
from kriss.encoder.session import cross_file, open_graph
from kriss.encoder.windows import Sequences
from kriss.errors import DriftError
from kriss.rerank.model import CrossEncoder

_EXACT = 1e-3
"""How far a score may be off in 32 bits, where only the order of sums differs."""
_ALIKE, _AGREED = 0.98, 0.95
"""In eight bits: the least correlation of scores, and the least share of mentions with the same first candidate."""
_SIZE = 16
_MOST = 256
"""Pairs that the scales of eight bits are taken from."""
Floats = NDArray[np.float32]


class _Graph(torch.nn.Module):
    """The model as a graph sees it: like that of an encoder, with a vector of one number."""

    def __init__(self, model: CrossEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, pool: Tensor) -> Tensor:
        scores: Tensor = self.model(ids, mask, (pool > 0).to(ids.dtype))
        return scores[:, None]


def export_reranker(model: CrossEncoder, folder: Path, pairs: Sequences, counts: Sequence[int]) -> dict[str, Any]:
    """Write the graphs of a re-ranker below `folder`; return which precision to use, and how like torch each is.

    `pairs` are those of some mentions, `counts` how many candidates each of these has.
    """
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    expected = model.scores(pairs)
    plain, small = cross_file(folder, "fp32"), cross_file(folder, "int8")
    _, example = next(pairs.batches(_SIZE))
    with only_first_token(model.classifier):
        trace(_Graph(model), example, getattr(model.classifier.config, "max_position_embeddings", None), plain)
    off = float(np.abs(_scores(plain, pairs) - expected).max())
    if not off <= _EXACT * (1 + float(np.abs(expected).max())):
        raise DriftError(
            f"the graph of the re-ranker is off by {off:.4f}: this torch and this ONNX Runtime do not go together"
        )
    quantize(plain, small, [_some(pairs)])
    alike, agreed = _likeness(_scores(small, pairs), expected, counts)
    good = alike >= _ALIKE and agreed >= _AGREED
    if not good:
        small.unlink()
    precision: Precision = "int8" if good else "fp32"
    return {"precision": precision, "fp32": {"most_off": round(off, 6)},
            "int8": {"correlation": round(alike, 4), "same_first": round(agreed, 4)}}  # fmt: skip


def _scores(file: Path, pairs: Sequences) -> Floats:
    return pairs.encode(open_graph(file, torch.get_num_threads()), _SIZE, padded=False).reshape(len(pairs))


def _some(pairs: Sequences) -> Sequences:
    """Return pairs at even distances, short and long ones."""
    places = np.unique(np.linspace(0, len(pairs) - 1, min(_MOST, len(pairs))).astype(int)).tolist()
    return Sequences([pairs.ids[place] for place in places], [pairs.spans[place] for place in places], pairs.pad)


def _likeness(found: Floats, expected: Floats, counts: Sequence[int]) -> tuple[float, float]:
    """Return the correlation of two sets of scores, and how often they have the same candidate first."""
    with np.errstate(invalid="ignore", divide="ignore"):  # scores that are all the same have none
        alike = float(np.corrcoef(found.astype(np.float64), expected.astype(np.float64))[0, 1])
    bounds = np.cumsum(counts)[:-1]
    first, second = ([int(part.argmax()) for part in np.split(scores, bounds)] for scores in (found, expected))
    return alike, float(np.mean(np.equal(first, second)))


# --- the last layer for the first token alone ----------------------------------------------------------


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
