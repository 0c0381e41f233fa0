"""Writing an index: vectors go through in blocks, so that they may be many more than memory holds.

    index.faiss    what is searched: whole vectors (flat, fp16) or codes (sq8, hnsw, ivf)
    exact.npy      float16 copies that candidates found by codes are scored with (sq8, hnsw, ivf)
    index.json     kind, count, width, the settings of a search, the size of each file

The same vectors, kind and seed give the same bytes: a graph is therefore grown by one thread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from kriss.errors import ConfigError, InputError
from kriss.index.vectors_kept import BLOCK, Vectors
from kriss.index.vectors_threads import threads

faiss: Any = _faiss  # the types that it comes with lack, or have wrong, most of what is used here

Kind = Literal["flat", "fp16", "sq8", "hnsw", "ivf"]
Progress = Callable[[dict[str, Any]], None]

KINDS: tuple[Kind, ...] = get_args(Kind)
INDEX, EXACT, SETTINGS, FORMAT = "index.faiss", "exact.npy", "index.json", 1
WHOLE = {"flat": "<f4", "fp16": "<f2"}
"""Kinds whose index.faiss has the very vectors, and as what: they need no copies for exact scores."""

FLAT_BYTES = 1 << 29
"""Up to how many bytes of float32 an index is flat when nobody says otherwise."""
_TRAIN = 100_000
"""Vectors that the ranges of a scalar quantizer are learned from."""
_LINKS, _BREADTH = 32, 200
"""Links a node of the graph has on its upper levels (twice as many on the lowest), and how widely it is searched
for them."""
_BITS, _PROBES, _REFINE = 2, 128, 6
"""Of an ivf index: bits that a dimension takes, the sign included; lists that a search reads; candidates that it
scores exactly for each row wanted. The last two are stored in index.json, and may be changed there.

With 4 million vectors of width 384 in 4096 lists, on one core (benchmarks/index_scale.py --sweep shows more):

    lists read           64      128      128      128      256
    candidates            6        3        6       10        6
    recall at 64      0.983    0.983    0.990    0.991    0.994
    ms a query          3.9      5.5      5.8      7.5     10.0

Three or four bits would need half the candidates, but take 0.7 or 0.9 GB where two take 0.5, and scan slower.
"""
_POINTS, _ROUNDS = 40, 10
"""Vectors per list that k-means learns from, and its iterations."""
_ONE_LIST = 1000
"""Below so many vectors, more lists than one save nothing."""
_LARGEST = float(np.finfo(np.float16).max)


def choose(count: int, width: int) -> Kind:
    """Return the kind that `--index auto` means for so many vectors: flat up to half a GB, then ivf.

    Flat misses nothing, and up to there (350,000 vectors of width 384) a core answers a query in 30 ms, or in
    13 when many are asked at once: about what encoding the mention costs. Beyond, time and memory would go
    on growing with the count; ivf takes a twelfth of the memory and, at 4 million, 6 ms, for a hundredth of
    the recall at 64. The others are for those who ask: fp16 and sq8 save memory but no time, and a graph
    is as fast as the lists in five times their memory, after a build by one thread.
    """
    return "flat" if count * width * 4 <= FLAT_BYTES else "ivf"


def build(
    folder: Path, vectors: NDArray[np.float32], kind: Kind, *, seed: int = 0, progress: Progress | None = None
) -> dict[str, Any]:
    """Write an index of the rows of `vectors` into an existing folder; return what is worth keeping of it.

    `vectors` may be a map of a file larger than memory; `progress` hears of every block.
    """
    if kind not in KINDS:
        raise ConfigError(f"the kind of an index is one of {', '.join(KINDS)}, not '{kind}'")
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"an index needs at least one vector; there are {vectors.shape[0] if vectors.ndim else 0}")
    work = _Blocks(vectors, kind, progress or (lambda event: None))
    seed %= 2**31 - 1  # FAISS takes an int
    if kind in WHOLE or kind == "sq8":
        settings = _write_codes(folder, work, kind, seed)
    elif kind == "hnsw":
        settings = _write_graph(folder, work, seed)
    else:
        settings = _write_lists(folder, work, seed)
    count, width = vectors.shape
    names = [INDEX] if kind in WHOLE else [INDEX, EXACT]
    facts = {
        "kind": kind,
        "count": count,
        "width": width,
        "longest": work.longest,
        "search": settings,
        "bytes": {name: (folder / name).stat().st_size for name in names},
    }
    text = json.dumps({"format": FORMAT, **facts}, indent=2, sort_keys=True) + "\n"
    (folder / SETTINGS).write_text(text, encoding="utf-8")
    return facts


class _Blocks:
    """The vectors a block at a time, checked, and measured as they pass."""

    def __init__(self, vectors: NDArray[np.float32], kind: Kind, progress: Progress) -> None:
        self._vectors, self._progress = vectors, progress
        self.count, self.width = vectors.shape
        self.longest = 0.0
        self._limit = np.inf if kind == "flat" else _LARGEST

    def __iter__(self) -> Iterator[Vectors]:
        for start in range(0, self.count, BLOCK):
            block = np.ascontiguousarray(self._vectors[start : start + BLOCK], dtype=np.float32)
            self._check(start, block)
            self.longest = max(self.longest, float(np.linalg.norm(block.astype(np.float64), axis=1).max()))
            yield block
            self._progress({"event": "indexed", "rows": start + len(block), "of": self.count})

    def _check(self, start: int, block: Vectors) -> None:
        peaks = np.abs(block).max(axis=1)
        bad = np.flatnonzero(~(peaks <= self._limit) | np.isinf(peaks))
        if len(bad):
            what = "is too large for float16; build a flat index" if np.isfinite(peaks[bad[0]]) else "is not a number"
            raise InputError(f"a value of vector {start + int(bad[0])} {what}")

    def sample(self, size: int, seed: int) -> Vectors:
        """Return some of the vectors, drawn without replacement, in their order."""
        if size >= self.count:
            return np.ascontiguousarray(self._vectors, dtype=np.float32)
        rows = np.random.default_rng(seed).choice(self.count, size, replace=False, shuffle=False)
        return np.ascontiguousarray(self._vectors[np.sort(rows)], dtype=np.float32)


@contextmanager
def _exact(folder: Path, work: _Blocks) -> Iterator[BinaryIO]:
    """Open exact.npy for the float16 bytes of every block."""
    with (folder / EXACT).open("wb") as stream:
        shape = {"descr": "<f2", "fortran_order": False, "shape": (work.count, work.width)}
        np.lib.format.write_array_header_1_0(stream, shape)
        yield stream


def _half(block: Vectors) -> bytes:
    return block.astype("<f2").tobytes()


def _write_codes(folder: Path, work: _Blocks, kind: Kind, seed: int) -> dict[str, Any]:
    """Write codes one after the other behind the header of an empty index, which is how FAISS keeps them.

    Its own `add` and `write_index` would hold all of them in memory, 6 GB for a flat index of 4 million.
    """
    index = _codes(work.width, kind)
    if kind == "sq8":
        index.train(work.sample(_TRAIN, seed))
    header = bytearray(faiss.serialize_index(index).tobytes())
    header[8:16] = work.count.to_bytes(8, "little")  # after the four letters of the type and the width
    codes = work.count * index.code_size
    header[-8:] = (codes // 4 if kind == "flat" else codes).to_bytes(8, "little")  # flat counts floats
    with (folder / INDEX).open("wb") as stream:
        stream.write(header)
        if kind in WHOLE:
            for block in work:
                stream.write(block.astype(WHOLE[kind]).tobytes())
            return {}
        with _exact(folder, work) as exact:
            for block in work:
                stream.write(index.sa_encode(block).tobytes())
                exact.write(_half(block))
    return {"refine": 2}


def _codes(width: int, kind: Kind) -> Any:  # noqa: ANN401 - FAISS has no types
    if kind == "flat":
        return faiss.IndexFlatIP(width)
    code = faiss.ScalarQuantizer.QT_fp16 if kind == "fp16" else faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexScalarQuantizer(width, code, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = kind == "fp16"
    return index


def _write_graph(folder: Path, work: _Blocks, seed: int) -> dict[str, Any]:
    """Grow a graph over codes of eight bits; its codes and links stay in memory until all are in."""
    index = faiss.IndexHNSWSQ(work.width, faiss.ScalarQuantizer.QT_8bit, _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BREADTH
    index.train(work.sample(_TRAIN, seed))
    with threads(1), _exact(folder, work) as exact:  # two threads would race for links
        for block in work:
            index.add(block)
            exact.write(_half(block))
    faiss.write_index(index, str(folder / INDEX))
    return {"refine": 2, "breadth": 1024}


def _write_lists(folder: Path, work: _Blocks, seed: int) -> dict[str, Any]:
    """Sort vectors into lists by direction, as RaBitQ codes of what sets them apart from their list's centre.

    Centres are directions (spherical k-means), all of one length: a vector goes to the list, and a query
    to the lists, of the largest inner product, so that both mean the same by near. That length is the one
    which leaves least to encode. A random rotation comes first: the codes take the dimensions for alike,
    and those of a trained encoder are anything but.
    """
    lists = list_count(work.count)
    rotation = faiss.RandomRotationMatrix(work.width, work.width)
    rotation.init(seed)
    centres = faiss.IndexFlatIP(work.width)
    centres.add(_centres(rotation.apply(work.sample(_POINTS * lists, seed)), lists, seed))
    index = faiss.IndexIVFRaBitQ(centres, work.width, lists, faiss.METRIC_INNER_PRODUCT, True, _BITS)
    index.is_trained = True  # the codes themselves have nothing to learn
    with _exact(folder, work) as exact:
        for block in work:
            index.add(rotation.apply(block))
            exact.write(_half(block))
    faiss.write_index(faiss.IndexPreTransform(rotation, index), str(folder / INDEX))
    return {"refine": _REFINE, "probes": min(lists, _PROBES), "lists": lists, "bits": _BITS}


def list_count(count: int) -> int:
    """Return how many lists an ivf index of so many vectors has: twice the root, as a power of two."""
    return 2 ** round(math.log2(2 * math.sqrt(count))) if count >= _ONE_LIST else 1


def _centres(sample: Vectors, lists: int, seed: int) -> Vectors:
    settings = {"niter": _ROUNDS, "seed": seed + 1, "spherical": True}
    means = faiss.Kmeans(sample.shape[1], lists, **settings, min_points_per_centroid=1, max_points_per_centroid=_POINTS)
    means.train(sample)
    best, _ = means.index.search(sample, 1)
    length = float(best.mean())
    return np.asarray(means.centroids * (length if length > 0 else 1.0), dtype=np.float32)
