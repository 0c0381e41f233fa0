"""Encoding on a Ray cluster: one actor a node, whose threads share the blocks it is given.

All nodes must see the ontology and the folder of --out under the same paths, as on a shared disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kriss.cluster import ray_cluster
from kriss.encoder.session import Precision
from kriss.errors import KrissError
from kriss.index.encode import Block, Encoding


class NodeEncoder:
    """What runs on a node."""

    def __init__(self, work: str, ontology: str, precision: Precision, threads: int) -> None:
        self._encoding = Encoding.with_onnx(Path(work), Path(ontology), precision, threads)

    def run(self, block: Block) -> Block:
        """Encode a block; its file is the result."""
        self._encoding.run(block)
        return block


@dataclass(frozen=True, slots=True)
class ClusterEngine:
    """Encodes blocks on all nodes of a cluster."""

    work: Path
    ontology: Path
    precision: Precision
    address: str

    def __call__(self, blocks: list[Block]) -> Iterator[Block]:
        """Hand out blocks to nodes as they become free."""
        if not blocks:
            return
        with ray_cluster(self.address) as ray:
            nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
            actors = [self._place(ray, node) for node in nodes]
            waiting = iter(blocks)
            running = {actor.run.remote(block): actor for actor, block in zip(actors, waiting, strict=False)}
            while running:
                [finished], _ = ray.wait(list(running))
                actor = running.pop(finished)
                try:
                    done = ray.get(finished)
                except ray.exceptions.RayError as error:
                    first = str(error).strip().splitlines()[0]
                    raise KrissError(
                        f"a node failed ({first}); run the same command again: it goes on where it stopped"
                    ) from None
                yield done
                if (block := next(waiting, None)) is not None:
                    running[actor.run.remote(block)] = actor
            for actor in actors:
                ray.kill(actor)

    def _place(self, ray: Any, node: dict[str, Any]) -> Any:  # noqa: ANN401 - Ray's handles have no type
        cpus = max(1, int(node["Resources"]["CPU"]))
        where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        remote = ray.remote(NodeEncoder).options(num_cpus=cpus, scheduling_strategy=where)
        return remote.remote(str(self.work.resolve()), str(self.ontology.resolve()), self.precision, cpus)
