"""Predictions against gold: an outcome for every mention, and a row of figures for every slice."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kriss.errors import InputError, Place
from kriss.evaluate.gold import GoldMention, Key
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.metrics import (
    Bin,
    Difference,
    difference,
    expected,
    intervals,
    rank,
    recall_at,
    reliability,
    strict,
)
from kriss.evaluate.predictions import Prediction, Scored
from kriss.evaluate.slices import ALL, Slice, slices

DEPTHS = (1, 5, 16, 64)
"""The k of R@k in tables."""
CURVE = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
"""The k of the oracle curve."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mention, what was said of it, and how right that is; all ids are the ontology's."""

    mention: GoldMention
    prediction: Prediction | None
    strict: float
    expected: float
    """If ties are broken at random."""
    lenient: float
    """Inflated: any entity that owns the predicted name may be gold; nan if it is not known who owns names."""
    rank: int
    """The place of the first gold entity among the candidates; 0 if it is not there."""

    @property
    def tied(self) -> bool:
        """The system left a choice open."""
        return self.prediction is not None and len(self.prediction.entities) > 1


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of a slice, shares of its mentions; intervals are of 95%."""

    name: str
    meaning: str
    mentions: int
    strict: float
    low: float
    high: float
    expected: float
    lenient: float
    recall: tuple[float, ...]
    """At `DEPTHS`."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a system scored on one corpus."""

    outcomes: tuple[Outcome, ...]
    rows: tuple[Row, ...]
    missing: tuple[Key, ...]
    """Mentions without a prediction: they count as wrong."""
    surplus: int
    """Predictions of what gold does not have, passed over on request."""
    unlinked: int
    """Mentions to which gold gives no entity: they are not scored."""
    mapped: int
    """Gold ids that the ontology has under another id."""

    @property
    def overall(self) -> Row:
        """The figures of all mentions."""
        return self.rows[0]

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """R@k by k: how right a perfect choice among the first k would be."""
        ranks = [one.rank for one in self.outcomes]
        return tuple((k, recall_at(ranks, k)) for k in CURVE)

    @property
    def reliability(self) -> list[Bin]:
        """How often first candidates are right, by the probability shown with them; empty if no answer has one."""
        shown = [
            (one.prediction.probability, one.rank == 1)
            for one in self.outcomes
            if one.prediction and one.prediction.probability is not None
        ]
        return reliability(shown)


def evaluate(
    gold: Sequence[GoldMention],
    predictions: Mapping[Key, Prediction],
    knowledge: Knowledge,
    *,
    unlinked: Collection[Key] = (),
    source: Path = Path("predictions"),
    skip_surplus: bool = False,
    seed: int = 0,
) -> Evaluation:
    """Score predictions; all mentions of gold count, also those without a prediction and outside the ontology."""
    if not gold:
        raise InputError("gold has no mention with an entity: there is nothing to score")
    known = {mention.key for mention in gold} | set(unlinked)
    surplus = [one for key, one in predictions.items() if key not in known]
    if surplus and not skip_surplus:
        one = surplus[0]
        where = f"'{one.document}' from {one.start} to {one.end}"
        more = f", nor {len(surplus) - 1:,} others of this file" if len(surplus) > 1 else ""
        raise InputError(
            f"gold has no mention of {where}{more}; give --skip-surplus to pass over such predictions",
            Place(source, one.line or None),
        )
    outcomes = tuple(_outcome(mention, predictions.get(mention.key), knowledge) for mention in gold)
    resolved = [outcome.mention for outcome in outcomes]
    return Evaluation(
        outcomes,
        tuple(_rows(outcomes, slices(resolved, knowledge), seed)),
        tuple(mention.key for mention in gold if mention.key not in predictions),
        len(surplus),
        len(set(unlinked) - {mention.key for mention in gold}),
        sum(knowledge.find(entity) != entity for mention in gold for entity in mention.entities),
    )


def compare(one: Evaluation, other: Evaluation, *, seed: int = 0) -> Difference:
    """Return by how much the first is ahead of the second on the same mentions, ties broken at random."""
    if [outcome.mention.key for outcome in one.outcomes] != [outcome.mention.key for outcome in other.outcomes]:
        raise InputError("the two systems were scored on different mentions; score both on the same gold")
    pairs = [[outcome.expected for outcome in each.outcomes] for each in (one, other)]
    return difference(pairs[0], pairs[1], [outcome.mention.document for outcome in one.outcomes], seed=seed)


def _outcome(mention: GoldMention, prediction: Prediction | None, knowledge: Knowledge) -> Outcome:
    gold = tuple(dict.fromkeys(map(knowledge.find, mention.entities)))
    mention = replace(mention, entities=gold)
    if prediction is None:
        return Outcome(mention, None, 0.0, 0.0, 0.0 if knowledge.ontology else math.nan, 0)
    prediction = replace(
        prediction,
        entities=tuple(dict.fromkeys(map(knowledge.find, prediction.entities))),
        candidates=tuple(_resolved(one, knowledge) for one in prediction.candidates),
    )
    answer = prediction.entities
    ranked = [one.entity for one in prediction.candidates]
    return Outcome(
        mention,
        prediction,
        strict(answer, gold),
        expected(answer, gold),
        _lenient(prediction, gold, knowledge),
        rank(ranked, gold),
    )


def _resolved(candidate: Scored, knowledge: Knowledge) -> Scored:
    found = knowledge.find(candidate.entity)
    return candidate if found == candidate.entity else replace(candidate, entity=found)


def _lenient(prediction: Prediction, gold: Collection[str], knowledge: Knowledge) -> float:
    """Return 1 if gold is among the answers, or the entities that own the name by which the first was found."""
    if knowledge.ontology is None:
        return math.nan
    owners = set(prediction.entities)
    first = next((one for one in prediction.candidates if one.entity in owners), None)
    owners |= knowledge.owners(first.name) if first and first.name else set()
    return float(not owners.isdisjoint(gold))


def _rows(outcomes: Sequence[Outcome], chosen: Sequence[Slice], seed: int) -> list[Row]:
    """Return the figures of each slice; the intervals are of the strict one."""
    inside = np.array([[one.holds(outcome.mention) for one in chosen] for outcome in outcomes])
    right = np.array([outcome.strict for outcome in outcomes])
    bounds = intervals(
        np.where(inside, right[:, None], np.nan), [outcome.mention.document for outcome in outcomes], seed=seed
    )
    rows = []
    for number, one in enumerate(chosen):
        held = [outcome for outcome, holds in zip(outcomes, inside[:, number], strict=True) if holds]
        ranks = [outcome.rank for outcome in held]
        low, high = bounds[number]
        rows.append(
            Row(
                one.name,
                one.meaning,
                len(held),
                _mean([outcome.strict for outcome in held]),
                float(low),
                float(high),
                _mean([outcome.expected for outcome in held]),
                _mean([outcome.lenient for outcome in held]),
                tuple(recall_at(ranks, depth) for depth in DEPTHS),
            )
        )
    assert rows[0].name == ALL
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
