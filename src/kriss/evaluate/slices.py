"""Kinds of mentions that are scored by themselves: where a system wins and where it loses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kriss.evaluate.gold import GoldMention
from kriss.evaluate.knowledge import Knowledge
from kriss.names import folded

ALL = "all"
_PROTOTYPES = (("no", 0, 0), ("1 to 2", 1, 2), ("3 to 15", 3, 15), ("16 or more", 16, None))


@dataclass(frozen=True, slots=True)
class Slice:
    """Some of the mentions, and what they have in common."""

    name: str
    meaning: str
    holds: Callable[[GoldMention], bool]


def slices(mentions: Sequence[GoldMention], knowledge: Knowledge) -> list[Slice]:
    """Return the slices that can be told apart with what is known; those that hold nothing are left out."""
    found = [Slice(ALL, "every mention with a gold id", lambda _: True)]
    if knowledge.ontology is not None:
        found += _by_ontology(knowledge)
    if knowledge.trained is not None:
        found += _by_training(knowledge)
    found += [
        Slice("abbreviations", "short forms that their document defines", lambda one: one.abbreviation),
        Slice("composite", "mentions with several gold ids, each of them right", lambda one: len(one.entities) > 1),
    ]
    if knowledge.prototypes is not None:
        found += _by_prototypes(knowledge)
    types = sorted({one.type for one in mentions if one.type})
    if len(types) > 1:
        found += [Slice(f"type {type}", "of this type", lambda one, type=type: one.type == type) for type in types]  # type: ignore[misc]
    return [one for one in found if any(map(one.holds, mentions))]


def _by_ontology(knowledge: Knowledge) -> list[Slice]:
    def owners(mention: GoldMention) -> int:
        return len(knowledge.owners(mention.surface))

    return [
        Slice("unambiguous", "the surface is a name of exactly one entity", lambda one: owners(one) == 1),
        Slice("ambiguous", "the surface is a name of no entity, or of several", lambda one: owners(one) != 1),
        Slice("no owner", "no entity has the surface as a name", lambda one: owners(one) == 0),
        Slice("several owners", "several entities have the surface as a name", lambda one: owners(one) > 1),
        Slice(
            "not in the ontology",
            "the ontology has none of the gold ids: no answer out of it can be right",
            lambda one: not any(map(knowledge.has, one.entities)),
        ),
    ]


def _by_training(knowledge: Knowledge) -> list[Slice]:
    trained = knowledge.trained
    assert trained is not None

    def seen(mention: GoldMention) -> bool:
        return any(entity in trained.entities for entity in mention.entities)

    def named(mention: GoldMention) -> bool:
        return any((entity, folded(mention.surface)) in trained.pairs for entity in mention.entities)

    return [
        Slice("seen", "an entity of the training set, by a surface that it has there", named),
        Slice(
            "seen, new surface",
            "an entity of the training set, by another surface",
            lambda one: seen(one) and not named(one),
        ),
        Slice("unseen", "an entity that the training set does not have", lambda one: not seen(one)),
    ]


def _by_prototypes(knowledge: Knowledge) -> list[Slice]:
    counts = knowledge.prototypes or {}

    def between(low: int, high: int | None) -> Callable[[GoldMention], bool]:
        def holds(mention: GoldMention) -> bool:
            most = max((counts.get(entity, 0) for entity in mention.entities), default=0)
            return most >= low and (high is None or most <= high)

        return holds

    meaning = "mined mentions of the gold entity in the linker"
    return [Slice(f"{label} prototypes", meaning, between(low, high)) for label, low, high in _PROTOTYPES]
