"""From prototypes to entities: each entity by its best prototype, as the max in Eq. 4 says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kriss.index.vectors import Index

_LEAST = 64
"""Prototypes asked for at least."""
_EACH, _SPARE = 12, 128
"""Prototypes asked for each entity that is wanted, and how many more than four each at most: a second look at every
vector costs more than a longer list, and with 16 prototypes an entity four each sufficed for half of the queries."""
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Found:
    """The best entities for one query, the best first."""

    scores: NDArray[np.float32]
    entities: NDArray[np.int64]
    rows: NDArray[np.int64]
    """The prototype that gave each its score."""


def search_entities(
    index: Index,
    owners: NDArray[np.int32],
    queries: NDArray[np.float32],
    top: int,
    keep: NDArray[np.bool_] | None = None,
    shown: Callable[[int, NDArray[np.int64]], NDArray[np.bool_]] | None = None,
) -> list[Found]:
    """Return the `top` entities for each query; `owners` are the entities of the index's rows.

    `keep` are the rows that may be found, `shown` which of some rows a query may see. An entity may own many of the
    best prototypes, so the search is widened for those queries whose first prototypes belong to too few entities.
    """
    found: list[Found | None] = [None] * len(queries)
    waiting = np.arange(len(queries))
    count = min(len(index), max(_LEAST, min(_EACH * top, 4 * top + _SPARE)))
    while len(waiting):
        scores, rows = index.search(queries[waiting], count, keep)
        for place, row_scores, row_rows in zip(waiting.tolist(), scores, rows, strict=True):
            real = row_rows[row_rows >= 0]
            seen = shown(place, real) if shown else np.ones(len(real), dtype=bool)
            best = first_of_each(row_scores[: len(real)][seen], owners[real[seen]].astype(np.int64), real[seen], top)
            if len(best.entities) >= top or count >= len(index) or len(real) < count:
                found[place] = best
        waiting = np.array([place for place in waiting.tolist() if found[place] is None], dtype=np.int64)
        count = min(len(index), count * _GROWTH)
    return [one for one in found if one is not None]


def first_of_each(scores: NDArray[np.float32], entities: NDArray[np.int64], rows: NDArray[np.int64], top: int) -> Found:
    """Return the first prototype of each entity; equal scores go by the entity's row."""
    order = np.lexsort((rows, entities, -scores))
    _, first = np.unique(entities[order], return_index=True)
    chosen = order[np.sort(first)[:top]]
    return Found(scores[chosen], entities[chosen], rows[chosen])


def no_entities() -> Found:
    """Return what a search finds where there is nothing."""
    return Found(np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64))
