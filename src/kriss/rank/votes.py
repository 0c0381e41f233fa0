"""What people said of a word: learned examples that are spelled as a mention, and which entity they elect.

Of examples with one spelling the nearest would decide by Eq. 4, whatever all others say. But ten people who meant one
thing by a word are worth more than one who meant another and happened to write a sentence a little more like
this. So for each entity every document with an example of that spelling has a vote, the heavier the more it is like the
mention in its sentence:

    vote(e) = sum over documents d of max over examples p of e in d, of exp( (s_p - s_1) / (0.1 |s_1|) )

where s_p is the score of Eq. 4, and s_1 the best of them, p being of that spelling. A document that says a word twenty
times mostly means one thing by it, and is one voice for that: of MedMentions' train mentions whose word has several
meanings and comes again in its document, 97.4 in 100 mean what most of them there do. What was said of this very
mention, in this very text, is not put to the vote: the last word on it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kriss.index.prototypes import CONTEXT
from kriss.index.search_exact import products
from kriss.link.learned import Snapshot
from kriss.records import Evidence, Mention

NEAR = 0.1
"""How fast a vote loses weight: by a factor of e for so much of the best score that it lies behind."""
MOST = 1024
"""Examples of one spelling that have a vote: the last ones, so that "cells" is no slower than other words."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Said:
    """Examples that speak for the meaning of a mention: their places, entities and scores, and who is elected."""

    places: NDArray[np.int64]
    owners: NDArray[np.int64]
    scores: Floats
    first: int
    """The entity, by its number (`Snapshot.owner`)."""
    certain: bool
    """Whether that was said of this very mention."""


def what_was_said(
    query: Floats, surface: str, mention: Mention, learned: Snapshot, allowed: NDArray[np.bool_]
) -> Said | None:
    """Return what allowed examples say of a mention; nothing if none is spelled as it is.

    `surface` is how the mention is read, "" if it is masked; `mention` is what the text has.
    """
    places, own = (_allowed(learned.spelled_as(text), allowed) for text in (surface, surface and mention.surface))
    very = [place for place in own.tolist() if _is_of(learned.example(place).evidence, mention)]
    places = np.union1d(places, np.array(very[-1:], dtype=np.int64))
    if not len(places):
        return None
    owners, scores = learned.owner[places].astype(np.int64), products(learned.vectors_at(places), query)
    if very:
        return Said(places, owners, scores, int(learned.owner[very[-1]]), certain=True)
    counted = votes(scores, owners, [learned.example(place).evidence.document for place in places.tolist()])
    return Said(places, owners, scores, max(counted, key=lambda owner: (counted[owner], -owner)), certain=False)


def votes(scores: Floats, owners: NDArray[np.int64], documents: Sequence[str]) -> dict[int, float]:
    """Return what examples with these scores say for their entities; those of no document are each of their own.

    >>> said = votes(np.array([1.0, 0.95, 0.95, 0.9]), np.array([7, 8, 8, 8]), ["a", "b", "c", "c"])
    >>> [(owner, round(vote, 2)) for owner, vote in said.items()]
    [(7, 1.0), (8, 1.21)]
    """
    best = float(scores.max())
    weights = np.exp((scores.astype(np.float64) - best) / (NEAR * abs(best) or 1.0))
    voices: dict[tuple[int, str | int], float] = {}
    for place, (owner, document, weight) in enumerate(zip(owners.tolist(), documents, weights.tolist(), strict=True)):
        voice = owner, document or place
        voices[voice] = max(weight, voices.get(voice, 0.0))
    counted: dict[int, float] = {}
    for (owner, _), weight in sorted(voices.items(), key=lambda one: one[0][0]):
        counted[owner] = counted.get(owner, 0.0) + weight
    return counted


def _allowed(places: NDArray[np.int64], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    return places[allowed[places]][-MOST:] if len(places) else places


def _is_of(evidence: Evidence, mention: Mention) -> bool:
    """Whether an example is this very mention; the name of an entity that was added is nobody's word on one."""
    own = mention.excerpt(CONTEXT)
    text = own.left, own.surface, own.right
    return evidence.kind == "gold" and (evidence.left, evidence.surface, evidence.right) == text
