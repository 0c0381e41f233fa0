"""Likeness in spelling for questions whose answer is known: with all names, or without those spelled as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kriss.names import name_key
from kriss.ontology import Ontology
from kriss.rank.ngrams import NgramIndex

Floats = NDArray[np.float32]


class Spelling:
    """How alike the names of entities are to each of some surfaces."""

    def __init__(self, index: NgramIndex, ontology: Ontology, surfaces: Sequence[str]) -> None:
        self._found = [index.similarity(surface) for surface in surfaces]
        self._keys = [name_key(surface) for surface in surfaces]
        self._ontology = ontology

    def of(self, question: int, entities: NDArray[np.int64], *, without: bool) -> Floats:
        """Return the likeness of entities to the surface of a question, `without` their names of its spelling."""
        found, key = self._found[question], self._keys[question]
        alike = found.of(entities)
        if without:
            for place, entity in enumerate(entities.tolist()):
                names = self._ontology.names_at(entity)
                others = [name for name in names if name_key(name) != key]
                if len(others) < len(names):
                    alike[place] = max(map(found.to, others), default=0.0)
        return alike
