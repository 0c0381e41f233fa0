"""The write-ahead log and the store of examples under it: what is acknowledged stays, what is damaged is said."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.errors import ArtifactError, DamagedError, VersionError
from kriss.link import learned as learned_module
from kriss.link import log
from kriss.link.learned import Learned
from kriss.link.log import Record
from tests.crash_points import addition, append, learned, removal
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

TEXTS = st.text(st.characters(), max_size=8)  # half surrogate pairs among them
RECORDS = st.lists(
    st.builds(
        lambda key, value, vector: Record({"what": "add", key: value}, np.array(vector, np.float32)),
        TEXTS,
        TEXTS,
        st.lists(st.floats(width=32, allow_nan=False), max_size=4),
    ),
    max_size=3,
)


def same(found: list[Record], expected: list[Record]) -> bool:
    return [(r.header, r.vector.tolist()) for r in found] == [(r.header, r.vector.tolist()) for r in expected]


@pytest.fixture
def store(tmp_path: Path) -> Learned:
    """Return an empty store."""
    return learned(tmp_path / "learned", world().ontology)


def ids(store: Learned) -> list[str]:
    return [example.id for example in store.now().examples()]


def reopened(store: Learned) -> Learned:
    return learned(store._folder, world().ontology)


# --- the file ------------------------------------------------------------------------------------


@given(entries=st.lists(RECORDS, max_size=4), cut=st.integers(0, 10_000))
def test_what_is_cut_off_is_missing_and_nothing_else(
    entries: list[list[Record]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("log") / "log.bin"
    ends = [0]
    for records in entries:
        ends.append(log.append(file, records, ends[-1]))
    everything = [record for records in entries for record in records]
    found, end = log.read(file, 0)
    assert same(found, everything)
    assert end == ends[-1]
    for start, behind in zip(ends, range(len(entries) + 1), strict=True):  # from any place on
        assert same(log.read(file, start)[0], [r for records in entries[behind:] for r in records])
    if not ends[-1]:
        return
    size = cut % (ends[-1] + 1)
    os.truncate(file, size)
    found, end = log.read(file, 0)
    whole = max(at for at in ends if at <= size)
    assert end == whole
    assert same(found, [r for at, records in zip(ends[1:], entries, strict=True) if at <= whole for r in records])
    more = [Record({"what": "more"}, np.ones(2, np.float32))]
    assert log.read(file, 0)[1] <= log.append(file, more, end)
    assert same(log.read(file, 0)[0], [*found, *more])


def test_every_byte_that_rots_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "log.bin"
    records = [Record({"what": "add", "id": f"g{n}"}, np.full(2, n, np.float32)) for n in range(3)]
    ends = [0]
    for record in records:
        ends.append(log.append(file, [record], ends[-1]))
    good = file.read_bytes()
    for place in range(len(good)):
        for bit in (0, 7):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            file.write_bytes(bad)
            if place < ends[-2]:  # in the middle: never taken for an end that was cut off
                start = max(at for at in ends if at <= place)
                with pytest.raises(DamagedError, match=rf"damaged at byte {start}; .* \(truncate -s {start}\)"):
                    log.read(file, 0)
            else:
                try:
                    assert same(log.read(file, 0)[0], records[:-1])
                except DamagedError as error:
                    assert f"damaged at byte {ends[-2]}" in str(error)  # noqa: PT017


def test_a_tail_of_zeros_is_no_damage(tmp_path: Path) -> None:
    file = tmp_path / "log.bin"
    end = log.append(file, [Record({"a": 1}, np.ones(2, np.float32))], 0)
    with file.open("ab") as stream:
        stream.write(bytes(100))
    assert log.read(file, 0)[1] == end


@pytest.mark.parametrize("where", ["pwrite", "fsync"])
def test_a_failed_append_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    file = tmp_path / "log.bin"
    record = Record({"a": 1}, np.ones(200, np.float32))
    end = log.append(file, [record], 0)
    before, real = file.read_bytes(), os.pwrite

    def full(descriptor: int, *given: Any) -> NoReturn:
        if given:
            real(descriptor, given[0][:50], given[1])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, where, full)
        with pytest.raises(OSError, match="No space left"):
            log.append(file, [record], end)
    assert file.read_bytes() == before
    log.append(file, [record], end)
    assert same(log.read(file, 0)[0], [record, record])


# --- the store -----------------------------------------------------------------------------------


def test_a_writer_may_die_at_any_moment(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash_points", str(world().ontology.artifact.path), str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 80


STEPS = st.lists(st.sampled_from(["add", "two", "new", "remove", "fold", "reopen", "other"]), max_size=14)


@given(steps=STEPS)
def test_it_holds_what_a_list_would(steps: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store") / "learned"
    store, other = (learned(folder, world().ontology) for _ in range(2))
    expected: dict[str, tuple[str, float]] = {}
    names: dict[str, str] = {}
    number = 0
    for step in steps:
        if step in ("add", "two"):
            more = [addition(number + 1, "X:002"), addition(number + 2)][: 1 if step == "add" else 2]
            append(store, *more)
            expected |= {r.header["id"]: (r.header["entity"], float(r.vector[0])) for r in more}
            number += len(more)
        elif step == "new":
            number += 1
            names[f"NEW:{number}"] = f"new {number}"
            entity = Record({"what": "entity", "id": f"NEW:{number}", "name": f"new {number}"}, np.ones(8, np.float32))
            append(store, entity, addition(number, f"NEW:{number}"))
            expected[f"g{number}"] = (f"NEW:{number}", float(number))
        elif step == "remove" and expected:
            gone = list(expected)[len(expected) // 2]
            append(store, removal(int(gone[1:])))
            del expected[gone]
        elif step == "fold":
            store.fold()
        elif step == "reopen":
            store = learned(folder, world().ontology)
        elif step == "other":
            store, other = other, store
        for one in (store, other):
            now = one.now()
            assert [(e.id, e.entity) for e in now.examples()] == [(i, entity) for i, (entity, _) in expected.items()]
            assert {entity: name for entity, (name, _) in now.entities.items()} == names
            places = np.flatnonzero(now.standing)
            assert len(now) == len(places) == len(expected)
            if len(places):
                assert now.vectors_at(places)[:, 0].tolist() == [value for _, value in expected.values()]
            assert now.issued == number
            behind = [*names]
            for place in places.tolist():
                entity_id, owner = now.example(place).entity, int(now.owner[place])
                row = world().ontology.row_of(entity_id)
                assert owner == (len(world().ontology) + behind.index(entity_id) if row is None else row)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("write error")])
def test_a_fold_that_fails_costs_nothing(store: Learned, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    monkeypatch.setattr(learned_module, "TAIL", 2)
    append(store, addition(1), addition(2))

    def fails(*given: object, **options: object) -> NoReturn:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(learned_module, "build", fails)
        append(store, addition(3))
        append(store, addition(4))
        assert ids(store) == ids(reopened(store)) == ["g1", "g2", "g3", "g4"]
        assert not list(store._folder.glob("segment-*"))
    append(store, addition(5))
    assert store.now().generation == 1
    assert not store.now().tail
    assert ids(store) == ids(reopened(store)) == ["g1", "g2", "g3", "g4", "g5"]


@pytest.fixture
def torn(store: Learned) -> tuple[Learned, bytes, int]:
    """Return a store, its log, and where the last entry of that begins."""
    append(store, addition(1))
    end = store.now().end
    append(store, addition(2))
    return store, store._log(0).read_bytes(), end


def test_an_entry_cut_off_at_any_byte_is_passed_over(torn: tuple[Learned, bytes, int]) -> None:
    store, whole, end = torn
    for size in range(end, len(whole)):
        store._log(0).write_bytes(whole[:size])
        reader, writer = reopened(store), reopened(store)
        assert ids(reader) == ids(writer) == ["g1"]
        append(writer, addition(7))
        assert ids(reader) == ids(writer) == ids(reopened(store)) == ["g1", "g7"]


def test_damage_is_said_with_its_place(torn: tuple[Learned, bytes, int]) -> None:
    store, whole, end = torn
    bad = bytearray(whole)
    bad[end // 2] ^= 1
    store._log(0).write_bytes(bad)
    with pytest.raises(DamagedError, match=r"log-000000\.bin is damaged at byte 0; the 0 bytes before it are sound"):
        reopened(store).now()
    with pytest.raises(DamagedError, match="is damaged at byte 0"):
        append(reopened(store), addition(3))
    assert store._log(0).read_bytes() == bytes(bad)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("state.json", b"{", "state.json cannot be read"),
        ("state.json", b"[]", "state.json cannot be read"),
        ("state.json", b'{"format": 1, "generation": 7, "issued": 3, "encoder": "encoder"}', "names files that are"),
        ("segment-000001/examples.jsonl", b"{\n", "segment-000001 cannot be read"),
        ("segment-000001/examples.jsonl", b"", "restore it|cannot be read"),
        ("segment-000001/examples.jsonl", b'{"id": "g1", "entity": "GONE", "evidence": {"kind": "gold"}}', "restore"),
        ("segment-000001/entities.json", b"[]", "segment-000001 cannot be read"),
        ("segment-000001/entities.npy", b"", "segment-000001 cannot be read"),
        ("segment-000001/vectors.npy", b"cut", "vectors.npy has 3 bytes"),
        ("segment-000001/index.json", b"{", "does not describe an index"),
    ],
)
def test_damaged_files_are_named(store: Learned, file: str, content: bytes, sentence: str) -> None:
    new = Record({"what": "entity", "id": "NEW", "name": "new"}, np.ones(8, np.float32))
    append(store, new, addition(1, "NEW"))
    store.fold()
    (store._folder / file).write_bytes(content)
    with pytest.raises(DamagedError, match=sentence) as caught:
        reopened(store).now()
    assert "\n" not in str(caught.value)


def test_other_versions_and_encoders_are_refused(store: Learned) -> None:
    append(store, addition(1))
    state = (store._folder / "state.json").read_text()
    (store._folder / "state.json").write_text(state.replace('"format": 1', '"format": 2'))
    with pytest.raises(VersionError, match="newer than this kriss"):
        store.now()
    (store._folder / "state.json").write_text(state.replace('"encoder"}', '"another"}'))
    with pytest.raises(ArtifactError, match="were learned with another encoder than the linker's"):
        store.now()


def test_a_store_that_was_removed_or_replaced_is_seen(store: Learned) -> None:
    append(store, addition(1), addition(2))
    reader = reopened(store)
    assert ids(reader) == ["g1", "g2"]
    shutil.rmtree(store._folder)
    assert ids(reader) == []
    append(reopened(store), addition(8))
    assert ids(reader) == ids(store) == ["g8"]
    copy = shutil.copytree(store._folder, store._folder.with_name("copy"))
    append(store, addition(9), addition(10))
    assert ids(reader) == ["g8", "g9", "g10"]
    shutil.rmtree(store._folder)
    copy.rename(store._folder)
    assert ids(reader) == ["g8"]
