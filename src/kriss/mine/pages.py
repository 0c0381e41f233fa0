"""Documents side by side, as one run of bytes: what the matcher searches, and what contexts are cut from.

Bytes are what is quick to search and to cut, but offsets that leave the miner count characters of a
document. Text is nearly all ASCII, so the places of the few bytes that only continue a character
are enough to turn one into the other, for many offsets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kriss.mine.stretches import Ints, strings


@dataclass(frozen=True, slots=True)
class Page:
    r"""Some documents, in UTF-8.

    >>> page = Page.of(["TNF-α and β-catenin", "asthma"])
    >>> [edges.tolist() for edges in page.around(np.array([0, 1]), np.array([4, 0]), np.array([5, 6]), 2)]
    [[4, 23], [5, 23], [7, 29], [9, 29]]
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
        """Return stretches of bytes as Arrow's strings, without making one of Python's for each."""
        return strings([(self.data, np.arange(len(first)))], first, last - first, pa.large_string())
