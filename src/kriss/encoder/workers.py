"""Threads that share batches, and are there again in a forked process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakSet

from kriss.errors import ConfigError


class Workers:
    """A pool of threads; 0 are all cores."""

    def __init__(self, threads: int = 0) -> None:
        if threads < 0:
            raise ConfigError(f"'threads' must be at least 1, or 0 for all cores, not {threads}")
        self._threads = threads
        self._start()
        _all.add(self)

    def _start(self) -> None:
        self.pool = ThreadPoolExecutor(self._threads or len(os.sched_getaffinity(0)))


_all: WeakSet[Workers] = WeakSet()


def _renew() -> None:
    """Start new threads in a forked process: those that it inherits do not run, and would be waited for."""
    for workers in list(_all):
        workers._start()


os.register_at_fork(after_in_child=_renew)
