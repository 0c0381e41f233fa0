"""What turns trained weights into a re-ranker that links: its graphs, and how to use it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kriss.encoder.cross import OnnxCrossEncoder
from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.names import name_key
from kriss.rerank.candidates import Asked, CandidateSearch
from kriss.rerank.examples import Labeled
from kriss.rerank.export import export_reranker
from kriss.rerank.model import CrossEncoder
from kriss.rerank.tune import dev_cases, tune

_COMPARED = 64
"""Mentions on whose candidates a graph is compared with torch."""


def make_usable(model: CrossEncoder, linker: Linker, labeled: Sequence[Labeled], folder: Path) -> dict[str, Any]:
    """Write graphs and the blend beside a saved re-ranker, and return what the manifest says of them."""
    cases = dev_cases(linker, labeled)
    some = cases[:: max(len(cases) // _COMPARED, 1)]
    pairs = model.pairs([one.mention for one, _ in some], [case.options for _, case in some])
    graphs = export_reranker(model, folder, pairs, [len(case.options) for _, case in some])
    cross = OnnxCrossEncoder(folder, graphs["precision"])
    tuned = tune(cross.pairs, cross.scores, cases, graphs["precision"], len(labeled) - len(cases) // 2)
    tuned.blend.save(folder)
    return {"onnx": graphs, "tuning": tuned.flat()}


def check_usable(linker: Linker, labeled: Sequence[Labeled], where: Path) -> None:
    """Refuse mentions by which nothing can be chosen, before anything is trained."""
    search = CandidateSearch(linker)
    hidden = (Asked(one.mention, one.document, frozenset({name_key(one.mention.surface)})) for one in labeled)
    if not any(search.usable(asked, one.entity) for asked, one in zip(hidden, labeled, strict=True)):
        raise InputError(
            f"{where}: no entity of the dev mentions has another name to be found by, so nothing could tell how well "
            "a re-ranker does; mine more text, or take an ontology with synonyms"
        )
