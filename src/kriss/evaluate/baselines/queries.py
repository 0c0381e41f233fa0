"""What every baseline is asked, and how it answers: ties stay ties, so that no order of ids decides for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kriss.abbreviations import abbreviations as defined_in
from kriss.abbreviations import expand
from kriss.evaluate.gold import GoldMention, Key, gold_mentions
from kriss.evaluate.predictions import Prediction, Scored
from kriss.records import Document, Excerpt, Mention

MOST = 64
"""Candidates of an answer."""
TIE = 1e-6
"""Scores that differ by no more are equal: so much comes from the order of sums."""


@dataclass(frozen=True, slots=True)
class Query:
    """A mention of gold, in its text."""

    gold: GoldMention
    mention: Excerpt
    """With the long form in its place, if its document defines it as an abbreviation and this was asked for."""


def queries(documents: Iterable[Document], *, abbreviations: bool = False) -> list[Query]:
    """Return the mentions that are scored, in the order of gold; what gold says they mean is not to be looked at."""
    documents = list(documents)
    mentions: dict[Key, Excerpt] = {}
    for document in documents:
        found = defined_in(document.text) if abbreviations else {}
        for span in document.spans:
            mention = Mention(document, span.start, span.end).excerpt()
            long = expand(mention.surface, found)
            key = (document.id, document.offset + span.start, document.offset + span.end)
            mentions.setdefault(key, replace(mention, surface=long) if long else mention)
    return [Query(gold, mentions[gold.key]) for gold in gold_mentions(documents)]


def answer(query: Query, ranked: Sequence[Scored]) -> Prediction:
    """Return candidates, the best first, as a prediction: all that score as the best are its answer."""
    best = max((one.score or 0.0 for one in ranked), default=0.0)
    tied = tuple(one.entity for one in ranked if (one.score or 0.0) >= best - TIE)
    shown = tuple(ranked[: max(MOST, len(tied))])
    return Prediction(query.gold.document, query.gold.start, query.gold.end, tied, shown)
