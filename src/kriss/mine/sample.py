"""Which mentions are kept: a bounded, deterministic sample for each entity and split.

Every mention has a number drawn from a seeded hash of its document and offset, and an entity
keeps those with the smallest: a bottom-k sample. Such samples merge: the sample of a whole is the
sample of the samples of its parts, so any sharding, order or number of workers gives the same.
Of mentions in near-identical contexts only the one with the smallest number counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kriss.mine.config import SPLITS, MineConfig
from kriss.mine.matcher import Hits
from kriss.ontology.arrowfile import key_of

Uint64 = NDArray[np.uint64]
_LIKENESS = 60
"""How many characters on each side are compared to tell whether two contexts are alike."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


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
    around = text[max(start - _LIKENESS, 0) : start] + "\0" + text[end : end + _LIKENESS]
    return key_of(_NO_LETTERS.sub(" ", around.lower()).strip())


@dataclass(frozen=True, slots=True)
class Kept:
    """One hit that made it into a sample: its index among the hits, and what it is ranked by."""

    index: int
    split: int
    number: int
    likeness: int


def keep(
    hits: Hits, entities: NDArray[np.int32], texts: Sequence[str], documents: Uint64, config: MineConfig
) -> Iterator[Kept]:
    """Yield the sample of some documents, by entity, split and number; `entities` are those of the hits."""
    of_document = documents[hits.document]
    number = draw(of_document, hits.start)
    split = split_of(of_document, config)
    group = entities.astype(np.int64) * len(SPLITS) + split
    order = np.lexsort((number, hits.document, group))
    order = order[_rank(group[order] * (len(texts) + 1) + hits.document[order]) < config.per_document]
    order = order[np.lexsort((hits.start[order], hits.document[order], number[order], group[order]))]
    seen: set[int] = set()
    current = -1
    for index, of_group in zip(order.tolist(), group[order].tolist(), strict=True):
        if of_group != current:
            current, seen = of_group, set()
        if len(seen) < config.per_entity:
            text = texts[hits.document[index]]
            alike = likeness(text, int(hits.start[index]), int(hits.end[index]))
            if alike not in seen:
                seen.add(alike)
                yield Kept(index, int(split[index]), int(number[index]), alike)


def _rank(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each element within its run of equal values."""
    if not len(groups):
        return groups
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(groups)]))))
