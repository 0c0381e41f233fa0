"""Workers on this machine: one process that builds the tables of names, and its forks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kriss.errors import InputError, KrissError

RECORD = 8
"""Bytes of a shard number on its way to the workers."""


class Pool:
    """Mines shards with some number of workers; use it as a context manager.

    with Pool(work, workers=2) as pool:
        for event in pool.mine([0, 1, 2]):
            ...
    """

    def __init__(self, work: Path, workers: int) -> None:
        self._work = work
        self._workers = workers

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kriss.mine.worker", str(self._work), str(self._workers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        if kind is not None:
            process.terminate()
        process.wait()

    def mine(self, shards: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Mine shards and yield what happens: `ready`, `beat` and `done`; what goes wrong is raised."""
        waiting = iter(shards)
        open_shards = sum(self._give(waiting) for _ in range(self._workers + 1))
        while open_shards:
            event = self._next_event()
            if event["event"] == "done":
                open_shards += self._give(waiting) - 1
            yield event

    def _give(self, waiting: Iterator[int]) -> int:
        number = next(waiting, None)
        if number is None:
            return 0
        assert self._process.stdin
        self._process.stdin.write(number.to_bytes(RECORD, "little"))
        self._process.stdin.flush()
        return 1

    def _next_event(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise KrissError(f"the mining process ended with status {status}; was it out of memory?")
        event: dict[str, Any] = json.loads(line)
        match event["event"]:
            case "error":
                raise InputError(event["message"])
            case "bug":
                raise RuntimeError(event["message"])
            case "died":
                raise KrissError(
                    f"a worker ended with status {event['status']} (out of memory?); run the same command again, "
                    "with fewer --workers: it goes on where it stopped"
                )
        return event
