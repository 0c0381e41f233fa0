"""Several entities with the very name that was found, and which of them is meant.

Their names are the same prototype, so Eq. 4 tells them apart by their references alone, which say what an entity
is called and hardly what texts about it are like. Two things say more. If one of them stands above all others
in the hierarchy, it is meant: who means the narrower one says more than the shared name ("aniridia", not
"aniridia, type 2"). Otherwise the context decides, as the paper has it: that one whose mined mention is most like
this one, each in its sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kriss.index.prototypes import KINDS, Prototypes
from kriss.index.vectors import Index
from kriss.names import folded
from kriss.rank.hierarchy import Hierarchy
from kriss.rank.search import Hit

LOOKED_AT = 8
"""Candidates among which a shared name is looked for."""
_NAME, _MINED = KINDS.index("name"), KINDS.index("mined")
Floats = NDArray[np.float32]


class Ties:
    """Puts the first of the candidates that share a name in order."""

    def __init__(
        self,
        index: Index,
        prototypes: Prototypes,
        references: NDArray[np.floating],
        weight: np.float32,
        hierarchy: Hierarchy,
    ) -> None:
        self._index = index
        self._prototypes = prototypes
        self._references = references
        self._weight = weight
        self._hierarchy = hierarchy

    def settled(self, hits: Sequence[Hit], in_context: Callable[[], Floats] | None) -> list[Hit]:
        """Return the candidates with the likeliest of those that share the first one's name in front.

        `in_context` gives the mention's vector in its sentence; it is asked for only where it decides, and is None
        where the context is not to count.
        """
        tied = self._sharing(hits[:LOOKED_AT])
        if len(tied) < 2:
            return list(hits)
        first = self._broadest([int(hit.entity) for hit in tied])
        if first is None and in_context is not None:
            first = self._most_alike([int(hit.entity) for hit in tied], in_context())
        return sorted(hits, key=lambda hit: hit.entity != first) if first is not None else list(hits)

    def _sharing(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return those found by the same name as the first one; nothing if it was found otherwise."""
        if not hits or not self._is_name(hits[0]):
            return []
        name = folded(self._prototypes.surface(hits[0].row))
        return [hit for hit in hits if self._is_name(hit) and folded(self._prototypes.surface(hit.row)) == name]

    def _is_name(self, hit: Hit) -> bool:
        return (
            isinstance(hit.entity, int)
            and hit.row < len(self._prototypes)
            and bool(self._prototypes.kind[hit.row] == _NAME)
        )

    def _broadest(self, entities: Sequence[int]) -> int | None:
        """Return the one that is above all others, if there is one."""
        for entity in entities:
            if all(other == entity or entity in self._hierarchy.above(other) for other in entities):
                return entity
        return None

    def _most_alike(self, entities: Sequence[int], query: Floats) -> int:
        """Return the entity with the mined mention most like the query; the first one if none has any."""
        best, chosen = -np.inf, entities[0]
        for entity in entities:
            first, last = np.searchsorted(self._prototypes.entity, [entity, entity + 1]).tolist()
            rows = first + np.flatnonzero(self._prototypes.kind[first:last] == _MINED)
            if not len(rows):
                continue
            own = self._weight * np.asarray(self._references[entity], dtype=np.float32)
            score = float(((self._index.vectors(rows) - own) @ query).max())
            if score > best:
                best, chosen = score, entity
        return chosen
