"""The linker's own candidates for a mention whose entity is known, by evidence that does not give it away.

A mined mention may itself be a prototype, or stand in the document of one, and its name is one for certain. So no
prototype of its own document counts, nor, unless asked for, one that is spelled as the mention is: what is left
is what the linker would know of a mention that it never saw. The order is that of Eq. 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kriss.index.layout import VECTORS
from kriss.index.prototypes import Prototypes
from kriss.index.search_exact import products
from kriss.index.vectors import Index
from kriss.link.given import encodable
from kriss.link.linker import Linker
from kriss.names import name_key
from kriss.rank.query import query_vectors
from kriss.records import Excerpt

_LEAST, _GROWTH = 128, 4
"""Prototypes looked at first, and by how much more if they belong to too few entities."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Asked:
    """A mention as it is asked, and what may not speak for its entity."""

    mention: Excerpt
    document: str
    spellings: frozenset[str]
    """Keys of names (`kriss.train.names`) that no prototype may have."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An entity and its best prototype among those that count: rows of the ontology and of the linker's table."""

    entity: int
    prototype: int
    score: float = field(default=0.0, compare=False)
    """That of Eq. 4, where it was just computed."""


class CandidateSearch:
    """Finds candidates in a linker."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker
        self._prototypes: Prototypes = linker.prototypes
        self._index = Index.open(linker.artifact.path / VECTORS)

    def usable(self, asked: Asked, gold: int) -> bool:
        """Whether anything that counts speaks for the correct entity."""
        return bool(self._allowed_of(gold, asked))

    def __call__(self, asked: Sequence[Asked], gold: Sequence[int], top: int) -> Iterator[tuple[list[Seen], Seen]]:
        """Yield the `top` entities for each mention, the best first, and the correct one wherever it stands.

        All of them must be usable. A mention's candidates do not depend on what else is asked.
        """
        if not asked:
            return
        queries = query_vectors(self._linker.encoder, [encodable(one.mention) for one in asked], self._linker.context)
        count = min(len(self._index), max(_LEAST, 4 * top))
        found_by = zip(*self._index.search(queries, count), strict=True)
        for one, correct, query, (scores, rows) in zip(asked, gold, queries, found_by, strict=True):
            found = self._best(query, (scores, rows), one, top)
            known = {seen.entity: seen for seen in found}
            yield found, known.get(correct) or self._best_of(correct, query, one)

    def _best(self, query: Floats, near: tuple[Floats, NDArray[np.int64]], asked: Asked, top: int) -> list[Seen]:
        """Return the best entities, each by its best prototype that counts; look further if `near` has too few."""
        while True:
            scores, rows = near
            best: dict[int, Seen] = {}
            for score, row in zip(scores[rows >= 0].tolist(), rows[rows >= 0].tolist(), strict=True):
                entity = int(self._prototypes.entity[row])
                if entity not in best and self._counts(row, asked):
                    best[entity] = Seen(entity, row, score)
                    if len(best) == top:
                        break
            if len(best) == top or len(rows) == len(self._index):
                return list(best.values())
            [scores], [rows] = self._index.search(query[None], min(len(self._index), len(rows) * _GROWTH))
            near = scores, rows

    def _best_of(self, entity: int, query: Floats, asked: Asked) -> Seen:
        rows = np.array(self._allowed_of(entity, asked), dtype=np.int64)
        scores = products(self._index.vectors(rows), query)
        return Seen(entity, int(rows[np.argmax(scores)]), float(scores.max()))

    def _allowed_of(self, entity: int, asked: Asked) -> list[int]:
        first, last = np.searchsorted(self._prototypes.entity, [entity, entity + 1]).tolist()
        return [row for row in range(first, last) if self._counts(row, asked)]

    def _counts(self, row: int, asked: Asked) -> bool:
        """Whether a prototype may speak: not one of the mention's document, nor of its spelling."""
        if asked.spellings and name_key(self._prototypes.surface(row)) in asked.spellings:
            return False
        return not asked.document or self._prototypes.evidence(row).document != asked.document
