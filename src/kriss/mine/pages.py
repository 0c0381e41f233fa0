"""Text as bytes: documents side by side on a page, and many stretches of it hashed or cut at once.

Bytes are what is quick to search and to cut, but offsets that leave the miner count characters of a
document. Text is nearly all ASCII, so the places of the few bytes that only continue a character
are enough to turn one into the other, for many offsets at once. To hash or to cut one stretch after
the other would take Python longer than to find what stands in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview | Bytes

NOTHING = np.uint64(0)
"""The hash before any byte."""
_FACTOR, _OTHER_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)


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


@dataclass(frozen=True, slots=True)
class Page:
    r"""Some documents, in UTF-8.

    >>> page = Page.of(["TNF-α and β-catenin", "asthma"])
    >>> [edges.tolist() for edges in page.around(np.array([0, 1]), np.array([4, 0]), np.array([5, 6]), 2)]
    [[3, 23], [5, 23], [7, 29], [9, 29]]
    """

    data: bytes
    """A NUL, and each document with a NUL behind it: no name can run from one into the next."""
    starts: Ints
    """Where each document begins, and behind the last of these where one more would."""
    continuing: Ints
    """Where bytes stand that continue a character."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Page:
        """Put documents side by side."""
        encoded = [text.encode() for text in texts]
        data = b"\0".join((b"", *encoded, b""))
        starts = np.cumsum([1, *(len(text) + 1 for text in encoded)], dtype=np.int64)
        continuing = np.flatnonzero(np.frombuffer(data, np.int8) < -64)
        return cls(data, starts, continuing)

    @classmethod
    def joined(cls, pages: Sequence[Page]) -> Page:
        """Return the documents of several pages as one page."""
        shifts = np.cumsum([0, *(len(page.data) - 1 for page in pages)]).tolist()
        moved = list(zip(pages, shifts, strict=False))
        return cls(
            b"".join((b"\0", *(memoryview(page.data)[1:] for page in pages))),
            np.concatenate((*(page.starts[:-1] + shift for page, shift in moved), [shifts[-1] + 1])),
            np.concatenate((np.zeros(0, np.int64), *(page.continuing + shift for page, shift in moved))),
        )

    def characters(self, offsets: Ints) -> Ints:
        """Return how many characters of the page stand before these bytes."""
        return offsets - np.searchsorted(self.continuing, offsets)

    def around(
        self, document: NDArray[np.int32], start: NDArray[np.int32], end: NDArray[np.int32], reach: int
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Return where stretches of documents lie in the bytes, with so many characters on each side.

        That is where the left context begins, the stretch, the right context, and where that ends.
        """
        edges = self.characters(self.starts)
        first, last = edges[document] + start, edges[document] + end
        left = np.maximum(first - reach, edges[document])
        right = np.minimum(last + reach, edges[document + 1] - 1)
        places = np.stack((left, first, last, right))
        # A byte that continues a character moves all later ones: how many such are there before each place?
        leads = self.continuing - np.arange(1, len(self.continuing) + 1)
        order = np.argsort(first)  # a search for sorted numbers goes once through the memory
        places[:, order] += np.stack([np.searchsorted(leads, place) for place in places[:, order]])
        left, first, last, right = places
        return left, first, last, right

    def cut(self, first: Ints, last: Ints) -> pa.Array:
        """Return stretches of bytes as Arrow's strings."""
        cuts = [self.data[start:end] for start, end in zip(first.tolist(), last.tolist(), strict=True)]
        return pa.array(cuts, pa.large_binary()).view(pa.large_string())


def beyond_ascii(data: Bytes) -> Iterator[tuple[int, Ints, NDArray[np.int32]]]:
    """Yield, by the number of their bytes, where characters beyond ASCII begin, and their codes."""
    leads = np.flatnonzero(data >= 0xC0)
    kinds = data[leads]
    for length, low, high in ((2, 0xC0, 0xE0), (3, 0xE0, 0xF0), (4, 0xF0, 0x100)):
        lead = leads[(kinds >= low) & (kinds < high)]
        code = data[lead].astype(np.int32) & (0x7F >> length)
        for place in range(1, length):
            code = code << 6 | data[lead + place] & 0x3F
        yield length, lead, code
