"""The SQLite file of learned examples: how it is made, opened in any process, and what in it rotted.

Every row has a checksum, and every change says how many rows it wrote. What is committed is on disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from kriss.artifacts import sync
from kriss.errors import ArtifactError, DamagedError, VersionError

FILE, FORMAT = "examples.sqlite", 1
_PATIENCE = 60.0
"""Seconds that a writer waits for another one."""
_TABLES = f"""
CREATE TABLE encoder (digest TEXT);
CREATE TABLE changes (number INTEGER PRIMARY KEY, action TEXT, undoes INTEGER, who TEXT, time TEXT, rows INTEGER,
    checksum INTEGER);
CREATE TABLE examples (number INTEGER PRIMARY KEY, change INTEGER, entity TEXT, kind TEXT, surface TEXT, before TEXT,
    after TEXT, document TEXT, start INTEGER, end INTEGER, vector_checksum INTEGER, checksum INTEGER, vector BLOB);
CREATE TABLE entities (number INTEGER PRIMARY KEY, change INTEGER, id TEXT, name TEXT, reference BLOB,
    checksum INTEGER);
CREATE TABLE stands (number INTEGER PRIMARY KEY, change INTEGER, example INTEGER, standing INTEGER, checksum INTEGER);
PRAGMA user_version = {FORMAT};
"""
"""`stands` has examples that a change removed (0) or brought back (1)."""


class Database:
    """One file, for any number of processes and threads, also forked ones."""

    def __init__(self, folder: Path, encoder: str) -> None:
        self.file = folder / FILE
        self.seen: object = None
        """Which file was read last: if this is another one, what was read before does not hold."""
        self._encoder = encoder
        self._process, self._lock = os.getpid(), threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give the connection by which this process reads, to one thread at a time; nothing if there is no file."""
        if self._process != os.getpid():  # a forked process may neither use nor close what its parent opened
            self._process, self._lock, self._connection = os.getpid(), threading.Lock(), None
        with self._lock:
            try:
                yield self._connected()
            except (sqlite3.Error, OSError, TypeError, ValueError) as error:
                self.close()
                raise DamagedError(f"{self.file} cannot be read ({error}); restore it from a copy") from None

    def close(self) -> None:
        """Close the file; the last one who does so leaves everything in it, and none beside it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> sqlite3.Connection | None:
        """Return a connection to the file that is there now."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            self.close()
            self.seen = None
            return None
        own, frozen = status.st_ino, (status.st_ino, status.st_mtime_ns)  # the latter of a file that nobody writes
        if self._connection is not None and self.seen in (own, frozen):
            return self._connection
        self.close()
        self._connection, self.seen = self._connect("mode=rw"), own
        try:
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:  # SQLite wants to write files beside it, and may not
            waiting = self.file.with_name(f"{FILE}-wal")
            if waiting.exists() and waiting.stat().st_size:
                what = f"{waiting} has examples of a process that was killed"
                raise ArtifactError(f"{what}; open the linker once where it can be written to") from None
            self.close()
            self._connection, self.seen = self._connect("immutable=1"), frozen
        if not _has_tables(self._connection):
            self.close()
            return None  # a writer was killed before it had begun
        try:
            self._check(self._connection)
        except ArtifactError:
            self.close()
            raise
        weakref.finalize(self, _close, self._connection, self._process)
        return self._connection

    def _check(self, connection: sqlite3.Connection) -> None:
        [(found,)] = connection.execute("PRAGMA user_version")
        if found > FORMAT:
            raise VersionError(f"{self.file} is of format {found}, newer than this kriss: upgrade kriss")
        if connection.execute("SELECT digest FROM encoder").fetchall() != [(self._encoder,)]:
            raise ArtifactError(
                f"the examples in {self.file.parent} were learned with another encoder than the linker's; remove the "
                "folder and learn them again"
            )

    def writer(self) -> sqlite3.Connection:
        """Return a connection that may write, and make the file if there is none."""
        if not self.file.parent.is_dir():
            self.file.parent.mkdir(exist_ok=True)
            sync(self.file.parent.parent)
        connection = self._connect("mode=rwc")
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_mode = WAL")
            if not _has_tables(connection):
                connection.execute("BEGIN IMMEDIATE")
                if not _has_tables(connection):
                    for statement in _TABLES.split(";"):
                        connection.execute(statement)
                    connection.execute("INSERT INTO encoder VALUES (?)", (self._encoder,))
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, how: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.file.absolute().as_uri()}?{how}",
            _PATIENCE,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        connection.text_factory = lambda text: text.decode("utf-8", "replace")  # the checksum tells what rotted
        return connection

    def sound(self, rows: Iterable[Sequence[Any]], what: str) -> Iterator[list[Any]]:
        """Yield rows without their checksums, and refuse one that rotted."""
        for number, *values, checksum in rows:
            if checksum_of(values) != checksum:
                raise self.damaged(f"{what} {number} does not fit its checksum")
            yield [number, *values]

    def damaged(self, why: str) -> DamagedError:
        """Return what to say of rot."""
        return DamagedError(f"{self.file} is damaged ({why}); restore it from a copy")


def checksum_of(values: Sequence[object]) -> int:
    """Return the checksum of a row."""
    return crc32(json.dumps(list(values), default=bytes.hex).encode())


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master").fetchone())


def _close(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()
