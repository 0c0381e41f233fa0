"""What stands above what, and how narrower candidates speak for a broader one.

A mention that no name matches is often a word of its own for something broad, and most like the names of its
kinds: there are more of those, and one of them is always a little nearer ("renal lesions" to renal tumours, cysts
and stones, when kidney diseases are meant). Whatever speaks for the kinds speaks for what they are kinds of.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kriss.names import folded
from kriss.ontology import Ontology

LOOKED_AT = 16
"""Candidates that speak for others, and that others speak for."""
_NEAR = 0.07
"""How fast a candidate's word loses weight: by a factor of e for so much of the best score that it lies behind."""
_REMEMBERED = 1 << 16
Floats = NDArray[np.float64]


class Hierarchy:
    """The ancestors of entities, by their rows in the ontology."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self.above = lru_cache(maxsize=_REMEMBERED)(self._ancestors)

    def _ancestors(self, entity: int) -> frozenset[int]:
        found: set[int] = set()
        waiting = [entity]
        while waiting:
            new = set(self._ontology.parents_at(waiting.pop())) - found
            found |= new
            waiting.extend(new)
        return frozenset(found - {entity})

    def support(self, entities: Sequence[int | str], scores: Floats) -> Floats:
        """Return how much each candidate gains by those below it, with a weight of 1.

        gain(x) = |s_1| sum_{y below x} exp( (s_y - s_1) / (0.07 |s_1|) ), where s_1 is the best score: so it does not
        matter how long an encoder's vectors are. An entity that was added stands nowhere in the hierarchy.
        """
        gains = np.zeros(len(scores))
        order = np.argsort(-scores, kind="stable")[:LOOKED_AT].tolist()
        best = abs(float(scores[order[0]])) if order else 0.0
        if not best:
            return gains
        places = {entities[place]: place for place in order}
        for place in order:
            if isinstance(entity := entities[place], str):
                continue
            word = best * np.exp((scores[place] - scores[order[0]]) / (_NEAR * best))
            for other in self.above(entity).intersection(places):
                gains[places[other]] += word
        return gains

    def is_named(self, entity: int | str, surface: str) -> bool:
        """Whether an entity of the ontology has a name that is spelled so: then no other is meant by it."""
        if isinstance(entity, str):
            return False
        return folded(surface) in map(folded, self._ontology.names_at(entity))
