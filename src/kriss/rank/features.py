"""What speaks for a candidate: one feature a function, each a column of numbers, and its weight.

A feature is a function from a batch of queries and their candidates to one number a candidate, and a line in
`FEATURES`: its name, the weights that are tried on dev mentions, and which of equally good ones is taken. Whatever
stands there is tuned by `rank.tune`, saved with the linker, used by `rank.decide`, shown in the answer, and can be
weighed otherwise by `--weight NAME=W`. They run in this order, which is that of their cost; the later ones see the
weighted sum of the earlier ones in `candidates.sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.pairs import Option
from kriss.encoder.session import OnnxCrossEncoder
from kriss.names import folded, name_key
from kriss.rank.candidates import SAME_SPELLING, Candidates, Finder
from kriss.rank.queries import Queries
from kriss.rank.spelling import Likeness
from kriss.records import Entity, Excerpt

Floats = NDArray[np.float64]
_ALIKE = 0.999
"""Likeness in spelling of what is spelled the same."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A batch of queries, and all that features may look at beside their candidates."""

    queries: Queries
    vectors: NDArray[np.float32]
    """The queries as they were searched for: both views in one."""
    finder: Finder
    likeness: list[Likeness]
    """How names are spelled to the mention of each query."""
    reranker: OnnxCrossEncoder | None = None

    def entity(self, number: int) -> Entity:
        """Return a candidate's entity, also one that was added."""
        ontology = self.finder.parts.ontology
        if number < len(ontology):
            return ontology.at(number)
        added = list(self.finder.learned.entities)[number - len(ontology)]
        return Entity(added, self.finder.learned.entities[added][0])

    def learned(self, row: int) -> int | None:
        """Return the place of a learned example by its row; None for a prototype of the index."""
        place = row - len(self.finder.parts.index)
        return place if place >= 0 else None


Column = Callable[[Asked, Candidates], Floats]


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that speaks for a candidate."""

    name: str
    column: Column
    trials: tuple[float, ...]
    """Weights that are tried; one alone is taken as it is."""
    prefer: Literal["smallest", "largest"] = "smallest"
    """Which weight is taken of those that are within a standard error of the best."""
    late: bool = False
    """Whether it depends on the weighted sum of those before it."""


def bare(asked: Asked, candidates: Candidates) -> Floats:
    """How like the mention's name alone is to the candidate's prototype."""
    return _products(asked.queries.bare, asked, candidates)


def context(asked: Asked, candidates: Candidates) -> Floats:
    """How like the mention in its sentence is to the candidate's prototype in its own."""
    seen = asked.queries.context
    return _products(seen, asked, candidates) if len(seen) else np.zeros(len(candidates))


def references(asked: Asked, candidates: Candidates) -> Floats:
    """How like the mention is to the reference of the entity: its names, place in the hierarchy and definition."""
    parts, added = asked.finder.parts, list(asked.finder.learned.entities.values())
    known = candidates.entity < len(parts.ontology)
    found = np.empty((len(candidates), asked.vectors.shape[1]), dtype=np.float32)
    found[known] = parts.references[candidates.entity[known]]
    for place in np.flatnonzero(~known).tolist():
        found[place] = added[int(candidates.entity[place]) - len(parts.ontology)][1]
    return _row_products(found, asked.vectors[candidates.query])


def learned(asked: Asked, candidates: Candidates) -> Floats:
    """The bonus of a learned example: as a share of its score, four times it is spelled as the mention."""
    found = np.zeros(len(candidates))
    count = len(asked.finder.parts.index)
    for query in np.unique(candidates.query[candidates.row >= count]).tolist():
        spoken = candidates.spoken[query]
        alike = set(spoken.places.tolist()) if spoken else set()
        for place in range(*candidates.of(query).indices(len(candidates))):
            if (example := asked.learned(int(candidates.row[place]))) is not None:
                found[place] = abs(candidates.sums[place]) * (SAME_SPELLING if example in alike else 1.0)
    return found


def spelling(asked: Asked, candidates: Candidates) -> Floats:
    """How alike the mention is spelled to the candidate's likest name, or to the learned example."""
    found = np.empty(len(candidates))
    names_at, known = asked.finder.parts.ontology.names_at, len(asked.finder.parts.ontology)
    for query, likeness in enumerate(asked.likeness):
        own = candidates.of(query)
        found[own] = likeness.of(candidates.entity[own])
        keys = asked.queries.hides(query).keys
        for place in range(own.start, own.stop):
            entity = int(candidates.entity[place])
            if keys and entity < known:
                names = names_at(entity)
                others = [name for name in names if name_key(name) not in keys]
                if len(others) < len(names):
                    found[place] = max(map(likeness.to, others), default=0.0)
            if (example := asked.learned(int(candidates.row[place]))) is not None:
                called = asked.finder.learned.example(example).evidence.surface
                found[place] = max(found[place], likeness.to(called))
    return found


def match(asked: Asked, candidates: Candidates) -> Floats:
    """Whether the candidate has a name, or a learned example, that is the mention to the letter, in any case."""
    found = np.zeros(len(candidates))
    ontology = asked.finder.parts.ontology
    for query, likeness in enumerate(asked.likeness):
        own = candidates.of(query)
        if not (surface := folded(asked.queries.surface(query))) or asked.queries.hides(query).keys:
            continue
        spoken = candidates.spoken[query]
        spelled = set(spoken.owners.tolist()) if spoken else set()
        near = likeness.of(candidates.entity[own]) >= _ALIKE
        for place in range(own.start, own.stop):
            entity = int(candidates.entity[place])
            named = near[place - own.start] and surface in map(folded, ontology.names_at(entity))
            found[place] = named or entity in spelled
    return found


def children(asked: Asked, candidates: Candidates) -> Floats:
    """How much the candidates below an entity in the hierarchy boost it; nothing where the best is an exact match."""
    found = np.zeros(len(candidates))
    hierarchy, known = asked.finder.parts.hierarchy, len(asked.finder.parts.ontology)
    exact = candidates.remembered("match", lambda: match(asked, candidates))
    for query in range(len(candidates.starts) - 1):
        order = candidates.order(query)[: hierarchy.LOOKED_AT]
        if not len(order) or exact[order[0]] or asked.learned(int(candidates.row[order[0]])) is not None:
            continue
        entities = [
            int(entity) if entity < known else -1 - number for number, entity in enumerate(candidates.entity[order])
        ]
        found[order] = hierarchy.support(entities, candidates.sums[order])
    return found


def cross(asked: Asked, candidates: Candidates) -> Floats:
    """The logarithm of the re-ranker's probability among the first candidates, which it reads with the mention.

    An exact match is not read again, nor what people said; those that are not read stay behind those that are.
    """
    found = np.zeros(len(candidates))
    if asked.reranker is None:
        return found
    read: list[NDArray[np.int64]] = []
    exact = candidates.remembered("match", lambda: match(asked, candidates))
    for query in range(len(candidates.starts) - 1):
        order = candidates.order(query)[: asked.reranker.candidates]
        if len(order) > 1 and not exact[order[0]] and asked.learned(int(candidates.row[order[0]])) is None:
            read.append(order)
    if not read:
        return found
    reranker, whose = asked.reranker, candidates.query
    excerpts = [asked.queries.excerpts[whose[order[0]]] for order in read]
    options = [[_option(asked, candidates, place, int(whose[place])) for place in order.tolist()] for order in read]
    scores = candidates.remembered(
        ("cross", *map(bytes, read)), lambda: reranker.scores(excerpts, options).astype(np.float64)
    )
    for order, own in zip(read, np.split(scores, np.cumsum([len(order) for order in read])[:-1]), strict=True):
        shares = own - own.max() - np.log(np.exp(own - own.max()).sum())
        found[candidates.of(int(whose[order[0]]))] = shares.min()
        found[order] = shares
    return found


FEATURES: tuple[Feature, ...] = (
    Feature("bare", bare, (1.0,)),
    Feature("context", context, (0.0, 0.25, 0.5, 0.75, 1.0), "largest"),
    Feature("references", references, (0.0, 0.1, 0.25, 0.5, 1.0)),
    Feature("learned", learned, (0.05,), late=True),
    Feature("spelling", spelling, (0.0, 0.1, 0.2, 0.4), "largest"),
    Feature("match", match, (0.0, 0.05, 0.1, 0.2, 0.4), "largest"),
    Feature("children", children, (0.0, 0.02, 0.04, 0.06), late=True),
    Feature("cross", cross, (0.0, 0.01, 0.02, 0.04, 0.08, 0.16), late=True),
)
"""All features. The weight of the bare view is what that of the context leaves of 1."""


def columns(asked: Asked, candidates: Candidates, weights: Mapping[str, float]) -> dict[str, Floats]:
    """Return the column of each feature that has a weight, and add them up in `candidates.sums`."""
    found: dict[str, Floats] = {}
    for feature in FEATURES:
        if weight := weight_of(feature.name, weights):
            column = partial(feature.column, asked, candidates)
            found[feature.name] = column() if feature.late else candidates.remembered(feature.name, column)
            candidates.sums += weight * found[feature.name]
    return found


def weight_of(name: str, weights: Mapping[str, float]) -> float:
    """Return the weight of a feature."""
    return 1.0 - weights.get("context", 0.0) if name == "bare" else weights.get(name, 0.0)


def _option(asked: Asked, candidates: Candidates, place: int, query: int) -> Option:
    """Return a candidate as a re-ranker reads it: without names that are hidden from the query."""
    entity, row = asked.entity(int(candidates.entity[place])), int(candidates.row[place])
    example = asked.learned(row)
    shown = (
        asked.finder.parts.prototypes.evidence(row)
        if example is None
        else asked.finder.learned.example(example).evidence
    )
    prototype = Excerpt(shown.left, shown.surface, shown.right)
    return Option(without_names(entity, asked.queries.hides(query).keys), prototype)


def without_names(entity: Entity, hidden: frozenset[str]) -> Entity:
    """Return an entity without the names that have these keys; one that has no other keeps them.

    >>> without_names(Entity("X", "pain", ("ache", "pains")), frozenset({"pain"})).names
    ('ache',)
    """
    rest = [name for name in entity.names if name_key(name) not in hidden] if hidden else []
    return replace(entity, name=rest[0], aliases=tuple(rest[1:])) if rest else entity


def _products(views: NDArray[np.float32], asked: Asked, candidates: Candidates) -> Floats:
    vectors = candidates.remembered("vectors", lambda: asked.finder.vectors(candidates.row))
    return _row_products(vectors, views[candidates.query])


def _row_products(vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> Floats:
    """Return the inner product of each two rows, in double precision, so that it depends on these two alone."""
    with np.errstate(over="ignore"):
        return np.asarray(np.einsum("rd,rd->r", vectors.astype(np.float64), queries.astype(np.float64)))
