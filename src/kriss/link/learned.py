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
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from kriss.errors import ArtifactError, DamagedError, VersionError
from kriss.index.prototypes import CONTEXT
from kriss.index.vectors import SETTINGS, Index, Kind, build
from kriss.link.log import Record, append, read, sync_folder
from kriss.names import folded as folded_name
from kriss.ontology import Ontology
from kriss.records import Evidence, Mention

STATE, LOCK, FORMAT = "state.json", "lock", 1
TAIL = 4096
"""Examples in the log before they are folded: as many are scored one by one with every query."""
_FEW = 20_000
"""Folded examples below which an exact index is as fast as any."""


Stamp = tuple[int, int, int] | None
"""What a file was like at a moment: another stamp, another content."""


@dataclass(frozen=True, slots=True)
class Example:
    """A mention that somebody said means an entity."""

    id: str
    entity: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is learned at one moment; never changed, so that a query sees one state from start to end."""

    token: tuple[Stamp, Stamp] | None = None
    """What state and log were like when it was taken."""
    generation: int = 0
    end: int = 0
    """Bytes of the log that are in it."""
    issued: int = 0
    """Ids given out so far."""
    folded: tuple[Example, ...] = ()
    index: Index | None = None
    tail: tuple[Example, ...] = ()
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """Those of the tail."""
    longest: float = 0.0
    """The length of the longest of them."""
    entities: dict[str, tuple[str, NDArray[np.float32]]] = field(default_factory=dict)
    """Entities that were added: their names and references."""
    owner: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """The entity of each example, folded ones first: a row of the ontology, or, behind those, an added one."""
    standing: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    """Whether an example was not removed."""
    spelled: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The places of examples by what they mark (`folded`), also of those that were removed."""

    def __len__(self) -> int:
        return int(self.standing.sum())

    def examples(self) -> Iterator[Example]:
        """Yield the examples that stand."""
        return compress(chain(self.folded, self.tail), self.standing.tolist())

    def example(self, place: int) -> Example:
        """Return an example by its place, folded ones first."""
        return self.folded[place] if place < len(self.folded) else self.tail[place - len(self.folded)]

    def spelled_as(self, surface: str) -> NDArray[np.int64]:
        """Return the places of examples that stand and mark the same text in any case, ascending; none for ""."""
        places = np.array(self.spelled.get(folded_name(surface), ()) if surface else (), dtype=np.int64)
        return places[self.standing[places]] if len(places) else places

    def vectors_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of examples by their places, which ascend."""
        folded, tail = places[places < len(self.folded)], places[places >= len(self.folded)]
        parts = [self.index.vectors(folded)] if self.index is not None and len(folded) else []
        if len(tail):
            parts.append(self.vectors[tail - len(self.folded)])
        return np.concatenate(parts)


class Learned:
    """The examples of one linker, on disk."""

    def __init__(self, folder: Path, encoder: str, ontology: Ontology) -> None:
        self._folder = folder
        self._ontology = ontology
        self._encoder = encoder
        self._kind: Kind = "flat"
        self._looking, self._writing = threading.Lock(), threading.Lock()  # a look need not wait for a fold
        self._now = Snapshot()

    def now(self) -> Snapshot:
        """Return what is learned now, also by other processes."""
        known = self._now
        if self._token(known.generation) == known.token:
            return known
        with self._looking:
            for _ in range(100):
                before = _stamp(self._folder / STATE)
                try:
                    self._now = self._look()
                except (FileNotFoundError, DamagedError) as error:
                    # A fold may have removed files while they were opened: then look again.
                    if isinstance(error, DamagedError) and _stamp(self._folder / STATE) == before:
                        raise
                else:
                    return self._now
        raise DamagedError(f"{self._folder / STATE} names files that are not there; restore the folder")

    @contextmanager
    def writing(self) -> Iterator[Snapshot]:
        """Hold the lock, and see what all writers before have written."""
        with self._writing, self._open_lock() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if not (self._folder / STATE).is_file():
                    with self._changing():
                        self._write_state(0, 0)
                yield self.now()
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing would not do where a forked child has it open

    def append(self, records: Sequence[Record]) -> None:
        """Write records; to be called while `writing`."""
        before = self._now
        with self._changing():
            append(self._log(before.generation), map(self._as_kept, records), before.end)
        now = self.now()
        if len(now.tail) > TAIL:
            # On a full disk, say: the log has everything, and the next addition tries again. FAISS says RuntimeError.
            with suppress(OSError, RuntimeError):
                self._fold(now)

    def fold(self) -> None:
        """Put everything that stands into a new segment, and begin a new log."""
        with self.writing() as now:
            self._fold(now)

    def _fold(self, now: Snapshot) -> None:
        number = now.generation + 1
        segment = self._segment(number)
        shutil.rmtree(segment, ignore_errors=True)
        try:
            self._write_segment(segment, now)
            self._write_state(number, now.issued)
        except (OSError, RuntimeError):
            shutil.rmtree(segment, ignore_errors=True)
            raise
        self.now()
        self._remove_all_but(number)

    def _write_segment(self, segment: Path, now: Snapshot) -> None:
        segment.mkdir()
        standing = list(now.examples())
        with (segment / "examples.jsonl").open("w", encoding="utf-8", errors="surrogatepass") as lines:
            lines.writelines(json.dumps(asdict(example), ensure_ascii=False) + "\n" for example in standing)
        names = {entity: name for entity, (name, _) in now.entities.items()}
        (segment / "entities.json").write_text(json.dumps(names), encoding="utf-8")
        np.save(segment / "entities.npy", np.array([vector for _, vector in now.entities.values()], np.float32))
        if standing:
            kind: Kind = self._kind if len(standing) >= _FEW else "flat"
            build(segment, now.vectors_at(np.flatnonzero(now.standing)), kind)
        for file in segment.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        sync_folder(segment)

    def _as_kept(self, record: Record) -> Record:
        """Round a vector as an index of this kind will, so that folding does not change its score."""
        if self._kind == "flat" or record.header["what"] != "add":
            return record
        return Record(record.header, record.vector.astype(np.float16).astype(np.float32))

    def _remove_all_but(self, generation: int) -> None:
        """Remove what is folded, and what writers that were killed left behind."""
        sync_folder(self._folder)  # the new state first
        current = {self._log(generation), self._segment(generation)}
        for pattern in ("log-*.bin", "segment-*", "state-*.tmp"):
            for path in set(self._folder.glob(pattern)) - current:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _open_lock(self) -> BinaryIO:
        with self._changing():
            self._folder.mkdir(exist_ok=True)
            return (self._folder / LOCK).open("ab")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArtifactError(
                f"{self._folder} cannot be written to ({error.strerror or error}); nothing was changed"
            ) from error

    def _log(self, generation: int) -> Path:
        return self._folder / f"log-{generation:06d}.bin"

    def _segment(self, generation: int) -> Path:
        return self._folder / f"segment-{generation:06d}"

    def _token(self, generation: int) -> tuple[Stamp, Stamp]:
        return _stamp(self._folder / STATE), _stamp(self._log(generation))

    def _write_state(self, generation: int, issued: int) -> None:
        state = {"format": FORMAT, "generation": generation, "issued": issued, "encoder": self._encoder}
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
        stamp = _stamp(file)
        if stamp is None:
            return Snapshot(token=(None, None))
        generation, issued = self._read_state(file)
        token = stamp, _stamp(self._log(generation))
        before = self._now
        size = token[1][1] if token[1] else 0
        if before.token is None or before.token[0] != stamp or size < before.end:
            before = self._open_segment(generation, issued)
        records, end = read(self._log(generation), before.end)
        if _stamp(file) != stamp:
            raise FileNotFoundError(file)  # folded meanwhile, and the log may be gone: look again
        return self._after(before, records, token, end)

    def _read_state(self, file: Path) -> tuple[int, int]:
        """Return which generation holds, and how many ids were given out before it."""
        try:
            state = json.loads(file.read_bytes())
            found, encoder = int(state["format"]), str(state["encoder"])
            generation, issued = int(state["generation"]), int(state["issued"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedError(f"{file} cannot be read ({error}); restore it") from None
        if found > FORMAT:
            raise VersionError(f"{self._folder} is of format {found}, newer than this kriss: upgrade kriss")
        if encoder != self._encoder:
            raise ArtifactError(
                f"the examples in {self._folder} were learned with another encoder than the linker's, or another "
                "weight of references; remove the folder and learn them again"
            )
        return generation, issued

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
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError) as error:
            raise DamagedError(f"{folder} cannot be read ({error}); restore it") from None
        index = Index.open(folder) if folded or (folder / SETTINGS).exists() else None
        if (count := len(index) if index else 0) != len(folded):
            raise DamagedError(f"{folder} has {count:,} vectors for {len(folded):,} examples; restore it")
        before = Snapshot(generation=generation, issued=issued, folded=folded, index=index, entities=entities)
        owner = self._owners(folded, entities)
        spelled = _spelled({}, folded, 0)
        return replace(before, owner=owner, standing=np.ones(len(folded), dtype=bool), spelled=spelled)

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

    def _after(self, before: Snapshot, records: Sequence[Record], token: tuple[Stamp, Stamp], end: int) -> Snapshot:
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
        kept, longest = before.vectors, before.longest
        if vectors:
            more = np.stack(vectors)
            longest = max(longest, float(np.linalg.norm(more, axis=1).max()))
            kept = np.concatenate([kept, more]) if len(kept) else more
        return replace(
            before,
            token=token,
            end=end,
            issued=issued,
            tail=tail,
            vectors=kept,
            longest=longest,
            entities=entities,
            owner=np.concatenate([before.owner, self._owners(new, entities)]),
            standing=standing,
            spelled=_spelled(before.spelled, new, len(before.standing)),
        )


def _spelled(
    before: Mapping[str, tuple[int, ...]], new: Iterable[Example], first: int
) -> Mapping[str, tuple[int, ...]]:
    """Return the places of examples by their spelling, when those from `first` on are new."""
    more: dict[str, list[int]] = {}
    for place, example in enumerate(new, first):
        more.setdefault(folded_name(example.evidence.surface), []).append(place)
    return {**before, **{key: (*before.get(key, ()), *places) for key, places in more.items()}}


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def gold_evidence(mention: Mention, document: str, offset: int, example: str) -> Evidence:
    """Return what is shown of an example: the mention and some of the text around it."""
    start = offset + mention.start
    shown = mention.excerpt(CONTEXT)
    return Evidence(
        "gold",
        shown.surface,
        shown.left,
        shown.right,
        document,
        start,
        start + len(shown.surface),
        example,
    )


def addition(example: str, number: int, entity: str, evidence: Evidence, vector: NDArray[np.float32]) -> Record:
    """Return the record by which an example is learned."""
    header = {"what": "add", "id": example, "number": number, "entity": entity, "evidence": asdict(evidence)}
    return Record(header, vector)
