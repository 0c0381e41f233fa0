"""The ancestors of entities, and how much child terms boost their parent.

A mention that no name matches is often a word of its own for something broad, and most like the names of its
children: there are more of those, and one of them is always a little nearer ("renal lesions" to renal tumours, cysts
and stones, when kidney diseases are meant). Whatever speaks for the children speaks for their parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kriss.ontology import Ontology

_NEAR = 0.07
"""How fast a child's boost fades: by a factor of e for so much of the best score that it lies behind."""
_REMEMBERED = 1 << 16
Floats = NDArray[np.float64]


class Hierarchy:
    """The ancestors of entities, by their rows in the ontology."""

    LOOKED_AT = 16
    """Candidates that boost others, and that are boosted."""

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

    def support(self, entities: Sequence[int], scores: Floats) -> Floats:
        """Return how much each candidate is boosted by those below it, with a weight of 1.

        boost(x) = |s_1| sum_{y below x} exp( (s_y - s_1) / (0.07 |s_1|) ), where s_1 is the best score: so it does not
        matter how long an encoder's vectors are. The best comes first; a negative number is an entity that is not in
        the ontology.
        """
        gains = np.zeros(len(scores))
        if best := abs(float(scores[0])):
            places = {entity: place for place, entity in enumerate(entities)}
            for entity, boost in zip(entities, best * np.exp((scores - scores[0]) / (_NEAR * best)), strict=True):
                for other in self.above(entity).intersection(places) if entity >= 0 else ():
                    gains[places[other]] += boost
        return gains
