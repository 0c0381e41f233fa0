"""Joining a Ray cluster, or starting one on this machine: an option of several stages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kriss.errors import KrissError, MissingExtraError


@contextmanager
def ray_cluster(address: str) -> Iterator[Any]:
    """Yield the module `ray`, connected; one that was started here is ended here."""
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError("ray", "ray", "--engine ray") from None
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address or None, log_to_driver=False, include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            first = str(error).strip().splitlines()[0]
            raise KrissError(f"no Ray cluster can be used at '{address or 'this machine'}': {first}") from None
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()
