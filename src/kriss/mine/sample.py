"""Which mentions are kept: a bounded, deterministic sample for each entity and split.

Every mention has a number drawn from a seeded hash of its document and offset, and an entity
keeps those with the smallest: a bottom-k sample. Such samples merge: the sample of a whole is the
sample of the samples of its parts, so any sharding, order or number of workers gives the same.
Of mentions in near-identical contexts only the one with the smallest number counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Kept:
    """The hits that made it into a sample: their indices, and what they are ranked by."""

    index: NDArray[np.int64]
    split: NDArray[np.int8]
    number: Uint64
    likeness: Uint64


def keep(hits: Hits, entities: NDArray[np.int32], texts: Sequence[str], documents: Uint64, config: MineConfig) -> Kept:
    """Return the sample of some documents, by entity, split and number; `entities` are those of the hits."""
    chosen: list[int] = []
    likenesses: list[int] = []
    of_document = documents[hits.document]
    number = draw(of_document, hits.start)
    split = split_of(of_document, config)
    group = entities.astype(np.int64) * len(SPLITS) + split
    order = np.lexsort((number, hits.document, group))
    order = order[_rank(group[order] * (len(texts) + 1) + hits.document[order]) < config.per_document]
    order = order[np.lexsort((hits.start[order], hits.document[order], number[order], group[order]))]
    seen: set[int] = set()
    current, most = -1, config.per_entity
    columns = (order, group[order], hits.document[order], hits.start[order], hits.end[order])
    for index, of_group, document, start, end in zip(*(column.tolist() for column in columns), strict=True):
        if of_group != current:
            current, seen = of_group, set()
        if len(seen) < most:
            alike = likeness(texts[document], start, end)
            if alike not in seen:
                seen.add(alike)
                chosen.append(index)
                likenesses.append(alike)
    kept = np.array(chosen, dtype=np.int64)
    return Kept(kept, split[kept], number[kept], np.array(likenesses, dtype=np.uint64))


def _rank(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each element within its run of equal values."""
    if not len(groups):
        return groups
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(groups)]))))
