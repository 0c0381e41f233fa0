"""An ivf index: vectors sorted into lists by direction, as codes of two bits a dimension (RaBitQ).

It names candidates, more than are wanted, which are then scored exactly. FAISS is asked for few queries at a time: its
scan of the lists takes them one by one anyway, and the answer of a matrix product would depend on how many are asked
together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError
from kriss.index.exact import Mask, Matrix, Rows, Vectors, blank

faiss: Any = _faiss  # the types that it comes with lack, or have wrong, most of what is used here

_BITS, _PROBES, _REFINE = 2, 128, 6
"""Bits that a dimension takes, the sign included; lists that a search reads; candidates that are scored exactly for
each row wanted. The last two are stored with the index, and may be changed there.

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
_AT_ONCE = 16
"""Queries in one call of FAISS; from 20 on it would find their lists by a matrix product."""
_QUERY_BITS = 4
"""To how many bits a query is rounded while lists are scanned; eight find no more and take a third longer."""


def build_lists(file: Path, matrix: Matrix, seed: int) -> dict[str, Any]:
    """Write the lists of all vectors; return how they are searched.

    Centres are directions (spherical k-means), all of one length: a vector goes to the list, and a query
    to the lists, of the largest inner product, so that both mean the same by near. That length is the one
    which leaves least to encode. A random rotation comes first: the codes take the dimensions for alike,
    and those of a trained encoder are anything but.
    """
    seed %= 2**31 - 1  # FAISS takes an int
    lists = list_count(matrix.count)
    rotation = faiss.RandomRotationMatrix(matrix.width, matrix.width)
    rotation.init(seed)
    centres = faiss.IndexFlatIP(matrix.width)
    centres.add(_centres(rotation.apply(_sample(matrix, _POINTS * lists, seed)), lists, seed))
    index = faiss.IndexIVFRaBitQ(centres, matrix.width, lists, faiss.METRIC_INNER_PRODUCT, True, _BITS)
    index.is_trained = True  # the codes themselves have nothing to learn
    for _, block in matrix.blocks():
        index.add(rotation.apply(block))
    faiss.write_index(faiss.IndexPreTransform(rotation, index), str(file))
    return {"refine": _REFINE, "probes": min(lists, _PROBES), "lists": lists, "bits": _BITS}


def list_count(count: int) -> int:
    """Return how many lists so many vectors are sorted into: twice the root, as a power of two."""
    return 2 ** round(math.log2(2 * math.sqrt(count))) if count >= _ONE_LIST else 1


def _sample(matrix: Matrix, size: int, seed: int) -> Vectors:
    if size >= matrix.count:
        return matrix.read(np.arange(matrix.count))
    rows = np.random.default_rng(seed).choice(matrix.count, size, replace=False, shuffle=False)
    return matrix.read(np.sort(rows))


def _centres(sample: Vectors, lists: int, seed: int) -> Vectors:
    settings = {"niter": _ROUNDS, "seed": seed + 1, "spherical": True}
    means = faiss.Kmeans(sample.shape[1], lists, **settings, min_points_per_centroid=1, max_points_per_centroid=_POINTS)
    means.train(sample)
    best, _ = means.index.search(sample, 1)
    length = float(best.mean())
    return np.asarray(means.centroids * (length if length > 0 else 1.0), dtype=np.float32)


class Lists:
    """What `build_lists` wrote, mapped into memory."""

    def __init__(self, file: Path, shape: tuple[int, int], search: Mapping[str, Any]) -> None:
        self._file, self._count = file, shape[0]
        self._probes = int(search["probes"])
        try:
            self._read = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:
            reason = str(error).rpartition("Error: ")[2].split("\n")[0][:120]
            raise DamagedError(f"{file} is no index that FAISS reads ({reason}); build it again") from None
        if (
            not isinstance(self._read, faiss.IndexPreTransform)
            or self._read.metric_type != faiss.METRIC_INNER_PRODUCT
            or (self._read.ntotal, self._read.d) != shape
        ):
            raise DamagedError(f"{file} is not an index of {shape[0]} vectors of width {shape[1]}; build it again")
        self._lists = faiss.downcast_index(self._read.index)
        self._rotation = faiss.downcast_VectorTransform(self._read.chain.at(0))

    def find(self, queries: Vectors, fetch: int, keep: Mask | None = None) -> Rows:
        """Return the rows of `fetch` candidates for each query; -1 stands where there are fewer."""
        chosen = None if keep is None else faiss.IDSelectorBitmap(np.packbits(keep, bitorder="little"))
        _, rows = blank(len(queries), fetch)
        params = faiss.IVFRaBitQSearchParameters(nprobe=self._probes, qb=_QUERY_BITS, sel=chosen)
        size = _AT_ONCE if keep is None else 1
        for at in range(0, len(queries), size):
            turned = np.vstack([self._rotation.apply(query[None]) for query in queries[at : at + size]])
            if keep is not None:
                params.nprobe = self._probes_for(turned, keep)
            _, rows[at : at + size] = self._lists.search(turned, fetch, params=params)
        return self._sound(rows)

    def _probes_for(self, query: Vectors, keep: Mask) -> int:
        """Return how many lists to read: until they hold as many kept rows as the usual number would without a filter.

        A filter may leave lists empty, or fill only those far away.
        """
        filled = np.bincount(self._list_of[keep], minlength=self._lists.nlist)
        _, nearest = self._lists.quantizer.search(query, self._lists.nlist)
        wanted = self._probes * len(keep) / self._lists.nlist
        return min(int(np.searchsorted(np.cumsum(filled[nearest[0]]), wanted)) + 1, int(self._lists.nlist))

    @cached_property
    def _list_of(self) -> NDArray[np.int32]:
        """The list that each row is in: wanted by filters only, so found when first asked for."""
        found = np.zeros(self._count, dtype=np.int32)
        lists = self._lists.invlists
        for number in range(lists.nlist):
            if size := lists.list_size(number):
                found[self._sound(faiss.rev_swig_ptr(lists.get_ids(number), size))] = number
        return found

    def _sound(self, rows: Rows) -> Rows:
        """Return rows that FAISS named, if they can be."""
        if rows.max(initial=-1) >= self._count or rows.min(initial=0) < -1:
            raise DamagedError(f"{self._file} names a row that does not exist; build it again")
        return rows
