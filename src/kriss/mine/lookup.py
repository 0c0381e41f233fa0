"""Finding keys in text by its words, with tables of hashes: numpy looks up all words of a page at once.

Words are the longest runs of word characters. A name starts where a word may start and does not end
before a word character, so a key is found as whole words, with what stands between and around them:

    key             lead   words, each with what stands before it   tail
    breast cancer          breast| cancer
    (il-2) gene     blank  il|-2|) gene
    il-2 (human)           il|-2|  human                            )

Each key is a path of nodes, one for every word and one for the tail; a node is known by the hash of the
key up to there. Of nearly all words two small tables tell that no key consists of this word, and none
begins with this one and the next. Those that are left walk the nodes. At last the bytes of the text are
compared with those of the key, so that a hash only ever saves work.

An automaton finds the same one byte at a time; it takes three times as long, and six times the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kriss.mine.boundaries import is_word
from kriss.mine.pages import Ints

Hashes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Found = tuple[Ints, Ints, Ints]
"""Numbers of keys, and where in the text they start and end."""

_BLANK = 32
_FACTOR, _OTHER_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_FOLD = np.uint64(29)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
_WORD_BYTES = bytes(byte > 127 or is_word(chr(byte)) for byte in range(256))
_WORD_CODES = np.array([is_word(chr(code)) for code in range(0x3100)])
_GOES_ON, _HAS_TAIL = 1, 2
"""What is told of a node: some key has a further word; some key ends with a tail here."""


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


@dataclass(frozen=True, slots=True)
class Words:
    """Where the words of a keyed text are; the text begins and ends with none."""

    data: Bytes
    eights: NDArray[np.void]
    """The eight bytes from each byte on."""
    first: Ints
    last: Ints
    gaps: Ints
    """How many bytes stand before each word, and behind the last."""

    @classmethod
    def of(cls, keyed: bytes | bytearray) -> Words:
        """Find the words of a text."""
        data = np.frombuffer(keyed + bytes(8), dtype=np.uint8)
        inside = np.frombuffer(bytearray(keyed.translate(_WORD_BYTES)), dtype=np.bool_)
        if not keyed.isascii():
            for length, lead, code in beyond_ascii(data):
                outside = lead[~_are_word(code)]
                for place in range(length):
                    inside[outside + place] = False
        edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
        eights = np.ndarray((len(data) - 7,), dtype="V8", buffer=data, strides=(1,))
        gaps = np.diff(edges, prepend=0, append=len(keyed))[0::2]
        return cls(data, eights, edges[0::2].copy(), edges[1::2].copy(), gaps)

    def hashed(self, before: Hashes | np.uint64, first: Ints, last: Ints) -> Hashes:
        """Return the hashes of stretches of the text, each going on from a hash before it."""
        size = last - first
        hashes: Hashes = _mixed(before ^ self._eight(first, size))
        rows, done = np.flatnonzero(size > 8), 8
        while len(rows):
            hashes[rows] = _mixed(hashes[rows] ^ self._eight(first[rows] + done, size[rows] - done))
            done += 8
            rows = rows[size[rows] > done]
        return hashes

    def agree(self, first: Ints, other: Words, other_first: Ints, size: Ints) -> NDArray[np.bool_]:
        """Tell which stretches of this text are the same, byte for byte, as stretches of another."""
        same = np.ones(len(first), dtype=bool)
        rows, done = np.arange(len(first)), 0
        while len(rows):
            mine, left = first[rows] + done, size[rows] - done
            same[rows] &= self._eight(mine, left) == other._eight(other_first[rows] + done, left)
            done += 8
            rows = rows[left > 8]
        return same

    def _eight(self, first: Ints, size: Ints) -> Hashes:
        """Return what stands at some places, up to eight bytes, as numbers."""
        eight: Hashes = self.eights[first].view("<u8")
        eight &= _MASKS.take(size, mode="clip")
        return eight


def _are_word(code: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which characters are part of a word."""
    answer: NDArray[np.bool_] = _WORD_CODES.take(code, mode="clip")
    for rare in np.flatnonzero(code >= len(_WORD_CODES)).tolist():
        answer[rare] = is_word(chr(code[rare]))
    return answer


def _mixed(values: Hashes) -> Hashes:
    values = values * _FACTOR
    values ^= values >> _FOLD
    return values


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

    def __init__(self, hashes: Hashes, number: NDArray[np.int32], told: Bytes) -> None:
        order = np.argsort(hashes)
        hashes = hashes[order]
        heads = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
        self._hashes = hashes[heads]
        self.number = np.maximum.reduceat(number[order], heads)
        """The key that ends at each node, or -1."""
        self.told = np.bitwise_or.reduceat(told[order], heads)
        bits = max(len(heads).bit_length(), 8)
        self._shift = np.uint64(64 - bits)
        count = np.bincount((self._hashes >> self._shift).view(np.int64), minlength=1 << bits)
        self._begin = np.concatenate(([0], np.cumsum(count))).astype(np.int32)

    def find(self, hashes: Hashes) -> tuple[Ints, Ints]:
        """Return which of these hashes have a node, and which it is."""
        slot = (hashes >> self._shift).view(np.int64)
        node, end = self._begin.take(slot), self._begin.take(slot + 1)
        rows = np.flatnonzero(node < end)
        found: list[tuple[Ints, Ints]] = []
        while len(rows):
            same = self._hashes.take(node[rows]) == hashes[rows]
            found.append((rows[same], node[rows[same]]))
            rows = rows[~same]
            node[rows] += 1
            rows = rows[node[rows] < end[rows]]
        return _joined(found, 2)


class Lookup:
    """Finds keys in keyed text; a key is known by its number."""

    def __init__(self, keys: pa.ChunkedArray) -> None:
        pieces = [b"\0".join(chunk.to_pylist()) for chunk in keys.chunks]
        self._keys = words = Words.of(b"\0".join((b"", *pieces, b"")))
        self._size = np.asarray(pc.binary_length(keys)).astype(np.int64)
        self._start = np.cumsum(np.concatenate(([1], self._size[:-1] + 1)))
        end = self._start + self._size
        word = np.searchsorted(words.first, self._start)
        count = np.searchsorted(words.first, end) - word
        self._nodes, self._tails = self._laid_out(word, count, end)
        lead = words.first[np.minimum(word, len(words.first) - 1)] - self._start
        self._leads = [size for size in np.unique(lead[count > 0]).tolist() if size]
        hashes = words.hashed(np.uint64(0), words.first, words.last)
        self._alone = Filter(hashes[word[(count == 1) & (lead == 0)]])
        self._led = Filter(hashes[word[(count > 0) & (lead > 0)]])
        pairs = word[(count > 1) & (lead == 0)]
        self._pairs = Filter(_paired(hashes[pairs], hashes[pairs + 1]))

    def _laid_out(self, word: Ints, count: Ints, end: Ints) -> tuple[Nodes, list[int]]:
        """Return the nodes of all keys, and the sizes of their tails."""
        words, parts, tails = self._keys, [], set[int]()
        key = np.flatnonzero(count)
        at, hashes = self._start[key], np.zeros(len(key), dtype=np.uint64)
        level = 0
        while len(key):
            last = words.last[word[key] + level]
            hashes = words.hashed(hashes, at, last)
            final = count[key] == level + 1
            whole, tail = final & (last == end[key]), np.flatnonzero(final & (last < end[key]))
            told = np.where(final, np.where(whole, 0, _HAS_TAIL), _GOES_ON)
            parts.append((hashes, np.where(whole, key, -1), told))
            tails |= set((end[key[tail]] - last[tail]).tolist())
            ended = words.hashed(hashes[tail], last[tail], end[key[tail]])
            parts.append((ended, key[tail], np.zeros(len(tail), dtype=np.int64)))
            key, at, hashes = key[~final], last[~final], hashes[~final]
            level += 1
        hashes, number, told = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Nodes(hashes, number.astype(np.int32), told.astype(np.uint8)), sorted(tails)

    def find(self, keyed: bytes | bytearray) -> Found:
        """Return where keys stand in a keyed text, as whole words after a blank."""
        words = Words.of(keyed)
        hashes = words.hashed(np.uint64(0), words.first, words.last)
        likely = self._alone.holds(hashes)
        likely[:-1] |= self._pairs.holds(_paired(hashes[:-1], hashes[1:]))
        word = np.flatnonzero(likely)
        word = word[words.data[words.first[word] - 1] == _BLANK]
        parts = [*self._walk(words, words.first[word], word, hashes[word])]
        word = np.flatnonzero(words.gaps[:-1] > 1)
        word = word[self._led.holds(hashes[word])]
        for lead in self._leads:
            word = word[words.gaps[word] > lead]
            start = words.first[word] - lead
            after = np.flatnonzero(words.data[start - 1] == _BLANK)
            hashes = words.hashed(np.uint64(0), start[after], words.last[word[after]])
            parts += self._walk(words, start[after], word[after], hashes)
        number, start, end = _joined(parts, 3)
        right = np.flatnonzero(self._size[number] == end - start)
        number, start, end = number[right], start[right], end[right]
        same = words.agree(start, self._keys, self._start[number], end - start)
        return number[same], start[same], end[same]

    def _walk(self, words: Words, start: Ints, word: Ints, hashes: Hashes) -> Iterator[Found]:
        """Yield keys that start at some places, by the word up to which their hashes are."""
        while len(start):
            rows, node = self._nodes.find(hashes)
            start, word, hashes = start[rows], word[rows], hashes[rows]
            last, number, told = words.last[word], self._nodes.number[node], self._nodes.told[node]
            ends = np.flatnonzero(number >= 0)
            yield number[ends], start[ends], last[ends]
            tailed = np.flatnonzero((told & _HAS_TAIL > 0) & (words.gaps[word + 1] > 1))
            yield from self._with_tails(words, start[tailed], word[tailed], hashes[tailed])
            on = np.flatnonzero((told & _GOES_ON > 0) & (word + 1 < len(words.last)))
            start, word = start[on], word[on] + 1
            hashes = words.hashed(hashes[on], last[on], words.last[word])

    def _with_tails(self, words: Words, start: Ints, word: Ints, hashes: Hashes) -> Iterator[Found]:
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


def _paired(hashes: Hashes, after: Hashes) -> Hashes:
    return hashes * _OTHER_FACTOR + after


def _joined(parts: list[tuple[Any, ...]], columns: int) -> tuple[Any, ...]:
    none = (np.zeros(0, dtype=np.int64),) * columns
    return tuple(np.concatenate(column) for column in zip(none, *parts, strict=True))
