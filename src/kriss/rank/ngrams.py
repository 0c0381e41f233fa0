"""Candidates by spelling: the cosine of character 3-grams between a mention and every name of an ontology.

A name is cut into words, each word padded with two blanks on both sides and cut into 3-grams; a 3-gram that a name
has n times weighs (1 + ln n) · idf, and names are unit vectors. The order of words does not count, so "Neoplasms,
Breast" and "breast neoplasms" are one. What is unlike scikit-learn's TfidfVectorizer: 3-grams of the mention that no
name has make its vector longer, so that "xyz syndrome" is not a perfect match of "syndrome".

    build(Path("out/linker/ngrams"), ontology.names_table())
    index = NgramIndex.open("out/linker/ngrams")
    rows, similarity = index.search("breast neoplasm", 10)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError
from kriss.rank.ngram_files import (
    BASE,
    FILES,
    SHIFT,
    TYPES,
    Floats,
    Ints,
    build,
    grams_of,
    idf_of,
    last_of,
    spelling_key,
    weights_of,
)

__all__ = ["FILES", "NgramIndex", "Similarity", "build"]

_FIRST_GOAL = 0.3
"""How much of a mention's vector stays unread at first. Less reads long lists, more leaves many names in question."""
_MARGIN = 0.55
"""And at last, as a share of the kth best similarity. From 1 on, a name that was not met could be among the best."""
_SAMPLE = 512
_MANY = 2048
_SLACK = 1e-5
"""More than sums in single precision can be wrong by."""
_NOTHING = 1e-9
"""Less than any similarity that is not 0."""


class NgramIndex:
    """The names of an ontology by their 3-grams.

        index = NgramIndex.open("out/linker/ngrams")
        rows, similarity = index.search("breast neoplasm", 10)
        found = index.similarity("breast neoplasm")
        found.top(10), found.of([17, 4711])       # of any entities, without a search

    Threads may share it, and it can be pickled: its path travels.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        read = {name: _read(folder / f"{name}.npy", kind) for name, kind in TYPES.items()}
        self.owners, self.scales = read["owners"], read["scales"]
        self.columns, self.postings, self.keys = read["columns"], read["postings"], read["grams"]
        self.name_ends, self.gram_ends = read["name_ends"], read["gram_ends"]
        self._check()
        self.idf, base = weights_of(self.keys, self.gram_ends, len(self.owners))
        # Sums over all names are taken in single precision, and what they pick is then worked out in double.
        self.rough_scales = self.scales.astype(np.float32)
        nth = (self.keys >> SHIFT).astype(np.float64)
        self.gains = self.idf * np.where(nth > 0, np.log((nth + 1) / np.maximum(nth, 1)), 1)
        # Columns of one 3-gram side by side, so that a query finds them by the first.
        self.by_gram = np.argsort(base, kind="stable")
        self.gram_starts = np.searchsorted(base[self.by_gram], np.arange(int(base.max(initial=-1)) + 2))

    def _check(self) -> None:
        """Refuse files that cannot have been written together; the manifest's digests see the rest."""
        names, total = len(self.owners), len(self.columns)
        if (
            not len(self.scales) == len(self.name_ends) == names
            or not len(self.gram_ends) == len(self.keys)
            or not total == len(self.postings) == last_of(self.name_ends) == last_of(self.gram_ends)
            or not all(_ascend(values) for values in (self.name_ends, self.gram_ends, self.keys))
            or not np.isin(self.keys & BASE, self.keys).all()
        ):
            raise DamagedError(f"the files in {self.folder} do not belong together; build it again")

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> NgramIndex:
        """Open the index in a folder that `build` filled."""
        return cls(Path(folder))

    def __reduce__(self) -> tuple[object, ...]:
        return (NgramIndex, (self.folder,))

    def similarity(self, surface: str) -> Similarity:
        """Return a view of all entities by how alike their names are to a mention."""
        return Similarity(self, surface)

    def search(self, surface: str, k: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return the k entities with the likest names and their similarities, the likest first."""
        return self.similarity(surface).top(k)


def _read(path: Path, kind: type[np.generic]) -> NDArray[Any]:
    try:
        if path.stat().st_size <= 128:  # the header alone: empty, and not to be mapped
            values = np.load(path, allow_pickle=False)
        else:
            values = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing; build it again") from None
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise DamagedError(f"{path} cannot be read ({error}); build it again") from None
    if not isinstance(values, np.ndarray) or values.dtype != kind or values.ndim != 1:
        raise DamagedError(f"{path} does not hold a list of {kind.__name__}; build it again")
    return np.asarray(values)


def _ascend(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] > values[:-1]))


class Similarity:
    """How alike each entity's names are to one mention; worked out when asked.

    Rare 3-grams are looked up first. A name that has none of them can be no closer than the common ones left over
    allow (Cauchy and Schwarz), and once the k best are closer than that, the long lists of the common ones need not
    be read: the few names still in question are compared in full. The answer is the same as if all had been.
    """

    def __init__(self, index: NgramIndex, surface: str) -> None:
        self._index = index
        columns, known, weights = _vector(index, surface)
        order = np.argsort(-index.idf[columns[known]], kind="stable")
        self._grams = columns[known][order]
        self._weights: Floats = weights[known][order]

    @cached_property
    def _gains(self) -> Floats:
        """What each column adds to a name's similarity, before the name's scale."""
        index = self._index
        gains = np.zeros(len(index.keys))
        for gram, weight in zip(self._grams.tolist(), self._weights.tolist(), strict=True):
            columns = index.by_gram[index.gram_starts[gram] : index.gram_starts[gram + 1]]
            gains[columns] = weight * index.gains[columns]
        return gains

    def of(self, rows: Sequence[int] | Ints) -> NDArray[np.float32]:
        """Return the similarity of the given entities; 0 for one that has no names here."""
        owners = self._index.owners
        # Of the same type as the owners, or numpy would turn all of these into the other.
        wanted = np.clip(np.asarray(rows, np.int64), -1, np.iinfo(np.int32).max).astype(np.int32)
        first, last = np.searchsorted(owners, wanted, "left"), np.searchsorted(owners, wanted, "right")
        result = np.zeros(len(wanted), np.float32)
        has = last > first
        if has.any():
            names, starts = _ranges(first[has], last[has])
            result[has] = np.maximum.reduceat(self._exact(names), starts)
        return result

    def to(self, name: str) -> float:
        """Return the similarity of any one name, of the index or not."""
        columns, known, weights = _vector(self._index, name)
        shared = zip(columns[known].tolist(), weights[known].tolist(), strict=True)
        return min(float(sum(self._own.get(gram, 0.0) * weight for gram, weight in shared)), 1.0)

    @cached_property
    def _own(self) -> dict[int, float]:
        return dict(zip(self._grams.tolist(), self._weights.tolist(), strict=True))

    def top(self, k: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return the k likest entities that have a 3-gram in common, the likest first, then by row."""
        if k < 1 or not len(self._grams):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        index = self._index
        left = np.append(np.sqrt(np.cumsum(self._weights[::-1] ** 2)[::-1]), 0.0)
        sums = np.zeros(len(index.owners), np.float32)
        done, goal = 0, _FIRST_GOAL
        while True:
            upto = int(np.argmax(left <= goal))
            self._add_up(sums, done, upto)
            done = upto
            near = sums * index.rough_scales
            names, bar = _bar(near, index.owners, k)
            if left[done] <= _MARGIN * bar:
                break
            goal = _MARGIN * bar
        if bar:
            for _ in range(2):
                names = np.flatnonzero(near >= max(self._least(bar, left[done]), _NOTHING))
                if len(names) < _MANY:
                    break
                closest = names[np.argpartition(near[names], -_SAMPLE)[-_SAMPLE:]]
                better = self._entities(np.sort(closest))[1]
                if len(better) < k or better[k - 1] <= bar:
                    break
                bar = better[k - 1]
        rows, best = self._entities(names)
        return rows[:k], best[:k].astype(np.float32)

    def _least(self, bar: float, left: float) -> float:
        """Return how near a name must look by the 3-grams read to be as near as the bar, whatever is left unread."""
        whole = float(np.sqrt(np.sum(self._weights**2)))
        read = float(np.sqrt(max(whole**2 - left**2, 0)))
        return read * float(np.cos(np.arctan2(left, read) + np.arccos(min(bar / whole, 1.0)))) - _SLACK

    def _add_up(self, sums: NDArray[np.float32], first: int, last: int) -> None:
        """Add what the given 3-grams, counted from the rarest, contribute to every name."""
        index = self._index
        ends, gains = index.gram_ends, self._gains
        grams = self._grams[first:last]
        for gram in grams.tolist():
            start = ends[gram - 1] if gram else 0
            np.add.at(sums, index.postings[start : ends[gram]], np.float32(gains[gram]))
        # The many short lists of names that have a 3-gram a second, third, ... time go in one.
        again = index.by_gram[_ranges(index.gram_starts[grams], index.gram_starts[grams + 1])[0]]
        again = again[again >= len(index.gram_starts) - 1]
        if len(again):
            places, _ = _ranges(ends[again - 1], ends[again])
            repeated = np.repeat(gains[again].astype(np.float32), ends[again] - ends[again - 1])
            np.add.at(sums, index.postings[places], repeated)

    def _entities(self, names: Ints) -> tuple[Ints, Floats]:
        """Return the entities of some names (ascending) by their best, the likest first, then by row."""
        if not len(names):
            return np.empty(0, np.int64), np.empty(0)
        owners = self._index.owners[names]
        starts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
        best = np.maximum.reduceat(self._exact(names), starts)
        order = np.argsort(-best, kind="stable")
        return owners[starts][order].astype(np.int64), best[order]

    def _exact(self, names: Ints) -> Floats:
        """Return the similarities of names, rounded so that what is equal on paper is equal here."""
        index = self._index
        ends = index.name_ends
        places, starts = _ranges(np.where(names > 0, ends[names - 1], 0), ends[names])
        sums = np.add.reduceat(self._gains[index.columns[places]], starts)
        return np.asarray(np.round(np.minimum(sums * index.scales[names], 1.0), 6), np.float64)


def _vector(index: NgramIndex, text: str) -> tuple[Ints, NDArray[np.bool_], Floats]:
    """Return a text as a unit vector: where the index has its 3-grams, whether it has them, and their weights."""
    grams, times = _counted(text)
    found = np.searchsorted(index.keys, grams)
    known = np.zeros(len(grams), bool)
    inside = found < len(index.keys)
    known[inside] = index.keys[found[inside]] == grams[inside]
    idf = idf_of(np.zeros(len(grams), np.int64), len(index.owners))
    idf[known] = index.idf[found[known]]
    weights = (1 + np.log(times)) * idf
    if len(weights):
        weights /= np.sqrt(np.sum(weights**2))
    return found, known, weights


@lru_cache(maxsize=1 << 15)
def _counted(text: str) -> tuple[NDArray[np.uint64], Ints]:
    """Return the 3-grams of a text and how often each comes; kept, for learned examples are compared again often."""
    key = spelling_key(text)
    grams, times = np.unique(grams_of([key])[0] if key else np.empty(0, np.uint64), return_counts=True)
    return grams, times


def _bar(near: NDArray[np.float32], owners: NDArray[np.int32], k: int) -> tuple[Ints, float]:
    """Return names that look near, ascending, and how near the kth entity looks: as near as that it is at least.

    Where fewer than k entities look near at all, these are all the names that do, and the bar is 0.
    """
    highest = near.max(initial=0)
    for share in (0.6, 0.4, 0.2, 0.0):
        names = np.flatnonzero(near > share * highest)
        if len(names) < k:
            continue
        entities = owners[names]
        starts = np.flatnonzero(np.concatenate(([True], entities[1:] != entities[:-1])))
        if len(starts) >= k:
            kth = float(np.partition(np.maximum.reduceat(near[names], starts), -k)[-k])
            return names, max(kth - _SLACK, _NOTHING)
    return names, 0.0


def _ranges(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of ranges, none of them empty, end to end, and where each begins in that."""
    sizes = last - first
    starts = np.cumsum(sizes) - sizes
    return np.repeat(first - starts, sizes) + np.arange(int(sizes.sum())), starts
