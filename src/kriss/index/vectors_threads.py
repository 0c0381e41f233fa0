"""How many threads FAISS uses, for the calling thread only and for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import faiss


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let FAISS use so many threads in calls from this thread while a block runs."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
