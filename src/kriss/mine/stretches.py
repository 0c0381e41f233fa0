"""Stretches of bytes, many at once: their hashes, and Arrow strings that are cut out of a text or fetched from files.

To do this for one stretch after the other takes Python longer than to find what stands in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]

NOTHING = np.uint64(0)
"""The hash before any byte."""
_FACTOR, _OTHER_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
_INLINE = 12
"""Strings up to this size stand in Arrow's view of them; of longer ones the first four bytes."""
_WINDOW = 30
"""A view says in 31 bits where its string begins, so that a larger buffer is looked at through windows of 2^30."""


class Stretches:
    """The bytes of a text as they are hashed: eight at a time, from any byte on.

    >>> text = Stretches(b"asthma and asthma" + bytes(8))
    >>> one, other, longer = text.hashed(NOTHING, np.array([0, 11, 0]), np.array([6, 17, 10]))
    >>> bool(one == other), bool(one == longer)
    (True, False)
    """

    def __init__(self, padded: Buffer) -> None:
        self._eights = np.ndarray((len(padded) - 7,), dtype="V8", buffer=padded, strides=(1,))

    def hashed(self, before: Hashes | np.uint64, first: Ints, last: Ints) -> Hashes:
        """Return the hashes of stretches, each going on from a hash before it; the text ends with eight spare bytes."""
        size = last - first
        hashes = self._eight(first, size)
        hashes ^= before
        hashes = _mixed(hashes)
        rows, done = np.flatnonzero(size > 8), 8
        while len(rows):
            more = self._eight(first[rows] + done, size[rows] - done)
            more ^= hashes[rows]
            hashes[rows] = _mixed(more)
            done += 8
            rows = rows[size[rows] > done]
        return hashes

    def _eight(self, first: Ints, size: Ints) -> Hashes:
        """Return what stands at some places, up to eight bytes, as numbers."""
        eight: Hashes = self._eights[first].view("<u8")
        eight &= _MASKS.take(size, mode="clip")
        return eight


def _mixed(values: Hashes) -> Hashes:
    """Scramble numbers, one to one, in their own place."""
    values *= _FACTOR
    values ^= values >> _HALF
    values *= _OTHER_FACTOR
    values ^= values >> _HALF
    return values


def pair(hashes: Hashes, after: Hashes) -> Hashes:
    """Return one hash for each two."""
    return hashes * _FACTOR + after


def strings(sources: Sequence[tuple[Buffer | pa.Buffer, Ints]], first: Ints, size: Ints, kind: pa.DataType) -> pa.Array:
    """Return stretches of UTF-8 as Arrow's strings; they are copied once, and not by Python.

    Each source is a buffer, and the numbers of those stretches that lie in it.
    """
    windows: list[pa.Buffer] = []
    views = np.zeros((len(first), 4), dtype="<i4")  # size; then the bytes of a short one, or prefix, buffer and place
    inline = views.view(np.uint8).reshape(len(first), 16)[:, 4:]
    views[:, 0] = size
    shown = np.where(size > _INLINE, 4, size)
    for buffer, stretches in sources:
        bytes_, rows = np.frombuffer(buffer, dtype=np.uint8), stretches
        for place in range(_INLINE):
            rows = rows[shown[rows] > place]
            inline[rows, place] = bytes_[first[rows] + place]
        rows = stretches[size[stretches] > _INLINE]
        views[rows, 2] = len(windows) + (first[rows] >> _WINDOW)
        views[rows, 3] = first[rows] & ((1 << _WINDOW) - 1)
        whole = pa.py_buffer(buffer)
        windows += [whole.slice(start) for start in range(0, whole.size, 1 << _WINDOW)]
    parts: list[Any] = [None, pa.py_buffer(views), *windows]
    return pa.Array.from_buffers(pa.string_view(), len(first), parts).cast(kind)
