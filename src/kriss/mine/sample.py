"""Which mentions are kept: a bounded, deterministic sample for each entity and split.

Every mention has a number drawn from a seeded hash of its document and offset, and an entity
keeps those with the smallest: a bottom-k sample. Such samples merge: the sample of a whole is the
sample of the samples of its parts, so any sharding, order or number of workers gives the same.
Of mentions in near-identical contexts only the one with the smallest number counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kriss.mine.config import SPLITS, MineConfig
from kriss.mine.matcher import Hits
from kriss.mine.pages import Page
from kriss.ontology.arrowfile import key_of

Uint64 = NDArray[np.uint64]
_LIKENESS = 60
"""How many characters on each side are compared to tell whether two contexts are alike."""
_LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())


def mixed(values: Uint64) -> Uint64:
    """Scramble 64-bit numbers one to one (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


def document_number(document_id: str, seed: int) -> int:
    """Return the 64-bit number that stands for a document under a seed."""
    return key_of(f"{seed}\0{document_id}")


def draw(documents: Uint64, starts: NDArray[np.int32]) -> Uint64:
    """Return the number by which a mention competes, from its document's number and its offset."""
    return mixed(documents ^ mixed(starts.astype(np.uint64)))


def split_of(documents: Uint64, config: MineConfig) -> NDArray[np.int8]:
    """Return the split (an index into SPLITS) of documents, by their numbers alone."""
    share = mixed(~documents).astype(np.float64) / 2.0**64
    limits = np.array([config.train, config.train + config.dev])
    return np.searchsorted(limits, share, side="right").astype(np.int8)


def likeness(left: bytes, right: bytes) -> int:
    """Return a number that is the same for contexts alike but for case, digits and punctuation."""
    return crc32(left.translate(_LOWER, _NO_LETTERS)) << 32 | crc32(right.translate(_LOWER, _NO_LETTERS))


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents as the sample sees them."""

    page: Page
    number: Uint64
    version: NDArray[np.uint32]
    """Checksums, to tell apart documents that share an id: their mentions draw the same numbers."""

    @classmethod
    def of(cls, ids: Sequence[str], page: Page, seed: int) -> Texts:
        """Number the documents of a page."""
        data = memoryview(page.data)
        return cls(
            page,
            np.array([document_number(name, seed) for name in ids], dtype=np.uint64),
            np.array([crc32(data[start : end - 1]) for start, end in pairwise(page.starts.tolist())], dtype=np.uint32),
        )

    def likeness(self, hits: Hits, these: NDArray[np.int64]) -> Uint64:
        """Return the likeness of some hits' contexts."""
        data = self.page.data
        edges = self.page.around(hits.document[these], hits.start[these], hits.end[these], _LIKENESS)
        numbers = [
            likeness(data[left:first], data[last:right])
            for left, first, last, right in zip(*(edge.tolist() for edge in edges), strict=True)
        ]
        return np.array(numbers, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Kept:
    """The hits that made it into a sample: their indices, and what they are ranked by."""

    index: NDArray[np.int64]
    group: NDArray[np.int64]
    number: Uint64
    likeness: Uint64

    @property
    def split(self) -> NDArray[np.int8]:
        """The split of each hit."""
        return (self.group % len(SPLITS)).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest number that can still matter, for each group (entity and split) with a full sample.

    A hit with a larger one is behind `per_entity` others in contexts of their own, and so would be
    in any sample of a whole that these are part of: it needs no context, and no place on disk.
    """

    per_entity: int
    group: NDArray[np.int64]
    number: Uint64
    likeness: Uint64
    full: NDArray[np.int64]
    limit: Uint64

    @classmethod
    def none(cls, per_entity: int) -> Limits:
        """Return limits that admit every hit."""
        no_group, no_number = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)
        return cls(per_entity, no_group, no_number, no_number, no_group, no_number)

    def after(self, kept: Kept) -> Limits:
        """Return the limits that hold after one more sample."""
        group = np.concatenate((self.group, kept.group))
        number = np.concatenate((self.number, kept.number))
        likeness = np.concatenate((self.likeness, kept.likeness))
        order = _in_order(group, number)
        order = order[_earlier(likeness[order], group[order]) == 0]
        rank = _rank(group[order])
        order, rank = order[rank < self.per_entity], rank[rank < self.per_entity]
        group, number, likeness = group[order], number[order], likeness[order]
        last = rank == self.per_entity - 1
        return Limits(self.per_entity, group, number, likeness, group[last], number[last])

    def admit(self, group: NDArray[np.int64], number: Uint64) -> NDArray[np.bool_]:
        """Tell which hits can still matter."""
        if not len(self.full):
            return np.ones(len(group), dtype=bool)
        at = np.minimum(np.searchsorted(self.full, group), len(self.full) - 1)
        admitted: NDArray[np.bool_] = (self.full[at] != group) | (number <= self.limit[at])
        return admitted


def keep(hits: Hits, entities: NDArray[np.int32], texts: Texts, config: MineConfig, limits: Limits) -> Kept:
    """Return the sample of some documents, by entity, split and number; `entities` are those of the hits."""
    number = draw(texts.number[hits.document], hits.start)
    group = entities.astype(np.int64) * len(SPLITS) + split_of(texts.number, config)[hits.document]

    rows = np.flatnonzero(limits.admit(group, number))
    rows = rows[_in_order(group[rows], number[rows], texts.version[hits.document[rows]], hits.start[rows])]
    of_one = group[rows] * len(texts.number) + hits.document[rows]
    # Limits first, then those of each document: of one they take away the last in line only.
    rows = rows[_earlier(of_one) < config.per_document]
    chosen, likenesses = _distinct(hits, group, rows, texts, config.per_entity)
    return Kept(chosen, group[chosen], number[chosen], likenesses)


def _distinct(
    hits: Hits, group: NDArray[np.int64], order: NDArray[np.int64], texts: Texts, most: int
) -> tuple[NDArray[np.int64], Uint64]:
    """Return the first hits of each group that have contexts of their own, at most so many, and their likenesses.

    Contexts are compared as far down each group as it takes, first `most` and then twice as many each
    time: a frequent name has thousands of hits, of which nearly always the first few suffice.
    """
    rank = _rank(group[order])
    number = np.cumsum(rank == 0) - 1  # of its group, for each row
    alike = np.zeros(len(order), dtype=np.uint64)
    rest, own = np.arange(len(order)), np.zeros(0, dtype=np.int64)
    done, reach = [own], most
    while len(rest):
        now = rest[rank[rest] < reach]
        alike[now] = texts.likeness(hits, order[now])
        rows = np.sort(np.concatenate((own, now)))
        own = rows[_earlier(alike[rows], number[rows]) == 0]
        own = own[_rank(number[own]) < most]
        unfinished = np.bincount(number[own], minlength=number[-1] + 1) < most
        rest = rest[(rank[rest] >= reach) & unfinished[number[rest]]]
        unfinished[:] = False
        unfinished[number[rest]] = True
        done.append(own[~unfinished[number[own]]])
        own = own[unfinished[number[own]]]
        reach *= 2
    chosen = np.sort(np.concatenate(done))
    return order[chosen], alike[chosen]


def _in_order(group: NDArray[np.int64], number: Uint64, *ties: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rows by group, number and what breaks ties.

    A sort by one key that holds most of both is several times as quick as `lexsort`, which is
    needed only when that key leaves a tie: two documents with one id, or a group beyond its bits.
    """
    if not len(group) or group.max() < 1 << 24:
        key = group.astype(np.uint64) << np.uint64(40) | number >> np.uint64(24)
        order = np.argsort(key)
        if (key[order][1:] != key[order][:-1]).all():
            return order
    return np.lexsort((*reversed(ties), number, group))


def _earlier(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return, for each row, how many rows before it have the same keys.

    The first key should tell most rows apart: only those it does not are looked at in order.
    """
    order = np.argsort(keys[0])
    tied = keys[0][order][1:] == keys[0][order][:-1]
    rows = np.sort(order[np.concatenate((tied, [False])) | np.concatenate(([False], tied))]) if len(order) else order
    rows = rows[np.lexsort([key[rows] for key in keys])]
    count = np.zeros(len(order), dtype=np.int64)
    count[rows] = _rank(*(key[rows] for key in keys))
    return count


def _rank(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each row within its run of equal keys."""
    size = len(keys[0])
    if not size:
        return np.zeros(0, dtype=np.int64)
    new = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(np.concatenate(([True], new)))
    return np.arange(size) - np.repeat(starts, np.diff(np.concatenate((starts, [size]))))
