"""Finding names in text: the longest at each place, whole words only, nothing hidden by a match inside a word.

What is found is defined thus: of all stretches of the text that start and end at word boundaries
and are a way to write some name, take the leftmost, of those the longest, and go on behind it.
Those that belong to one entity, and are not visibly a piece of a longer name, are the hits.

`lookup` finds keys as whole words; whether these are names as they are written, and where they may
start and end, is settled here. Many documents are searched at once, so that numpy can do it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from kriss.mine.boundaries import REACH, is_end, is_fragment, is_start
from kriss.mine.casing import keyed
from kriss.mine.lookup import Lookup
from kriss.mine.names import TAKEN, Names, common_words
from kriss.mine.pages import NOTHING, Ints, Page, Stretches

_NO, _YES, _ASK = 0, 1, 2
_MEMORY = 1 << 20
"""How many surfaces are remembered together with their hashes."""
_CAPITAL = np.array([65 <= byte <= 90 for byte in range(256)])
_SMALL = np.array([97 <= byte <= 122 for byte in range(256)])
_DIGIT = np.array([48 <= byte <= 57 for byte in range(256)])
_OUTSIDE = np.array([byte in b"\0 \t\n\r\x0b\x0c(" for byte in range(256)])
"""Characters that may stand before the first word of a proper name; others are asked about."""


def _table(no: bytes, ask: bytes) -> NDArray[np.uint8]:
    table = np.full(256, _YES, dtype=np.uint8)
    table[list(no)] = _NO
    table[list(ask)] = _ASK
    table[128:] = _ASK
    return table


_AFTER = _table(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", b"-'`")
_BEFORE = _table(b"", b"'`")
_SUFFIX = re.compile(rb"-[A-Za-z0-9]++(?![\x80-\xff])")
"""A hyphen and a word in ASCII: all that decides whether a name ends before it."""


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
    """Finds what `Names` knows."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._lookup = Lookup(names.keys())
        # What was said of surfaces, by their hashes: where two share a place, the last that was met.
        self._met = np.zeros(_MEMORY, dtype=np.uint64)
        self._said = np.zeros(_MEMORY, dtype=np.int32)

    def find(self, texts: Sequence[str]) -> Hits:
        """Find names in documents."""
        return self.find_in(Page.of(texts))

    def find_in(self, page: Page) -> Hits:
        """Find names in a page of documents."""
        data = page.data
        number, start, end = self._lookup.find(keyed(data))
        kept = np.flatnonzero(self._bounded(data, start, end))
        kept = kept[np.argsort((start[kept] << 32) - end[kept])]  # by start, the longest first
        form = self._forms(data, number[kept], start[kept], end[kept])
        kept, form = kept[form >= TAKEN], form[form >= TAKEN]
        chosen = _leftmost_longest(start[kept], end[kept]) & (form != TAKEN)
        kept, form = kept[chosen], form[chosen]
        whole = ~_fragments(data, start[kept], end[kept])
        return _hits(page, start[kept][whole], end[kept][whole], form[whole])

    def _forms(self, data: bytes, number: Ints, start: Ints, end: Ints) -> NDArray[np.int32]:
        """Return what `Names.form` says of each match."""
        hashes = Stretches(data + bytes(8)).hashed(NOTHING, start, end)
        place = (hashes % np.uint64(_MEMORY)).view(np.int64)
        form: NDArray[np.int32] = self._said[place]
        new = np.flatnonzero(self._met[place] != hashes)
        form_of = self.names.form
        form[new] = [
            form_of(data[first:last], which)
            for which, first, last in zip(number[new].tolist(), start[new].tolist(), end[new].tolist(), strict=True)
        ]
        self._met[place[new]], self._said[place[new]] = hashes[new], form[new]
        return form

    def _bounded(self, data: bytes, start: Ints, end: Ints) -> NDArray[np.bool_]:
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
        # What stands after a hyphen must begin with a small letter, or the name goes on.
        closes[(after == ord("-")) & ~_SMALL[beyond]] = _NO
        point = ((before == ord(".")) | (before == ord(","))) & _DIGIT[first]
        earlier = bytes_[np.maximum(start - 2, 0)]
        opens[point & _DIGIT[earlier]] = _NO
        opens[point & (earlier > 127)] = _ASK
        good: NDArray[np.bool_] = (opens == _YES) & (closes == _YES)
        for index in np.flatnonzero((opens != _NO) & (closes != _NO) & ~good).tolist():
            good[index] = (opens[index] == _YES or _asked(data, int(start[index]), is_start)) and (
                closes[index] == _YES or _closes(data, int(end[index]))
            )
        return good


def _leftmost_longest(start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Choose among stretches, which come by their start and the longest first, those that overlap no earlier one."""
    reach = np.maximum.accumulate(end) if len(end) else end
    chosen: NDArray[np.bool_] = np.ones(len(start), dtype=bool)
    chosen[1:] = start[1:] >= reach[:-1]  # these begin a run of overlapping stretches
    heads = np.flatnonzero(chosen)
    run = np.cumsum(chosen) - 1
    # Of a run the first is chosen, and mostly covers the rest; where it does not, go through it.
    for number in np.unique(run[start >= end[heads[run]]]).tolist():
        stop = heads[number + 1] if number + 1 < len(heads) else len(start)
        free = end[heads[number]]
        for index in range(heads[number] + 1, stop):
            if start[index] >= free:
                chosen[index], free = True, end[index]
    return chosen


def _fragments(data: bytes, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Tell which mentions are pieces of longer names: most at a glance, and the others by asking `boundaries`."""
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    blank, capital, named = bytes_[start - 1] == 32, _CAPITAL[bytes_[start]], _SMALL[bytes_[start + 1]]
    one, two, three, four = (bytes_[np.maximum(start - far, 0)] for far in (2, 3, 4, 5))
    follows = (bytes_[np.minimum(end + far, len(data) - 1)] for far in (1, 2))
    after = capital & (bytes_[end] == 32) & _CAPITAL[next(follows)] & _SMALL[next(follows)]
    sure: NDArray[np.bool_] = (after & named) | (blank & (one == ord("l")) & (two == ord("y")) & _SMALL[three])
    ask = after & ~named
    ask |= blank & (one == ord("m")) & (two == ord("u")) & (three == ord("i")) & _SMALL[four]
    ask |= blank & (one == ord(".")) & _CAPITAL[two] & _SMALL[bytes_[start]]
    if acids := _before_acid(data):
        ask |= np.isin(end, acids)
    # The word before, if it is letters: is there a capital in front of its small ones?
    these = np.flatnonzero(capital & blank & _SMALL[one] & ~sure)
    before = start[these] - 3
    while len(these):
        letters = bytes_[before]
        found = np.flatnonzero(_CAPITAL[letters])
        plain = (
            named[these[found]] & _OUTSIDE[bytes_[before[found] - 1]] & (start[these[found]] - before[found] < REACH)
        )
        ask[these[found[~plain]]] = True
        whole, first = these[found[plain]], before[found[plain]]
        sure[whole] = [
            data[word:mention].lower() not in _common_words_before()
            for word, mention in zip(first.tolist(), start[whole].tolist(), strict=True)
        ]
        these, before = these[_SMALL[letters]], before[_SMALL[letters]] - 1
    for index in np.flatnonzero(ask & ~sure).tolist():
        sure[index] = _is_fragment(data, int(start[index]), int(end[index]))
    return sure


@cache
def _common_words_before() -> frozenset[bytes]:
    """Return the common words, each with a blank behind it."""
    return frozenset(word.encode() + b" " for word in common_words())


def _before_acid(data: bytes) -> list[int]:
    """Return the places of blanks after which `acid` comes, at once or after one word."""
    places = []
    at = data.find(b" acid")
    while at >= 0:
        places += [at, data.rfind(b" ", 0, at)]
        at = data.find(b" acid", at + 1)
    return places


def _is_fragment(data: bytes, first: int, last: int) -> bool:
    return is_fragment(_left(data, first), data[first:last].decode(), _right(data, last), common_words())


def _left(data: bytes, at: int) -> str:
    """Return the characters of the document before a place, as far as any decision looks."""
    return data[max(at - 4 * REACH, 0) : at].decode("utf-8", "ignore").rpartition("\0")[2]


def _right(data: bytes, at: int) -> str:
    """Return the characters of the document from a place on, as far as any decision looks."""
    return data[at : at + 4 * REACH + 8].decode("utf-8", "ignore").partition("\0")[0]


def _closes(data: bytes, at: int) -> bool:
    """Tell whether a mention may end before this place."""
    suffix = _SUFFIX.match(data, at)
    return _closes_before(suffix[0]) if suffix else _asked(data, at, is_end)


@lru_cache(1 << 16)
def _closes_before(suffix: bytes) -> bool:
    """Put the question about a hyphen and an ASCII word behind it, once for each: many end in `-dependent`."""
    return is_end(f"x{suffix.decode()} ", 1)


def _asked(data: bytes, at: int, question: Callable[[str, int], bool]) -> bool:
    """Put a question about one place in the text to `boundaries`, which speaks of characters."""
    left = _left(data, at)
    return question(left + _right(data, at), len(left))


def _hits(page: Page, first: Ints, last: Ints, form: NDArray[np.int32]) -> Hits:
    """Return matches by document, with offsets that count its characters."""
    document = np.searchsorted(page.starts, first, side="right") - 1
    base = page.characters(page.starts)[document]
    start, end = page.characters(first) - base, page.characters(last) - base
    return Hits(document.astype(np.int32), start.astype(np.int32), end.astype(np.int32), form)
