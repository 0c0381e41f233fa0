"""Why an answer is wrong: the first of these kinds that fits."""

from __future__ import annotations

from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.score import Outcome

KINDS = {
    "no prediction": "the system said nothing of the mention",
    "not in the ontology": "the ontology has none of the gold ids",
    "no link": "the system gave no entity, or one too unlikely",
    "tie": "several entities are left as the answer",
    "shared name": "the entity given and the gold one share the name that was matched",
    "too general": "the entity given is an ancestor of the gold one",
    "too specific": "the gold entity is an ancestor of the one given",
    "sibling": "both have the same parent",
    "abbreviation": "a short form that the document defines, linked to something unrelated",
    "not found": "the gold entity is not among the candidates",
    "composite": "one of several gold ids was wanted, and another entity given",
    "misranked": "the gold entity is among the candidates, behind an unrelated one",
}
"""Each kind with what it means, in the order in which they are tried."""


def kind_of(outcome: Outcome, knowledge: Knowledge) -> str | None:
    """Return the kind of error, and None where the answer is right."""
    if outcome.strict:
        return None
    gold, prediction = outcome.mention.entities, outcome.prediction
    if prediction is None:
        return "no prediction"
    if not any(map(knowledge.has, gold)):
        return "not in the ontology"
    if not prediction.entities:
        return "no link"
    if len(prediction.entities) > 1:
        return "tie"
    [given] = prediction.entities
    return _related(given, gold, outcome, knowledge) or _unrelated(outcome)


def _related(given: str, gold: tuple[str, ...], outcome: Outcome, knowledge: Knowledge) -> str | None:
    assert outcome.prediction is not None
    name = next((one.name for one in outcome.prediction.candidates if one.entity == given), "")
    if name and any(entity in knowledge.owners(name) for entity in gold):
        return "shared name"
    above = knowledge.above(given)
    over_gold = [knowledge.above(entity) for entity in gold]
    if any(given in ancestors for ancestors in over_gold):
        return "too general"
    if any(entity in above for entity in gold):
        return "too specific"
    parents = knowledge.parents(given)
    if any(parents & knowledge.parents(entity) for entity in gold):
        return "sibling"
    return None


def _unrelated(outcome: Outcome) -> str:
    if outcome.mention.abbreviation:
        return "abbreviation"
    if not outcome.rank:
        return "not found"
    return "composite" if len(outcome.mention.entities) > 1 else "misranked"
