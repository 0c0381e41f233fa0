"""Pieces of work: the same results from any engine, after any interruption; errors as one sentence; no child left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kriss.errors import ConfigError, InputError, KrissError, MissingExtraError
from kriss.work import Engine, Local, Work, engine_named


@dataclass(frozen=True, slots=True)
class Number:
    value: int

    @property
    def name(self) -> str:
        return f"{self.value:03d}.txt"


@dataclass(frozen=True, slots=True)
class Squares:
    """Writes the square of a number, and misbehaves as it is told."""

    at_seven: str = ""

    def open(self) -> Callable[[Number, Path], dict[str, int]]:
        if self.at_seven == "open":
            raise InputError("no numbers")

        def write(number: Number, path: Path) -> dict[str, int]:
            path.write_text("half of it")
            print("noise")  # noqa: T201 - whatever a library prints must not reach the parent as an answer
            if number.value == 7:
                if self.at_seven == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.at_seven == "wait":
                    time.sleep(60)
                if self.at_seven == "input":
                    raise InputError("numbers.txt:7: no number")
                if self.at_seven == "extra":
                    raise MissingExtraError("abacus", "count", "counting")
                if self.at_seven == "bug":
                    raise ZeroDivisionError("oh")
            path.write_text(str(number.value**2))
            return {"digits": len(str(number.value**2))}

        return write


PIECES = [Number(value) for value in range(20)]


def results(work: Work) -> dict[str, str]:
    return {file.name: file.read_text() for file in work.folder.glob("[!.]*")}


def made(work: Work, job: Squares, engine: Engine) -> list[int]:
    with work.made_by(engine, job.open) as make:
        return [piece.value for piece, _ in make(PIECES)]


EXPECTED = {number.name: str(number.value**2) for number in PIECES}


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_any_number_of_workers_gives_the_same(tmp_path: Path, workers: int) -> None:
    work = Work.open(tmp_path / "w", {"seed": 1})
    assert sorted(made(work, Squares(), Local(workers))) == list(range(20))
    assert results(work) == EXPECTED
    assert made(work, Squares(), Local(workers)) == []
    work.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("at_seven", "kind", "sentence"),
    [
        ("input", InputError, r"numbers.txt:7: no number"),
        ("extra", KrissError, r"counting needs the package 'abacus'"),
        ("bug", (RuntimeError, ZeroDivisionError), "oh"),
        ("open", InputError, "no numbers"),
    ],
)
def test_an_error_of_a_worker_is_raised_here(
    tmp_path: Path, workers: int, at_seven: str, kind: type[Exception], sentence: str
) -> None:
    work = Work.open(tmp_path / "w", {})
    with pytest.raises(kind, match=sentence):
        made(work, Squares(at_seven), Local(workers))
    assert results(work).items() <= EXPECTED.items()
    made(work, Squares(), Local())
    assert results(work) == EXPECTED


def test_a_worker_that_dies_is_told_and_the_next_run_goes_on(tmp_path: Path) -> None:
    work = Work.open(tmp_path / "w", {})
    with pytest.raises(KrissError, match=r"a worker died .* goes on where it stopped"):
        made(work, Squares("die"), Local(2))
    before = set(results(work))
    assert 0 < len(before) < 20
    again = Work.open(tmp_path / "w", {})
    assert not before & {Number(value).name for value in made(again, Squares(), Local())}
    assert results(again) == EXPECTED


def test_workers_end_with_the_run(tmp_path: Path) -> None:
    """However it ends: by an error of the caller, or killed."""
    work = Work.open(tmp_path / "w", {})
    with pytest.raises(KeyError), work.made_by(Local(2), Squares("wait").open) as make:
        raise KeyError(next(make(PIECES)))
    assert not children(work.folder)
    code = (
        "import sys; from pathlib import Path; from kriss.work import *; from tests.test_work import *\n"
        "made(Work(Path(sys.argv[1])), Squares('wait'), Local(2))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(work.folder)])
    while not children(work.folder) - {process.pid}:
        time.sleep(0.05)
    process.kill()
    process.wait()
    end = time.monotonic() + 30
    while children(work.folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert not children(work.folder)


def children(folder: Path) -> set[int]:
    """Return the processes that have a folder among their arguments."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and (process / "cmdline").exists():
            try:
                if os.fsencode(folder) in (process / "cmdline").read_bytes():
                    found.add(int(process.name))
            except OSError:  # it has just ended
                continue
    return found


def test_results_for_other_inputs_are_not_used(tmp_path: Path) -> None:
    work = Work.open(tmp_path / "w", {"seed": 1})
    work.once("table", lambda path: path.write_text("one"))
    assert work.once("table", lambda path: path.write_text("two")).read_text() == "one"
    other = Work.open(tmp_path / "w", {"seed": 2})
    assert not work.folder.exists()
    assert other.once("table", lambda path: path.write_text("two")).read_text() == "two"
    with pytest.raises(ZeroDivisionError):
        other.once("half", lambda path: path.mkdir() or 1 / 0)  # type: ignore[func-returns-value]
    assert [path.name for path in other.folder.iterdir()] == ["table"]


def test_options() -> None:
    assert engine_named("local", workers=3) == Local(3)
    for options in (("spark",), ("local", "there:1"), ("local", "", 0)):
        with pytest.raises(ConfigError, match="--"):
            engine_named(*options)
