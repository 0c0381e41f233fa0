"""What every baseline is given, and how it answers: ties stay ties, so that no order of ids decides for it."""

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
    """A mention of gold, in its document. What gold says it means is not to be looked at when linking."""

    gold: GoldMention
    mention: Mention
    excerpt: Excerpt
    """What is encoded: with the long form in the mention's place where abbreviations are read."""


def queries(documents: Iterable[Document], *, abbreviations: bool = False) -> list[Query]:
    """Return the mentions that are scored, in the order of gold; abbreviations are read as their document says."""
    documents = list(documents)
    found: dict[Key, tuple[Mention, Excerpt]] = {}
    for document in documents:
        defined = defined_in(document.text) if abbreviations else {}
        for span in document.spans:
            mention = Mention(document, span.start, span.end)
            excerpt = mention.excerpt()
            long = expand(mention.surface, defined)
            key = (document.id, document.offset + span.start, document.offset + span.end)
            found.setdefault(key, (mention, replace(excerpt, surface=long) if long else excerpt))
    return [Query(gold, *found[gold.key]) for gold in gold_mentions(documents)]


def answer(query: Query, ranked: Sequence[Scored]) -> Prediction:
    """Return candidates, the best first, as a prediction: all that score as the best are its answer."""
    best = max((one.score or 0.0 for one in ranked), default=0.0)
    tied = tuple(one.entity for one in ranked if (one.score or 0.0) >= best - TIE)
    shown = tuple(ranked[: max(MOST, len(tied))])
    return Prediction(query.gold.document, query.gold.start, query.gold.end, tied, shown)
