"""The files of the 3-gram index: what a name's 3-grams are, and how the matrix of names and 3-grams is written.

It is one binary matrix, once by name and once by 3-gram. That a name has a 3-gram an nth time is a column of its
own, whose weight is what the nth time adds; so postings need no weights, and are 4 bytes each.

    owners.npy      the entity (row number) of each name, ascending
    scales.npy      1 / the length of each name's vector
    columns.npy     the columns of all names, end to end; name_ends.npy tells where each name's end
    grams.npy       what each column is: (n - 1) << 48 | three UTF-16 characters, ascending
    postings.npy    the names of all columns, end to end; gram_ends.npy tells where each column's end

Names are read in batches and the matrix is written in blocks, so four million names need no big machine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BATCH = 1 << 16
_BLOCK = 1 << 22
_MOST = (1 << 16) - 1
SHIFT = np.uint64(48)
BASE = np.uint64((1 << 48) - 1)
TYPES: dict[str, type[np.generic]] = {
    "owners": np.int32,
    "scales": np.float64,
    "columns": np.int32,
    "name_ends": np.int64,
    "grams": np.uint64,
    "postings": np.int32,
    "gram_ends": np.int64,
}
FILES = tuple(f"{name}.npy" for name in TYPES)

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(r"[^\W_]+")
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon "
    "phi chi psi omega"
).split()
_GREEK = str.maketrans(dict(zip("αβγδεζηθικλμνξοπρσςτυφχψω", (f" {name} " for name in _GREEK_NAMES), strict=True)))
_ASTRAL = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
"""Letters beyond 16 bits are left out: three must fit into 48."""


def spelling_key(text: str) -> str:
    """Return the words of a name in lower case and sorted, Greek letters by name, without accents and punctuation.

    >>> spelling_key("β-Catenin, Human")
    'beta catenin human'
    """
    if text.isascii():
        return " ".join(sorted(_ASCII_WORD.findall(text.lower())))
    plain = unicodedata.normalize("NFKD", text).casefold().translate(_GREEK)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return " ".join(sorted(_WORD.findall(_ASTRAL.sub(" ", plain))))


def grams_of(keys: list[str]) -> tuple[NDArray[np.uint64], Ints]:
    """Return the 3-grams of spelling keys, end to end, and how many each has.

    Two blanks between words make every window of three a 3-gram of one padded word, so none need be filtered out.
    """
    padded = [f"  {key.replace(' ', '  ')}" for key in keys]
    units = np.frombuffer(("".join(padded) + "  ").encode("utf-16-le"), np.uint16).astype(np.uint64)
    grams = units[:-2] << np.uint64(32) | units[1:-1] << np.uint64(16) | units[2:]
    return grams, np.fromiter(map(len, padded), np.int64, len(padded))


def build(folder: Path, names: pa.Table) -> dict[str, int]:
    """Write the index of an `Ontology.names_table()` into a folder; return figures worth keeping."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "columns.draft"
    grams = _Columns()
    owners: list[NDArray[np.int32]] = []
    sizes: list[Ints] = []
    try:
        with draft.open("wb") as stream:
            for keys, rows in _batches(names):
                columns, counts = grams.add(keys)
                stream.write(columns.tobytes())
                owners.append(rows)
                sizes.append(counts)
        order = np.argsort(grams.keys)
        keys_sorted = grams.keys[order]
        _save(folder, "grams", keys_sorted)
        _save(folder, "owners", np.concatenate([np.empty(0, np.int32), *owners]))
        name_ends = _save(folder, "name_ends", np.cumsum(np.concatenate([np.empty(0, np.int64), *sizes])))
        gram_ends = _save(folder, "gram_ends", np.cumsum(grams.frequency[order]))
        _write_matrix(folder, draft, order, name_ends, gram_ends)
    finally:
        draft.unlink(missing_ok=True)
    _write_scales(folder, keys_sorted, name_ends, gram_ends)
    return {"names": len(name_ends), "grams": int((keys_sorted <= BASE).sum()), "postings": int(last_of(name_ends))}


def _batches(names: pa.Table) -> Iterator[tuple[list[str], NDArray[np.int32]]]:
    """Yield spelling keys and entities in the order of entities; an entity has each key once, and none is empty."""
    rows = np.asarray(names.column("entity"))
    if len(rows) and np.any(rows[1:] < rows[:-1]):
        names = names.take(pa.array(np.argsort(rows, kind="stable")))
    current, seen = -1, set[str]()
    for batch in names.select(["text", "entity"]).to_batches(max_chunksize=_BATCH):
        keys, owners = [], []
        for text, row in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if row != current:
                current, seen = row, {""}
            key = spelling_key(text)
            if key not in seen:
                seen.add(key)
                keys.append(key)
                owners.append(row)
        if keys:
            yield keys, np.array(owners, np.int32)


class _Columns:
    """The columns met so far, numbered as they came: the ends of the build put them in order."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.uint64)
        self.frequency = np.empty(0, np.int64)
        self._sorted = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int32)

    def add(self, keys: list[str]) -> tuple[NDArray[np.int32], Ints]:
        """Return the columns of a batch of names, end to end, and how many each name has."""
        grams, counts = grams_of(keys)
        distinct, which = np.unique(grams, return_inverse=True)
        pairs = np.repeat(np.arange(len(keys)), counts) << 32 | which
        pairs.sort()
        first = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1])))
        times = np.diff(first, append=len(pairs))
        pairs = pairs[first]
        again = np.flatnonzero(times > 1)
        repeats = times[again] - 1
        nth = np.arange(1, repeats.sum() + 1) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        again = np.repeat(pairs[again], repeats)[nth <= _MOST]
        nth = nth[nth <= _MOST].astype(np.uint64)
        more, which_more = np.unique(nth << SHIFT | distinct[again & 0xFFFFFFFF], return_inverse=True)
        numbers = np.concatenate((self._number(distinct)[pairs & 0xFFFFFFFF], self._number(more)[which_more]))
        owners = np.concatenate((pairs >> 32, again >> 32))
        numbers = numbers[np.argsort(owners, kind="stable")]
        self.frequency = self.frequency + np.bincount(numbers, minlength=len(self.keys))
        return numbers, np.bincount(owners, minlength=len(keys))

    def _number(self, distinct: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the numbers of sorted, distinct columns; new ones get the next."""
        new = distinct[~np.isin(distinct, self._sorted, assume_unique=True)]
        if len(new):
            self.keys = np.concatenate((self.keys, new))
            self.frequency = np.concatenate((self.frequency, np.zeros(len(new), np.int64)))
            self._numbers = np.argsort(self.keys).astype(np.int32)
            self._sorted = self.keys[self._numbers]
        return self._numbers[np.searchsorted(self._sorted, distinct)]


def _save(folder: Path, name: str, values: NDArray[Any]) -> NDArray[Any]:
    values = values.astype(TYPES[name], copy=False)
    np.save(folder / f"{name}.npy", values, allow_pickle=False)
    return values


def last_of(ends: Ints) -> int:
    """Return where the last of some runs ends: how long they are together."""
    return int(ends[-1]) if len(ends) else 0


def _write_matrix(folder: Path, draft: Path, order: Ints, name_ends: Ints, gram_ends: Ints) -> None:
    """Write the matrix by name, its columns renumbered, and transpose it, in blocks of bounded size."""
    total = last_of(name_ends)
    shape = (total,)
    columns = np.lib.format.open_memmap(folder / "columns.npy", "w+", np.int32, shape) if total else None
    postings = np.lib.format.open_memmap(folder / "postings.npy", "w+", np.int32, shape) if total else None
    if columns is None or postings is None:  # a memory map cannot be empty
        _save(folder, "columns", np.empty(0, np.int32))
        _save(folder, "postings", np.empty(0, np.int32))
        return
    renumbered = np.empty(len(order), np.int32)
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    raw = np.memmap(draft, np.int32, "r", shape=shape)
    free = np.concatenate(([0], gram_ends[:-1]))
    for first, last in _blocks(name_ends):
        start, stop = (int(name_ends[first - 1]) if first else 0), int(name_ends[last - 1])
        block = renumbered[raw[start:stop]]
        columns[start:stop] = block
        owners = np.repeat(np.arange(first, last), np.diff(name_ends[first:last], prepend=start)).astype(np.int32)
        by_column = np.argsort(block, kind="stable")
        block = block[by_column]
        counts = np.bincount(block, minlength=len(order))
        before = np.cumsum(counts) - counts
        postings[(free - before)[block] + np.arange(len(block))] = owners[by_column]
        free += counts
    columns.flush()
    postings.flush()


def _blocks(ends: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of names that have about `_BLOCK` columns together."""
    first = 0
    while first < len(ends):
        start = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, start + _BLOCK, "right")), first + 1)
        yield first, last
        first = last


def _write_scales(folder: Path, keys: NDArray[np.uint64], name_ends: Ints, gram_ends: Ints) -> None:
    idf, _ = weights_of(keys, gram_ends, len(name_ends))
    nth = (keys >> SHIFT).astype(np.float64)
    # What the nth time adds to the square of 1 + ln n.
    added = idf**2 * ((1 + np.log(nth + 1)) ** 2 - np.where(nth > 0, (1 + np.log(np.maximum(nth, 1))) ** 2, 0))
    columns = np.load(folder / "columns.npy", mmap_mode="r")
    scales = np.empty(len(name_ends))
    for first, last in _blocks(name_ends):
        start = int(name_ends[first - 1]) if first else 0
        starts = np.concatenate(([0], name_ends[first : last - 1] - start))
        scales[first:last] = np.add.reduceat(added[columns[start : int(name_ends[last - 1])]], starts) ** -0.5
    _save(folder, "scales", scales)


def weights_of(keys: NDArray[np.uint64], gram_ends: Ints, names: int) -> tuple[Floats, Ints]:
    """Return the idf of each column's 3-gram, and the column in which names have that 3-gram a first time."""
    distinct = keys[: np.searchsorted(keys, BASE, "right")]
    base = np.searchsorted(distinct, keys & BASE)
    return idf_of(np.diff(gram_ends, prepend=0)[base], names), base


def idf_of(frequency: Ints, names: int) -> Floats:
    """Return the weights of 3-grams that so many names have."""
    return np.asarray(np.log((1 + names) / (1 + frequency)) + 1, np.float64)
