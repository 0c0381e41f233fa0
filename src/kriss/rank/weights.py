"""How much an entity's reference should count beside its prototypes: chosen on mentions nobody labeled.

Eq. 4 adds c_q·c_p and c_q·r_e as they are. After the paper's training that may be right; after an hour on a
small model it is not: names that stand in the index word for word then lose to entities whose
references are alike. So the weight of the reference is tried by brute force, for every weight of the
context, before the index is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kriss.index.encode import Block
from kriss.index.prototypes import Prototypes
from kriss.names import name_key
from kriss.rank.calibrate import WEIGHTS, Question
from kriss.rank.query import EncodesMentions, query_vectors

REFERENCES = (0.0, 0.1, 0.25, 0.5, 1.0)
"""Weights of the reference that are tried: 0 is Eq. 3, 1 is Eq. 4."""
PAPER = 1.0
Floats = NDArray[np.float32]


@dataclass(slots=True)
class _Best:
    """The best prototype so far of each query, and whose it is."""

    count: int
    score: Floats = field(init=False)
    entity: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.score = np.full(self.count, -np.inf, np.float32)
        self.entity = np.full(self.count, -1, np.int64)

    def see(self, scores: Floats, owners: NDArray[np.int32]) -> None:
        """Look at some more prototypes; the first of equals stays."""
        place = scores.argmax(axis=1)
        best = scores[np.arange(self.count), place]
        better = best > self.score
        self.score[better], self.entity[better] = best[better], owners[place[better]]


def choose_weight(
    encoder: EncodesMentions,
    questions: Sequence[Question],
    prototypes: Prototypes,
    vectors: Iterable[tuple[Block, Floats]],
    references: NDArray[np.floating],
) -> float:
    """Return the weight with which most questions are answered right, the spelling known and unknown."""
    if not questions:
        return PAPER
    mentions, gold = [q.mention for q in questions], np.array([q.entity for q in questions])
    keys = [name_key(mention.surface) for mention in mentions]
    bare, context = (query_vectors(encoder, mentions, weight) for weight in (0.0, 1.0))
    trials = {
        (weight, share, known): _Best(len(questions))
        for weight, share, known in product(REFERENCES, WEIGHTS, (True, False))
    }
    for block, found in vectors:
        owners = prototypes.entity[block.first : block.last]
        own = references[owners].astype(np.float32)
        alike = _spelled_alike(prototypes, block, keys)
        views = [(query @ found.T, query @ own.T) for query in (bare, context)]
        for weight, share in product(REFERENCES, WEIGHTS):
            (first, first_own), (second, second_own) = views
            scores = np.float32(1 - share) * (first + np.float32(weight) * first_own)
            scores += np.float32(share) * (second + np.float32(weight) * second_own)
            trials[weight, share, True].see(scores, owners)
            trials[weight, share, False].see(np.where(alike, np.float32(-np.inf), scores), owners)
    right = {trial: float((best.entity == gold).mean()) for trial, best in trials.items()}
    return max(
        REFERENCES,
        key=lambda weight: max(right[weight, share, True] + right[weight, share, False] for share in WEIGHTS),
    )


def _spelled_alike(prototypes: Prototypes, block: Block, keys: Sequence[str]) -> NDArray[np.bool_]:
    """Tell for each query which prototypes of a block are spelled like it."""
    alike = np.zeros((len(keys), block.last - block.first), dtype=bool)
    asked: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        asked.setdefault(key, []).append(number)
    for place, row in enumerate(range(block.first, block.last)):
        if numbers := asked.get(name_key(prototypes.surface(row))):
            alike[numbers, place] = True
    return alike
