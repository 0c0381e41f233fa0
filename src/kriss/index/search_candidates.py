"""Candidates from FAISS: more rows than are wanted, for `search_exact` to choose from.

What is found for a query must not depend on its company either. The scans of codes and the walk of a
graph take queries one by one, whatever their number; the rotation and the choice of lists of an ivf
index would go through BLAS from twenty queries on, and are therefore asked for one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from kriss.errors import DamagedError
from kriss.index.search_exact import blank
from kriss.index.vectors_kept import Rows, Vectors
from kriss.index.vectors_threads import threads

faiss: Any = _faiss  # the types that it comes with lack, or have wrong, most of what is used here
# OpenMP's threads do not live on in a forked process, and FAISS would wait for them.
os.register_at_fork(after_in_child=lambda: faiss.omp_set_num_threads(1))
_TYPES = {
    "flat": faiss.IndexFlatIP,
    "fp16": faiss.IndexScalarQuantizer,
    "sq8": faiss.IndexScalarQuantizer,
    "hnsw": faiss.IndexHNSWSQ,
    "ivf": faiss.IndexPreTransform,
}
_QUERY_BITS = 4
"""To how many bits a query is rounded while lists are scanned; eight find no more and take a third longer."""
_WIDEST = 4096
"""How widely a graph is searched at most where a filter hides most of it."""


class Candidates:
    """A mapped FAISS index of one of our kinds, and how it is searched."""

    def __init__(self, file: Path, kind: str, count: int, width: int, search: Mapping[str, Any]) -> None:
        self._file, self._kind, self._search = file, kind, search
        self._index = _read(file, kind, count, width)
        if kind == "ivf":
            self._rotation = faiss.downcast_VectorTransform(self._index.chain.at(0))
            self._lists = faiss.downcast_index(self._index.index)

    def find(self, queries: Vectors, fetch: int, keep: NDArray[np.bool_] | None = None) -> tuple[Vectors, Rows]:
        """Return rough scores and rows of `fetch` candidates for each query; -1 stands where there are fewer."""
        bits = None if keep is None else np.packbits(keep, bitorder="little")
        chosen = None if bits is None else faiss.IDSelectorBitmap(bits)
        if self._kind == "ivf":
            return self._from_lists(queries, fetch, chosen, keep)
        if self._kind == "hnsw":
            share = 1.0 if keep is None else max(float(keep.mean()), 1e-9)
            breadth = max(fetch, min(_WIDEST, int(self._search["breadth"] / share)))
            params = faiss.SearchParametersHNSW(efSearch=breadth, sel=chosen)
        else:
            params = None if chosen is None else faiss.SearchParameters(sel=chosen)
        scores, rows = self._index.search(queries, fetch, params=params)
        return scores, self.sound(rows)

    def sound(self, rows: Rows) -> Rows:
        """Return rows that FAISS named, if they can be."""
        if rows.max(initial=-1) >= self._index.ntotal or rows.min(initial=0) < -1:
            raise DamagedError(f"{self._file} names a row that does not exist; build it again")
        return rows

    def _from_lists(
        self,
        queries: Vectors,
        fetch: int,
        chosen: object,
        keep: NDArray[np.bool_] | None,
    ) -> tuple[Vectors, Rows]:
        with threads(1):  # others would only wait, busily, for the next of many short calls
            turned = np.vstack([self._rotation.apply(query) for query in queries[:, None]])
            scores, lists = self._probes(turned, keep)
        params = faiss.IVFRaBitQSearchParameters(nprobe=lists.shape[1], qb=_QUERY_BITS, sel=chosen)
        found, rows = blank(len(queries), fetch)
        pointers = [faiss.swig_ptr(array) for array in (turned, lists, scores, found, rows)]  # Python's has no filters
        self._lists.search_preassigned_c(len(queries), pointers[0], fetch, *pointers[1:], False, params)
        return found, self.sound(rows)

    def _probes(self, turned: Vectors, keep: NDArray[np.bool_] | None) -> tuple[Vectors, Rows]:
        """Return the lists to read for each query.

        A filter may leave lists empty, or only those far away filled: with one, lists are taken until as
        many rows that it keeps are in them as the usual number of lists holds without.
        """
        quantizer, probes, lists = self._lists.quantizer, int(self._search["probes"]), int(self._lists.nlist)
        if keep is None:
            pairs = [quantizer.search(query, probes) for query in turned[:, None]]
            return np.vstack([scores for scores, _ in pairs]), np.vstack([found for _, found in pairs])
        filled = np.bincount(self._cells[keep], minlength=lists)
        wanted = probes * len(keep) / lists
        every, order = blank(len(turned), lists)
        widest = 1
        for which, query in enumerate(turned[:, None]):
            scores, found = quantizer.search(query, lists)
            held = filled[found[0]]
            taken = (held > 0) & (np.cumsum(held) - held < wanted)
            size = int(np.count_nonzero(taken))
            every[which, :size], order[which, :size] = scores[0][taken], found[0][taken]
            widest = max(widest, size)
        return np.ascontiguousarray(every[:, :widest]), np.ascontiguousarray(order[:, :widest])

    @cached_property
    def _cells(self) -> NDArray[np.int32]:
        """The list that each row is in: wanted by filters only, so found when first asked for."""
        cells = np.zeros(self._index.ntotal, dtype=np.int32)
        lists = self._lists.invlists
        for number in range(lists.nlist):
            if size := lists.list_size(number):
                cells[self.sound(faiss.rev_swig_ptr(lists.get_ids(number), size))] = number
        return cells


def _read(file: Path, kind: str, count: int, width: int) -> Any:  # noqa: ANN401 - FAISS has no types
    try:
        index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
    except (RuntimeError, MemoryError) as error:
        reason = str(error).rpartition("Error: ")[2].split("\n")[0][:120]
        raise DamagedError(f"{file} is no index that FAISS reads ({reason}); build it again") from None
    if type(index) is not _TYPES[kind] or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise DamagedError(f"{file} is not an index of kind {kind} ({type(index).__name__}); build it again")
    if (index.ntotal, index.d) != (count, width):
        raise DamagedError(
            f"{file} has {index.ntotal} vectors of width {index.d} where {count} of width {width} are expected; "
            "build it again"
        )
    return index
