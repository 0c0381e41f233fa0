"""The vectors that scores are computed with, read from their file row by row.

They are read with `pread` and not through a map: a page read so belongs to the system's cache and not
to the process, which is what lets an index of codes answer from one GB while its exact vectors take three.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError

BLOCK = 8192
"""Rows held as float32 at a time: 12 MB at a width of 384."""
_GAP = 4
"""Rows at most so far apart are read in one go: skipping them costs less than another call."""

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]


class Kept:
    """A matrix of float16 or float32 in a file, from some offset on to the file's end."""

    def __init__(self, file: Path, dtype: str, count: int, width: int) -> None:
        self._file = file
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._stride = width * self._dtype.itemsize
        self.count, self.width = count, width
        self._descriptor = os.open(file, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._offset = os.fstat(self._descriptor).st_size - count * self._stride

    def read(self, rows: Rows) -> Vectors:
        """Return the vectors of these rows, in their order."""
        order = np.argsort(rows, kind="stable")
        wanted = rows[order]
        found = np.empty((len(rows), self.width), dtype=self._dtype)
        ends = [*(np.flatnonzero(np.diff(wanted) > _GAP) + 1).tolist(), len(rows)]
        start = 0
        for end in ends if len(rows) else ():
            first, last = int(wanted[start]), int(wanted[end - 1])
            found[order[start:end]] = self._stretch(first, last + 1)[wanted[start:end] - first]
            start = end
        return found.astype(np.float32, copy=False)

    def blocks(self, rows: Rows | None = None) -> Iterator[tuple[Rows, Vectors]]:
        """Yield some rows, or all, with their vectors, a block at a time."""
        for start in range(0, self.count if rows is None else len(rows), BLOCK):
            if rows is None:
                end = min(start + BLOCK, self.count)
                yield np.arange(start, end), self._stretch(start, end).astype(np.float32, copy=False)
            else:
                yield rows[start : start + BLOCK], self.read(rows[start : start + BLOCK])

    def _stretch(self, start: int, end: int) -> NDArray[Any]:
        size = (end - start) * self._stride
        raw = os.pread(self._descriptor, size, self._offset + start * self._stride)
        if len(raw) != size:
            raise DamagedError(f"{self._file} ends early (row {start} of {self.count}); build the index again")
        return np.frombuffer(raw, dtype=self._dtype).reshape(-1, self.width)
