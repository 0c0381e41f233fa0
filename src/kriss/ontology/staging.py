"""The scratch database between a source and the artifact.

Readers of every format fill the same tables; one assembler turns them into an ontology. DuckDB
keeps them on disk, so that four million entities need no big machine. A record is known by its
serial number `n`, not by its id, so that a repeated id can be told apart and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kriss.errors import Place
from kriss.files import BadRows
from kriss.names import clean
from kriss.records import Entity

_VALUES = "n INTEGER, value VARCHAR, rank INTEGER"
_TABLES = {
    "entity": "n INTEGER, id VARCHAR, definition VARCHAR, file SMALLINT, line BIGINT",
    "name": _VALUES,
    "type": _VALUES,
    "tree": _VALUES,
    "xref": _VALUES,
    "parent": "n INTEGER, id VARCHAR, file SMALLINT, line BIGINT",
    "merged_parent": "n INTEGER, id VARCHAR",
    "retired": "id VARCHAR, successor VARCHAR",
}
_OF_RECORDS = [table for table, columns in _TABLES.items() if columns.startswith("n ")]
_FLUSH_AT = 100_000


class Staging:
    """Tables to fill: by `add` and `retire` from Python, or by SQL through `con`.

    `trees_are_positions` says that a tree number is an entity's own place (MeSH), so that its
    prefix belongs to its parent; in UMLS a tree number is the place of the entity's *type*.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.con = duckdb.connect(
            str(folder / "staging.duckdb"),
            config={"memory_limit": "1500MB", "temp_directory": str(folder / "spill"), "threads": "2"},
        )
        self.con.execute("SET enable_progress_bar = false")
        for table, columns in _TABLES.items():
            self.con.execute(f"CREATE TABLE {table} ({columns})")
        self.files: list[Path] = []
        self.trees_are_positions = True
        self.type_codes: dict[str, str] = {}
        self.notes: list[str] = []
        self.locate: Callable[[Path, str, int], int | None] | None = None
        self._latest: tuple[Path | None, int] = (None, -1)
        self._next = 0
        self._buffers: dict[str, list[tuple[object, ...]]] = {table: [] for table in _TABLES}

    def close(self) -> None:
        """Let go of the database."""
        self.con.close()

    def rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        """Run a query and return all of its rows."""
        return self.con.execute(query, values).fetchall()

    def numbers(self, query: str) -> tuple[NDArray[np.int64], ...]:
        """Run a query and return its columns, all of integers."""
        table = self.con.sql(query).to_arrow_table()
        return tuple(np.asarray(column, dtype=np.int64) for column in table.columns)

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

    def add(self, entity: Entity, place: Place) -> None:
        """Stage one entity; names are cleaned of stray white space, and empty values left out."""
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

    def retire(self, old: str, successor: str) -> None:
        """Record that an id is no longer used, and which id stands in its place."""
        self._buffers["retired"].append((old, successor))

    def insert(self, table: str, rows: list[tuple[object, ...]]) -> None:
        """Write rows to a table as they are."""
        if rows:
            columns = [pa.array(column) for column in zip(*rows, strict=True)]
            batch = pa.table(columns, [str(index) for index in range(len(columns))])  # noqa: F841 - DuckDB finds it
            self.con.execute(f"INSERT INTO {table} FROM batch")

    def flush(self) -> None:
        """Write what has been gathered into the database."""
        for table, rows in self._buffers.items():
            self.insert(table, rows)
            rows.clear()

    def drop_bad_records(self, bad: BadRows) -> None:
        """Report and drop ids given twice (the first stays) and entities without a name."""
        self.flush()
        repeated = """
            SELECT n, id, file, line, nth
            FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY n) AS of_all,
                  row_number() OVER (PARTITION BY id, file ORDER BY n) AS nth FROM entity)
            WHERE of_all > 1 ORDER BY n"""
        nameless = "SELECT n, id, file, line, 1 FROM entity WHERE n NOT IN (SELECT n FROM name) ORDER BY n"
        for query, message in (
            (repeated, "a second entity with the id '{}'"),
            (nameless, "the entity '{}' has no name"),
        ):
            found = self.rows(query)
            for _, entity_id, file, line, nth in found:
                bad.report(message.format(entity_id), self.place(file, line, entity_id, nth))
            if found:
                self.drop("n IN (SELECT unnest($dropped))", dropped=[n for n, *_ in found])

    def drop(self, condition: str, **values: object) -> None:
        """Drop the records of which this SQL holds, and all that belongs to them."""
        self.con.execute(f"DELETE FROM entity WHERE {condition}", values)
        for table in _OF_RECORDS[1:]:
            self.con.execute(f"DELETE FROM {table} WHERE n NOT IN (SELECT n FROM entity)")

    def number(self) -> int:
        """Number the records anew in the order of their ids, from 0; return how many there are."""
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE numbered AS "
            "SELECT n, (row_number() OVER (ORDER BY id) - 1)::INTEGER AS row FROM entity"
        )
        [(count, in_order)] = self.rows("SELECT count(*), coalesce(bool_and(n = row), true) FROM numbered")
        if not in_order:
            for table in _OF_RECORDS:
                self.con.execute(
                    f"CREATE OR REPLACE TABLE {table} AS "
                    f"SELECT numbered.row AS n, {table}.* EXCLUDE (n) FROM {table} JOIN numbered USING (n)"
                )
        return int(count)
