"""How alike a mention is spelled to the names of an entity: the cosine of their character 3-grams.

A name is cut into words, each padded with two blanks on both sides and cut into 3-grams; those it has, once or more
often, weigh their idf, and names are unit vectors. The order of words does not count, so "Neoplasms, Breast" and
"breast neoplasms" are one. 3-grams of the mention that no name has make its vector longer, so "xyz syndrome" is no
perfect match of "syndrome".

    build(Path("out/linker/spelling"), ontology.names_table())
    spelling = Spelling(Path("out/linker/spelling"))
    spelling.likeness("breast neoplasm").of(rows)        # of entities, by their likest names
    spelling.likeness("breast neoplasm").to("neoplasms") # of any text

    owners.npy   the entity (row number) of each name, ascending
    ends.npy     where each name's 3-grams end in
    grams.npy    the 3-grams of all names, as places in
    known.npy    the 3-grams there are, each as three UTF-16 characters in one number, ascending
    idf.npy      the weight of each
    lengths.npy  the length of each name's vector
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kriss.errors import DamagedError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BATCH = 1 << 15
"""Names that are read at a time: their number and a 3-gram fit into 64 bits."""
_SHIFT = np.uint64(48)
_GRAM = np.uint64((1 << 48) - 1)
_TYPES: dict[str, type[np.generic]] = {
    "owners": np.int32,
    "ends": np.int64,
    "grams": np.int32,
    "known": np.uint64,
    "idf": np.float64,
    "lengths": np.float64,
}
FILES = tuple(f"{name}.npy" for name in _TYPES)
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(r"[^\W_]+")
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon "
    "phi chi psi omega"
).split()
_GREEK = str.maketrans(dict(zip("αβγδεζηθικλμνξοπρσςτυφχψω", (f" {name} " for name in _GREEK_NAMES), strict=True)))
_ASTRAL = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
"""Letters beyond 16 bits are left out: three must fit into 48."""


def plain_words(text: str) -> str:
    """Return the words of a name in lower case and sorted, Greek letters by name, without accents and punctuation.

    >>> plain_words("β-Catenin, Human")
    'beta catenin human'
    """
    if text.isascii():
        return " ".join(sorted(_ASCII_WORD.findall(text.lower())))
    plain = unicodedata.normalize("NFKD", text).casefold().translate(_GREEK)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return " ".join(sorted(_WORD.findall(_ASTRAL.sub(" ", plain))))


def build(folder: Path, names: pa.Table) -> dict[str, int]:
    """Write the files for an `Ontology.names_table()`, in two passes over it; return figures worth keeping."""
    folder.mkdir(parents=True, exist_ok=True)
    known, owners, sizes = np.empty(0, np.uint64), [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for words, rows in _batches(names):
        which, grams = _grams_of(words)
        known = np.union1d(known, grams)
        owners.append(rows)
        sizes.append(np.bincount(which, minlength=len(words)))
    ends = np.cumsum(np.concatenate(sizes))
    total = int(ends[-1]) if len(ends) else 0
    found = (
        np.lib.format.open_memmap(folder / "grams.npy", "w+", np.int32, (total,)) if total else np.empty(0, np.int32)
    )
    frequency, filled = np.zeros(len(known), np.int64), 0
    for words, _ in _batches(names):
        places = np.searchsorted(known, _grams_of(words)[1])
        found[filled : filled + len(places)] = places
        filled += len(places)
        frequency += np.bincount(places, minlength=len(known))
    idf = _idf(frequency, len(ends))
    lengths = np.empty(len(ends))
    for first in range(0, len(ends), _BATCH):
        last = min(first + _BATCH, len(ends))
        start = int(ends[first - 1]) if first else 0
        starts = np.concatenate(([0], ends[first : last - 1] - start))
        lengths[first:last] = np.sqrt(np.add.reduceat(idf[found[start : int(ends[last - 1])]] ** 2, starts))
    if isinstance(found, np.memmap):
        found.flush()
    else:
        np.save(folder / "grams.npy", found)
    written = {"owners": np.concatenate(owners), "ends": ends, "known": known, "idf": idf, "lengths": lengths}
    for name, values in cast(dict[str, NDArray[Any]], written).items():
        np.save(folder / f"{name}.npy", values.astype(_TYPES[name], copy=False))
    return {"names": len(ends), "grams": len(known)}


def _batches(names: pa.Table) -> Iterator[tuple[list[str], NDArray[np.int32]]]:
    """Yield the words of names and their entities, in the order of entities; an entity has each once."""
    rows = np.asarray(names.column("entity"))
    if len(rows) and np.any(rows[1:] < rows[:-1]):
        names = names.take(pa.array(np.argsort(rows, kind="stable")))
    current, seen = -1, set[str]()
    for batch in names.select(["text", "entity"]).to_batches(max_chunksize=_BATCH):
        words, owners = [], []
        for text, row in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if row != current:
                current, seen = row, {""}
            plain = plain_words(text)
            if plain not in seen:
                seen.add(plain)
                words.append(plain)
                owners.append(row)
        if words:
            yield words, np.array(owners, np.int32)


def _grams_of(words: Sequence[str]) -> tuple[Ints, NDArray[np.uint64]]:
    """Return the distinct 3-grams of each of some names, end to end, and which name each is of.

    Two blanks between words make every window of three a 3-gram of one padded word, so none need be filtered out.
    """
    padded = [f"  {plain.replace(' ', '  ')}" for plain in words]
    units = np.frombuffer(("".join(padded) + "  ").encode("utf-16-le"), np.uint16).astype(np.uint64)
    grams = units[:-2] << np.uint64(32) | units[1:-1] << np.uint64(16) | units[2:]
    which = np.repeat(np.arange(len(words), dtype=np.uint64), np.fromiter(map(len, padded), np.int64, len(padded)))
    pairs = np.unique(which << _SHIFT | grams)
    return (pairs >> _SHIFT).astype(np.int64), pairs & _GRAM


def _idf(frequency: Ints, names: int) -> Floats:
    """Return the weights of 3-grams that so many names have."""
    return np.asarray(np.log((1 + names) / (1 + frequency)) + 1, np.float64)


class Spelling:
    """The names of an ontology by their 3-grams. Threads may share it, and it can be pickled: its path travels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        read = {name: _read(folder / f"{name}.npy", kind) for name, kind in _TYPES.items()}
        self.owners, self.ends, self.grams = read["owners"], read["ends"], read["grams"]
        self.known, self.idf, self.lengths = read["known"], read["idf"], read["lengths"]
        total = int(self.ends[-1]) if len(self.ends) else 0
        if (
            not len(self.owners) == len(self.ends) == len(self.lengths)
            or len(self.idf) != len(self.known)
            or total != len(self.grams)
            or not all(_ascends(values) for values in (self.ends, self.known))
        ):
            raise DamagedError(f"the files in {folder} do not belong together; build it again")

    def __reduce__(self) -> tuple[object, ...]:
        return Spelling, (self.folder,)

    def likeness(self, surface: str) -> Likeness:
        """Return a view of all entities by how alike their names are to a mention."""
        return Likeness(self, surface)

    def vector(self, text: str) -> tuple[Ints, Floats]:
        """Return a text as a unit vector: the places of those of its 3-grams that are known, and their weights."""
        grams = _distinct_grams(text)
        places = np.searchsorted(self.known, grams)
        has = places < len(self.known)
        has[has] = self.known[places[has]] == grams[has]
        weights = np.full(len(grams), _idf(np.zeros(1, np.int64), len(self.ends))[0])
        weights[has] = self.idf[places[has]]
        length = np.sqrt(np.sum(weights**2)) or 1.0
        return places[has], weights[has] / length


class Likeness:
    """How alike entities, or any names, are to one mention; from 0 to 1."""

    def __init__(self, spelling: Spelling, surface: str) -> None:
        self._spelling = spelling
        self._places, self._weights = spelling.vector(surface)

    @cached_property
    def _gains(self) -> Floats:
        gains = np.zeros(len(self._spelling.known))
        gains[self._places] = self._weights * self._spelling.idf[self._places]
        return gains

    def of(self, rows: Ints) -> NDArray[np.float32]:
        """Return the likeness of entities, by their likest name; 0 for one that has no names here."""
        spelling = self._spelling
        wanted = np.clip(rows, -1, np.iinfo(np.int32).max).astype(np.int32)  # of the type of the owners, for speed
        first, last = (np.searchsorted(spelling.owners, wanted, side) for side in ("left", "right"))
        result = np.zeros(len(wanted), np.float32)
        if not (has := last > first).any():
            return result
        names, starts = _ranges(first[has], last[has])
        places, name_starts = _ranges(np.where(names > 0, spelling.ends[names - 1], 0), spelling.ends[names])
        sums = np.add.reduceat(self._gains[spelling.grams[places]], name_starts) / spelling.lengths[names]
        # Rounded, so that what is equal on paper is equal here.
        result[has] = np.maximum.reduceat(np.round(np.minimum(sums, 1.0), 6), starts)
        return result

    def to(self, name: str) -> float:
        """Return the likeness of any one name."""
        places, weights = self._spelling.vector(name)
        _, own, other = np.intersect1d(self._places, places, assume_unique=True, return_indices=True)
        return round(min(float(np.sum(self._weights[own] * weights[other])), 1.0), 6)


@lru_cache(maxsize=1 << 15)
def _distinct_grams(text: str) -> NDArray[np.uint64]:
    """Return the 3-grams of a text; kept, for learned examples are compared again often."""
    plain = plain_words(text)
    return _grams_of([plain])[1] if plain else np.empty(0, np.uint64)


def _read(path: Path, kind: type[np.generic]) -> NDArray[Any]:
    try:
        # A file that is a header alone is empty, and cannot be mapped.
        values = np.load(path, mmap_mode="r" if path.stat().st_size > 128 else None, allow_pickle=False)
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing; build it again") from None
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise DamagedError(f"{path} cannot be read ({error}); build it again") from None
    if not isinstance(values, np.ndarray) or values.dtype != kind or values.ndim != 1:
        raise DamagedError(f"{path} does not hold a list of {kind.__name__}; build it again")
    return np.asarray(values)


def _ascends(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] > values[:-1]))


def _ranges(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of ranges, none of them empty, end to end, and where each begins in that."""
    sizes = last - first
    starts = np.cumsum(sizes) - sizes
    return np.repeat(first - starts, sizes) + np.arange(int(sizes.sum())), starts
