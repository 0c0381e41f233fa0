"""Several entities that people called the same, and which of them is meant here.

Of learned examples with one spelling the nearest would decide by Eq. 4, whatever all others say. But ten people who
meant one thing by a word are worth more than one who meant another and happened to write a sentence a little more like
this. So each example of that spelling has a vote, the heavier the more it is like the mention in its sentence:

    vote(e) = sum over examples p of e with that spelling, of exp( (s_p - s_1) / (0.05 |s_1|) )

where s_p is the score of Eq. 4, and s_1 the best of them. What was said of this very mention, in this very text, is
not put to the vote: the last word on it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kriss.index.prototypes import CONTEXT
from kriss.index.search_exact import products
from kriss.link.learned import Snapshot
from kriss.link.search import Hit
from kriss.records import Evidence, Mention

NEAR = 0.05
"""How fast a vote loses weight: by a factor of e for so much of the best score that it lies behind."""
Floats = NDArray[np.float32]


def votes(scores: Floats, owners: NDArray[np.int32]) -> dict[int, float]:
    """Return what examples with these scores say for their entities.

    >>> said = votes(np.array([1.0, 0.95, 0.95]), np.array([7, 8, 8]))
    >>> [(owner, round(vote, 2)) for owner, vote in said.items()]
    [(7, 1.0), (8, 0.74)]
    """
    best = float(scores.max())
    weights = np.exp((scores.astype(np.float64) - best) / (NEAR * abs(best) or 1.0))
    return {int(owner): float(weights[owners == owner].sum()) for owner in np.unique(owners)}


def voted(hits: Sequence[Hit], query: Floats, mention: Mention, learned: Snapshot, known: int) -> list[Hit]:
    """Return candidates with the one in front that most was said for, where the first was found by its own spelling.

    `known` is the number of prototypes in the index: learned examples count on behind them.
    """
    if not hits or hits[0].row < known:
        return list(hits)
    places = learned.spelled_as(mention.surface)
    owners = learned.owner[places]
    if hits[0].row - known not in places or len(np.unique(owners)) < 2:
        return list(hits)
    if same := [place for place in places.tolist() if _is_of(learned.example(place).evidence, mention)]:
        said = {int(learned.owner[same[-1]]): 1.0}
    else:
        said = votes(products(learned.vectors_at(places), query), owners)
    ids = {int(owner): learned.example(place).entity for place, owner in zip(places.tolist(), owners, strict=True)}
    listed = {hit.entity for hit in hits}  # not one that nobody asked for
    found = [owner for owner in said if owner in listed or ids[owner] in listed]
    first = max(found, key=lambda owner: (said[owner], -owner), default=-1)
    return sorted(hits, key=lambda hit: hit.entity not in (first, ids.get(first)))


def _is_of(evidence: Evidence, mention: Mention) -> bool:
    """Whether an example is this very mention."""
    text = mention.left[-CONTEXT:], mention.surface, mention.right[:CONTEXT]
    return (evidence.left, evidence.surface, evidence.right) == text
