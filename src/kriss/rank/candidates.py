"""Candidates for a batch of queries, as columns: which query, which entity, by which prototype.

They come from the index, each entity by its best prototype, and from learned examples. Whatever is hidden from a
query is passed over, and the search is widened until enough entities are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.index.exact import products
from kriss.index.search import Found, first_of_each, no_entities, search_entities
from kriss.rank.majority import Spoken, spoken_for
from kriss.rank.mode import Mode
from kriss.rank.parts import Parts, Scope
from kriss.rank.queries import Floats, Hidden, Queries
from kriss.rank.snapshot import Snapshot

DEPTH = 32
"""Entities at least that features look at, for each query."""
SAME_SPELLING = 4.0
"""How many times its bonus a learned example has that is spelled as the mention."""
Ints = NDArray[np.int64]


@dataclass(slots=True)
class Candidates:
    """Columns; the candidates of a query stand together, queries in their order."""

    entity: Ints
    """A row of the ontology; entities that were added are numbered on behind those."""
    row: Ints
    """The best prototype; learned examples are numbered on behind those of the index."""
    starts: Ints
    """Where the candidates of each query begin, and where the last ones end."""
    spoken: list[Spoken | None]
    """For each query what learned examples of its own spelling say."""
    sums: NDArray[np.float64] = field(init=False)
    """The weighted sum of the features so far."""
    _kept: dict[object, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = np.zeros(len(self.entity))

    def remembered(self, name: object, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return a column or vectors that were worked out for these candidates before, or work them out."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def query(self) -> Ints:
        """The number of the query of each candidate."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def of(self, query: int) -> slice:
        """Return where the candidates of a query stand."""
        return slice(int(self.starts[query]), int(self.starts[query + 1]))

    def order(self, query: int) -> Ints:
        """Return the places of a query's candidates by their sums, the best first; equal ones by entity."""
        own = self.of(query)
        return np.asarray(own.start + np.lexsort((self.entity[own], -self.sums[own])))


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds candidates in one way: in a scope, in a mode, with a bonus for learned examples."""

    parts: Parts
    learned: Snapshot
    scope: Scope
    mode: Mode
    bonus: float
    """How much the score of a learned example is raised, as a share of it."""

    def __call__(self, queries: Queries, vectors: Floats, depth: int) -> Candidates:
        """Return `depth` entities for each query, if there are so many, and all that its spelling was learned as."""
        count = len(queries)
        found: list[list[Found]] = [[] for _ in range(count)]
        spoken: list[Spoken | None] = [None] * count
        if self.mode != "supervised":
            for place, some in enumerate(self._indexed(queries, vectors, depth)):
                found[place].append(some)
        if self.mode != "self-supervised" and len(self.learned):
            allowed = self.allowed()
            for place, some in enumerate(self.learned.search(vectors, depth, allowed)):
                found[place].append(self._raised(some))
                mention = queries.mentions[place] if queries.mentions else None
                spoken[place] = one = spoken_for(vectors[place], queries.surface(place), mention, self.learned, allowed)
                if one:
                    found[place].append(self._raised(one.best(), SAME_SPELLING))
        chosen = [_united(some) for some in found]
        starts = np.cumsum([0, *(len(some.entities) for some in chosen)])
        entities, rows = (
            np.concatenate([np.empty(0, np.int64), *(getattr(some, name) for some in chosen)])
            for name in ("entities", "rows")
        )
        return Candidates(entities, rows, starts, spoken)

    def allowed(self) -> NDArray[np.bool_]:
        """Tell which learned examples stand and are of entities that may be linked to."""
        learned, scope = self.learned, self.scope
        if scope.rows is None:
            return learned.standing
        added = [entity in scope.ids for entity in learned.entities]
        return np.asarray(learned.standing & np.concatenate([scope.rows, np.array(added, dtype=bool)])[learned.owner])

    def vectors(self, rows: Ints) -> Floats:
        """Return the vectors of prototypes and of learned examples."""
        parts, count = self.parts, len(self.parts.index)
        distinct, which = np.unique(rows, return_inverse=True)
        learned = distinct >= count
        if not learned.any():
            return parts.index.vectors(distinct)[which]
        both = [parts.index.vectors(distinct[~learned]), self.learned.vectors_at(distinct[learned] - count)]
        return np.concatenate(both)[which]

    def _indexed(self, queries: Queries, vectors: Floats, depth: int) -> list[Found]:
        """Return the best entities of the index for each query, by prototypes that are not hidden from it."""
        owners = self.parts.prototypes.entity
        keep = None if self.scope.rows is None else self.scope.rows[owners]
        shown = (lambda place, rows: self._shown(rows, queries.hides(place))) if queries.hidden else None
        return search_entities(self.parts.index, owners, vectors, depth, keep, shown)

    def best_of(self, entity: int, query: Floats, hidden: Hidden) -> Found:
        """Return an entity by its best prototype that is not hidden; nothing if there is none."""
        first, last = np.searchsorted(self.parts.prototypes.entity, [entity, entity + 1]).tolist()
        rows = np.arange(first, last)
        rows = rows[self._shown(rows, hidden)]
        if not len(rows):
            return no_entities()
        return first_of_each(products(self.parts.index.vectors(rows), query), np.full(len(rows), entity), rows, 1)

    def _shown(self, rows: Ints, hidden: Hidden) -> NDArray[np.bool_]:
        if not hidden:
            return np.ones(len(rows), dtype=bool)
        surface, document = self.parts.prototypes.surface, self.parts.prototypes.document
        return np.array([not hidden.hides(surface(row), document(row)) for row in rows.tolist()], dtype=bool)

    def _raised(self, found: Found, times: float = 1.0) -> Found:
        """Return entities that learned examples found, with the scores and rows that these have here."""
        scores = found.scores + np.float32(times * self.bonus) * np.abs(found.scores)
        return Found(scores.astype(np.float32), found.entities, found.rows + len(self.parts.index))


def _united(found: Sequence[Found]) -> Found:
    """Return what was found in several ways, each entity by its best prototype."""
    if len(found) == 1:
        return found[0]
    if not found:
        return no_entities()
    scores, entities, rows = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("scores", "entities", "rows")
    )
    return first_of_each(scores, entities, rows, len(entities))
