"""Workers on a Ray cluster: one actor a node, each with a `Pool` of its own.

Why actors and not Ray Data: the tables of names are the large thing here, hundreds of MB for UMLS, and
the text the small one. An actor a node builds them once and its forks share them, just as on one
machine; Ray Data would move the text through its object store to workers that each hold a copy.

All nodes must see the text and the folder of --out under the same paths, as on a shared disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kriss.cluster import ray_cluster
from kriss.errors import InputError, KrissError
from kriss.mine.pool import Pool

_SHARDS_A_WORKER = 2
"""Shards handed to a node at a time, for each of its workers."""


class NodeMiner:
    """What runs on a node. Events are gathered, for they cross the network a batch at a time."""

    def __init__(self, work: str, workers: int) -> None:
        self._pool = Pool(Path(work), workers).__enter__()

    def mine(self, shards: list[int]) -> tuple[list[dict[str, Any]], str]:
        """Mine shards; return the events, and what went wrong as a sentence."""
        totals = {"event": "beat", "documents": 0, "characters": 0, "hits": 0}
        events: list[dict[str, Any]] = []
        try:
            for event in self._pool.mine(shards):
                if event["event"] == "beat":
                    for name in ("documents", "characters", "hits"):
                        totals[name] += event[name]
                else:
                    events.append(event)
        except KrissError as error:
            return events, str(error)
        return [totals, *events], ""

    def close(self) -> None:
        """End the node's workers."""
        self._pool.__exit__(None, None, None)


class Cluster:
    """Mines shards on all nodes of a Ray cluster; use it as a context manager."""

    def __init__(self, work: Path, address: str, workers: int) -> None:
        self._work = work.resolve()
        self._address = address
        self._workers = workers

    def __enter__(self) -> Self:
        self._session = ray_cluster(self._address)
        self._ray = ray = self._session.__enter__()
        nodes = ray.nodes()
        self._actors = [self._place(node) for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._ray.get([actor.close.remote() for actor in self._actors])
        for actor in self._actors:
            self._ray.kill(actor)
        self._session.__exit__(None, None, None)

    def mine(self, shards: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Hand out shards to nodes as they become free, and pass on what happens."""
        waiting = list(shards)
        at_once = self._workers * _SHARDS_A_WORKER
        running: dict[Any, Any] = {}
        for actor in self._actors:
            self._hand_out(actor, waiting, at_once, running)
        while running:
            [finished], _ = self._ray.wait(list(running))
            actor = running.pop(finished)
            try:
                events, problem = self._ray.get(finished)
            except self._ray.exceptions.RayError as error:
                first = str(error).strip().splitlines()[0]
                raise KrissError(
                    f"a node failed ({first}); run the same command again: it goes on where it stopped"
                ) from None
            yield from events
            if problem:
                raise InputError(problem)
            self._hand_out(actor, waiting, at_once, running)

    def _place(self, node: dict[str, Any]) -> Any:  # noqa: ANN401 - an actor handle has no type
        """Put an actor on a node, which it has to itself as far as Ray's count of CPUs goes."""
        where = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        remote = self._ray.remote(NodeMiner).options(
            num_cpus=min(self._workers, node["Resources"]["CPU"]), scheduling_strategy=where
        )
        return remote.remote(str(self._work), self._workers)

    @staticmethod
    def _hand_out(actor: Any, waiting: list[int], count: int, running: dict[Any, Any]) -> None:  # noqa: ANN401
        if waiting:
            batch, waiting[:] = waiting[:count], waiting[count:]
            running[actor.mine.remote(batch)] = actor
