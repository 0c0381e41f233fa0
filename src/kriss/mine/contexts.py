"""The contexts of candidates on their way from the shards to the merge: as they are, in files mapped into memory.

They are most of what a shard writes, and the merge wants only those that remain, in its own order. Each
shard has its rows in nearly that order, so looking them up reads every file from its beginning to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from kriss.mine.stretches import Ints, strings

CONTEXTS = pa.schema(
    [
        ("end", pa.int32()),
        ("surface", pa.large_string()),
        ("preferred", pa.bool_()),
        ("left", pa.large_string()),
        ("right", pa.large_string()),
    ]
)
FILE = "contexts.arrow"
Part = tuple[pa.RecordBatch, Ints, Ints]
"""A batch of a shard, the places of some rows in the answer, and their places in the batch."""


class Contexts:
    """The contexts of some shards, one behind the other."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._batches: list[pa.RecordBatch] = []
        firsts = [0]
        for folder in folders:
            with pa.memory_map(str(folder / FILE)) as source:
                batches = pa.ipc.open_file(source).read_all().to_batches()
            self._batches += batches
            firsts.append(firsts[-1] + sum(batch.num_rows for batch in batches))
        self.firsts = np.array(firsts, dtype=np.int64)
        """The row at which each shard begins."""
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)], dtype=np.int64)

    def take(self, rows: Ints) -> pa.RecordBatch:
        """Return rows in the order that is asked for."""
        batch = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(batch, kind="stable")
        edges = np.searchsorted(batch[order], np.arange(len(self._batches) + 1))
        parts = [
            (self._batches[number], order[first:last], rows[order[first:last]] - self._starts[number])
            for number, (first, last) in enumerate(pairwise(edges))
            if first < last
        ]
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        columns = [
            _texts(name, parts, len(rows)) if pa.types.is_large_string(kind) else _numbers(name, kind, parts, back)
            for name, kind in zip(CONTEXTS.names, CONTEXTS.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, CONTEXTS.names)


def _texts(name: str, parts: Sequence[Part], size: int) -> pa.Array:
    first, last = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    sources = []
    for batch, places, rows in parts:
        _, offsets, data = batch.column(name).buffers()
        offset = np.frombuffer(offsets, dtype=np.int64)
        first[places], last[places] = offset[rows], offset[rows + 1]
        sources.append((data, places))
    return strings(sources, first, last - first, pa.string())


def _numbers(name: str, kind: pa.DataType, parts: Sequence[Part], back: Ints) -> pa.Array:
    taken = [batch.column(name).take(pa.array(rows)) for batch, _, rows in parts]
    return pa.concat_arrays([pa.array([], kind), *taken]).take(pa.array(back))
