"""Several entities with one name: the hierarchy settles it, else the context."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kriss.rank.hierarchy import Hierarchy
from kriss.rank.search import Hit
from kriss.rank.ties import LOOKED_AT, Ties

MINED, NAME = 0, 1
PARENTS: dict[int, list[int]] = {0: [], 1: [0], 2: [1], 3: [], 4: [4]}
ROWS = [  # entity, kind, surface, vector
    (0, NAME, "Aniridia", (1.0, 0.0)),
    (1, MINED, "aniridia 2", (0.0, 1.0)),
    (1, NAME, "ANIRIDIA", (1.0, 0.0)),
    (2, NAME, "aniridia", (1.0, 0.0)),
    (3, MINED, "other", (0.6, -0.8)),
    (3, MINED, "other", (0.0, -1.0)),
    (3, NAME, "aniridia", (1.0, 0.0)),
    (4, NAME, "something else", (0.9, 0.1)),
]
REFERENCES = np.array([[0.0, 0.5], [0.5, 0.0], [0.0, 0.0], [0.25, 0.25], [0.0, 0.0]], dtype=np.float32)
WEIGHT = np.float32(0.5)


@pytest.fixture
def ties() -> Ties:
    entity = np.array([row[0] for row in ROWS], dtype=np.int32)
    stored = np.array([row[3] for row in ROWS], dtype=np.float32) + WEIGHT * REFERENCES[entity]

    class Table(SimpleNamespace):
        def __len__(self) -> int:
            return len(ROWS)

    prototypes = Table(entity=entity, kind=np.array([row[1] for row in ROWS]), surface=lambda row: ROWS[row][2])
    index = SimpleNamespace(vectors=lambda rows: stored[rows])
    ontology = SimpleNamespace(parents_at=PARENTS.__getitem__)
    return Ties(cast(Any, index), cast(Any, prototypes), REFERENCES, WEIGHT, Hierarchy(cast(Any, ontology)))


def hit(row: int, score: float = 1.0) -> Hit:
    return Hit(ROWS[row][0], row, score, score)


def never() -> Any:
    raise AssertionError("the context was asked for")


def order(hits: list[Hit]) -> list[int | str]:
    return [one.entity for one in hits]


def test_the_one_above_the_others_is_meant_whatever_the_references_say(ties: Ties) -> None:
    hits = [hit(3, 1.3), hit(2, 1.2), hit(0, 1.1), hit(7, 0.9)]
    assert order(ties.settled(hits, never)) == [0, 2, 1, 4]
    assert order(ties.settled(hits[:2], never)) == [1, 2]


def test_else_the_mined_mention_most_alike_decides(ties: Ties) -> None:
    hits = [hit(2), hit(6)]  # entities 1 and 3, neither above the other
    assert order(ties.settled(hits, lambda: np.array([0.0, 1.0], dtype=np.float32))) == [1, 3]
    assert order(ties.settled(hits, lambda: np.array([0.0, -1.0], dtype=np.float32))) == [3, 1]
    assert ties.settled(hits, None) == hits  # the context is not to count
    # (0.6, -0.8) of entity 3 gives 0.48, not 0.6: references are taken off what the index keeps
    assert order(ties.settled(hits, lambda: np.array([0.9, 0.5], dtype=np.float32))) == [1, 3]


def test_one_that_was_never_mined_gives_way_to_one_that_was(ties: Ties) -> None:
    assert order(ties.settled([hit(0), hit(6)], lambda: np.array([0.0, 1.0], dtype=np.float32))) == [3, 0]
    assert order(ties.settled([hit(0), hit(7)], never)) == [0, 4]  # not the same name


def test_what_was_not_found_by_a_name_is_left_alone(ties: Ties) -> None:
    learned = Hit(3, len(ROWS) + 2, 1.2, 1.2)
    added = Hit("LOCAL:1", len(ROWS), 1.1, 1.1)
    for hits in ([hit(1), hit(6)], [learned, hit(2)], [added, hit(2), hit(6)], [hit(2), learned], [hit(6)], []):
        assert ties.settled(hits, never) == hits


def test_only_the_first_candidates_are_looked_at(ties: Ties) -> None:
    hits = [hit(2), *[hit(7, 0.9)] * (LOOKED_AT - 1), hit(6, 0.5)]
    assert ties.settled(hits, never) == hits
