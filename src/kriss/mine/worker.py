"""The process that mines: `python -m kriss.mine.worker WORK WORKERS`, started by `pool`.

It builds the tables of names once and then forks, so that all workers read the same memory. Shard
numbers come in through standard input, eight bytes each, shared by the workers as a queue; what
happens goes out through standard output, a line of JSON each, short enough to be written whole.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from kriss.errors import KrissError
from kriss.mine.matcher import Matcher
from kriss.mine.names import Names
from kriss.mine.plan import Plan, Shard
from kriss.mine.pool import RECORD
from kriss.mine.sample import Limits
from kriss.mine.shard import mine_shard

_LONGEST = 3500
"""A pipe passes on whole what is shorter than 4096 bytes; a message is cut to fit."""

_ALLOCATIONS = 1_000_000
"""Objects made before a search for garbage: pages make many, none of which is part of a cycle."""


def main(work: Path, workers: int) -> int:
    """Build the tables, fork the workers, and wait for them."""
    plan = Plan.read(work / "plan.json")
    names = Names(work / "names", plan.config)
    matcher = Matcher(names)
    excluded_file = work / "excluded.txt"
    excluded = frozenset(excluded_file.read_text(encoding="utf-8").split("\n")) - {""}
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
    parent = os.getppid()
    children: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: _end(children))
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os._exit(_work(plan, matcher, excluded, work, os.getppid()))
        children.append(child)
    _tell(event="ready", keys=len(names))
    failed = 0
    while children:
        _, status = os.waitpid(children[0], 0)
        del children[0]
        if status:
            failed = failed or os.waitstatus_to_exitcode(status)
            if os.getppid() == parent:
                _tell(event="died", status=failed)
    return 1 if failed else 0


def _end(children: list[int]) -> NoReturn:
    """End the workers, and only then this process: none may write to a folder that the next run makes anew."""
    for child in children:
        with suppress(ProcessLookupError, ChildProcessError):  # it has just ended
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    os._exit(1)


def _work(plan: Plan, matcher: Matcher, excluded: frozenset[str], work: Path, parent: int) -> int:
    """Take shards until there are no more; return the exit status."""
    shards = plan.shards()
    limits = Limits(plan.config.per_entity)
    skip = plan.skip_bad_files

    def beat(documents: int, characters: int, hits: int) -> None:
        if os.getppid() != parent:  # the run was killed; another may start any moment
            os._exit(1)
        _tell(event="beat", documents=documents, characters=characters, hits=hits)

    try:
        while taken := os.read(0, RECORD):
            number = int.from_bytes(taken, "little")
            drop_file = work / f"drop-{number:05d}.json"
            drop = tuple(json.loads(drop_file.read_text())) if drop_file.is_file() else ()
            shard = Shard(number, shards[number].file, shards[number].stripe, shards[number].stripes, drop)
            mine_shard(shard, matcher, plan.config, excluded, work, beat, skip_bad_files=skip, limits=limits)
            _tell(event="done", shard=number)
    except KrissError as error:
        _tell(event="error", message=str(error))
        return 0
    except OSError as error:
        _tell(event="error", message=f"{error.filename or work}: {error.strerror or error}")
        return 0
    except Exception:  # noqa: BLE001 - a bug: its traceback must reach the user, not die in a pipe
        _tell(event="bug", message=traceback.format_exc()[-_LONGEST:])
        return 0
    return 0


def _tell(**event: object) -> None:
    line = json.dumps(event)
    if len(line) > _LONGEST:
        line = json.dumps({**event, "message": str(event.get("message", ""))[: _LONGEST // 6]})
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), int(sys.argv[2])))  # at once: to let go of all that takes a while
