"""The vectors that scores are computed with, read from their file and left to the system's cache.

Scattered rows are copied out of a map whose pages are handed back at once, stretches of rows are read
without one: neither leaves the file in the memory of the process, which is what lets an index of codes
answer from half a GB while its exact vectors take three.
"""

from __future__ import annotations

import mmap
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
_GATHER = 512
"""Rows copied before pages go back: the system maps 64 KB around each, so at most 32 MB are held."""
_HELD = 1 << 28
"""Bytes of a file whose pages need not go back: asking for them again takes longer than the scores they are for."""

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]


class Kept:
    """A matrix of float16 or float32 at the end of a file."""

    def __init__(self, file: Path, dtype: str, count: int, width: int) -> None:
        self._file = file
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._stride = width * self._dtype.itemsize
        self.count, self.width = count, width
        self._descriptor = os.open(file, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._offset = os.fstat(self._descriptor).st_size - count * self._stride
        self._map = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_RANDOM)  # or each row would bring its neighbours from the disk
        values = np.frombuffer(self._map, dtype=self._dtype, offset=self._offset)
        self._matrix = values.reshape(count, width)
        self._is_held = self._matrix.nbytes <= _HELD

    def read(self, rows: Rows) -> Vectors:
        """Return the vectors of these rows, in their order."""
        found = np.empty((len(rows), self.width), dtype=np.float32)
        for start in range(0, len(rows), _GATHER):
            found[start : start + _GATHER] = self._matrix[rows[start : start + _GATHER]]
            if not self._is_held:
                self._map.madvise(mmap.MADV_DONTNEED)
        return found

    def blocks(self, rows: Rows | None = None) -> Iterator[tuple[Rows, Vectors]]:
        """Yield some rows, or all, with their vectors, a block at a time; the next one takes its place."""
        if rows is not None:
            for start in range(0, len(rows), BLOCK):
                yield rows[start : start + BLOCK], self.read(rows[start : start + BLOCK])
            return
        raw = np.empty((BLOCK, self.width), dtype=self._dtype)  # new memory for each would cost more than the reading
        whole = raw if self._dtype == np.float32 else np.empty((BLOCK, self.width), dtype=np.float32)
        for start in range(0, self.count, BLOCK):
            size = min(BLOCK, self.count - start)
            self._fill(raw[:size], start)
            if whole is not raw:
                whole[:size] = raw[:size]
            yield np.arange(start, start + size), whole[:size]

    def _fill(self, block: NDArray[Any], start: int) -> None:
        read = os.preadv(self._descriptor, [block.data], self._offset + start * self._stride)
        if read != block.nbytes:
            raise DamagedError(f"{self._file} ends early (row {start} of {self.count}); build the index again")
