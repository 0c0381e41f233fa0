"""Vectors in a mapped file, and the best rows by their exact inner product.

A matrix product adds in another order for one query than for twenty, so the last bits of its scores, and the order of
near ties, would depend on how many mentions are linked at once. Such products only choose candidates here; each
candidate is then scored in one fixed way, and sorted by score and then by row.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError

BLOCK = 8192
"""Rows that are multiplied at a time: 12 MB at a width of 384."""
_GATHER = 512
"""Rows copied before their pages go back: the system maps 64 KB around each, so at most 32 MB are held."""
_HELD = 1 << 28
"""Bytes up to which the pages of float16 vectors may stay in the memory of the process."""
_GROUP = 256
"""Queries that one pass over the vectors serves, at most."""
_CANDIDATES = 1 << 21
"""Candidates that such a group may have, about: fewer queries share a pass if each wants many rows."""
_SAMPLE, _RANK = 1024, 4
"""Vectors by which a pass guesses how high the best k of a query score, and which of their scores at least it takes:
the best ones say little."""
_GUESS, _MARGIN, _LOWER = 3, 32, 8
"""So many times k + margin rows should score above the guess; how many times more, where it was too high."""
_SPARSE = 0.25
"""Share of rows below which a filter copies the rows that it keeps, instead of passing over the others."""

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Matrix:
    """Vectors of float32 or float16 in a file of NumPy's, which all processes share.

    An index of codes reads float16 vectors, scattered over the file: they are copied out of pages that are handed back
    at once, so that it answers from half a GB while its vectors take three.
    """

    def __init__(self, file: Path, shape: tuple[int, int], dtype: str) -> None:
        try:
            mapped = np.lib.format.open_memmap(file, mode="r")
        except ValueError as error:
            raise DamagedError(f"{file} is no array ({error}); build the index again") from None
        if mapped.shape != shape or mapped.dtype != np.dtype(dtype):
            found = f"{mapped.shape} of {mapped.dtype} where {shape} of {np.dtype(dtype)} are expected"
            raise DamagedError(f"{file} has vectors {found}; build the index again")
        self.count, self.width = shape
        self._file, self._offset = file, mapped.offset
        self._values = np.asarray(mapped)
        self._scattered = mapped.base if mapped.dtype == np.float16 else None
        if isinstance(self._scattered, mmap.mmap):
            self._scattered.madvise(mmap.MADV_RANDOM)  # or each row would bring its neighbours from the disk

    def read(self, rows: Rows) -> Vectors:
        """Return the vectors of these rows, in their order."""
        found = np.empty((len(rows), self.width), dtype=np.float32)
        for start in range(0, len(rows), _GATHER):
            found[start : start + _GATHER] = self._values[rows[start : start + _GATHER]]
            if isinstance(self._scattered, mmap.mmap) and self._values.nbytes > _HELD:
                self._scattered.madvise(mmap.MADV_DONTNEED)
        return found

    def every(self, step: int, rows: Rows | None = None) -> Vectors:
        """Return one of so many vectors, of some rows or of all."""
        if rows is None and self._scattered is None:
            return self._values[::step]
        return self.read((np.arange(self.count) if rows is None else rows)[::step])

    def blocks(self, rows: Rows | None = None) -> Iterator[tuple[Rows, Vectors]]:
        """Yield some rows, or all, with their vectors, a block at a time."""
        for start in range(0, self.count if rows is None else len(rows), BLOCK):
            if rows is not None:
                yield rows[start : start + BLOCK], self.read(rows[start : start + BLOCK])
                continue
            size = min(BLOCK, self.count - start)
            if self._scattered is None:
                block = self._values[start : start + size]
            else:  # read ahead, and without the map
                values, offset = size * self.width, self._offset + start * self.width * 2
                block = np.fromfile(self._file, "<f2", values, offset=offset).reshape(size, -1).astype(np.float32)
            yield np.arange(start, start + size), block


def blank(count: int, k: int) -> tuple[Vectors, Rows]:
    """Return an answer with nothing in it yet."""
    return np.full((count, k), -np.inf, dtype=np.float32), np.full((count, k), -1, dtype=np.int64)


def products(vectors: Vectors, query: Vectors) -> Vectors:
    """Return the inner product of each vector with one query.

    Sums run in double precision over one row after the other: the score of a row depends on the row alone.
    """
    with np.errstate(over="ignore"):
        sums = np.einsum("rd,d->r", vectors.astype(np.float64), query.astype(np.float64))
        return np.asarray(sums, dtype=np.float32)


def best_of(matrix: Matrix, query: Vectors, rows: Rows, k: int) -> tuple[Vectors, Rows]:
    """Return the best k of these rows for one query, ties by smaller row."""
    scores = products(matrix.read(rows), query)
    order = np.lexsort((rows, -scores))[:k]
    return scores[order], rows[order]


def best_rows(
    matrix: Matrix, longest: float, queries: Vectors, k: int, keep: Mask | None = None
) -> tuple[Vectors, Rows]:
    """Return the best k rows of each query by a look at all vectors, or at those that a filter keeps.

    `longest` is the length of the longest vector; at least k rows must be kept.
    """
    scores, rows = blank(len(queries), k)
    size = max(1, min(_GROUP, _CANDIDATES // (k + _MARGIN)))
    for start in range(0, len(queries), size):
        todo, above = np.arange(start, min(start + size, len(queries))), _GUESS
        while len(todo):
            answers = _above_a_guess(matrix, longest, queries[todo], k, keep, above)
            for place, answer in zip(todo.tolist(), answers, strict=True):
                if answer is not None:
                    scores[place, : len(answer[0])], rows[place, : len(answer[1])] = answer
            todo = todo[[answer is None for answer in answers]]
            above *= _LOWER
    return scores, rows


def _above_a_guess(
    matrix: Matrix, longest: float, queries: Vectors, k: int, keep: Mask | None, above: int
) -> list[tuple[Vectors, Rows] | None]:
    """Return the best rows of each query, or None where the guess at their scores was too high.

    The guess is made on a sample. With it, one pass keeps few candidates and never has to sort them.
    """
    kept = None if keep is None else np.flatnonzero(keep)
    available = matrix.count if kept is None else len(kept)
    sample = matrix.every(max(1, available // _SAMPLE), kept)
    rank = max(_RANK, -(-above * (k + _MARGIN) * len(sample) // available))
    guesses = np.full(len(queries), -np.inf, dtype=np.float32)
    if rank < len(sample):
        rough = _rough(queries, sample)
        guesses = np.partition(rough, -rank, axis=1)[:, -rank]
    whose, scores, rows = [], [], []
    sparse = kept if kept is not None and available < _SPARSE * matrix.count else None
    for block_rows, block in matrix.blocks(sparse):
        rough = _rough(queries, block)
        # Of a flat array: numpy looks for what is true in one of two dimensions thirty times as slowly.
        hits = np.flatnonzero(rough >= guesses[:, None])
        query, place = np.divmod(hits, len(block_rows))
        if keep is not None and sparse is None:
            shown = keep[block_rows[place]]
            hits, query, place = hits[shown], query[shown], place[shown]
        whose.append(query)
        scores.append(rough.ravel()[hits])
        rows.append(block_rows[place])
    order = np.argsort(np.concatenate(whose), kind="stable")
    bounds = np.searchsorted(np.concatenate(whose)[order], np.arange(len(queries) + 1)).tolist()
    all_scores, all_rows = np.concatenate(scores)[order], np.concatenate(rows)[order]
    answers: list[tuple[Vectors, Rows] | None] = []
    for at, doubt in enumerate(doubt_of(queries, longest).tolist()):
        own, own_rows = all_scores[bounds[at] : bounds[at + 1]], all_rows[bounds[at] : bounds[at + 1]]
        answer = None
        if len(own) >= k:
            near = own >= np.partition(own, -k)[-k] - doubt
            answer = best_of(matrix, queries[at], own_rows[near], k)
        elif guesses[at] == -np.inf:
            answer = best_of(matrix, queries[at], own_rows, k)
        sure = answer is not None and (guesses[at] == -np.inf or guesses[at] + doubt < answer[0][-1])
        answers.append(answer if sure else None)
    return answers


def _rough(queries: Vectors, vectors: Vectors) -> Vectors:
    with np.errstate(over="ignore", invalid="ignore"):
        return queries @ vectors.T


def doubt_of(queries: Vectors, longest: float) -> NDArray[np.float64]:
    """Return by how much two scores in single precision may be in the wrong order, for vectors of that length."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(queries.astype(np.float64), axis=-1)
    return np.asarray(lengths * longest * (queries.shape[-1] + 8) * 2.0**-23)
