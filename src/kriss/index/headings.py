"""What the headings of documents say for candidates, in a linker: `headings.arrow`, if it was built with any."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kriss.artifacts import Artifact, open_artifact
from kriss.errors import ArtifactError, DamagedError
from kriss.mine.headings import FILE, SHRINK
from kriss.mine.phrases import phrase_of
from kriss.ontology import Ontology
from kriss.ontology.arrowfile import ArrowFile
from kriss.records import Filed

Floats = NDArray[np.float64]


def check_headings(folder: Path, ontology: Ontology, mentions: Artifact) -> Artifact:
    """Return the counts, if they are of this ontology and left out the documents that calibrate."""
    artifact = open_artifact(folder, "headings")
    if not any(given.get("sha256") == ontology.artifact.digest for given in artifact.inputs):
        raise ArtifactError(f"{folder} was not counted for the ontology {ontology.artifact.path}; count again")
    for name in ("train", "dev", "seed"):
        if artifact.config.get(name) != mentions.config.get(name):
            raise ArtifactError(
                f"{folder} was counted with {name}={artifact.config.get(name)} and {mentions.path} mined with "
                f"{mentions.config.get(name)}, so they differ in which documents are for dev; count again with "
                f"--{name} {mentions.config.get(name)}"
            )
    return artifact


class Headings:
    """Which share of the documents that use a phrase has an entity as a heading."""

    def __init__(self, folder: Path, ontology: Ontology) -> None:
        try:
            file = ArrowFile(folder / FILE)
            self._phrase, self._entity = file.strings("phrase"), file.strings("entity")
            self._both, self._documents = file.numbers("both"), file.numbers("documents")
        except (OSError, KeyError, pa.ArrowInvalid) as error:
            raise DamagedError(f"{folder / FILE} cannot be read ({error}); build the linker again") from None
        self._length = len(file)
        self._ontology = ontology

    def of(self, surface: str) -> dict[int | str, Filed]:
        """Return how the documents that say what a mention says are filed, by the rows of entities."""
        phrase = phrase_of(surface)
        found: dict[int | str, Filed] = {}
        row = bisect_left(range(self._length), phrase, key=self._phrase.__getitem__) if phrase else self._length
        while row < self._length and self._phrase[row] == phrase:
            entity = self._ontology.row_of(self._entity[row])
            if entity is not None:
                found[entity] = Filed(self._both[row], self._documents[row])
            row += 1
        return found

    def support(self, surface: str, entities: Sequence[int | str], scores: Floats) -> Floats:
        """Return what is to be added to the scores of candidates, for a weight of 1.

        The root of the share, so that one document in four still says half as much as all; in terms of the best
        score, so that a weight means the same for any encoder.
        """
        filed = self.of(surface)
        if not filed or not len(scores):
            return np.zeros(len(scores))
        shares = [
            filed[entity].both / (filed[entity].documents + SHRINK) if entity in filed else 0.0 for entity in entities
        ]
        return np.asarray(np.sqrt(shares) * abs(float(np.max(scores))))
