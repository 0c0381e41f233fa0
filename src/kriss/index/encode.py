"""Encoding prototypes and references block by block: resumable, here or on a cluster.

A block is a file of vectors, written aside and renamed, so that a run which was stopped goes on with
the blocks that are missing. What is in a block does not depend on who made it.

    work/
      encoder/            the encoder, as the linker will carry it
      ontology/           a link to the ontology
      prototypes.arrow
      vectors/00000.npy   c of each prototype
      references/00000.npy  r of each entity
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.session import OnnxEncoder, Precision
from kriss.errors import DamagedError
from kriss.index.prototypes import Prototypes
from kriss.ontology import Ontology
from kriss.records import Entity, Excerpt

BLOCK = 2048
Part = Literal["vectors", "references"]
Progress = Callable[[dict[str, Any]], None]


class Encodes(Protocol):
    """Whatever turns mentions and entities into vectors."""

    def mentions(self, mentions: list[Excerpt], /) -> NDArray[np.float32]:
        """Return c for each mention."""

    def references(self, entities: list[Entity], /) -> NDArray[np.float32]:
        """Return r for each entity."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of the prototypes or of the ontology."""

    part: Part
    first: int
    last: int

    def file(self, work: Path) -> Path:
        """Return where its vectors are kept."""
        return work / self.part / f"{self.first // BLOCK:06d}.npy"


class Encoding:
    """What blocks are encoded from; opened once in each process."""

    def __init__(self, work: Path, ontology: Path, encoder: Encodes) -> None:
        self.work = work
        self._prototypes = Prototypes(work / "prototypes.arrow")
        self._ontology = Ontology.load(ontology)
        self._encoder = encoder

    @classmethod
    def with_onnx(cls, work: Path, ontology: Path, precision: Precision, threads: int) -> Encoding:
        """Encode with the graphs in the work folder."""
        return cls(work, ontology, OnnxEncoder.load(work / "encoder", precision, threads))

    @classmethod
    def with_torch(cls, work: Path, ontology: Path, encoder: Path) -> Encoding:
        """Encode with the weights of a saved encoder, on a GPU if there is one."""
        import torch

        from kriss.encoder.model import Encoder

        loaded = Encoder.load(encoder)
        return cls(work, ontology, loaded.to("cuda") if torch.cuda.is_available() else loaded)

    def blocks(self) -> list[Block]:
        """Return what there is to encode."""
        counts: dict[Part, int] = {"references": len(self._ontology), "vectors": len(self._prototypes)}
        return [
            Block(part, first, min(first + BLOCK, count))
            for part, count in counts.items()
            for first in range(0, count, BLOCK)
        ]

    def run(self, block: Block) -> None:
        """Encode a block and keep its vectors."""
        rows = range(block.first, block.last)
        if block.part == "vectors":
            found = self._encoder.mentions(self._prototypes.mentions(block.first, block.last))
        else:
            found = self._encoder.references([self._ontology.at(row) for row in rows])
        if not np.isfinite(found).all():
            raise DamagedError("the encoder gives vectors that are not numbers; train or export it again")
        file = block.file(self.work)
        draft = file.with_name(f"{file.stem}-{os.getpid()}.tmp")
        with draft.open("wb") as stream:
            np.save(stream, found)
        draft.rename(file)


Engine = Callable[[list[Block]], Iterator[Block]]
"""Whatever encodes blocks and yields each when it is done: this process, or a Ray cluster."""


def here(encoding: Encoding) -> Engine:
    """Encode in this process, whose threads share a block."""

    def engine(blocks: list[Block]) -> Iterator[Block]:
        for block in blocks:
            encoding.run(block)
            yield block

    return engine


def encode_all(blocks: Iterable[Block], work: Path, engine: Engine, progress: Progress) -> None:
    """Encode the blocks that have no file yet."""
    blocks = list(blocks)
    for part in ("vectors", "references"):
        (work / part).mkdir(exist_ok=True)
    missing = [block for block in blocks if not block.file(work).is_file()]
    total = sum(block.last - block.first for block in blocks)
    progress({"event": "encode", "total": total, "done": total - sum(b.last - b.first for b in missing)})
    for block in engine(missing):
        progress({"event": "encoded", "count": block.last - block.first})


def joined(blocks: Iterable[Block], work: Path, part: Part) -> Iterator[tuple[Block, NDArray[np.float32]]]:
    """Yield the vectors of one part, block by block."""
    for block in blocks:
        if block.part != part:
            continue
        try:
            found = np.load(block.file(work), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            found = None
        if found is None or len(found) != block.last - block.first:
            block.file(work).unlink(missing_ok=True)
            raise DamagedError(f"{block.file(work)} is damaged and was removed; run the command again to go on")
        yield block, found
