"""Learned examples on disk: what is acknowledged stays, through kills, full disks and rot; many read and write."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.errors import ArtifactError, DamagedError, KrissError
from kriss.link import learned as learned_module
from kriss.link.database import FILE
from kriss.link.learned import Learned
from kriss.link.linker import Linker
from kriss.records import Evidence, Excerpt
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

COLD = Excerpt("who had a ", "strange cold", " of the lung.")
WIDTH = 8


def opened(folder: Path) -> Learned:
    return Learned(folder, "encoder", world().ontology)


@pytest.fixture
def store(tmp_path: Path) -> Learned:
    """Return an empty store."""
    return opened(tmp_path / "learned")


def add(store: Learned, *entities: str, names: tuple[str, ...] = ()) -> list[str]:
    """Add examples of entities; the vectors are their numbers."""
    with store.changing("add", "me") as draft:
        for name in names:
            draft.add_entity(name, f"called {name}", np.ones(WIDTH, np.float32))
        first = draft.now.count + 1
        return [
            draft.add(entity, evidence(number), np.full(WIDTH, number, np.float32))
            for number, entity in enumerate(entities, first)
        ]


def evidence(number: int) -> Evidence:
    return Evidence("gold", "cold", f"left {number} ", " right", "doc", 5, 9)


def ids(store: Learned) -> list[str]:
    return [example.id for example in store.now().examples()]


def state(store: Learned) -> object:
    """Return all that a store says."""
    now = store.now()
    entities = {entity: (name, reference.tolist()) for entity, (name, reference) in now.entities.items()}
    vectors = now.vectors_at(np.arange(now.count)).tolist()
    return list(map(astuple, now.examples())), now.owner.tolist(), vectors, entities, store.history()


# --- what it holds -------------------------------------------------------------------------------

STEPS = st.lists(st.sampled_from(["add", "three", "new", "remove", "undo", "reopen", "other"]), max_size=14)


@given(steps=STEPS, tail=st.sampled_from([1, 3, 1000]))
def test_it_holds_what_a_list_would(steps: list[str], tail: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store") / "learned"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned_module, "TAIL", tail)
        check_steps(steps, folder, tail)


def check_steps(steps: list[str], folder: Path, tail: int) -> None:
    store, other = opened(folder), opened(folder)
    added: list[str] = []  # the entity of each example
    gone: set[int] = set()
    done: list[tuple[str, list[int]]] = []  # what can be undone
    names: list[str] = []
    for step in steps:
        if step in ("add", "three", "new"):
            entities = {"add": ["X:001"], "three": ["X:002", "X:001", "X:003"], "new": [f"N{len(names)}"]}[step]
            new = entities if step == "new" else []
            expected = [f"g{len(added) + n + 1}" for n in range(len(entities))]
            assert add(store, *entities, names=tuple(new)) == expected
            done.append(("add", list(range(len(added), len(added) + len(entities)))))
            added += entities
            names += new
        elif step == "remove" and len(gone) < len(added):
            place = sorted(set(range(len(added))) - gone)[-1]
            store.remove([f"g{place + 1}"])
            gone.add(place)
            done.append(("remove", [place]))
        elif step == "undo" and done:
            action, places = done.pop()
            assert store.undo().examples == tuple(f"g{place + 1}" for place in places)
            gone = gone | set(places) if action == "add" else gone - set(places)
        elif step == "reopen":
            store = opened(folder)
        elif step == "other":
            store, other = other, store
        for one in (store, other):
            now = one.now()
            stand = [place for place in range(len(added)) if place not in gone]
            assert [(e.id, e.entity) for e in now.examples()] == [(f"g{p + 1}", added[p]) for p in stand]
            assert len(now) == len(stand)
            assert now.count == len(added)
            assert [*now.entities] == names
            assert len(now.vectors) <= max(tail, now.indexed // 2)
            first = now.vectors_at(np.arange(now.count))[:, :1]
            assert first.ravel().tolist() == [place + 1.0 for place in range(len(added))]
            assert now.spelled_as("COLD").tolist() == stand
            for place, entity in enumerate(added):
                row = world().ontology.row_of(entity)
                assert now.owner[place] == (len(world().ontology) + names.index(entity) if row is None else row)


def test_the_history_says_who_did_what_and_when(store: Learned) -> None:
    add(store, "X:001", "X:002")
    store.remove(["g1"], who="ann")
    undone = store.undo(who="ben")
    assert (undone.number, undone.action, undone.examples) == (2, "remove", ("g1",))
    assert ids(store) == ["g1", "g2"]
    assert store.undo().number == 1
    assert ids(store) == []
    told = [(one.number, one.action, one.examples, one.who, one.undoes) for one in store.history()]
    login = told[3][3]
    assert told == [
        (1, "add", ("g1", "g2"), "me", None),
        (2, "remove", ("g1",), "ann", None),
        (3, "undo", ("g1",), "ben", 2),
        (4, "undo", ("g1", "g2"), login, 1),
    ]
    assert all(one.time.endswith("+00:00") for one in store.history())
    with pytest.raises(KrissError, match=r"there is no change to undo in .*; see 'kriss learn history'"):
        store.undo()
    with pytest.raises(KrissError, match="there is no change 2 to undo"):
        store.undo(2)


def test_an_earlier_change_can_be_undone(store: Learned) -> None:
    add(store, "X:001")
    add(store, "X:002")
    store.remove(["g1"])
    store.undo(1)
    assert ids(store) == ["g2"]
    store.undo(3)  # the removal of what is not there any more
    assert ids(store) == ["g2"]


def test_a_change_that_fails_leaves_nothing(store: Learned) -> None:
    add(store, "X:001")
    before = state(store)
    with pytest.raises(ValueError, match="half"), store.changing("add") as draft:  # noqa: PT012
        draft.add("X:002", evidence(2), np.ones(WIDTH, np.float32))
        raise ValueError("half")
    assert state(store) == state(opened(store._folder)) == before
    assert add(store, "X:002") == ["g2"]


# --- the index beside it -------------------------------------------------------------------------


def test_an_index_is_made_again(store: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_module, "TAIL", 2)
    add(store, *["X:001"] * 5)
    [folder] = store._folder.glob("folded-*")
    damages: list[Callable[[], object]] = [
        lambda: shutil.rmtree(folder),
        lambda: (folder / "index.json").write_text("{"),
        lambda: (folder / "vectors.npy").write_bytes(b"cut"),
        lambda: (folder / "vectors.npy").write_bytes((folder / "vectors.npy").read_bytes()[:-1] + b"\x07"),
        lambda: folder.rename(folder.with_name("folded-000000004")),
    ]
    expected = state(store)
    for damage in damages:
        damage()
        again = opened(store._folder)
        assert state(again) == expected
        assert again.now().indexed == 5
        assert [path.name for path in store._folder.glob("fold*")] == ["folded-000000005"]
    add(store, *["X:002"] * 9)
    assert opened(store._folder).now().indexed == store.now().indexed == 14


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), RuntimeError("write error")])
def test_without_room_for_an_index_it_works_all_the_same(
    store: Learned, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(learned_module, "TAIL", 2)

    def fails(*given: object, **options: object) -> NoReturn:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(learned_module, "build", fails)
        add(store, *["X:001"] * 4)
        assert ids(store) == ids(opened(store._folder)) == ["g1", "g2", "g3", "g4"]
        assert not list(store._folder.glob("fold*"))
    add(store, "X:002")
    assert store.now().indexed == 5


# --- rot, other versions, other files ------------------------------------------------------------


def test_what_rots_is_said(store: Learned) -> None:
    add(store, "X:001", "N1", names=("N1",))
    store.remove(["g1"])
    add(store, "X:002")
    expected = state(store)
    store._database.close()  # the last one that closes it leaves everything in one file
    assert [file.name for file in store._folder.iterdir()] == [FILE]
    file = store._folder / FILE
    good, draw, said = file.read_bytes(), Random(0), list[str]()
    marks = [good.index(text) for text in (b"left 1", b"called N1", b"X:002", b"remove")]
    vector = good.index(np.full(WIDTH, 3, np.float32).tobytes())
    for place in [*marks, vector, vector + 5, *draw.choices(range(len(good)), k=150)]:
        rotten = bytearray(good)
        rotten[place] ^= 1 << draw.randrange(8)
        file.write_bytes(rotten)
        try:
            assert state(opened(store._folder)) == expected
            assert place not in marks
        except KrissError as error:
            said.append(str(error))
    assert len(said) > len(marks) + 2
    assert all(str(store._folder) in line and "\n" not in line for line in said)
    for content in (good[:5000], good[: len(good) - 4096], b"no database"):
        file.write_bytes(content)
        with pytest.raises(DamagedError, match=r"examples\.sqlite .*; restore it from a copy"):
            opened(store._folder).now()


def test_other_versions_encoders_and_ontologies_are_refused(store: Learned, umls: object) -> None:
    add(store, "X:001")
    for other, sentence in (
        (Learned(store._folder, "another", world().ontology), "were learned with another encoder than the linker's"),
        (Learned(store._folder, "encoder", umls), "has an example of 'X:001', which there is not"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ArtifactError, match=sentence):
            other.now()
    with sqlite3.connect(store._folder / FILE) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(ArtifactError, match="newer than this kriss: upgrade kriss"):
        opened(store._folder).now()


def test_a_store_that_was_removed_or_replaced_is_seen(store: Learned) -> None:
    add(store, "X:001", "X:002")
    reader = opened(store._folder)
    assert ids(reader) == ["g1", "g2"]
    shutil.rmtree(store._folder)
    assert ids(reader) == []
    add(opened(store._folder), "X:003")
    assert [example.entity for example in reader.now().examples()] == ["X:003"]
    copy = shutil.copytree(store._folder, store._folder.with_name("copy"))
    add(store, "X:004")
    assert ids(reader) == ["g1", "g2"]
    shutil.rmtree(store._folder)
    copy.rename(store._folder)
    assert ids(reader) == ["g1"]


# --- kills, other processes, disks ---------------------------------------------------------------

_ADDS = """if True:
    import sys
    import kriss
    from kriss.link import learned
    learned.TAIL = int(sys.argv[2])
    linker = kriss.Linker.load(sys.argv[1], threads=1)
    for number in range(int(sys.argv[3])):
        print(linker.add(("who had a cold", 10, 14), "X:001", document=sys.argv[4]), flush=True)
    """


def adding(path: Path, *, tail: int, count: int, document: str = "d") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _ADDS, str(path), str(tail), str(count), document]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("tail", [1, 4096])
def test_what_was_acknowledged_survives_a_kill(taught: Path, tail: int) -> None:
    draw = Random(tail)
    with adding(taught, tail=tail, count=100_000) as writer:
        assert writer.stdout
        printed = [writer.stdout.readline().strip() for _ in range(draw.randint(5, 40))]
        time.sleep(draw.random() / 50)
        writer.send_signal(signal.SIGKILL)
        printed += writer.stdout.read().split()
    found = [example.id for example in Linker.load(taught).examples()]
    assert found in (printed, [*printed, f"g{len(printed) + 1}"])  # one that was being written
    assert Linker.load(taught).add(COLD, "X:001") not in found


def test_two_writers_and_a_reader_at_once(taught: Path) -> None:
    linker, seen = Linker.load(taught, mode="supervised"), 0
    writers = [adding(taught, tail=2, count=20, document=str(number)) for number in range(2)]
    while any(writer.poll() is None for writer in writers):
        [link] = linker.link([COLD])
        assert len(link.candidates) == 1 or not seen
        found = len(linker.examples())
        assert found >= seen
        seen = found
    printed = [writer.communicate()[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    examples = {example.id: example.evidence.document for example in linker.examples()}
    assert examples == {one: str(number) for number in range(2) for one in printed[number]}
    assert len(examples) == 40


def test_threads_link_while_one_teaches(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_module, "TAIL", 2)
    linker = Linker.load(taught, threads=1, mode="supervised")
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            before = len(linker.examples())
            [link] = linker.link([COLD])
            assert bool(link.candidates) or not before
            assert len(linker.examples()) >= before

    with ThreadPoolExecutor(3) as readers:
        looks = [readers.submit(read) for _ in range(3)]
        for number in range(20):
            example = linker.add(COLD, f"X:{number:03d}")
            assert linker.examples()[-1].id == example
        done.set()
        for look in looks:
            look.result()
    assert len(Linker.load(taught).examples()) == 20


_LIMITED = """if True:
    import resource, sys
    from kriss.cli import run
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    sys.exit(run(["learn", "add", sys.argv[1], "a [[cold]]", "X:001"]))
    """


@pytest.mark.parametrize("first", [True, False])
def test_a_full_disk_is_one_sentence(taught: Path, first: bool) -> None:
    if not first:
        Linker.load(taught).add(COLD, "X:002")
    before = Linker.load(taught).examples()
    command = [sys.executable, "-c", _LIMITED, str(taught), "2000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"kriss: error: {taught}/learned cannot be written to (")
    assert line.endswith("; nothing was changed")
    assert Linker.load(taught).examples() == before
    assert Linker.load(taught).add(COLD, "X:003")


def without_rights(command: list[str]) -> list[str]:
    """Return a command that may not write where permissions forbid it, also where tests run as root."""
    if os.geteuid():
        return command
    if not shutil.which("setpriv"):
        pytest.skip("root may write anywhere, and there is no setpriv to give that up")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]


@pytest.mark.parametrize("has_learned", [True, False])
def test_a_folder_that_cannot_be_written_links_all_the_same(taught: Path, has_learned: bool) -> None:
    if has_learned:
        Linker.load(taught).add(COLD, "X:001")
    expected = Linker.load(taught).link_text("who had a [[strange cold]] of the lung.")[0]
    for folder in (taught, *(path for path in taught.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    for file in taught.rglob("*"):
        file.chmod(0o555)
    code = """if True:
        import sys, kriss
        linker = kriss.Linker.load(sys.argv[1])
        [link] = linker.link_text("who had a [[strange cold]] of the lung.")
        print(link.entity, link.score, len(linker.examples()))
        try:
            linker.add(link.mention, "X:001")
        except kriss.KrissError as error:
            print(error)
        """
    command = without_rights([sys.executable, "-c", code, str(taught)])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == f"{expected.entity} {expected.score} {int(has_learned)}"
    assert second.startswith(f"{taught}/learned cannot be written to (")
    assert second.endswith("; nothing was changed")


_FORK = """if True:
    import os, sys, kriss
    linker = kriss.Linker.load(sys.argv[1], threads=1)
    linker.add(("who had a cold", 10, 14), "X:001")
    child = os.fork()
    if not child:
        linker.add(("who had a cold", 10, 14), "X:002")
        print(len(linker.examples()), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    linker.add(("who had a cold", 10, 14), "X:003")
    print(*(example.entity for example in linker.examples()))
    """


def test_a_forked_process_learns_too(taught: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _FORK, str(taught)], capture_output=True, text=True, check=True)
    assert done.stdout == "2\nX:001 X:002 X:003\n"
