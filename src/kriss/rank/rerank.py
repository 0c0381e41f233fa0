"""The re-ranker of a linker (section 3.5): a model that reads a mention and a candidate together.

It stands in the linker's folder, with the weights that were chosen with it on dev mentions (`rank.tune`): what it says
is one feature among the others (`rank.features.cross`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import Artifact, open_artifact
from kriss.encoder.cross import OnnxCrossEncoder
from kriss.encoder.pairs import Option
from kriss.errors import ArtifactError, DamagedError
from kriss.rank.tune import Weights
from kriss.records import Excerpt


class Reranker:
    """Scores the candidates of a linker that it was trained for."""

    def __init__(self, folder: Path, made_for: Mapping[str, str], threads: int = 0) -> None:
        artifact = _opened(folder)
        check_made_for(artifact, made_for, folder.parent)
        try:
            self.candidates = int(artifact.config["candidates"])
            precision = artifact.facts["onnx"]["precision"]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{folder} does not say how it is used ({error}); train the re-ranker again") from None
        self.tuned = Weights.load(folder)
        self._cross = OnnxCrossEncoder(folder, precision, threads)

    def scores(self, excerpts: Sequence[Excerpt], options: Sequence[Sequence[Option]]) -> NDArray[np.float32]:
        """Return a score for each option of each mention, those of the first mention first."""
        return self._cross.scores(self._cross.pairs(excerpts, options))


def check_made_for(reranker: Artifact, made_for: Mapping[str, str], linker: Path) -> None:
    """Refuse a re-ranker that was trained for another ontology or another encoder than a linker's."""
    for what, digest in made_for.items():
        if reranker.facts.get(what) != digest:
            raise ArtifactError(
                f"{reranker.path} was trained for another {what} than that of {linker}; "
                f"train one with 'kriss rerank train {linker} MENTIONS --out DIR'"
            )


def _opened(folder: Path) -> Artifact:
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder.parent} has no re-ranker: train one with 'kriss rerank train' and put it in with "
            "'kriss rerank attach'"
        )
    return open_artifact(folder, "reranker")
