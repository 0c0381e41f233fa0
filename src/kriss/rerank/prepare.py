"""What turns trained weights into a re-ranker that links: its graphs, and how to use it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kriss.encoder.cross import OnnxCrossEncoder
from kriss.errors import ArtifactError
from kriss.link.linker import Linker
from kriss.rerank.examples import Labeled
from kriss.rerank.export import export_reranker
from kriss.rerank.model import CrossEncoder
from kriss.rerank.tune import Case, Tuning, dev_cases, tune

_COMPARED = 64
"""Mentions on whose candidates a graph is compared with torch."""


def make_usable(model: CrossEncoder, linker: Linker, labeled: Sequence[Labeled], folder: Path) -> dict[str, Any]:
    """Write graphs and the blend beside a saved re-ranker, and return what the manifest says of them."""
    cases = dev_cases(linker, labeled)
    if not cases:
        raise ArtifactError("none of the mentions has another name to be found by, so there is nothing to choose by")
    some = cases[:: max(len(cases) // _COMPARED, 1)]
    pairs = model.pairs([one.mention for one, _ in some], [case.options for _, case in some])
    graphs = export_reranker(model, folder, pairs, [len(case.options) for _, case in some])
    tuned = _tuned(folder, cases, graphs)
    tuned.blend.save(folder)
    return {"onnx": graphs, "tuning": tuned.flat()}


def _tuned(folder: Path, cases: Sequence[tuple[Labeled, Case]], graphs: dict[str, Any]) -> Tuning:
    cross = OnnxCrossEncoder(folder, graphs["precision"])
    return tune(cross.pairs, cross.scores, cases, graphs["precision"])
