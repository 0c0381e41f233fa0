"""One batch made ready while the caller works on the one before.

Encoders and matrix products run without Python's lock, and what comes after them runs with it: side by side
they use more than one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Batch = TypeVar("Batch")
Ready = TypeVar("Ready")


def one_ahead(prepare: Callable[[Batch], Ready], batches: Iterable[Batch]) -> Iterator[Ready]:
    """Yield `prepare(batch)` for each batch, in order; the first is made in this thread, for it may be the only one."""
    waiting = iter(batches)
    for first in waiting:
        ready = prepare(first)
        break
    else:
        return
    with ThreadPoolExecutor(1) as worker:
        for batch in waiting:
            coming = worker.submit(prepare, batch)
            yield ready
            ready = coming.result()
    yield ready
