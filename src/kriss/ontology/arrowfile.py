"""Arrow files read through memory maps.

Batches have one fixed size: a row's number tells its batch, and the bytes of a file depend on its
content alone, not on how its rows came.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SHIFT = 18
_MASK = (1 << _SHIFT) - 1
BATCH = 1 << _SHIFT


def key_of(text: str) -> int:
    """Return the 64-bit key under which a string is indexed; equal to DuckDB's md5_number_lower."""
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little")


def write_arrow(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches of any size as an Arrow file of fixed batches; return the number of rows."""
    rows = 0
    with pa.ipc.new_file(str(path), schema) as writer:
        for table in rebatched(batches, BATCH):
            columns = [pa.concat_arrays(column.chunks) for column in table.cast(schema).columns]  # no bytes around them
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += len(table)
    return rows


def rebatched(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Yield the rows of batches of any size so many at a time, and the rest."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= size:
            table = pa.Table.from_batches(held)
            yield table.slice(0, size)
            held, count = table.slice(size).to_batches(), count - size
    if count:
        yield pa.Table.from_batches(held)


class ArrowFile:
    """A memory-mapped table: opening reads its footer, and a look at a row reads that row."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as source:
            self.table: pa.Table = pa.ipc.open_file(source).read_all()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def numbers(self, name: str) -> Numbers:
        """Return an integer column for looking at single rows."""
        return Numbers(self.table.column(name))

    def strings(self, name: str) -> Strings:
        """Return a string column for looking at single rows."""
        return Strings(self.table.column(name))

    def lists(self, name: str) -> Lists:
        """Return a list column for looking at single rows."""
        return Lists(self.table.column(name))


# Arrow's own scalars cost a microsecond or more each; an entity is made of some thirty of them.
# These read the same buffers through memoryviews, at a fifth of that.


class Numbers:
    """An integer column by row number."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._chunks = [_view(chunk.buffers()[1], _CODES[values.type]) for chunk in values.chunks]

    def __getitem__(self, row: int) -> int:
        return self._chunks[row >> _SHIFT][row & _MASK]


class Strings:
    """A string column by row number."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._chunks = [(_view(chunk.buffers()[1], "q"), _view(chunk.buffers()[2], "B")) for chunk in values.chunks]

    def __getitem__(self, row: int) -> str:
        ends, data = self._chunks[row >> _SHIFT]
        row &= _MASK
        return str(data[ends[row] : ends[row + 1]], "utf-8")


class Lists:
    """A column of lists, of strings or of integers, by row number."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._chunks = [(_view(chunk.buffers()[1], "q"), _slices(chunk.values)) for chunk in values.chunks]

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        ends, between = self._chunks[row >> _SHIFT]
        row &= _MASK
        return between(ends[row], ends[row + 1])


def _slices(values: pa.Array) -> Callable[[int, int], tuple[Any, ...]]:
    """Return what gives the values from one place up to another."""
    if not pa.types.is_large_string(values.type):
        numbers = _view(values.buffers()[1], _CODES[values.type])
        return lambda start, stop: tuple(numbers[start:stop])
    ends, data = _view(values.buffers()[1], "q"), _view(values.buffers()[2], "B")
    return lambda start, stop: tuple([str(data[a:b], "utf-8") for a, b in pairwise(ends[start : stop + 1].tolist())])


_CODES: dict[pa.DataType, Literal["i", "q", "Q"]] = {pa.int32(): "i", pa.int64(): "q", pa.uint64(): "Q"}


def _view(buffer: pa.Buffer | None, code: Literal["B", "i", "q", "Q"]) -> memoryview[int]:
    return memoryview(buffer if buffer is not None else b"").cast("B").cast(code)


class KeyIndex:
    """Sorted 64-bit keys beside the rows they stand for, in one batch; a key may stand for several rows."""

    schema = pa.schema([("key", pa.uint64()), ("row", pa.int32())])

    def __init__(self, path: Path) -> None:
        columns = ArrowFile(path).table.columns
        whole = [one.chunk(0) if one.num_chunks == 1 else one.combine_chunks() for one in columns]
        self._keys, self._rows = (_view(one.buffers()[1], _CODES[one.type])[: len(one)] for one in whole)

    @classmethod
    def write(cls, path: Path, keys: NDArray[np.uint64]) -> None:
        """Write the index of rows 0..len(keys)-1 under their keys."""
        order = np.argsort(keys, kind="stable").astype(np.int32)
        with pa.ipc.new_file(str(path), cls.schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(keys[order]), pa.array(order)], schema=cls.schema))

    def rows(self, text: str) -> list[int]:
        """Return the rows whose text has the same key as `text`; the caller compares the texts."""
        start = bisect_left(self._keys, key_of(text))
        return self._rows[start : bisect_right(self._keys, key_of(text), start)].tolist()
