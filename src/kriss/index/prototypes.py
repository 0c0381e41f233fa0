"""Which mentions and names stand for each entity, as a table whose rows are the index's rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kriss.errors import ArtifactError
from kriss.index.config import IndexConfig
from kriss.mine.store import mentions_of
from kriss.ontology import Ontology
from kriss.ontology.arrowfile import ArrowFile, write_arrow
from kriss.records import Evidence, EvidenceKind, Excerpt

CONTEXT = 256
"""Characters kept on each side: more than a window of 64 tokens shows, and what a reader wants to see."""
KINDS: tuple[EvidenceKind, ...] = ("mined", "name", "gold")
_TEXTS = ("document", "surface", "left", "right")
_SCHEMA = pa.schema(
    [
        ("entity", pa.int32()),
        ("kind", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        *((name, pa.large_string()) for name in _TEXTS),
    ]
)
_MINED = ["entity", "document", "start", "end", "surface", "left", "right"]
_BLOCK = 1 << 14
_Row = tuple[int, int, int, int, str, str, str, str]
_Mined = tuple[str, str, int, int, str, str, str]
_NONE: tuple[str | None, list[_Mined]] = (None, [])


def write_prototypes(path: Path, ontology: Ontology, mentions: pq.ParquetFile, config: IndexConfig) -> int:
    """Write the prototypes of all entities, an entity's mined ones first; return how many there are."""
    return write_arrow(path, _SCHEMA, _batches(_rows(ontology, mentions, config)))


def _rows(ontology: Ontology, mentions: pq.ParquetFile, config: IndexConfig) -> Iterator[_Row]:
    """Yield the prototypes, entity by entity: both sources come in the order of the ids."""
    mined = _mined(mentions, config) if config.per_entity else iter(())
    following, taken = next(mined, _NONE)
    for row in ontology.rows():
        own: list[_Mined] = []
        if following == ontology.id_at(row):
            own = taken[: config.per_entity]
            following, taken = next(mined, _NONE)
        for _, document, start, end, surface, left, right in own:
            yield row, 0, start, end, document, surface, left[-CONTEXT:], right[:CONTEXT]
        if config.names == "all" or (config.names == "missing" and not own):
            for name in ontology.names_at(row):
                yield row, 1, 0, len(name), "", name, "", ""
    if following is not None:  # the stream stopped at an entity that never came
        raise ArtifactError(f"a mention is of '{following}', which the ontology does not have; mine again")


def _mined(mentions: pq.ParquetFile, config: IndexConfig) -> Iterator[tuple[str | None, list[_Mined]]]:
    """Yield each entity with its mined mentions, those of the split named first before the others."""

    def rows() -> Iterator[tuple[str, _Mined]]:
        for table in mentions_of(mentions, config.splits, [*_MINED, "split"]):
            columns = (table.column(name).to_pylist() for name in _MINED)
            yield from zip(table.column("split").to_pylist(), zip(*columns, strict=True), strict=True)

    for entity, group in groupby(rows(), key=lambda row: row[1][0]):
        yield entity, [mention for _, mention in sorted(group, key=lambda row: config.splits.index(row[0]))]


def _batches(rows: Iterator[_Row]) -> Iterator[pa.RecordBatch]:
    while held := list(islice(rows, _BLOCK)):
        columns = zip(_SCHEMA, zip(*held, strict=True), strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(column, field.type) for field, column in columns], schema=_SCHEMA)


class Prototypes:
    """The table of prototypes, memory-mapped."""

    def __init__(self, path: Path) -> None:
        self._file = ArrowFile(path)
        self.entity: NDArray[np.int32] = self._numbers("entity")
        self.kind: NDArray[np.int32] = self._numbers("kind")
        self._start, self._end = (self._file.numbers(name) for name in ("start", "end"))
        self._document, self._surface, self._left, self._right = (self._file.strings(name) for name in _TEXTS)

    def __len__(self) -> int:
        return len(self._file)

    def evidence(self, row: int) -> Evidence:
        """Return a prototype as it is shown."""
        return Evidence(
            kind=KINDS[self.kind[row]],
            surface=self._surface[row],
            left=self._left[row],
            right=self._right[row],
            document=self._document[row],
            start=self._start[row],
            end=self._end[row],
        )

    def surface(self, row: int) -> str:
        """Return the text that a prototype marks."""
        return self._surface[row]

    def document(self, row: int) -> str:
        """Return the document that a prototype stands in; a name has none."""
        return self._document[row]

    def is_name(self, row: int) -> bool:
        """Whether a prototype is a name, and no mined mention."""
        return bool(self.kind[row] == KINDS.index("name"))

    def mined_of(self, entity: int) -> NDArray[np.int64]:
        """Return the mined mentions that stand for an entity."""
        first, last = np.searchsorted(self.entity, [entity, entity + 1]).tolist()
        return np.asarray(first + np.flatnonzero(self.kind[first:last] == KINDS.index("mined")))

    def mentions(self, first: int, last: int) -> list[Excerpt]:
        """Return prototypes as they are encoded."""
        return [Excerpt(self._left[row], self._surface[row], self._right[row]) for row in range(first, last)]

    def counts(self) -> dict[str, int]:
        """Return how many prototypes there are of each kind."""
        found = np.bincount(self.kind, minlength=len(KINDS))
        return {kind: int(count) for kind, count in zip(KINDS, found, strict=True) if count}

    def _numbers(self, name: str) -> NDArray[np.int32]:
        column = self._file.table.column(name)
        return np.asarray(column) if len(column) else np.zeros(0, dtype=np.int32)
