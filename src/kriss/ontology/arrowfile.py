"""Arrow files in batches of one fixed size, read through memory maps.

The fixed size makes row number arithmetic do the work of a search for the batch, and makes the
bytes of a file depend on its content alone.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
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
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in _rebatched(batches, schema):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _rebatched(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while batch.num_rows - start >= BATCH - count:
            held.append(batch.slice(start, BATCH - count))
            start += BATCH - count
            yield _joined(held, schema)
            held, count = [], 0
        if start < batch.num_rows:
            held.append(batch.slice(start))
            count += batch.num_rows - start
    if held:
        yield _joined(held, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.concat_arrays([batch.column(index).cast(field.type) for batch in batches])
        for index, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
        self.chunks = [_view(chunk.buffers()[1], _CODES[values.type]) for chunk in values.chunks]

    def __getitem__(self, row: int) -> int:
        return self.chunks[row >> _SHIFT][row & _MASK]


class Strings:
    """A string column by row number."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._chunks = [(_view(chunk.buffers()[1], "q"), _view(chunk.buffers()[2], "B")) for chunk in values.chunks]

    def __getitem__(self, row: int) -> str:
        offsets, data = self._chunks[row >> _SHIFT]
        row &= _MASK
        return str(data[offsets[row] : offsets[row + 1]], "utf-8")


class Lists:
    """A column of lists, of strings or of integers, by row number."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._chunks = [(_view(chunk.buffers()[1], "q"), _Values(chunk.values)) for chunk in values.chunks]

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        offsets, values = self._chunks[row >> _SHIFT]
        row &= _MASK
        return values.between(offsets[row], offsets[row + 1])


class _Values:
    """What the lists of one chunk hold, end to end."""

    def __init__(self, values: pa.Array) -> None:
        buffers = values.buffers()
        self._are_strings = pa.types.is_large_string(values.type)
        self._first = _view(buffers[1], "q" if self._are_strings else _CODES[values.type])
        self._data = _view(buffers[2], "B") if self._are_strings else self._first

    def between(self, start: int, stop: int) -> tuple[Any, ...]:
        if start == stop:
            return ()
        if not self._are_strings:
            return tuple(self._first[start:stop])
        cuts = self._first[start : stop + 1].tolist()
        return tuple([str(self._data[a:b], "utf-8") for a, b in zip(cuts, cuts[1:])])  # noqa: B905, RUF007


_CODES: dict[pa.DataType, Literal["i", "q", "Q"]] = {pa.int32(): "i", pa.int64(): "q", pa.uint64(): "Q"}


def _view(buffer: pa.Buffer | None, code: Literal["B", "i", "q", "Q"]) -> memoryview[int]:
    return memoryview(buffer if buffer is not None else b"").cast("B").cast(code)


class KeyIndex:
    """Sorted 64-bit keys beside the rows they stand for; a key may stand for several rows."""

    schema = pa.schema([("key", pa.uint64()), ("row", pa.int32())])

    def __init__(self, path: Path) -> None:
        self._table = ArrowFile(path).table
        self._keys = Numbers(self._table.column("key")).chunks
        self._rows = Numbers(self._table.column("row"))
        self._firsts = [keys[0] for keys in self._keys]
        self._sizes = [len(chunk) for chunk in self._table.column("key").chunks]

    @classmethod
    def write(cls, path: Path, keys: NDArray[np.uint64]) -> None:
        """Write the index of rows 0..len(keys)-1 under their keys."""
        order = np.argsort(keys, kind="stable").astype(np.int32)
        batch = pa.RecordBatch.from_arrays([pa.array(keys[order]), pa.array(order)], schema=cls.schema)
        write_arrow(path, cls.schema, [batch])

    def rows(self, text: str) -> list[int]:
        """Return the rows whose text has the same key as `text`; the caller compares the texts."""
        key = key_of(text)
        found: list[int] = []
        # A run of equal keys may begin in the batch before the first that starts with the key.
        for index in range(max(bisect_left(self._firsts, key) - 1, 0), len(self._keys)):
            if self._firsts[index] > key:
                break
            keys, size = self._keys[index], self._sizes[index]
            start = bisect_left(keys, key, 0, size)
            while start < size and keys[start] == key:
                found.append(self._rows[(index << _SHIFT) + start])
                start += 1
        return found

    def joined(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Return all keys, sorted, and their rows."""
        return np.asarray(self._table.column("key")), np.asarray(self._table.column("row"))
