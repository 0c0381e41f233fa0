"""Kills a writer of examples at each of its system calls in turn, and looks at what is left; test_learned runs it.

It is a process of its own, with one thread: only such a one may be forked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kriss.link import learned as learned_module
from kriss.link.learned import Learned
from kriss.link.log import Record
from kriss.ontology import Ontology
from kriss.records import Evidence

CALLS = ("pwrite", "fsync", "ftruncate", "replace", "unlink", "mkdir", "rmdir")
Say = Callable[[str], object]


def addition(number: int, entity: str = "X:001", width: int = 8) -> Record:
    """Return the record of an example."""
    evidence = Evidence("gold", "cold", f"left {number} ", " right", "doc", 5, 9, f"g{number}")
    header = {"what": "add", "id": f"g{number}", "number": number, "entity": entity, "evidence": asdict(evidence)}
    return Record(header, np.full(width, number, dtype=np.float32))


def removal(number: int) -> Record:
    """Return the record that takes an example back."""
    return Record({"what": "remove", "id": f"g{number}"}, np.zeros(0, np.float32))


def learned(folder: Path, ontology: Ontology) -> Learned:
    """Open a folder of examples."""
    return Learned(folder, "encoder", "flat", ontology)


def append(store: Learned, *records: Record) -> None:
    """Write records as a linker does."""
    with store.writing():
        store.append(records)


def work(folder: Path, ontology: Ontology, say: Say) -> None:
    """Add, remove and fold, and say each time what is safe now."""
    store = learned(folder, ontology)
    for number in (1, 2, 3):
        append(store, addition(number))
        say(f"+g{number}")
    append(store, removal(2))
    say("-g2")
    new = Record({"what": "entity", "id": "NEW", "name": "new"}, np.ones(8, np.float32))
    append(store, new, addition(5, "NEW"), addition(6, "NEW"))
    say("+g5+g6")
    append(store, addition(7))
    say("+g7")


def die_at(point: int) -> None:
    """Let the process end at a system call, which is done, half done, or not done."""
    done = 0

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done - 1 != point // 2:
                return real(*given, **options)
            with suppress(OSError):
                if name == "pwrite":
                    real(given[0], given[1][: len(given[1]) // 2], given[2])
                elif point % 2:
                    real(*given, **options)
            os._exit(9)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))


def said(folder: Path, ontology: Ontology, point: int) -> tuple[str, int]:
    """Let a child work until it dies, and return what it said and its status."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        die_at(point)
        work(folder, ontology, lambda what: os.write(writing, what.encode()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        told = stream.read()
    return told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(folder: Path, ontology: Ontology, told: str) -> None:
    """Compare what is left with what was said to be safe; a step that was not finished is there whole or not at all."""
    steps = [["+g1"], ["+g2"], ["+g3"], ["-g2"], ["+g5", "+g6"], ["+g7"]]
    finished = next(n for n in range(len(steps) + 1) if "".join("".join(step) for step in steps[:n]) == told)
    store = learned(folder, ontology)
    found = [example.id for example in store.now().examples()]
    assert found in (_after(steps[:finished]), _after(steps[: finished + 1])), (told, found)
    append(store, addition(99, "X:002"))  # the next writer finds everything in order
    store.fold()
    again = learned(folder, ontology).now()
    assert [example.id for example in again.examples()] == [*found, "g99"]
    assert again.index is not None
    kept = again.index.vectors(np.arange(len(found) + 1))
    assert kept[:, 0].tolist() == [*(float(one[1:]) for one in found), 99.0]
    names = {file.name for file in folder.iterdir()}
    number = f"{again.generation:06d}"
    assert names == {"lock", "state.json", f"segment-{number}"}, names


def _after(steps: list[list[str]]) -> list[str]:
    ids: list[str] = []
    for what in (one for step in steps for one in step):
        if what[0] == "+":
            ids.append(what[1:])
        else:
            ids.remove(what[1:])
    return ids


def main(ontology: Ontology, folder: Path) -> int:
    """Go through all points, and return how many there were."""
    learned_module.TAIL = 2
    os.fsync = lambda fd: None  # the power stays on, and disks are slow
    point = 0
    while True:
        here = folder / str(point)
        told, status = said(here, ontology, point)
        if here.exists():
            check(here, ontology, told)
        if status == 0:
            return point
        assert status == 9, (point, status)
        point += 1


if __name__ == "__main__":
    print(main(Ontology.load(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201
