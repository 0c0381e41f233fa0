"""The scratch database between a loader and the artifact.

Loaders of every format fill the same tables; one assembler turns them into an ontology.
DuckDB keeps them on disk, so that four million entities need no big machine. A record is known
by its serial number `n`, not by its id, so that a repeated id can be told apart and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from kriss.errors import Place
from kriss.names import clean
from kriss.records import Entity

_TABLES: dict[str, pa.Schema] = {
    "entity": pa.schema(
        [
            ("n", pa.int32()),
            ("id", pa.string()),
            ("definition", pa.string()),
            ("file", pa.int16()),
            ("line", pa.int64()),
        ]
    ),
    "name": pa.schema([("n", pa.int32()), ("text", pa.string()), ("rank", pa.int32())]),
    "type": pa.schema([("n", pa.int32()), ("value", pa.string()), ("rank", pa.int32())]),
    "tree": pa.schema([("n", pa.int32()), ("value", pa.string()), ("rank", pa.int32())]),
    "parent": pa.schema([("n", pa.int32()), ("parent", pa.string()), ("file", pa.int16()), ("line", pa.int64())]),
    "merged_parent": pa.schema([("n", pa.int32()), ("parent", pa.string())]),
    "xref": pa.schema([("n", pa.int32()), ("value", pa.string()), ("rank", pa.int32())]),
    "retired": pa.schema([("id", pa.string()), ("successor", pa.string())]),
}
_SQL_TYPES = {pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.string(): "VARCHAR"}
_FLUSH_AT = 100_000


class Staging:
    """Tables to fill: by `add` and `retire` from Python, or by SQL through `con`.

    `trees_are_positions` says that a tree number is an entity's own place (MeSH), so that its
    prefix belongs to its parent; in UMLS a tree number is the place of the entity's *type*.
    """

    def __init__(self, folder: Path, memory: str = "1500MB") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.con = duckdb.connect(
            str(folder / "staging.duckdb"),
            config={"memory_limit": memory, "temp_directory": str(folder / "spill"), "threads": "2"},
        )
        self.con.execute("SET enable_progress_bar = false")
        for table, schema in _TABLES.items():
            columns = ", ".join(f"{field.name} {_SQL_TYPES[field.type]}" for field in schema)
            self.con.execute(f"CREATE TABLE {table} ({columns})")
        self.files: list[Path] = []
        self._latest: tuple[Path | None, int] = (None, -1)
        self.trees_are_positions = True
        self.type_codes: dict[str, str] = {}
        self.notes: list[str] = []
        self.locate: Callable[[Path, str, int], int | None] | None = None
        self._next = 0
        self._buffers: dict[str, list[tuple[object, ...]]] = {table: [] for table in _TABLES}

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.con.close()

    def rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        """Run a query and return all of its rows."""
        return self.con.execute(query, values).fetchall()

    def table(self, query: str) -> pa.Table:
        """Run a query and return its result as an Arrow table."""
        return self.con.sql(query).to_arrow_table()

    def file_number(self, path: Path) -> int:
        """Return the number that stands for a source file in the tables."""
        if path is not self._latest[0]:  # comparing paths costs more than the rest of a row
            if path not in self.files:
                self.files.append(path)
            self._latest = (path, self.files.index(path))
        return self._latest[1]

    def place(self, file: int, line: int | None, entity_id: str, nth: int = 1) -> Place:
        """Return where an entity came from; a format whose parser counts no lines is searched for it."""
        path = self.files[file]
        return Place(path, line or (self.locate(path, entity_id, nth) if self.locate else None))

    def add(self, entity: Entity, place: Place) -> int:
        """Stage one entity and return its number; names are cleaned of stray white space, and empty values left out."""
        n, file, buffers = self._next, self.file_number(place.file), self._buffers
        self._next += 1
        buffers["entity"].append((n, entity.id, clean(entity.definition), file, place.line))
        for table, values in (
            ("name", [clean(name) for name in entity.names]),
            ("type", [clean(name) for name in entity.types]),
            ("tree", entity.tree_numbers),
            ("xref", entity.xrefs),
        ):
            if values:
                buffers[table] += [(n, value, rank) for rank, value in enumerate(dict.fromkeys(values)) if value]
        buffers["parent"].extend((n, parent, file, place.line) for parent in entity.parents if parent)
        if len(buffers["name"]) >= _FLUSH_AT:
            self.flush()
        return n

    def number_on(self) -> None:
        """Number what is added from now on behind all entities, also those that SQL brought."""
        self.flush()
        [(self._next,)] = self.rows("SELECT coalesce(max(n) + 1, 0) FROM entity")

    def retire(self, old: str, successor: str) -> None:
        """Record that an id is no longer used, and which id stands in its place."""
        self._buffers["retired"].append((old, successor))

    def insert(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Add rows to a table as they are."""
        self._buffers[table].extend(rows)

    def flush(self) -> None:
        """Write what has been gathered into the database."""
        for table, rows in self._buffers.items():
            if rows:
                batch = _to_arrow(rows, _TABLES[table])  # noqa: F841 - DuckDB finds it by name
                self.con.execute(f"INSERT INTO {table} SELECT * FROM batch")
                rows.clear()


def _to_arrow(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)
