"""Finding keys in text by its words, with tables of hashes: numpy looks up all words of a page at once.

Words are the longest runs of word characters. A name starts where a word may start and does not end
before a word character, so a key is found as whole words, with what stands between and around them:

    key             lead   words, each with what stands before it   tail
    breast cancer          breast| cancer
    (il-2) gene     blank  il|-2|) gene
    il-2 (human)           il|-2|  human                            )

Each key is a path of nodes, one for every word and one for the tail; a node is known by the hash of the
key up to there. Of nearly all words two small tables tell that no key consists of this word, and none
begins with this one and the next. Those that are left walk the nodes.

Hashes are of 64 bits and are taken for what they stand for: with ten million nodes and five billion
words, all of UMLS and of PubMed, a word is taken for another once in some four hundred runs.

An automaton finds the same one byte at a time, in twice the time, and takes three times as long to build.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kriss.mine.boundaries import is_word
from kriss.mine.pages import NOTHING, Bytes, Hashes, Ints, Stretches, beyond_ascii, pair

Matches = tuple[Ints, Ints, Ints]
"""Numbers of keys, and where in the text they start and end."""

_BLANK = 32
_WORD_BYTES = bytes(byte > 127 or is_word(chr(byte)) for byte in range(256))
_WORD_CODES = np.array([is_word(chr(code)) for code in range(0x3100)])
_GOES_ON, _HAS_TAIL = 1, 2
"""Flags of a node: some key has a further word; some key ends with a tail here."""


@dataclass(frozen=True, slots=True)
class Words:
    """Where the words of a keyed text are; the text begins and ends with none."""

    data: Bytes
    stretches: Stretches
    first: Ints
    last: Ints
    gaps: Ints
    """How many bytes stand before each word, and behind the last."""

    @classmethod
    def of(cls, keyed: bytearray) -> Words:
        """Find the words of a text."""
        data = np.frombuffer(keyed + bytes(8), dtype=np.uint8)
        inside = np.frombuffer(keyed.translate(_WORD_BYTES), dtype=np.bool_)
        if not keyed.isascii():
            for length, lead, code in beyond_ascii(data):
                outside = lead[~_are_word(code)]
                for place in range(length):
                    inside[outside + place] = False
        edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
        first, last = edges[0::2].copy(), edges[1::2].copy()
        gaps = np.concatenate((first, [len(keyed)]))
        gaps[1:] -= last
        return cls(data, Stretches(data), first, last, gaps)

    def opened(self, words: Ints) -> Ints:
        """Return those words before which a blank stands."""
        opened: Ints = words[self.data[self.first[words] - 1] == _BLANK]
        return opened

    def hashed(self, before: Hashes | np.uint64, first: Ints, last: Ints) -> Hashes:
        """Return the hashes of stretches of the text, each going on from a hash before it."""
        return self.stretches.hashed(before, first, last)


def _are_word(code: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which characters are part of a word."""
    answer: NDArray[np.bool_] = _WORD_CODES.take(code, mode="clip")
    rare = np.flatnonzero(code >= len(_WORD_CODES))
    codes, place = np.unique(code[rare], return_inverse=True)
    answer[rare] = np.array([is_word(chr(one)) for one in codes.tolist()], dtype=bool)[place]
    return answer


class Filter:
    """A set of hashes, by some of their bits: it holds all that it was made of, and one in thirty of all others."""

    def __init__(self, hashes: Hashes) -> None:
        bits = max(len(hashes).bit_length() + 1, 8)
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, dtype=np.uint8)
        np.bitwise_or.at(self._table, (hashes >> self._shift).view(np.int64), np.uint8(1) << _lowest(hashes))

    def holds(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Tell which hashes may be in the set."""
        held: Bytes = self._table.take((hashes >> self._shift).view(np.int64))
        held >>= _lowest(hashes)
        held &= np.uint8(1)
        return held.view(np.bool_)


def _lowest(hashes: Hashes) -> Bytes:
    lowest = hashes.astype(np.uint8)
    lowest &= np.uint8(7)
    return lowest


class Nodes:
    """Nodes in the order of their hashes, with a table of where each run of highest bits begins."""

    def __init__(self, hashes: Hashes, number: NDArray[np.int32], flags: Bytes) -> None:
        order = np.argsort(hashes)
        hashes = hashes[order]
        heads = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
        self._hashes = hashes[heads]
        self.number = np.maximum.reduceat(number[order], heads)
        """The key that ends at each node, or -1."""
        self.flags = np.bitwise_or.reduceat(flags[order], heads)
        bits = max(len(heads).bit_length(), 8)
        self._shift = np.uint64(64 - bits)
        count = np.bincount((self._hashes >> self._shift).view(np.int64), minlength=1 << bits)
        self._begin = np.concatenate(([0], np.cumsum(count))).astype(np.int32)

    def find(self, hashes: Hashes) -> tuple[Ints, Ints]:
        """Return which of these hashes have a node, and which it is."""
        slot = (hashes >> self._shift).view(np.int64)
        node, end = self._begin.take(slot), self._begin.take(slot + 1)
        rows = np.flatnonzero(node < end)
        found = [rows[:0]]
        while len(rows):
            same = self._hashes.take(node[rows]) == hashes[rows]
            found.append(rows[same])
            rows = rows[~same]
            node[rows] += 1
            rows = rows[node[rows] < end[rows]]
        rows = np.concatenate(found)
        return rows, node[rows].astype(np.int64)


class Lookup:
    """Finds keys in keyed text; a key is known by its number."""

    def __init__(self, keys: pa.ChunkedArray) -> None:
        words = Words.of(bytearray(b"\0").join((b"", *(b"\0".join(chunk.to_pylist()) for chunk in keys.chunks), b"")))
        size = np.asarray(pc.binary_length(keys)).astype(np.int64)
        start = np.cumsum(np.concatenate(([1], size[:-1] + 1)))
        word = np.searchsorted(words.first, start)
        count = np.searchsorted(words.first, start + size) - word
        self._nodes, self._tails = _laid_out(words, start, start + size, word, count)
        lead = words.first[word] - start
        self._leads = [size for size in np.unique(lead).tolist() if size]
        hashes = words.hashed(NOTHING, words.first, words.last)
        self._alone = Filter(hashes[word[(count == 1) & (lead == 0)]])
        self._led = Filter(hashes[word[lead > 0]])
        pairs = word[(count > 1) & (lead == 0)]
        self._pairs = Filter(pair(hashes[pairs], hashes[pairs + 1]))

    def find(self, keyed: bytearray) -> Matches:
        """Return where keys stand in a keyed text, as whole words after a blank."""
        words = Words.of(keyed)
        hashes = words.hashed(NOTHING, words.first, words.last)
        alone = words.opened(np.flatnonzero(self._alone.holds(hashes)))
        pairs = words.opened(np.flatnonzero(self._pairs.holds(pair(hashes[:-1], hashes[1:]))))
        start, word, started = self._led_starts(words, hashes)
        pairs_hashes = words.hashed(hashes[pairs], words.last[pairs], words.last[pairs + 1])
        return _joined(
            [
                *self._walk(words, words.first[alone], alone, hashes[alone], goes_on=False),
                *self._walk(words, words.first[pairs], pairs + 1, pairs_hashes),
                *self._walk(words, start, word, started),
            ]
        )

    def _led_starts(self, words: Words, hashes: Hashes) -> tuple[Ints, Ints, Hashes]:
        """Return where a key with a lead may start, its first word, and the hash up to the end of that."""
        word = np.flatnonzero(words.gaps[:-1] > 1)
        word = word[self._led.holds(hashes[word])]
        starts, firsts = [word[:0]], [word[:0]]
        for lead in self._leads:
            word = word[words.gaps[word] > lead]
            start = words.first[word] - lead
            opens = words.data[start - 1] == _BLANK
            starts.append(start[opens])
            firsts.append(word[opens])
        start, word = np.concatenate(starts), np.concatenate(firsts)
        return start, word, words.hashed(NOTHING, start, words.last[word])

    def _walk(
        self, words: Words, start: Ints, word: Ints, hashes: Hashes, *, goes_on: bool = True
    ) -> Iterator[Matches]:
        """Yield keys that start at some places, and end with a certain word or, if it goes on, with a later one.

        The hashes are those of the text from each start to the end of that word.
        """
        while len(start):
            rows, node = self._nodes.find(hashes)
            start, word, hashes = start[rows], word[rows], hashes[rows]
            last, number, flags = words.last[word], self._nodes.number[node], self._nodes.flags[node]
            ends = np.flatnonzero(number >= 0)
            yield number[ends], start[ends], last[ends]
            tailed = np.flatnonzero((flags & _HAS_TAIL > 0) & (words.gaps[word + 1] > 1))
            yield from self._with_tails(words, start[tailed], word[tailed], hashes[tailed])
            if not goes_on:
                return
            on = np.flatnonzero((flags & _GOES_ON > 0) & (word + 1 < len(words.last)))
            start, word = start[on], word[on] + 1
            hashes = words.hashed(hashes[on], last[on], words.last[word])

    def _with_tails(self, words: Words, start: Ints, word: Ints, hashes: Hashes) -> Iterator[Matches]:
        """Yield keys with a tail, which leaves at least a byte before the next word or the end of the text."""
        for size in self._tails:
            room = np.flatnonzero(words.gaps[word + 1] > size)
            if not len(room):
                return
            start, word, hashes = start[room], word[room], hashes[room]
            last = words.last[word]
            rows, node = self._nodes.find(words.hashed(hashes, last, last + size))
            number = self._nodes.number[node]
            ends = rows[number >= 0]
            yield number[number >= 0], start[ends], last[ends] + size


def _laid_out(words: Words, at: Ints, end: Ints, word: Ints, count: Ints) -> tuple[Nodes, list[int]]:
    """Return the nodes of keys, and the sizes of their tails; a key has `count` words, the first is number `word`."""
    parts, tails = [], set[int]()
    key, hashes = np.arange(len(at)), np.zeros(len(at), dtype=np.uint64)
    while len(key):
        last = words.last[word]
        hashes = words.hashed(hashes, at, last)
        final = count == 1
        whole, tail = final & (last == end), np.flatnonzero(final & (last < end))
        parts.append((hashes, np.where(whole, key, -1), np.where(final, np.where(whole, 0, _HAS_TAIL), _GOES_ON)))
        parts.append((words.hashed(hashes[tail], last[tail], end[tail]), key[tail], np.zeros_like(tail)))
        tails.update((end[tail] - last[tail]).tolist())
        key, at, end, word, count, hashes = (part[~final] for part in (key, last, end, word + 1, count - 1, hashes))
    hashes, number, flags = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Nodes(hashes, number.astype(np.int32), flags.astype(np.uint8)), sorted(tails)


def _joined(parts: list[Matches]) -> Matches:
    none = np.zeros(0, dtype=np.int64)
    number, start, end = (np.concatenate(column) for column in zip((none, none, none), *parts, strict=True))
    return number, start, end
