"""What is learned at one moment, in memory: examples by their places, searched exactly.

Whoever keeps them (`link.learned`) gives out one snapshot after the other, each grown from the one before. A query
holds one from its start to its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from kriss.index.exact import doubt_of, products
from kriss.index.search import Found, first_of_each, no_entities, search_entities
from kriss.index.vectors import Index
from kriss.names import folded
from kriss.records import Evidence

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Example:
    """A mention that somebody said means an entity."""

    id: str
    entity: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Examples in the order in which they were learned, also those that were removed; never changed.

    The first vectors may be in an index, the others are in memory. A snapshot shares its lists and its memory with
    those that grow from it, which only write behind its end.
    """

    change: int = 0
    """The number of the last change that is in it."""
    count: int = 0
    """How many examples there are, removed ones among them."""
    owner: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """The entity of each: a row of the ontology, or, behind those, one that was added."""
    standing: Bools = field(default_factory=lambda: np.zeros(0, bool))
    """Whether it was not removed."""
    entities: Mapping[str, tuple[str, Floats]] = field(default_factory=dict)
    """The entities that were added: their names and references."""
    index: Index | None = None
    """The vectors of the first examples."""
    _vectors: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """Those of the others, and room for more."""
    _longest: float = 0.0
    """The length of the longest of these."""
    _examples: list[Example] = field(default_factory=list)
    _spelled: dict[str, list[int]] = field(default_factory=dict)
    """The places of examples by what they mark (`names.folded`)."""

    def __len__(self) -> int:
        """Return how many stand."""
        return int(self.standing.sum())

    @property
    def indexed(self) -> int:
        """How many examples the index has."""
        return 0 if self.index is None else len(self.index)

    @property
    def vectors(self) -> Floats:
        """The vectors of the examples behind those of the index."""
        return self._vectors[: max(0, self.count - self.indexed)]

    def every(self) -> list[Example]:
        """Return all of them, in their places."""
        return self._examples[: self.count]

    def examples(self) -> list[Example]:
        """Return those that stand."""
        return list(compress(self._examples, self.standing.tolist()))

    def stands(self, owner: int) -> bool:
        """Whether an entity has an example that was not removed."""
        return bool(self.standing[self.owner == owner].any())

    def example(self, place: int) -> Example:
        """Return one of them."""
        return self._examples[place]

    def spelled_as(self, surface: str) -> NDArray[np.int64]:
        """Return the places of those that stand and mark this text in any case, ascending; none for ""."""
        places = np.array(self._spelled.get(folded(surface), ()) if surface else (), dtype=np.int64)
        places = places[: np.searchsorted(places, self.count)]
        return places[self.standing[places]]

    def vectors_at(self, places: NDArray[np.int64]) -> Floats:
        """Return the vectors at some places, which ascend."""
        if self.index is None:
            return self._vectors[places]
        first, rest = np.split(places, [np.searchsorted(places, len(self.index))])
        found = self.index.vectors(first)
        return np.concatenate([found, self._vectors[rest - len(self.index)]]) if len(rest) else found

    def search(self, queries: Floats, top: int, allowed: Bools) -> list[Found]:
        """Return the best entities for each query by allowed examples, with exact scores; `rows` are places."""
        folds, rest = self.indexed, np.flatnonzero(allowed[self.indexed :])
        found = [no_entities() for _ in queries]
        if self.index is not None and allowed[:folds].any():
            keep = None if allowed[:folds].all() else allowed[:folds]
            found = search_entities(self.index, self.owner[:folds], queries, top, keep)
        if not len(rest):
            return found
        vectors = self.vectors if len(rest) == len(self.vectors) else self.vectors[rest]
        owners = self.owner[folds + rest].astype(np.int64)
        entities, which = np.unique(owners, return_inverse=True)
        for at, (query, slack) in enumerate(zip(queries, doubt_of(queries, self._longest), strict=True)):
            rough = vectors @ query
            best = np.full(len(entities), -np.inf, dtype=np.float32)
            np.maximum.at(best, which, rough)
            least = np.partition(best, -top)[-top] if top < len(best) else -np.inf
            near = np.flatnonzero(rough >= np.maximum(best, least)[which] - slack)
            scores = np.concatenate([found[at].scores, products(vectors[near], query)])
            whose = np.concatenate([found[at].entities, owners[near]])
            found[at] = first_of_each(scores, whose, np.concatenate([found[at].rows, folds + rest[near]]), top)
        return found

    def grown(
        self,
        change: int,
        examples: Sequence[Example],
        owners: Sequence[int],
        vectors: Floats,
        stands: Mapping[int, bool],
        entities: Mapping[str, tuple[str, Floats]],
    ) -> Snapshot:
        """Return what is learned after more changes.

        `vectors` are those of new examples that the index does not have; `stands` has the places of examples that
        were removed, or brought back.
        """
        for place, example in enumerate(examples, self.count):
            self._examples.append(example)
            self._spelled.setdefault(folded(example.evidence.surface), []).append(place)
        standing = np.concatenate([self.standing, np.ones(len(examples), dtype=bool)])
        standing[list(stands)] = list(stands.values())
        return replace(
            self,
            change=change,
            count=len(standing),
            owner=np.concatenate([self.owner, np.array(owners, np.int32)]),
            standing=standing,
            entities={**self.entities, **entities},
            _vectors=_behind(self._vectors, len(self.vectors), vectors),
            _longest=max(self._longest, float(np.linalg.norm(vectors, axis=1).max(initial=0.0))),
        )

    def with_index(self, index: Index) -> Snapshot:
        """Return the same with the vectors of its first examples in an index."""
        more = len(index) - self.indexed
        return replace(self, index=index, _vectors=self.vectors[more:].copy())


def _behind(room: Floats, used: int, more: Floats) -> Floats:
    """Return an array with rows behind those that are used: the same one, if it has room for them."""
    if not len(more):
        return room
    if used + len(more) > len(room):
        larger = np.empty((max(2 * used, used + len(more)), more.shape[1]), np.float32)
        if used:
            larger[:used] = room[:used]
        room = larger
    room[used : used + len(more)] = more
    return room


NONE = Snapshot()
"""Without any example."""
