"""From features to an answer: the weighted sum, shared names, learned examples, a probability.

ranking = Ranking(parts, weights)
[ranked] = ranking(queries, snapshot)
ranked.entities, ranked.sums, ranked.columns["spelling"], ranked.probability
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.session import OnnxCrossEncoder
from kriss.names import folded
from kriss.rank.candidates import DEPTH, Candidates, Finder
from kriss.rank.features import Asked, Floats, columns, match, weight_of
from kriss.rank.majority import Spoken
from kriss.rank.mode import Mode
from kriss.rank.parts import Parts, Scope
from kriss.rank.probability import Logistic
from kriss.rank.queries import Queries
from kriss.rank.snapshot import NONE, Snapshot

SHARING = 8
"""Candidates among which a shared name is looked for."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of one query, the best first."""

    entities: Ints
    rows: Ints
    sums: Floats
    contributions: Mapping[str, Floats]
    """What each feature adds to the sums: its column times its weight."""
    evidence: Floats
    """What the probability is read from (`facts_of`); of no length without candidates."""
    probability: float
    """How likely the first is right."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks in one way: with some weights, in a scope, in a mode."""

    parts: Parts
    weights: Mapping[str, float]
    chance: Logistic | None = None
    scope: Scope = field(default_factory=Scope)
    mode: Mode = "lazy"
    shared_names: bool = True
    """Whether hierarchy and context decide between entities that share the name that was found."""
    reranker: OnnxCrossEncoder | None = None

    @property
    def context(self) -> float:
        """The weight of the view in context."""
        return self.weights.get("context", 0.0)

    def __call__(self, queries: Queries, learned: Snapshot = NONE, top: int = 1) -> list[Ranked]:
        """Rank candidates for each query, `top` at least if there are so many; an answer depends on no other query."""
        if not len(queries):
            return []
        return self.decided(*self.gathered(queries, learned, top), self.weights)

    def gathered(self, queries: Queries, learned: Snapshot = NONE, top: int = 1) -> tuple[Asked, Candidates]:
        """Return the candidates of queries, and what their features look at."""
        finder = self.finder(learned)
        vectors = queries.vectors(self.context)
        candidates = finder(queries, vectors, max(top, DEPTH))
        likeness = [self.parts.spelling.likeness(queries.surface(place)) for place in range(len(queries))]
        return Asked(queries, vectors, finder, likeness, self.reranker), candidates

    def finder(self, learned: Snapshot = NONE) -> Finder:
        """Return what finds candidates in this way."""
        return Finder(self.parts, learned, self.scope, self.mode, self.weights.get("learned", 0.0))

    def decided(self, asked: Asked, candidates: Candidates, weights: Mapping[str, float]) -> list[Ranked]:
        """Rank candidates with some weights; to be called again with others, which is what tuning does."""
        candidates.sums[:] = 0.0
        found = columns(asked, candidates, weights)
        exact = candidates.remembered("match", lambda: match(asked, candidates))
        return [self._ranked(asked, candidates, query, found, exact, weights) for query in range(len(asked.queries))]

    def _ranked(
        self,
        asked: Asked,
        candidates: Candidates,
        query: int,
        found: Mapping[str, Floats],
        exact: Floats,
        weights: Mapping[str, float],
    ) -> Ranked:
        order = candidates.order(query)
        spoken = candidates.spoken[query]
        winner = self._winner(asked, candidates, order, spoken)
        if winner is None and self.shared_names:
            read = "cross" in found and bool(found["cross"][order].any())
            winner = self._meant(asked, candidates, order, query, in_context=not read)
        if winner is not None:
            order = order[np.argsort(candidates.entity[order] != winner, kind="stable")]
        shares = {name: weight_of(name, weights) * column[order] for name, column in found.items()}
        plain = candidates.sums[order] - shares.get("learned", 0.0)  # no dev mention ever saw a bonus
        facts = facts_of(plain, exact[order])
        chance = float(self.chance.probability(facts)) if self.chance is not None and len(facts) else 0.0
        return Ranked(candidates.entity[order], candidates.row[order], candidates.sums[order], shares, facts, chance)

    def _winner(self, asked: Asked, candidates: Candidates, order: Ints, spoken: Spoken | None) -> int | None:
        """Return the entity of the majority, where the first candidate was found by one of the examples that vote."""
        if spoken is None or not len(order):
            return None
        place = asked.learned(int(candidates.row[order[0]]))
        return spoken.winner if spoken.certain or (place is not None and place in spoken.places) else None

    def _meant(self, asked: Asked, candidates: Candidates, order: Ints, query: int, *, in_context: bool) -> int | None:
        """Return the entity that is meant, of those that share the name by which the first one was found.

        Their names are the same prototype, so that only references tell them apart, which say what an entity is called
        and hardly what texts about it are like. Two things say more. If one of them is a parent of all others, it is
        meant: who means the child says more than the shared name ("aniridia", not "aniridia, type 2"). Otherwise the
        context decides, as the paper has it: the one whose mined mention is most like this one, each in its sentence.
        """
        tied = self._sharing(asked, candidates, order[:SHARING])
        if len(tied) < 2:
            return None
        above = self.parts.hierarchy.above
        for entity in tied:
            if all(other == entity or entity in above(other) for other in tied):
                return entity
        if not in_context or not len(asked.queries.context):
            return None
        likest = [(self._likest_mined(entity, asked.queries.context[query]), -at) for at, entity in enumerate(tied)]
        return tied[-max(likest)[1]]

    def _sharing(self, asked: Asked, candidates: Candidates, order: Ints) -> list[int]:
        """Return the entities found by the same name as the first one; nothing if that was found otherwise."""
        prototypes = self.parts.prototypes
        named = [
            (int(candidates.entity[place]), folded(prototypes.surface(row)))
            for place in order.tolist()
            if asked.learned(row := int(candidates.row[place])) is None and prototypes.is_name(row)
        ]
        if not named or named[0][0] != candidates.entity[order[0]]:
            return []
        return [entity for entity, name in named if name == named[0][1]]

    def _likest_mined(self, entity: int, query: NDArray[np.float32]) -> float:
        """Return how like the likest mined mention of an entity is to a mention in its sentence."""
        rows = self.parts.prototypes.mined_of(entity)
        if not len(rows):
            return -np.inf
        return float((self.parts.index.vectors(rows) @ query).max())


def facts_of(sums: Floats, exact: Floats) -> Floats:
    """Return what tells how likely the first candidate is right: its score, its lead, and its share of the match.

    The lead is over the best of the others, and negative where a shared name or a majority put it first. An exact match
    counts whole if no other candidate has that name, half if two share it.
    """
    if not len(sums):
        return np.empty(0)
    lead = sums[0] - sums[1:].max() if len(sums) > 1 else abs(sums[0])
    return np.array([sums[0], lead, exact[0] / max(exact.sum(), 1.0)])
