"""What a linker was taught: examples that people gave, and entities that the ontology did not have.

    learned/
      state.json      which segment and which log hold now
      log-000002.bin  what was added and removed since the segment was written
      segment-000002/ examples that were folded into an index of their own
      lock            held by whoever writes

An addition is in the log, and on disk, before it is answered. When the log has grown, everything is
folded into a new segment; `state.json` is replaced last, so a reader sees the old state or the new one.
Any number of processes may read, and see an addition with their next look; writers take turns.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kriss.errors import ArtifactError, DamagedError
from kriss.index.vectors import Index, Kind, build
from kriss.link.log import Record, append, read
from kriss.ontology import Ontology
from kriss.records import Evidence

STATE, LOCK = "state.json", "lock"
TAIL = 4096
"""Examples in the log before they are folded: as many are scored one by one with every query."""
_FEW = 20_000
"""Folded examples below which an exact index is as fast as any."""


Token = tuple[object, ...]
"""What files were like at a moment: another token, another content."""


@dataclass(frozen=True, slots=True)
class Example:
    """A mention that somebody said means an entity."""

    id: str
    entity: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is learned at one moment; never changed, so that a query sees one state from start to end."""

    token: Token = ()
    """What the files were like when it was taken."""
    generation: int = 0
    end: int = 0
    """Bytes of the log that are in it."""
    issued: int = 0
    """Ids given out so far."""
    folded: tuple[Example, ...] = ()
    index: Index | None = None
    tail: tuple[Example, ...] = ()
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    entities: dict[str, tuple[str, NDArray[np.float32]]] = field(default_factory=dict)
    """Entities that were added: their names and references."""
    owner: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """The entity of each example, folded ones first: a row of the ontology, or, behind those, an added one."""
    standing: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    """Whether an example was not removed."""

    def __len__(self) -> int:
        return int(self.standing.sum())

    def examples(self) -> Iterator[Example]:
        """Yield the examples that stand."""
        return compress(chain(self.folded, self.tail), self.standing.tolist())

    def example(self, place: int) -> Example:
        """Return an example by its place, folded ones first."""
        return self.folded[place] if place < len(self.folded) else self.tail[place - len(self.folded)]


class Learned:
    """The examples of one linker, on disk."""

    def __init__(self, folder: Path, encoder: str, kind: Kind, ontology: Ontology) -> None:
        self._folder = folder
        self._ontology = ontology
        self._encoder = encoder
        self._kind: Kind = kind
        self._lock = threading.RLock()
        self._now = Snapshot()

    def now(self) -> Snapshot:
        """Return what is learned now, also by other processes."""
        if self._token(self._now.generation) == self._now.token:
            return self._now
        with self._lock:
            for _ in range(100):  # a fold may remove files between two looks
                try:
                    self._now = self._look()
                except FileNotFoundError:
                    continue
                return self._now
        raise DamagedError(f"{self._folder / STATE} names files that are not there; restore the folder")

    @contextmanager
    def writing(self) -> Iterator[Snapshot]:
        """Hold the lock, and see what all writers before have written."""
        with self._lock:
            self._folder.mkdir(exist_ok=True)
            with (self._folder / LOCK).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not (self._folder / STATE).is_file():
                    self._write_state(0, 0)
                yield self.now()

    def append(self, records: Sequence[Record]) -> None:
        """Write records; to be called while `writing`."""
        before = self._now
        append(self._log(before.generation), records, before.end)
        if len(self.now().tail) > TAIL:
            with suppress(OSError):  # a full disk, say: the log has everything, and the next addition tries again
                self.fold()

    def fold(self) -> None:
        """Put everything that stands into a new segment, and begin a new log."""
        with self.writing() as now:
            number = now.generation + 1
            segment = self._segment(number)
            shutil.rmtree(segment, ignore_errors=True)
            segment.mkdir()
            standing = list(now.examples())
            with (segment / "examples.jsonl").open("w", encoding="utf-8", errors="surrogatepass") as lines:
                for example in standing:
                    lines.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
                lines.flush()
                os.fsync(lines.fileno())
            names = {entity: name for entity, (name, _) in now.entities.items()}
            (segment / "entities.json").write_text(json.dumps(names), encoding="utf-8")
            np.save(segment / "entities.npy", np.array([vector for _, vector in now.entities.values()], np.float32))
            if standing:
                kind: Kind = self._kind if len(standing) >= _FEW else "flat"
                build(segment, _standing_vectors(now), kind)
            for file in segment.iterdir():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
            self._write_state(number, now.issued)
            self._now = self._look()
            self._log(now.generation).unlink(missing_ok=True)
            shutil.rmtree(self._segment(now.generation), ignore_errors=True)

    def _log(self, generation: int) -> Path:
        return self._folder / f"log-{generation:06d}.bin"

    def _segment(self, generation: int) -> Path:
        return self._folder / f"segment-{generation:06d}"

    def _token(self, generation: int) -> Token:
        return (_stamp(self._folder / STATE), _stamp(self._log(generation)))

    def _write_state(self, generation: int, issued: int) -> None:
        state = {"format": 1, "generation": generation, "issued": issued, "encoder": self._encoder}
        draft = self._folder / f"state-{os.getpid()}.tmp"
        try:
            with draft.open("w", encoding="utf-8") as stream:
                stream.write(json.dumps(state) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(self._folder / STATE)
        finally:
            draft.unlink(missing_ok=True)

    def _look(self) -> Snapshot:
        """Read what is new since the last look: the end of the log, or everything after a fold."""
        file = self._folder / STATE
        if not file.is_file():
            return Snapshot(token=self._token(0))
        try:
            state = json.loads(file.read_bytes())
            generation, issued, encoder = int(state["generation"]), int(state["issued"]), str(state["encoder"])
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedError(f"{file} cannot be read ({error}); restore it") from None
        if encoder != self._encoder:
            raise ArtifactError(
                f"the examples in {self._folder} were learned with another encoder than the linker's; remove the "
                "folder and learn them again"
            )
        token = self._token(generation)
        old = self._now if self._now.token and self._now.generation == generation else None
        before = old or self._open_segment(generation, issued)
        records, end = read(self._log(generation), before.end)
        if _stamp(file) != token[0]:
            raise FileNotFoundError(file)  # folded meanwhile, and the log may be gone: look again
        return self._after(before, records, token, end)

    def _open_segment(self, generation: int, issued: int) -> Snapshot:
        if not generation:
            return Snapshot(issued=issued)
        folder = self._segment(generation)
        try:
            with (folder / "examples.jsonl").open(encoding="utf-8", errors="surrogatepass") as lines:
                values = [json.loads(line) for line in lines]
            folded = tuple(Example(value["id"], value["entity"], Evidence(**value["evidence"])) for value in values)
            names = json.loads((folder / "entities.json").read_bytes())
            references = np.load(folder / "entities.npy", allow_pickle=False)
            entities = {entity: (str(name), references[row]) for row, (entity, name) in enumerate(names.items())}
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DamagedError(f"{folder} cannot be read ({error}); restore it") from None
        index = Index.open(folder) if folded else None
        if index is not None and len(index) != len(folded):
            raise DamagedError(f"{folder} has {len(index):,} vectors for {len(folded):,} examples; restore it")
        before = Snapshot(generation=generation, issued=issued, folded=folded, index=index, entities=entities)
        owner = self._owners(folded, entities)
        return replace(before, owner=owner, standing=np.ones(len(folded), dtype=bool))

    def _owners(self, examples: Iterable[Example], added: Mapping[str, object]) -> NDArray[np.int32]:
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
        return np.array(numbers, dtype=np.int32)

    def _after(self, before: Snapshot, records: Sequence[Record], token: Token, end: int) -> Snapshot:
        """Return what is learned after some more records."""
        new: list[Example] = []
        vectors: list[NDArray[np.float32]] = []
        removed: set[str] = set()
        entities, issued = dict(before.entities), before.issued
        for record in records:
            header = record.header
            match header["what"]:
                case "add":
                    new.append(Example(header["id"], header["entity"], Evidence(**header["evidence"])))
                    vectors.append(record.vector)
                    issued = max(issued, int(header["number"]))
                case "entity":
                    entities[header["id"]] = (header["name"], record.vector)
                case "remove":
                    removed.add(header["id"])
        tail = (*before.tail, *new)
        standing = np.concatenate([before.standing, np.ones(len(new), dtype=bool)])
        if removed:
            ids = [example.id for example in (*before.folded, *tail)]
            standing &= np.array([one not in removed for one in ids])
        return replace(
            before,
            token=token,
            end=end,
            issued=issued,
            tail=tail,
            vectors=np.concatenate([*([before.vectors] if len(before.vectors) else []), np.stack(vectors)])
            if vectors
            else before.vectors,
            entities=entities,
            owner=np.concatenate([before.owner, self._owners(new, entities)]),
            standing=standing,
        )


def _standing_vectors(now: Snapshot) -> NDArray[np.float32]:
    """Return the vectors of the examples that stand."""
    folded = np.flatnonzero(now.standing[: len(now.folded)])
    parts = [now.index.vectors(folded)] if now.index is not None and len(folded) else []
    if len(now.tail):
        parts.append(now.vectors[now.standing[len(now.folded) :]])
    return np.concatenate(parts)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
