"""From torch to ONNX: the graph of a re-ranker, compared with torch before anybody relies on it.

Eight bits are a gain in speed and a loss in nearness. A graph whose scores order candidates as the original does
is kept and preferred; one that does not is removed, and the re-ranker calculates in 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kriss.encoder.config import Precision
from kriss.encoder.cross import cross_file
from kriss.encoder.export import trace
from kriss.encoder.quantize import quantize
from kriss.encoder.session import open_graph
from kriss.encoder.windows import Sequences
from kriss.errors import DriftError
from kriss.rerank.first_token import only_first_token
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
