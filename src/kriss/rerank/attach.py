"""A re-ranker's place in a linker; no torch, for whoever links may have been sent both."""

from __future__ import annotations

import shutil
from pathlib import Path

from kriss.artifacts import create, open_artifact
from kriss.encoder.cross import cross_file
from kriss.encoder.pairs import SETTINGS
from kriss.encoder.settings import TOKENIZER
from kriss.link.linker import Linker
from kriss.rank.parts import RERANKER
from kriss.rank.rerank import check_made_for
from kriss.rank.tune import FILE as WEIGHTS


def attach(linker: Path, reranker: Path, *, force: bool = False) -> Path:
    """Put a re-ranker into the folder of the linker that it was trained for; only what linking needs goes along."""
    artifact = open_artifact(reranker, "reranker")
    check_made_for(artifact, Linker.load(linker, threads=1).made_for(), linker)
    graph = cross_file(reranker, artifact.facts["onnx"]["precision"])
    inputs = [{"name": reranker.name, "sha256": artifact.digest}]
    with create(linker / RERANKER, "reranker", config=artifact.config, inputs=inputs, force=force) as draft:
        (draft.path / graph.parent.name).mkdir()
        for file in (reranker / SETTINGS, reranker / TOKENIZER, reranker / WEIGHTS, graph):
            shutil.copy(file, draft.path / file.relative_to(reranker))
        draft.facts |= artifact.facts
    return linker / RERANKER
