"""The re-ranker of a linker (section 3.5): a model that reads a mention and a candidate together.

It stands in the linker's folder, with the weights that were chosen with it on dev mentions (`rank.tune`): what it says
is one feature among the others (`rank.features.cross`).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from kriss.artifacts import Artifact, create, open_artifact
from kriss.encoder.config import TOKENIZER, Precision
from kriss.encoder.pairs import SETTINGS
from kriss.encoder.session import OnnxCrossEncoder, cross_file
from kriss.errors import ArtifactError, DamagedError
from kriss.ontology import Ontology
from kriss.rank.parts import ONTOLOGY, RERANKER, encoder_digest
from kriss.rank.tune import FILE as WEIGHTS
from kriss.rank.tune import Weights


class Reranker(OnnxCrossEncoder):
    """Scores the candidates of the linker in whose folder it stands."""

    def __init__(self, folder: Path, made_for: Mapping[str, str], threads: int = 0) -> None:
        if not folder.is_dir():
            raise ArtifactError(
                f"{folder.parent} has no re-ranker: train one with 'kriss rerank train' and put it in with "
                "'kriss rerank attach'"
            )
        artifact = open_artifact(folder, "reranker")
        _check_made_for(artifact, made_for, folder.parent)
        try:
            candidates = int(artifact.config["candidates"])
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{folder} does not say how it is used ({error}); train the re-ranker again") from None
        self.tuned = Weights.load(folder)
        super().__init__(folder, precision_of(artifact), candidates, threads)


def precision_of(reranker: Artifact) -> Precision:
    """Return which of a re-ranker's graphs is to be used."""
    found = reranker.facts.get("onnx", {}).get("precision")
    if found not in ("fp32", "int8"):
        raise DamagedError(f"{reranker.path} does not say which graph to use; train the re-ranker again")
    return "int8" if found == "int8" else "fp32"


def attach(linker: Path, reranker: Path, *, force: bool = False) -> Path:
    """Put a re-ranker into the folder of the linker that it was trained for; only what linking needs goes along.

    No torch is needed: whoever links may have been sent both.
    """
    artifact = open_artifact(reranker, "reranker")
    _check_made_for(artifact, made_for(open_artifact(linker, "linker")), linker)
    graph = cross_file(reranker, precision_of(artifact))
    inputs = [{"name": reranker.name, "sha256": artifact.digest}]
    with create(linker / RERANKER, "reranker", config=artifact.config, inputs=inputs, force=force) as draft:
        (draft.path / graph.parent.name).mkdir()
        for file in (reranker / SETTINGS, reranker / TOKENIZER, reranker / WEIGHTS, graph):
            shutil.copy(file, draft.path / file.relative_to(reranker))
        draft.facts |= artifact.facts
    return linker / RERANKER


def made_for(linker: Artifact) -> dict[str, str]:
    """Return what a re-ranker that orders the candidates of a linker must have been trained for."""
    return {"ontology": Ontology.load(linker.path / ONTOLOGY).artifact.digest, "encoder": encoder_digest(linker)}


def _check_made_for(reranker: Artifact, made_for: Mapping[str, str], linker: Path) -> None:
    """Refuse a re-ranker that was trained for another ontology or another encoder than a linker's."""
    for what, digest in made_for.items():
        if reranker.facts.get(what) != digest:
            raise ArtifactError(
                f"{reranker.path} was trained for another {what} than that of {linker}; "
                f"train one with 'kriss rerank train {linker} MENTIONS --out DIR'"
            )
