"""What happens to examples in a crash, on a full disk, with several writers, in the wrong folder: nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from kriss.errors import ArtifactError, KrissError
from kriss.index.config import IndexConfig
from kriss.link import learned as learned_module
from kriss.link.build import build_linker
from kriss.link.linker import Linker
from kriss.records import Excerpt
from tests.conftest import contents
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

COLD = Excerpt("who had a ", "strange cold", " of the lung.")
QUERIES = [COLD, Excerpt("the heart of this ", "gastrosis", " was acute pain."), Excerpt.bare("shared alias")]


def load(path: Path, **options: object) -> Linker:
    """Return a linker that scores by the equation alone, unless a test says otherwise."""
    return Linker.load(path, threads=1, **{"ngrams": 0.0, "broader": 0.0, "ties": False} | options)


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
    draw, printed = Random(tail), []
    for _ in range(2):
        with adding(taught, tail=tail, count=100_000) as writer:
            assert writer.stdout
            printed += [writer.stdout.readline().strip() for _ in range(draw.randint(5, 40))]
            time.sleep(draw.random() / 50)
            writer.send_signal(signal.SIGKILL)
            printed += writer.stdout.read().split()
        ids = [example.id for example in load(taught).examples()]
        assert set(printed) <= set(ids)
        assert len(ids) <= len(printed) + 2  # one that was being written at each kill
        printed = ids
    assert load(taught).add(COLD, "X:001") not in ids


def test_two_writers_and_readers_at_once(taught: Path) -> None:
    linker = load(taught)

    def read(path: Path) -> int:
        seen, own = 0, load(path)
        while any(writer.poll() is None for writer in writers):
            [link] = own.with_options(mode="supervised").link([COLD])
            assert len(link.candidates) == 1 or not seen
            found = len(own.examples())
            assert found >= seen
            seen = found
            linker.link([COLD])
        return seen

    writers = [adding(taught, tail=2, count=25, document=str(number)) for number in range(2)]
    with ThreadPoolExecutor(2) as readers:
        looks = [readers.submit(read, taught) for _ in range(2)]
        printed = [writer.communicate()[0].split() for writer in writers]
        for look in looks:
            look.result()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len({*printed[0], *printed[1]}) == 50
    examples = {example.id: example.evidence.document for example in linker.examples()}
    assert examples == {one: str(number) for number in range(2) for one in printed[number]}


def test_threads_link_while_one_teaches(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_module, "TAIL", 2)
    linker = load(taught)
    supervised, done = linker.with_options(mode="supervised"), threading.Event()

    def read() -> None:
        while not done.is_set():
            before = len(linker.examples())
            [link] = supervised.link([COLD])
            assert bool(link.candidates) or not before
            assert len(linker.examples()) >= before

    with ThreadPoolExecutor(3) as readers:
        looks = [readers.submit(read) for _ in range(3)]
        for number in range(40):
            example = linker.add(COLD, f"X:{number % 38:03d}")
            assert linker.examples()[-1].id == example
        done.set()
        for look in looks:
            look.result()
    assert len(load(taught).examples()) == 40


@pytest.mark.parametrize("where", ["pwrite", "fsync"])
@pytest.mark.parametrize("first", [True, False])
def test_a_full_disk_is_one_sentence(taught: Path, monkeypatch: pytest.MonkeyPatch, where: str, first: bool) -> None:
    linker = load(taught)
    if not first:
        linker.add(COLD, "X:001")
    before, answers = contents(taught), linker.link(QUERIES)

    def full(*given: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, where, full)
        with pytest.raises(ArtifactError, match=r"learned cannot be written to \(No space left on device\); nothing"):
            linker.add(COLD, "X:002")
        assert linker.link(QUERIES) == load(taught).link(QUERIES) == answers
    after = contents(taught)
    for own in ("learned/lock", "learned/state.json", "learned/log-000000.bin"):
        if first:
            assert after.pop(own, b"") == b"" or own.endswith("state.json")
    assert after == before
    linker.add(COLD, "X:002")
    assert "X:002" in [example.entity for example in load(taught).examples()]


_LIMITED = """if True:
    import resource, sys
    from pathlib import Path
    from kriss.cli import run
    size = Path(sys.argv[1], "learned", "log-000000.bin").stat().st_size + 100
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    sys.exit(run(["learn", "add", sys.argv[1], "a [[cold]]", "X:001"]))
    """


def test_a_disk_that_fills_while_it_is_written(taught: Path) -> None:
    load(taught).add(COLD, "X:001")
    before = contents(taught)
    command = [sys.executable, "-c", _LIMITED, str(taught)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("kriss: error: ")
    assert "cannot be written to (File too large); nothing was changed" in line
    assert contents(taught) == before


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
        load(taught).add(COLD, "X:001")
    expected = load(taught).link_text("who had a [[strange cold]] of the lung.")[0]
    for folder in (taught, *(path for path in taught.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    for file in taught.rglob("*"):
        file.chmod(0o555)
    code = """if True:
        import sys, kriss
        linker = kriss.Linker.load(sys.argv[1], ngrams=0.0, ties=False)
        [link] = linker.link_text("who had a [[strange cold]] of the lung.")
        print(link.entity, link.score)
        try:
            linker.add(link.mention, "X:001")
        except kriss.KrissError as error:
            print(error)
        """
    command = without_rights([sys.executable, "-c", code, str(taught)])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == f"{expected.entity} {expected.score}"
    assert second == f"{taught}/learned cannot be written to (Permission denied); nothing was changed"


def test_examples_of_another_encoder_are_refused(tiny_encoder: Path, taught: Path, tmp_path: Path) -> None:
    load(taught).add(COLD, "X:001")
    here, other = world(), tmp_path / "int8"
    build_linker(IndexConfig(precision="int8"), here.ontology, here.mentions, tiny_encoder, other, threads=1)
    shutil.copytree(taught / "learned", other / "learned")
    actions: list[Callable[[Linker], object]] = [
        lambda linker: linker.link([COLD]),
        lambda linker: linker.add(COLD, "X:001"),
        lambda linker: linker.examples(),
    ]
    for act in actions:
        with pytest.raises(KrissError, match="were learned with another encoder than the linker's, or"):
            act(load(other))


def test_examples_of_another_weight_are_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    here, (one, other) = world(), (tmp_path / "one", tmp_path / "other")
    for out, weight in ((one, 1.0), (other, 0.5)):
        config = IndexConfig(references=weight, ngrams=False)
        build_linker(config, here.ontology, here.mentions, tiny_encoder, out, threads=1)
    load(one).add(COLD, "X:001")
    shutil.copytree(one / "learned", other / "learned")
    with pytest.raises(KrissError, match="or another weight of references; remove the folder and learn them again"):
        load(other).link([COLD])


def test_examples_of_another_ontology_are_refused(taught: Path, ward: Path) -> None:
    load(taught).add(COLD, "X:001")
    shutil.copytree(taught / "learned", ward / "learned")
    with pytest.raises(KrissError, match="has an example of 'X:001', which there is not"):
        load(ward).link([COLD])
