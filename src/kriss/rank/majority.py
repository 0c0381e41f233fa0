"""If learned examples of one spelling disagree, the majority wins.

The nearest of them would decide by Eq. 4, whatever all others say. But ten people who meant one thing by a word are
worth more than one who meant another and happened to write a sentence a little more like this. So every document with
an example of that spelling has a vote for its entity, which weighs more the more the example is like the mention:

    votes(e) = sum over documents d of max over examples p of e in d, of exp( (s_p - s_1) / (0.1 |s_1|) )

where s_p is the score of Eq. 3, and s_1 the best of them, p being of that spelling. A document that says a word twenty
times mostly means one thing by it, and has one vote: of MedMentions' train mentions whose word has several meanings and
comes again in its document, 97.4 in 100 mean what most of them there do. An example of this very mention, in this very
text, is not put to the vote: the last one decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kriss.index.exact import products
from kriss.index.prototypes import CONTEXT
from kriss.index.search import Found, first_of_each
from kriss.rank.snapshot import Snapshot
from kriss.records import Evidence, Mention

NEAR = 0.1
"""How fast a vote loses weight: by a factor of e for so much of the best score that it lies behind."""
MOST = 1024
"""Examples of one spelling that have a vote: the last ones, so that "cells" is no slower than other words."""
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spoken:
    """Learned examples with the spelling of a mention: their places, entities and scores, and who wins."""

    places: Ints
    owners: Ints
    scores: Floats
    winner: int
    """The entity, by its number (`Snapshot.owner`)."""
    certain: bool
    """Whether an example is of this very mention."""

    def best(self) -> Found:
        """Return the entities by the best of their examples."""
        return first_of_each(self.scores, self.owners, self.places, len(self.places))


def spoken_for(
    query: Floats, surface: str, mention: Mention | None, learned: Snapshot, allowed: NDArray[np.bool_]
) -> Spoken | None:
    """Return what allowed examples say of a mention; nothing if none is spelled as it is.

    `surface` is how the mention is read, `mention` what the text has.
    """
    places = _allowed(learned.spelled_as(surface), allowed)
    very: list[int] = []
    if mention is not None:
        own = mention.excerpt(CONTEXT)
        same = _allowed(learned.spelled_as(own.surface), allowed).tolist()
        text = own.left, own.surface, own.right
        very = [place for place in same if _is_of(learned.example(place).evidence, text)]
        places = np.union1d(places, np.array(very[-1:], dtype=np.int64))
    if not len(places):
        return None
    owners, scores = learned.owner[places].astype(np.int64), products(learned.vectors_at(places), query)
    if very:
        return Spoken(places, owners, scores, int(learned.owner[very[-1]]), certain=True)
    counted = votes(scores, owners, [learned.example(place).evidence.document for place in places.tolist()])
    winner = max(counted, key=lambda owner: (counted[owner], -owner))
    return Spoken(places, owners, scores, winner, certain=False)


def votes(scores: Floats, owners: Ints, documents: Sequence[str]) -> dict[int, float]:
    """Return the votes of each entity; examples of no document are each a document of their own.

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


def _allowed(places: Ints, allowed: NDArray[np.bool_]) -> Ints:
    return places[allowed[places]][-MOST:] if len(places) else places


def _is_of(evidence: Evidence, text: tuple[str, str, str]) -> bool:
    """Whether an example is this very mention; the name of an entity that was added is nobody's word on one."""
    return evidence.kind == "gold" and (evidence.left, evidence.surface, evidence.right) == text
