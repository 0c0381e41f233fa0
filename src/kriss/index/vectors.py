"""Vectors on disk, searched by inner product: all of them, or the likeliest by codes, which are then scored exactly.

    flat   vectors.npy (float32): every vector is looked at, as in the paper       4 bytes a dimension
    ivf    vectors.npy (float16) and lists.faiss (`kriss.index.lists`)             ¼ and 30 bytes a vector; 2 on disk

    build(folder, vectors, choose(*vectors.shape))
    index = Index.open(folder)
    scores, rows = index.search(queries, 64)

Every score is the exact inner product with the vector that is kept, and an answer does not depend on how many queries
are asked at once. The same vectors, kind and seed give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from kriss.errors import ConfigError, DamagedError, InputError, VersionError
from kriss.index.exact import BLOCK, Mask, Matrix, Rows, Vectors, best_of, best_rows, blank

if TYPE_CHECKING:
    from kriss.index.lists import Lists

Kind = Literal["flat", "ivf"]
KINDS: tuple[Kind, ...] = get_args(Kind)
VECTORS, LISTS, SETTINGS, FORMAT = "vectors.npy", "lists.faiss", "index.json", 2
FILES: Mapping[Kind, tuple[str, ...]] = {"flat": (VECTORS,), "ivf": (VECTORS, LISTS)}
DTYPES: Mapping[Kind, str] = {"flat": "<f4", "ivf": "<f2"}
FLAT_BYTES = 1 << 29
"""Up to how many bytes of float32 an index is flat when nobody says otherwise."""
_LARGEST = float(np.finfo(np.float16).max)
_FEW = 20_000
"""Rows kept by a filter that are looked at one by one: some tens of milliseconds, and no find is missed."""
_EXTRA, _NEAR, _FAR = 16, 64, 2
"""Candidates beyond those that the factor of refinement gives, which matter for a k of one; up to which k that
factor holds, and the one for what is asked beyond: codes err by as much there, where neighbours lie denser, but
an error moves a row by a smaller share of k."""


def choose(count: int, width: int) -> Kind:
    """Return the kind that `--index auto` means for so many vectors: flat up to half a GB, then ivf.

    Flat misses nothing, and up to there (350,000 vectors of width 384) a core answers a query in 30 ms, or in
    13 when many are asked at once: about what encoding the mention costs. Beyond, time and memory would go
    on growing with the count; ivf takes a twelfth of the memory and, at 4 million, 6 ms, for a hundredth of
    the recall at 64.
    """
    return "flat" if count * width * 4 <= FLAT_BYTES else "ivf"


def build(folder: Path, vectors: NDArray[np.float32], kind: Kind, *, seed: int = 0) -> dict[str, Any]:
    """Write an index of the rows of `vectors` into an existing folder; return what is worth knowing of it.

    `vectors` may be a map of a file larger than memory.
    """
    if kind not in KINDS:
        raise ConfigError(f"the kind of an index is one of {', '.join(KINDS)}, not '{kind}'")
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"an index needs at least one vector; there are {vectors.shape[0] if vectors.ndim else 0}")
    longest, search = _write_vectors(folder / VECTORS, vectors, kind), {}
    if kind == "ivf":
        from kriss.index.lists import build_lists

        search = build_lists(folder / LISTS, Matrix(folder / VECTORS, vectors.shape, DTYPES[kind]), seed)
    facts = {
        "kind": kind,
        "count": vectors.shape[0],
        "width": vectors.shape[1],
        "longest": longest,
        "search": search,
        "bytes": {name: (folder / name).stat().st_size for name in FILES[kind]},
    }
    text = json.dumps({"format": FORMAT, **facts}, indent=2, sort_keys=True) + "\n"
    (folder / SETTINGS).write_text(text, encoding="utf-8")
    return facts


def _write_vectors(file: Path, vectors: NDArray[np.float32], kind: Kind) -> float:
    """Write the vectors a block at a time, and return the length of the longest."""
    longest, limit = 0.0, _LARGEST if kind == "ivf" else np.inf
    with file.open("wb") as stream:
        header = {"descr": DTYPES[kind], "fortran_order": False, "shape": vectors.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for start in range(0, len(vectors), BLOCK):
            block = np.asarray(vectors[start : start + BLOCK], dtype=np.float32)
            peaks = np.abs(block).max(axis=1)
            if len(bad := np.flatnonzero(~(peaks <= limit) | np.isinf(peaks))):
                large = "is too large for float16; build a flat index"
                what = large if np.isfinite(peaks[bad[0]]) else "is not a number"
                raise InputError(f"a value of vector {start + int(bad[0])} {what}")
            longest = max(longest, float(np.linalg.norm(block.astype(np.float64), axis=1).max()))
            stream.write(block.astype(DTYPES[kind]).tobytes())
    return longest


class Index:
    """An index that `build` wrote, mapped into memory, where processes share it.

    Any number of threads may search it at once. A pickled one is its folder, and is opened again where it is unpickled.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.kind: Kind = settings["kind"]
        self.width, self._count = int(settings["width"]), int(settings["count"])
        self._longest = float(settings["longest"])
        shape = self._count, self.width
        self._matrix = Matrix(folder / VECTORS, shape, DTYPES[self.kind])
        self._lists: Lists | None = None
        if self.kind == "ivf":
            from kriss.index.lists import Lists

            self._lists = Lists(folder / LISTS, shape, settings["search"])
            self._refine = int(settings["search"]["refine"])

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map an index, after a look at whether its files are those that were written."""
        file = folder / SETTINGS
        try:
            settings = json.loads(file.read_bytes())
            if (found := int(settings["format"])) != FORMAT:
                advice = "newer than this kriss: upgrade kriss" if found > FORMAT else "which is no longer read"
                raise VersionError(f"{folder} is an index of format {found}, {advice}; or build it again")
            if settings["kind"] not in KINDS:
                raise DamagedError(f"{file} names a kind of index that does not exist; build it again")
            for name in FILES[settings["kind"]]:
                _check_size(folder / name, int(settings["bytes"][name]))
            return cls(folder, settings)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DamagedError(f"{file} does not describe an index ({reason}); build it again") from None

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return type(self).open, (self.folder,)

    def __len__(self) -> int:
        return self._count

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors that scores are computed with: exact in a flat index, else rounded to float16."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._count:
            raise IndexError(f"rows from {rows.min()} to {rows.max()} in an index of {self._count} vectors")
        return self._matrix.read(rows)

    def search(self, queries: Vectors, k: int, keep: Mask | None = None) -> tuple[Vectors, Rows]:
        """Return scores and rows of the k best for each query, best first, ties by smaller row.

        `keep` limits the search to rows that are True. Where fewer than k exist, the rest is -inf and -1.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.width:
            raise ValueError(f"queries of shape {queries.shape} for an index of width {self.width}")
        if keep is not None and keep.shape != (self._count,):
            raise ValueError(f"'keep' of shape {keep.shape} for an index of {self._count} vectors")
        scores, rows = blank(len(queries), k)
        available = self._count if keep is None else int(np.count_nonzero(keep))
        top = min(k, available)
        asked = np.flatnonzero(np.isfinite(queries).all(axis=1))  # what is not a number finds nothing
        if top > 0 and len(asked):
            keep = keep if available < self._count else None
            if self._lists is None or (keep is not None and available <= _FEW):
                found = best_rows(self._matrix, self._longest, queries[asked], top, keep)
            else:
                found = self._by_lists(self._lists, queries[asked], top, available, keep)
            scores[asked, :top], rows[asked, :top] = found
        return scores, rows

    def _by_lists(
        self, lists: Lists, queries: Vectors, k: int, available: int, keep: Mask | None
    ) -> tuple[Vectors, Rows]:
        scores, rows = blank(len(queries), k)
        fetch = self._refine * min(k, _NEAR) + _FAR * max(k - _NEAR, 0) + _EXTRA
        found = lists.find(queries, min(available, fetch), keep)
        lacking = []
        for at, query in enumerate(queries):
            candidates = found[at][found[at] >= 0]
            if len(candidates) < k:  # too few lie where it was looked
                lacking.append(at)
            else:
                scores[at], rows[at] = best_of(self._matrix, query, candidates, k)
        scores[lacking], rows[lacking] = best_rows(self._matrix, self._longest, queries[lacking], k, keep)
        return scores, rows

    def exact(self, queries: Vectors, k: int) -> tuple[Vectors, Rows]:
        """Return what `search` would if it missed nothing, by a look at every vector that is kept."""
        return best_rows(self._matrix, self._longest, queries, min(k, self._count))


def recall(index: Index, queries: Vectors, k: int = 64) -> float:
    """Return the mean share of the exact best k that the index finds.

    A row whose score equals the k-th best is as good as any other of that score, so it counts as found.
    """
    best, _ = index.exact(queries, k)
    found, _ = index.search(queries, best.shape[1])
    return float(np.mean(found >= best[:, -1:]))


def _check_size(file: Path, expected: int) -> None:
    """Refuse a file that is not as long as it was: a map of one cut short would end the process."""
    if not file.is_file():
        raise DamagedError(f"{file} is missing; build the index again")
    if (size := file.stat().st_size) != expected:
        raise DamagedError(f"{file} has {size} bytes where {expected} were written; build the index again")
