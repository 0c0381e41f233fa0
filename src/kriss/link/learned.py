"""Learned examples on disk: an SQLite database in the folder of the linker, and an index that can be made again.

    learned/
      examples.sqlite    examples with their vectors, entities that were added, and every change: who, when, what
      folded-000008192/  an index of the first so many vectors, once there are thousands

What is acknowledged is on disk. Nothing is ever deleted: an example that was removed stays as history and can be
brought back, and its id is not given out again. Any number of processes read and write, and see a change with their
next look. The index only spares memory: lost or damaged, it is made again from the database, and no answer changes.
"""

from __future__ import annotations

import getpass
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kriss.documents.problems import flaw_of
from kriss.errors import ArtifactError, DamagedError, InputError, KrissError
from kriss.index.vectors import Index, build
from kriss.link.database import Database, checksum_of
from kriss.ontology import Ontology
from kriss.rank.snapshot import Example, Snapshot
from kriss.records import Evidence

TAIL = 4096
"""Examples held in memory before they are folded into an index; half as many as are folded, where that is more."""
_BLOCK = 8192
_SHOWN = "number, change, entity, kind, surface, before, after, document, start, end, vector_checksum, checksum"
Action = Literal["add", "remove", "undo"]
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was done to the examples."""

    number: int
    action: Action
    examples: tuple[str, ...]
    """Those that were added, removed, or by undoing removed or brought back."""
    who: str
    time: str
    """When, in UTC."""
    undoes: int | None = None
    """The change that this one took back."""


class Draft:
    """A change while it is made, by the only writer there is then."""

    def __init__(self, connection: sqlite3.Connection, now: Snapshot) -> None:
        self._connection = connection
        self.now = now
        """What was learned before."""
        self.number = now.change + 1
        self.undoes: int | None = None
        """The change that this one takes back."""
        self._examples, self._rows = now.count, 0

    def add_entity(self, entity: str, name: str, reference: Vector) -> None:
        """Add an entity that the ontology does not have."""
        self._insert("entities", None, self.number, entity, name, reference.astype("<f4").tobytes())

    def add(self, entity: str, evidence: Evidence, vector: Vector) -> str:
        """Add an example, and return its id."""
        self._examples += 1
        blob, shown = vector.astype("<f4").tobytes(), evidence
        values = (entity, shown.kind, shown.surface, shown.left, shown.right, shown.document, shown.start, shown.end)
        self._insert("examples", self._examples, self.number, *values, crc32(blob), unchecked=(blob,))
        return f"g{self._examples}"

    def stand(self, place: int, *, standing: bool) -> None:
        """Remove an example, or bring it back."""
        self._insert("stands", None, self.number, place + 1, int(standing))

    def finish(self, action: Action, who: str) -> None:
        """Write down what was done; the last of it."""
        time = datetime.now(UTC).isoformat(" ", "seconds")
        self._insert("changes", self.number, action, self.undoes, who, time, self._rows)
        self._connection.execute("COMMIT")

    def _insert(self, table: str, number: int | None, *values: object, unchecked: tuple[object, ...] = ()) -> None:
        self._rows += 1
        row = (number, *values, checksum_of(values), *unchecked)
        self._connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)


class Learned:
    """The examples of one linker. It may be shared between threads, and goes on in a forked process."""

    def __init__(self, folder: Path, encoder: str, ontology: Ontology) -> None:
        self._folder, self._ontology = folder, ontology
        self._database = Database(folder, encoder)
        self._now, self._of = Snapshot(), self._database.seen

    # --- reading ---------------------------------------------------------------------------------

    def now(self) -> Snapshot:
        """Return what is learned now, also by other processes."""
        with self._database.reading() as connection:
            if connection is None:
                return Snapshot()
            newest = connection.execute("SELECT max(number) FROM changes").fetchone()[0] or 0
            if newest < self._now.change or self._database.seen != self._of:  # another file, or an older state of it
                self._now, self._of = Snapshot(), self._database.seen
            if newest > self._now.change:
                connection.execute("BEGIN")
                try:
                    self._now = self._look(connection, self._now)
                finally:
                    connection.execute("END")
            return self._now

    def history(self) -> list[Change]:
        """Return all changes, the first one first."""
        with self._database.reading() as connection:
            if connection is None:
                return []
            touched: dict[int, list[str]] = {}
            for change, example in connection.execute(
                "SELECT change, number FROM examples UNION ALL SELECT change, example FROM stands"
            ):
                touched.setdefault(change, []).append(f"g{example}")
            return [
                Change(number, action, tuple(touched.get(number, ())), who, time, undoes)
                for number, action, undoes, who, time, _ in self._database.sound(
                    connection.execute("SELECT * FROM changes"), "change"
                )
            ]

    def _look(self, connection: sqlite3.Connection, before: Snapshot) -> Snapshot:
        """Read what is new since a snapshot."""

        def new(columns: str, table: str, what: str, key: str, since: int) -> list[list[Any]]:
            rows = connection.execute(f"SELECT {columns} FROM {table} WHERE {key} > ? ORDER BY number", (since,))
            found = list(self._database.sound(rows, what))
            if key == "number" and [row[0] for row in found] != [*range(since + 1, since + 1 + len(found))]:
                raise self._database.damaged(f"it lacks {what} {since + 1} or a later one")
            return found

        changes = new("*", "changes", "change", "number", before.change)
        examples = [
            Example(f"g{number}", entity, Evidence(kind, surface, left, right, document, start, end, f"g{number}"))
            for number, _, entity, kind, surface, left, right, document, start, end, _ in new(
                _SHOWN, "examples", "example", "number", before.count
            )
        ]
        added = new("*", "entities", "entity", "change", before.change)
        entities = {entity: (name, np.frombuffer(blob, "<f4")) for _, _, entity, name, blob in added}
        changed = new("*", "stands", "removal", "change", before.change)
        stands = {example - 1: bool(standing) for _, _, example, standing in changed}
        if sum(change[-1] for change in changes) != len(examples) + len(added) + len(changed):
            raise self._database.damaged("it lacks rows that were written")
        owners = self._owners(examples, [*{**before.entities, **entities}])
        if not before.count and len(examples) > TAIL and (index := self._folded(connection, len(examples))):
            before = before.with_index(index)
        vectors = self._vectors(connection, max(before.count, before.indexed))
        now = before.grown(before.change + len(changes), examples, owners, vectors, stands, entities)
        if len(now.vectors) > max(TAIL, now.indexed // 2):
            # On a full or read-only disk they stay in memory, and the next look tries again. FAISS says RuntimeError.
            with suppress(OSError, RuntimeError):
                now = now.with_index(self._folded(connection, now.count, now.indexed) or self._fold(now))
        return now

    def _vectors(self, connection: sqlite3.Connection, first: int) -> Vector:
        """Return the vectors of the examples from a place on."""
        found: list[bytes] = []
        for number, checksum, blob in connection.execute(
            "SELECT number, vector_checksum, vector FROM examples WHERE number > ? ORDER BY number", (first,)
        ):
            if crc32(blob) != checksum:
                raise self._database.damaged(f"the vector of example {number} does not fit its checksum")
            found.append(blob)
        values = np.frombuffer(b"".join(found), "<f4").astype(np.float32)
        return values.reshape(len(found), -1) if found else values.reshape(0, 0)

    def _owners(self, examples: Sequence[Example], added: Sequence[str]) -> list[int]:
        """Return the entities of examples by number."""
        behind = {entity: len(self._ontology) + place for place, entity in enumerate(added)}
        numbers = []
        for example in examples:
            row = self._ontology.row_of(example.entity)
            number = behind.get(example.entity) if row is None else row
            if number is None:
                raise DamagedError(
                    f"{self._folder} has an example of '{example.entity}', which there is not; remove it"
                )
            numbers.append(number)
        return numbers

    # --- the index, which can be made again --------------------------------------------------------

    def _folded(self, connection: sqlite3.Connection, most: int, least: int = 0) -> Index | None:
        """Return the largest index that somebody made of the first vectors, if it has what the database has."""
        for folder in sorted(self._folder.glob("folded-*"), reverse=True):
            with suppress(KrissError, OSError, RuntimeError, ValueError):
                count = int(folder.name.removeprefix("folded-"))
                if least + TAIL < count <= most and len(index := Index.open(folder)) == count:
                    expected = connection.execute(
                        "SELECT vector_checksum FROM examples WHERE number <= ? ORDER BY number", (count,)
                    ).fetchall()
                    blocks = (np.arange(at, min(at + _BLOCK, count)) for at in range(0, count, _BLOCK))
                    if expected == [(crc32(vector),) for block in blocks for vector in index.vectors(block)]:
                        return index
        return None

    def _fold(self, now: Snapshot) -> Index:
        """Make an index of all vectors, and remove older ones."""
        draft, target = (self._folder / f"{name}-{now.count:09}" for name in (f"folding-{os.getpid()}", "folded"))
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir()
            build(draft, now.vectors_at(np.arange(now.count)), "flat")
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        for old in self._folder.glob("fold*-*"):
            if old.name < target.name or old.name.startswith("folding"):
                shutil.rmtree(old, ignore_errors=True)
        return Index.open(target)

    # --- writing -----------------------------------------------------------------------------------

    @contextmanager
    def changing(self, action: Action, who: str = "") -> Iterator[Draft]:
        """Make a change: all of it is on disk when the block is left, or nothing if it raises."""
        if flaw := flaw_of(who):
            raise InputError(f"the name of who changes examples cannot be stored: {flaw}")
        connection: sqlite3.Connection | None = None
        try:
            connection = self._database.writer()
            connection.execute("BEGIN IMMEDIATE")
            draft = Draft(connection, self.now())
            yield draft
            draft.finish(action, who or _login())
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ArtifactError(f"{self._folder} cannot be written to ({reason}); nothing was changed") from error
        finally:
            if connection:
                connection.close()  # takes back what was not committed
        self.now()

    def remove(self, examples: Sequence[str], who: str = "") -> None:
        """Remove examples: all of them, or none if one is not there."""
        self._places(examples, self.now())  # no folder is made to forget what was never learned
        with self.changing("remove", who) as draft:
            for place in self._places(examples, draft.now):
                draft.stand(place, standing=False)

    def _places(self, examples: Sequence[str], now: Snapshot) -> list[int]:
        known = {example.id: place for place, example in enumerate(now.every()) if now.standing[place]}
        if strangers := [example for example in examples if example not in known]:
            raise InputError(f"there is no example '{strangers[0]}' in {self._folder.parent}; see 'kriss learn list'")
        return [known[example] for example in dict.fromkeys(examples)]

    def undo(self, change: int | None = None, who: str = "") -> Change:
        """Take back a change, the last one unless another is named: what it added goes, what it removed comes back."""
        self._undoable(change)
        with self.changing("undo", who) as draft:
            done, undone = self._undoable(change)
            draft.undoes = done.number
            for example in done.examples:
                place = int(example[1:]) - 1
                standing = done.action == "remove" and example not in undone
                if draft.now.standing[place] != standing:
                    draft.stand(place, standing=standing)
        return done

    def _undoable(self, number: int | None) -> tuple[Change, set[str]]:
        """Return the change to undo, and the examples whose additions were undone."""
        history = self.history()
        taken_back = {change.undoes for change in history}
        left = {one.number: one for one in history if one.action != "undo" and one.number not in taken_back}
        chosen = max(left, default=None) if number is None else number
        if chosen not in left:
            what = "no change" if number is None else f"no change {number}"
            where = f"{self._folder.parent}; see 'kriss learn history'"
            raise InputError(f"there is {what} to undo in {where}")
        undone = {one for done in history if done.number not in left and done.action == "add" for one in done.examples}
        return left[chosen], undone


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as containers have them
        return ""
