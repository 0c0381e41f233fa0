"""Finding names in text: the longest at each place, whole words only, nothing hidden by a match inside a word.

What is found is defined thus: of all stretches of the text that start and end at word boundaries
and are a way to write some name, take the leftmost, of those the longest, and go on behind it.
Those that belong to one entity, and are not visibly a piece of a longer name, are the hits.

The automaton's patterns begin with a blank, and so does every place in its text where a word may
start; it never enters the middle of a word, which makes it about four times as fast as a search
for the bare names. Many documents are searched at once, so that boundaries are settled by numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind
from numpy.typing import NDArray

from kriss.mine.boundaries import REACH, is_end, is_fragment, is_start
from kriss.mine.casing import key
from kriss.mine.names import TAKEN, Names, common_words

_NO, _YES, _ASK = 0, 1, 2
_DIGIT = np.array([48 <= byte <= 57 for byte in range(256)])


def _table(no: bytes, ask: bytes) -> NDArray[np.uint8]:
    table = np.full(256, _YES, dtype=np.uint8)
    table[list(no)] = _NO
    table[list(ask)] = _ASK
    table[128:] = _ASK
    return table


_AFTER = _table(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", b"-'`")
_BEFORE = _table(b"", b"'`")


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found in some documents, in order. Offsets count characters of the document."""

    document: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    form: NDArray[np.int32]
    """Numbers in `Names.forms`."""

    def __len__(self) -> int:
        return len(self.document)

    @classmethod
    def joined(cls, parts: Sequence[Hits], sizes: Sequence[int]) -> Hits:
        """Return the hits of several lists of documents as those of one; `sizes` are their lengths."""
        shifts = np.cumsum([0, *sizes[:-1]])
        return cls(
            np.concatenate([hits.document + shift for hits, shift in zip(parts, shifts, strict=True)]).astype(np.int32),
            np.concatenate([hits.start for hits in parts]),
            np.concatenate([hits.end for hits in parts]),
            np.concatenate([hits.form for hits in parts]),
        )


class Matcher:
    """An automaton over the keys of `Names`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._automaton = BytesAhoCorasick(
            [b" " + found for found in names.keys()],  # noqa: SIM118 - not a dict
            matchkind=MatchKind.Standard,
            implementation=Implementation.ContiguousNFA,
        )

    def find(self, texts: Sequence[str]) -> Hits:
        """Find names in documents; a NUL between them keeps any from running over."""
        encoded = [text.encode() for text in texts]
        data = b"\0" + b"\0".join(encoded) + b"\0"
        found = self._automaton.find_matches_as_indexes(key(data), overlapping=True)
        if not found:
            return _hits([], data, encoded)
        matches = np.array(found, dtype=np.int64)
        number, start, end = matches[:, 0], matches[:, 1] + 1, matches[:, 2]
        keep = np.flatnonzero(self._bounded(data, start, end))
        keep = keep[np.lexsort((-end[keep], start[keep]))]
        return _hits(self._settle(data, number[keep], start[keep], end[keep]), data, encoded)

    def _settle(
        self, data: bytes, number: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> list[tuple[int, int, int]]:
        """Take the leftmost longest of the surfaces that are names; return those of one entity."""
        kept: list[tuple[int, int, int]] = []
        form_of, free = self.names.form, 0
        for pattern, first, last in zip(number.tolist(), start.tolist(), end.tolist(), strict=True):
            if first >= free and (form := form_of(data[first:last], pattern)) >= TAKEN:
                free = last
                if form != TAKEN and not (_may_be_fragment(data, first, last) and _is_fragment(data, first, last)):
                    kept.append((first, last, form))
        return kept

    def _bounded(self, data: bytes, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which matches are whole words: by the bytes around them, or by asking about the characters."""
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        before, first, last, after = bytes_[start - 1], bytes_[start], bytes_[end - 1], bytes_[end]
        opens, closes = _BEFORE[before], _AFTER[after]
        opens[first > 127] = _ASK
        # A point or a comma between two digits is inside a number.
        beyond = bytes_[np.minimum(end + 1, len(data) - 1)]
        point = (after == ord(".")) | (after == ord(","))
        closes[point & _DIGIT[last] & _DIGIT[beyond]] = _NO
        closes[point & ((last > 127) | (beyond > 127))] = _ASK
        point = ((before == ord(".")) | (before == ord(","))) & _DIGIT[first]
        earlier = bytes_[np.maximum(start - 2, 0)]
        opens[point & _DIGIT[earlier]] = _NO
        opens[point & (earlier > 127)] = _ASK
        good: NDArray[np.bool_] = (opens == _YES) & (closes == _YES)
        for index in np.flatnonzero((opens != _NO) & (closes != _NO) & ~good).tolist():
            good[index] = (opens[index] == _YES or _asked(data, int(start[index]), is_start)) and (
                closes[index] == _YES or _asked(data, int(end[index]), is_end)
            )
        return good


def _may_be_fragment(data: bytes, first: int, last: int) -> bool:
    """Tell at a glance whether `boundaries` must be asked: a capital, or what compounds are made of."""
    before = data[first - 3 : first]
    return (
        65 <= data[first] <= 90
        or before in (b"yl ", b"um ")
        or before.endswith(b". ")
        or b"acid" in data[last : last + 48]
    )


def _is_fragment(data: bytes, first: int, last: int) -> bool:
    left, right = _around(data, first)[0], _around(data, last)[1]
    return is_fragment(left, data[first:last].decode(), right, common_words())


def _around(data: bytes, at: int) -> tuple[str, str]:
    """Return the characters of the document before and after a place, as far as any decision looks."""
    left = data[max(at - 4 * REACH, 0) : at].decode("utf-8", "ignore").rpartition("\0")[2]
    right = data[at : at + 4 * REACH + 8].decode("utf-8", "ignore").partition("\0")[0]
    return left, right


def _asked(data: bytes, at: int, question: Callable[[str, int], bool]) -> bool:
    """Put a question about one place in the text to `boundaries`, which speaks of characters."""
    left, right = _around(data, at)
    return question(left + right, len(left))


def _hits(kept: list[tuple[int, int, int]], data: bytes, encoded: list[bytes]) -> Hits:
    columns = np.array(kept, dtype=np.int64).reshape(-1, 3)
    starts = np.cumsum([1] + [len(text) + 1 for text in encoded[:-1]], dtype=np.int64)
    document = np.searchsorted(starts, columns[:, 0], side="right") - 1
    first, last = columns[:, 0], columns[:, 1]
    if not data.isascii():  # a character is a byte that continues none
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        characters = np.concatenate(([0], np.cumsum((bytes_ & 0xC0) != 0x80)))
        first, last, starts = characters[first], characters[last], characters[starts]
    base = starts[document] if len(document) else first
    return Hits(
        document.astype(np.int32),
        (first - base).astype(np.int32),
        (last - base).astype(np.int32),
        columns[:, 2].astype(np.int32),
    )
