"""Vectors on disk, searched by inner product: exactly, or by codes whose finds are scored exactly.

    flat   float32, exact, as in the paper               4 bytes a dimension
    fp16   float16, exact but for that rounding          2
    sq8    eight-bit codes, all of them looked at        1, and 2 on disk
    hnsw   a graph over eight-bit codes                  1 and 270 bytes a vector, and 2 on disk
    ivf    lists of two-bit codes, the likeliest read    ¼ and 30 bytes a vector, and 2 on disk

    build(folder, vectors, choose(*vectors.shape))
    index = Index.open(folder)
    scores, rows = index.search(queries, 64)

Every score is the exact inner product with the vector that is kept, and an answer does not depend on
how many queries are asked at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError, VersionError
from kriss.index.search_candidates import Candidates
from kriss.index.search_exact import blank, rescore, scan, settle
from kriss.index.vectors_build import EXACT, FORMAT, INDEX, KINDS, SETTINGS, WHOLE, Kind, build, choose
from kriss.index.vectors_kept import Kept

__all__ = ["Index", "Kind", "build", "choose", "recall"]

_FEW = 20_000
"""Rows kept by a filter that are looked at one by one: some tens of milliseconds, and no find is missed."""
_MANY = 8
"""Queries from which on a matrix product beats FAISS at a look at every vector: it takes them one by one up to
several hundred. Both are exact, so that the answer is the same."""
_SPARSE = 0.1
"""Share of rows below which a filter leaves too little of a graph to walk on."""
_EXTRA, _NEAR, _FAR = 16, 64, 2
"""Candidates beyond those that the factor of refinement gives, which matter for a k of one; up to which k that
factor holds, and the one for what is asked beyond: codes err by as much there, where neighbours lie denser, but
an error moves a row by a smaller share of k."""


class Index:
    """An index that `build` wrote, mapped into memory.

    Any number of threads may search it at once. A pickled one is its folder, and is opened again where
    it is unpickled.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.kind: Kind = cast(Kind, settings["kind"])
        self.width = int(settings["width"])
        self._count = int(settings["count"])
        self._longest = float(settings["longest"])
        self._refine = int(settings["search"].get("refine", 1))
        self._faiss = Candidates(folder / INDEX, self.kind, self._count, self.width, settings["search"])
        kept = (INDEX, WHOLE[self.kind]) if self.kind in WHOLE else (EXACT, "<f2")
        self._kept = Kept(folder / kept[0], kept[1], self._count, self.width)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map an index, after a look at whether its files are those that were written."""
        file = folder / SETTINGS
        try:
            settings = json.loads(file.read_bytes())
            found = int(settings["format"])
            if found > FORMAT:
                raise VersionError(f"{folder} is an index of format {found}, newer than this kriss: upgrade kriss")
            _check(folder, settings)
            return cls(folder, settings)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DamagedError(f"{file} does not describe an index ({reason}); build it again") from None

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return type(self).open, (self.folder,)

    def __len__(self) -> int:
        return self._count

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors that scores are computed with: exact in a flat index, else rounded to float16."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._count:
            raise IndexError(f"rows from {rows.min()} to {rows.max()} in an index of {self._count} vectors")
        return self._kept.read(rows)

    def search(
        self, queries: NDArray[np.float32], k: int, keep: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return scores and rows of the k best for each query, best first, ties by smaller row.

        `keep` limits the search to rows that are True. Where fewer than k exist, the rest is -inf and -1.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.width:
            raise ValueError(f"queries of shape {queries.shape} for an index of width {self.width}")
        if keep is not None and keep.shape != (self._count,):
            raise ValueError(f"'keep' of shape {keep.shape} for an index of {self._count} vectors")
        scores, rows = blank(len(queries), k)
        available = self._count if keep is None else int(np.count_nonzero(keep))
        top = min(k, available)
        asked = np.flatnonzero(np.isfinite(queries).all(axis=1))  # what is not a number finds nothing
        if top > 0 and len(asked):
            everything = keep if available < self._count else None
            scores[asked, :top], rows[asked, :top] = self._search(queries[asked], top, available, everything)
        return scores, rows

    def _search(
        self, queries: NDArray[np.float32], k: int, available: int, keep: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if keep is not None and available <= max(_FEW, self._count * _SPARSE * (self.kind == "hnsw")):
            return scan(queries, k, self._kept, self._longest, np.flatnonzero(keep))
        if self.kind in WHOLE:
            if len(queries) >= _MANY:
                return scan(queries, k, self._kept, self._longest, None if keep is None else np.flatnonzero(keep))
            return settle(queries, k, available, partial(self._faiss.find, keep=keep), self._kept, self._longest)
        scores, rows = blank(len(queries), k)
        fetch = self._refine * min(k, _NEAR) + _FAR * max(k - _NEAR, 0) + _EXTRA
        _, found = self._faiss.find(queries, min(available, fetch), keep)
        for which, query in enumerate(queries):
            candidates = found[which][found[which] >= 0]
            if len(candidates) < k:  # too few lie where it was looked
                kept = None if keep is None else np.flatnonzero(keep)
                scores[which], rows[which] = (a[0] for a in scan(query[None], k, self._kept, self._longest, kept))
            else:
                scores[which], rows[which] = rescore(query, candidates, self._kept, k)
        return scores, rows

    def exact(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return what `search` would if it missed nothing, by a look at every vector that is kept."""
        return scan(queries, min(k, self._count), self._kept, self._longest)


def recall(index: Index, queries: NDArray[np.float32], k: int = 64) -> float:
    """Return the mean share of the exact best k that the index finds.

    A row whose score equals the k-th best is as good as any other of that score, so it counts as found.
    """
    best, _ = index.exact(queries, k)
    found, _ = index.search(queries, best.shape[1])
    return float(np.mean(found >= best[:, -1:]))


def _check(folder: Path, settings: Mapping[str, Any]) -> None:
    """Compare the files with what was written: a map of a file cut short would end the process."""
    kind, shape = settings["kind"], (settings["count"], settings["width"])
    if kind not in KINDS:
        raise DamagedError(f"{folder / SETTINGS} names a kind of index that does not exist, '{kind}'; build it again")
    for name in (INDEX,) if kind in WHOLE else (INDEX, EXACT):
        file, expected = folder / name, int(settings["bytes"][name])
        if not file.is_file():
            raise DamagedError(f"{file} is missing; build the index again")
        if (size := file.stat().st_size) != expected:
            raise DamagedError(f"{file} has {size} bytes where {expected} were written; build the index again")
    if kind not in WHOLE:
        try:
            found = np.lib.format.open_memmap(folder / EXACT, mode="r")
        except ValueError as error:
            raise DamagedError(f"{folder / EXACT} is no array ({error}); build the index again") from None
        if found.shape != shape or found.dtype != np.dtype("<f2"):
            what = f"{found.shape} of {found.dtype} where {shape} of float16 are expected"
            raise DamagedError(f"{folder / EXACT} has vectors {what}; build the index again")
