"""What turns trained weights into a re-ranker that links: its graphs, and how much it counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.cross import OnnxCrossEncoder
from kriss.encoder.pairs import Option
from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.rank.tune import Case, tune, usable
from kriss.records import Excerpt
from kriss.rerank.examples import Examples
from kriss.rerank.export import export_reranker
from kriss.rerank.model import CrossEncoder

_COMPARED = 64
"""Mentions on whose candidates a graph is compared with torch."""


@dataclass(frozen=True, slots=True)
class _Cross:
    """The exported model, as the ranking asks for it."""

    encoder: OnnxCrossEncoder
    candidates: int

    def scores(self, excerpts: Sequence[Excerpt], options: Sequence[Sequence[Option]]) -> NDArray[np.float32]:
        return self.encoder.scores(self.encoder.pairs(excerpts, options))


def make_usable(
    model: CrossEncoder, linker: Linker, cases: Sequence[Case], dev: Examples, candidates: int, folder: Path
) -> dict[str, Any]:
    """Write graphs and weights beside a saved re-ranker, and return what the manifest says of them."""
    some = [dev.get(place) for place in range(0, len(dev), max(len(dev) // _COMPARED, 1))]
    options = [dev.options(example) for example in some]
    pairs = model.pairs([example.mention for example in some], options)
    graphs = export_reranker(model, folder, pairs, [len(part) for part in options])
    cross = _Cross(OnnxCrossEncoder(folder, graphs["precision"]), candidates)
    before = tune(linker.ranking, linker.encoder, cases, names=())
    after = tune(replace(linker.ranking, reranker=cross), linker.encoder, cases, names=("cross",))
    after.save(folder)
    tuning = {"weight": after.weights["cross"], "linker": dict(before.accuracy), "reranked": dict(after.accuracy)}
    return {"onnx": graphs, "tuning": {**tuning, "mentions": len(cases)}}


def check_usable(linker: Linker, cases: Sequence[Case], where: Path) -> list[Case]:
    """Return the mentions by which something can be chosen; if there are none, that is an error before training."""
    found = usable(linker.prototypes, cases)
    if not found:
        raise InputError(
            f"{where}: no entity of the dev mentions has another name to be found by, so nothing could tell how well "
            "a re-ranker does; mine more text, or take an ontology with synonyms"
        )
    return found
