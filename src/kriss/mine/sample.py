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
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kriss.mine.config import SPLITS, MineConfig
from kriss.mine.matcher import Hits
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


def likeness(text: str, start: int, end: int) -> int:
    """Return a number that is the same for contexts alike but for case, digits and punctuation."""
    left = text[max(start - _LIKENESS, 0) : start].encode().translate(_LOWER, _NO_LETTERS)
    right = text[end : end + _LIKENESS].encode().translate(_LOWER, _NO_LETTERS)
    return crc32(left) << 32 | crc32(right)


def version(text: str) -> int:
    """Return a number for a text, to tell apart documents that share an id: their mentions draw the same numbers."""
    return crc32(text.encode())


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents as the sample sees them."""

    text: Sequence[str]
    number: Uint64
    version: NDArray[np.uint32]

    @classmethod
    def of(cls, documents: Sequence[tuple[str, str]], seed: int) -> Texts:
        """Number documents, given as (id, text)."""
        return cls(
            [text for _, text in documents],
            np.array([document_number(name, seed) for name, _ in documents], dtype=np.uint64),
            np.array([version(text) for _, text in documents], dtype=np.uint32),
        )


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


class Limits:
    """The largest number that can still matter, for each group (entity and split) with a full sample.

    A hit with a larger one is behind `per_entity` others in contexts of their own, and so would be
    in any sample of a whole that these are part of: it needs no context, and no place on disk.
    """

    def __init__(self, per_entity: int) -> None:
        self._most = per_entity
        self._group: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._number: Uint64 = np.zeros(0, dtype=np.uint64)
        self._likeness = self._number
        self._full, self._limit = self._group, self._number

    def copy(self) -> Limits:
        """Return limits that can be added to without changing these."""
        other = Limits(self._most)
        other.become(self)
        return other

    def become(self, other: Limits) -> None:
        """Take over other limits; arrays are never changed, so both may hold the same."""
        self._group, self._number, self._likeness = other._group, other._number, other._likeness
        self._full, self._limit = other._full, other._limit

    def add(self, kept: Kept) -> None:
        """Take account of a sample."""
        group = np.concatenate((self._group, kept.group))
        number = np.concatenate((self._number, kept.number))
        likeness = np.concatenate((self._likeness, kept.likeness))
        order = np.lexsort((number, likeness, group))
        again = (likeness[order][1:] == likeness[order][:-1]) & (group[order][1:] == group[order][:-1])
        order = np.concatenate((order[:1], order[1:][~again]))
        order = order[np.lexsort((number[order], group[order]))]
        rank = _rank(group[order])
        order, rank = order[rank < self._most], rank[rank < self._most]
        self._group, self._number, self._likeness = group[order], number[order], likeness[order]
        last = rank == self._most - 1
        self._full, self._limit = self._group[last], self._number[last]

    def admit(self, group: NDArray[np.int64], number: Uint64) -> NDArray[np.bool_]:
        """Tell which hits can still matter."""
        if not len(self._full):
            return np.ones(len(group), dtype=bool)
        at = np.minimum(np.searchsorted(self._full, group), len(self._full) - 1)
        admitted: NDArray[np.bool_] = (self._full[at] != group) | (number <= self._limit[at])
        return admitted


def keep(hits: Hits, entities: NDArray[np.int32], texts: Texts, config: MineConfig, limits: Limits) -> Kept:
    """Return the sample of some documents, by entity, split and number; `entities` are those of the hits."""
    of_document = texts.number[hits.document]
    number = draw(of_document, hits.start)
    group = entities.astype(np.int64) * len(SPLITS) + split_of(texts.number, config)[hits.document]
    # Before the limit for each document is applied: of one document it takes away the last in line only.
    order = np.flatnonzero(limits.admit(group, number))
    order = order[np.lexsort((number[order], hits.document[order], group[order]))]
    order = order[_rank(group[order] * (len(texts.text) + 1) + hits.document[order]) < config.per_document]
    order = order[np.lexsort((hits.start[order], texts.version[hits.document[order]], number[order], group[order]))]
    chosen, likenesses = _distinct(hits, group, order, texts.text, config.per_entity)
    return Kept(chosen, group[chosen], number[chosen], likenesses)


def _distinct(
    hits: Hits, group: NDArray[np.int64], order: NDArray[np.int64], texts: Sequence[str], most: int
) -> tuple[NDArray[np.int64], Uint64]:
    """Return the first hits of each group that have contexts of their own, at most so many, and their likenesses."""
    chosen: list[int] = []
    likenesses: list[int] = []
    columns = (order, hits.document[order], hits.start[order], hits.end[order])
    indices, documents, starts, ends = (column.tolist() for column in columns)
    heads = np.flatnonzero(_rank(group[order]) == 0).tolist()
    for head, stop in pairwise([*heads, len(indices)]):
        seen: set[int] = set()
        for at in range(head, stop):
            alike = likeness(texts[documents[at]], starts[at], ends[at])
            if alike not in seen:
                seen.add(alike)
                chosen.append(indices[at])
                likenesses.append(alike)
                if len(seen) == most:
                    break
    return np.array(chosen, dtype=np.int64), np.array(likenesses, dtype=np.uint64)


def _rank(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each element within its run of equal values."""
    if not len(groups):
        return groups
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(groups)]))))
