"""Candidates for queries: from the index, from learned examples, by spelling and by the hierarchy, by entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kriss.errors import ConfigError
from kriss.index.prototypes import Prototypes
from kriss.index.search import Found, first_of_each, search_entities
from kriss.index.search_exact import doubt, products
from kriss.index.vectors import Index
from kriss.link.config import LinkConfig
from kriss.link.learned import Snapshot
from kriss.ontology import Ontology
from kriss.rank.hierarchy import LOOKED_AT, Hierarchy
from kriss.rank.ngrams import NgramIndex
from kriss.rank.scope import Scope
from kriss.rank.votes import Said, what_was_said
from kriss.records import Mention

_SPELLED = 16
"""Entities that likeness in spelling adds to the candidates."""
_DEEP = LOOKED_AT
"""Candidates at least looked at where spelling or the hierarchy has a say in their order."""
_SAME_SPELLING = 4.0
"""How much more of `gold` a learned example has that is spelled as the mention: somebody said what that word means."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Hit:
    """An entity and its best prototype."""

    entity: int | str
    """A row of the ontology, or the id of an entity that was added."""
    row: int
    """The prototype; learned ones count on behind those of the index."""
    dense: float
    """The score of Eq. 4, that of a learned example raised by `gold`."""
    score: float
    """That and, if asked for, likeness in spelling and what narrower candidates add."""


class Search:
    """Finds candidates in one way of asking."""

    def __init__(
        self,
        index: Index,
        prototypes: Prototypes,
        ontology: Ontology,
        hierarchy: Hierarchy,
        ngrams: NgramIndex | None,
        config: LinkConfig,
        scope: Scope,
    ) -> None:
        self._index = index
        self._prototypes = prototypes
        self._ontology = ontology
        self._hierarchy = hierarchy
        if config.ngrams:
            if ngrams is None:
                raise ConfigError("the linker was built without n-grams; build it again with them")
            self._ngrams = ngrams
        self._config = config
        self._scope = scope
        self._keep = None if scope.rows is None else scope.rows[prototypes.entity]

    def __call__(
        self, queries: Floats, surfaces: Sequence[str], mentions: Sequence[Mention], learned: Snapshot, top: int
    ) -> list[list[Hit]]:
        """Return entities for each query, the best first: `top` at least, if there are so many.

        `surfaces` are how mentions are read, "" if they are masked; `mentions` are as the text has them.
        """
        if not len(queries):
            return []
        deep = max(top, _DEEP) if self._config.ngrams or self._config.broader else top
        hits: list[list[Hit]] = [[] for _ in queries]
        if self._config.mode != "supervised":
            for place, found in enumerate(
                search_entities(self._index, self._prototypes.entity, queries, deep, self._keep)
            ):
                hits[place] += _hits(found)
        said: list[Said | None] = [None for _ in queries]
        if self._config.mode != "self-supervised" and len(learned):
            allowed = self._allowed(learned)
            for place, more in enumerate(self._learned(queries, learned, allowed, deep)):
                said[place] = what_was_said(queries[place], surfaces[place], mentions[place], learned, allowed)
                hits[place] = _best_of_each(hits[place] + more + self._of_that_spelling(said[place], learned))
        if self._config.ngrams and self._config.mode != "supervised":
            hits = [self._spelled(*given, learned) for given in zip(queries, surfaces, hits, strict=True)]
        hits = [sorted(some, key=_order) for some in hits]
        if self._config.broader:
            hits = [self._broadened(some, surface) for some, surface in zip(hits, surfaces, strict=True)]
        if self._config.ties:
            hits = [self._elected(some, one, learned) for some, one in zip(hits, said, strict=True)]
        return hits

    def is_taught(self, surface: str, learned: Snapshot) -> bool:
        """Whether an example that counts here is spelled so."""
        places = learned.spelled_as(surface) if self._config.mode != "self-supervised" else ()
        return len(places) > 0 and bool(self._allowed(learned)[places].any())

    def _learned(self, queries: Floats, learned: Snapshot, allowed: NDArray[np.bool_], top: int) -> list[list[Hit]]:
        """Return the best entities by learned examples: the folded ones from their index, the others one by one."""
        added = list(learned.entities)
        folded = len(learned.folded)
        parts: list[list[Found]] = []
        if learned.index is not None:
            keep = None if allowed[:folded].all() else allowed[:folded]
            parts.append(search_entities(learned.index, learned.owner[:folded], queries, top, keep))
        if allowed[folded:].any():
            parts.append(_from_tail(queries, learned, allowed, top))
        hits: list[list[Hit]] = [[] for _ in queries]
        for part in parts:
            for place, found in enumerate(part):
                hits[place] += self._taught(found, added)
        return hits

    def _of_that_spelling(self, said: Said | None, learned: Snapshot) -> list[Hit]:
        """Return the entities that examples spelled as the mention speak for, each by its best."""
        if said is None:
            return []
        found = first_of_each(said.scores, said.owners, said.places, len(said.places))
        return self._taught(found, list(learned.entities), _SAME_SPELLING)

    def _elected(self, hits: list[Hit], said: Said | None, learned: Snapshot) -> list[Hit]:
        """Put the entity first that was elected, where the first was found by an example that had a vote."""
        if said is None or not hits:
            return hits
        if not said.certain and hits[0].row - len(self._index) not in said.places:
            return hits
        first = self._entity(said.first, list(learned.entities))
        return sorted(hits, key=lambda hit: hit.entity != first)

    def _taught(self, found: Found, added: list[str], times: float = 1.0) -> list[Hit]:
        """Return entities that were found by learned examples, with the scores that these have."""
        dense, scores = (self._preferred(found.scores, count).tolist() for count in (1.0, times))
        return [
            Hit(self._entity(number, added), len(self._index) + row, own, score)
            for own, score, number, row in zip(dense, scores, found.entities.tolist(), found.rows.tolist(), strict=True)
        ]

    def _preferred(self, scores: Floats, times: float = 1.0) -> Floats:
        """Return the scores of learned examples as they count."""
        return np.asarray(scores + np.float32(times * self._config.gold) * np.abs(scores), dtype=np.float32)

    def _allowed(self, learned: Snapshot) -> NDArray[np.bool_]:
        """Tell which examples stand and are of entities that may be linked to."""
        if self._scope.rows is None:
            return learned.standing
        added = [entity in self._scope.ids for entity in learned.entities]
        entities = np.concatenate([self._scope.rows, np.array(added, dtype=bool)])
        allowed: NDArray[np.bool_] = learned.standing & entities[learned.owner]
        return allowed

    def _entity(self, number: int, added: list[str]) -> int | str:
        return number if number < len(self._ontology) else added[number - len(self._ontology)]

    def _spelled(self, query: Floats, surface: str, hits: list[Hit], learned: Snapshot) -> list[Hit]:
        """Add entities that are spelled like the mention, and likeness in spelling to all scores."""
        found = self._ngrams.similarity(surface)
        known = {hit.entity for hit in hits}
        rows, _ = found.top(_SPELLED)
        new = [row for row in rows.tolist() if row not in known and (self._scope.rows is None or self._scope.rows[row])]
        hits = [*hits, *self._scored(query, new, learned)]
        numbers = [hit.entity for hit in hits if isinstance(hit.entity, int)]
        alike: dict[int | str, float] = dict(zip(numbers, found.of(np.array(numbers, dtype=np.int64)), strict=True))
        for hit in hits:  # what a person called an entity counts like a name of it
            if hit.row >= len(self._index):
                taught = found.to(learned.example(hit.row - len(self._index)).evidence.surface)
                alike[hit.entity] = max(taught, alike.get(hit.entity, 0.0))
        weight = self._config.ngrams or 0.0
        return [replace(hit, score=hit.score + weight * float(alike.get(hit.entity, 0.0))) for hit in hits]

    def _broadened(self, hits: list[Hit], surface: str) -> list[Hit]:
        """Add to broader candidates what narrower ones say for them.

        Not where the first one has that very name, or a person said it: that is plainer.
        """
        if not hits or hits[0].row >= len(self._index) or self._hierarchy.is_named(hits[0].entity, surface):
            return hits
        gains = self._hierarchy.support([hit.entity for hit in hits], np.array([hit.score for hit in hits]))
        weight = self._config.broader or 0.0
        raised = [
            replace(hit, score=hit.score + weight * gain) if gain else hit
            for hit, gain in zip(hits, gains.tolist(), strict=True)
        ]
        return sorted(raised, key=_order)

    def _scored(self, query: Floats, entities: Sequence[int], learned: Snapshot) -> list[Hit]:
        """Return entities by their best prototypes; one that has none is left out."""
        if not entities:
            return []
        owners = self._prototypes.entity
        wanted = np.sort(np.array(entities, dtype=owners.dtype))  # of one type, or numpy would turn all into the other
        bounds = (np.searchsorted(owners, wanted, side).tolist() for side in ("left", "right"))
        rows = np.concatenate([np.arange(first, last) for first, last in zip(*bounds, strict=True)])
        vectors, whose, own = [self._index.vectors(rows)], [owners[rows]], len(rows)
        if self._config.mode == "lazy" and len(learned):
            taught = np.flatnonzero(np.isin(learned.owner, wanted) & learned.standing)
            rows = np.concatenate([rows, len(self._index) + taught])
            vectors += [learned.vectors_at(taught)] if len(taught) else []
            whose.append(learned.owner[taught])
        scores = products(np.concatenate(vectors), query)
        scores[own:] = self._preferred(scores[own:])
        return _hits(first_of_each(scores, np.concatenate(whose).astype(np.int64), rows, len(wanted)))


def _from_tail(queries: Floats, learned: Snapshot, allowed: NDArray[np.bool_], top: int) -> list[Found]:
    """Return the best entities by the examples that are not folded yet, scored as an index would score them."""
    folded = len(learned.folded)
    rows = np.flatnonzero(allowed[folded:])
    vectors = learned.vectors if len(rows) == len(learned.vectors) else learned.vectors[rows]
    owners = learned.owner[folded + rows].astype(np.int64)
    entities, which = np.unique(owners, return_inverse=True)
    found = []
    for query, slack in zip(queries, doubt(queries, learned.longest), strict=True):
        rough = vectors @ query
        best = np.full(len(entities), -np.inf, dtype=np.float32)
        np.maximum.at(best, which, rough)
        least = np.partition(best, -top)[-top] if top < len(best) else -np.inf
        near = np.flatnonzero(rough >= np.maximum(best, least)[which] - slack)
        found.append(first_of_each(products(vectors[near], query), owners[near], folded + rows[near], top))
    return found


def _hits(found: Found) -> list[Hit]:
    return [
        Hit(entity, row, score, score)
        for score, entity, row in zip(found.scores.tolist(), found.entities.tolist(), found.rows.tolist(), strict=True)
    ]


def _best_of_each(hits: list[Hit]) -> list[Hit]:
    best: dict[int | str, Hit] = {}
    for hit in sorted(hits, key=_order):
        best.setdefault(hit.entity, hit)
    return list(best.values())


def _order(hit: Hit) -> tuple[float, bool, int, str, int]:
    """The best first; equal ones by the ontology's order, entities that were added after those."""
    added = isinstance(hit.entity, str)
    return (
        -hit.score,
        added,
        0 if isinstance(hit.entity, str) else hit.entity,
        hit.entity if isinstance(hit.entity, str) else "",
        hit.row,
    )
