"""Exact scores, and the best rows by them, whatever way candidates were found.

FAISS sums in another order for one query than for twenty, where BLAS takes over, so that the last bits
of a score, and with them the order of near ties, would depend on how many mentions are linked at once.
Here the candidates of each query are scored anew, one fixed way, and sorted by score and then by row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kriss.index.vectors_kept import Kept, Rows, Vectors

MARGIN = 32
"""Candidates beyond k that an exact search asks for, so that one look mostly settles the order."""
_GROUP = 256
"""Queries that one pass over the vectors serves: their scores with a block take 8 MB."""
_SAMPLE = 4096
"""Vectors by which a scan guesses how high the best k of a query score."""
_GUESS = 3
"""How many times as many as are wanted should score above that guess: in all but rare cases the wanted ones do."""

Find = Callable[[Vectors, int], tuple[Vectors, Rows]]
"""From queries and a number of candidates each, their rough scores and rows; -1 is no row."""


def blank(count: int, k: int) -> tuple[Vectors, Rows]:
    """Return an answer with nothing in it yet."""
    return np.full((count, k), -np.inf, dtype=np.float32), np.full((count, k), -1, dtype=np.int64)


def rescore(query: Vectors, rows: Rows, kept: Kept, k: int) -> tuple[Vectors, Rows]:
    """Return the best k of these rows by their exact inner product with one query, ties by smaller row."""
    scores = products(kept.read(rows), query)
    order = np.lexsort((rows, -scores))[:k]
    return scores[order], rows[order]


def products(vectors: Vectors, query: Vectors) -> Vectors:
    """Return the inner product of each vector with one query.

    Sums run in double precision over one row after the other: the score of a row depends on the row alone.
    """
    with np.errstate(over="ignore"):
        sums = np.einsum("rd,d->r", vectors.astype(np.float64), query.astype(np.float64))
        return np.asarray(sums, dtype=np.float32)


def doubt(queries: Vectors, longest: float) -> NDArray[np.float64]:
    """Return by how much two scores in single precision may be in the wrong order, for vectors of that length."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(queries.astype(np.float64), axis=-1)
    return np.asarray(lengths * longest * (queries.shape[-1] + 8) * 2.0**-23)


def settle(queries: Vectors, k: int, available: int, find: Find, kept: Kept, longest: float) -> tuple[Vectors, Rows]:
    """Return the exact best k of each query by a search whose only fault is rounding.

    A row that was not among the candidates scored no better than the last of them, give or take the
    rounding of a sum of float32, which the lengths bound. Where that could still reach the best k, as
    it does among many equal vectors, the query is asked again for four times as many.
    """
    scores, rows = blank(len(queries), k)
    slack = doubt(queries, longest)
    fetch, todo = min(available, k + MARGIN), np.arange(len(queries))
    while len(todo):
        rough, found = find(queries[todo], fetch)
        again = []
        for which, at in enumerate(todo):
            good = found[which] >= 0
            best, best_rows = rescore(queries[at], found[which][good], kept, k)
            scores[at, : len(best)], rows[at, : len(best)] = best, best_rows
            if fetch < available and good.all() and not rough[which].min() + slack[at] < scores[at, k - 1]:
                again.append(at)
        fetch, todo = min(available, 4 * fetch), np.array(again, dtype=np.int64)
    return scores, rows


def scan(queries: Vectors, k: int, kept: Kept, longest: float, rows: Rows | None = None) -> tuple[Vectors, Rows]:
    """Return the exact best k of each query among some rows, or all, by a look at every one of them."""

    def find(asked: Vectors, fetch: int) -> tuple[Vectors, Rows]:
        best, found = blank(len(asked), fetch)
        for block_rows, block in kept.blocks(rows):
            with np.errstate(over="ignore", invalid="ignore"):
                rough = asked @ block.T
            better, places = _better(rough, best.min(axis=1), block_rows)
            if not better.size:
                continue
            both, places = np.hstack([best, better]), np.hstack([found, places])
            top = np.argpartition(both, both.shape[1] - fetch, axis=1)[:, -fetch:]
            best, found = np.take_along_axis(both, top, axis=1), np.take_along_axis(places, top, axis=1)
        return best, found

    available = kept.count if rows is None else len(rows)
    best, found = blank(len(queries), k)
    for start in range(0, len(queries), _GROUP):
        group = slice(start, start + _GROUP)
        left = _above_a_guess(queries[group], kept, longest, rows, best[group], found[group]) + start
        if len(left):
            best[left], found[left] = settle(queries[left], k, available, find, kept, longest)
    return best, found


def _above_a_guess(
    queries: Vectors, kept: Kept, longest: float, rows: Rows | None, best: Vectors, found: Rows
) -> NDArray[np.int64]:
    """Fill in the best rows of each query where a guess at their scores was low enough, and return where it was not.

    A guess for all blocks spares keeping the best of each block in order, which took as long as the products.
    """
    k, available = best.shape[1], kept.count if rows is None else len(rows)
    sample = np.arange(0, available, max(1, available // _SAMPLE))
    rank = -(-_GUESS * (k + MARGIN) * len(sample) // available)
    if rank >= len(sample):
        return np.arange(len(queries))
    with np.errstate(over="ignore", invalid="ignore"):
        guesses = np.partition(queries @ kept.read(sample if rows is None else rows[sample]).T, -rank, axis=1)[:, -rank]
    asked, scores, places = [], [], []
    for block_rows, block in kept.blocks(rows):
        with np.errstate(over="ignore", invalid="ignore"):
            rough = queries @ block.T
        # Of a flat array: numpy looks for what is true in one of two dimensions thirty times as slowly.
        above = np.flatnonzero(rough > guesses[:, None])
        query, place = np.divmod(above, rough.shape[1])
        asked.append(query)
        scores.append(rough.ravel()[above])
        places.append(block_rows[place])
    whose = np.concatenate(asked)
    order = np.argsort(whose, kind="stable")
    rough, all_rows = np.concatenate(scores)[order], np.concatenate(places)[order]
    bounds = np.searchsorted(whose[order], np.arange(len(queries) + 1)).tolist()
    left = []
    for at, slack in enumerate(doubt(queries, longest).tolist()):
        own = rough[bounds[at] : bounds[at + 1]]
        if len(own) >= k:
            near = own >= np.partition(own, -k)[-k] - slack
            best[at], found[at] = rescore(queries[at], all_rows[bounds[at] : bounds[at + 1]][near], kept, k)
        if len(own) < k or not guesses[at] + slack < best[at, -1]:
            left.append(at)
    return np.array(left, dtype=np.int64)


def _better(rough: Vectors, floors: Vectors, rows: Rows) -> tuple[Vectors, Rows]:
    """Return, for each query, the scores above its floor, and their rows: few, after the first blocks."""
    # Of a flat array: numpy looks for what is true in one of two dimensions thirty times as slowly.
    query, place = np.divmod(np.flatnonzero(rough > floors[:, None]), rough.shape[1])
    counts = np.bincount(query, minlength=len(rough))
    within = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    scores, found = blank(len(rough), int(counts.max(initial=0)))
    scores[query, within], found[query, within] = rough[query, place], rows[place]
    return scores, found
