"""Encoding prototypes and references: the pieces are blocks of rows, the job is an encoder and what it reads.

work/
encoder/                    the encoder, as the linker will carry it
prototypes.arrow
vectors-000000.npy ...      c of each prototype
references-000000.npy ...   r of each entity
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.config import Precision
from kriss.encoder.session import OnnxEncoder
from kriss.errors import DamagedError
from kriss.index.prototypes import Prototypes
from kriss.ontology import Ontology

if TYPE_CHECKING:
    from kriss.encoder.model import Encoder

BLOCK = 2048
Part = Literal["vectors", "references"]
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of the prototypes or of the ontology."""

    part: Part
    first: int
    last: int

    @property
    def name(self) -> str:
        """The file of its vectors."""
        return f"{self.part}-{self.first // BLOCK:06d}.npy"


def blocks_of(prototypes: Path, ontology: Ontology) -> list[Block]:
    """Return what there is to encode."""
    counts: dict[Part, int] = {"references": len(ontology), "vectors": len(Prototypes(prototypes))}
    return [
        Block(part, first, min(first + BLOCK, count))
        for part, count in counts.items()
        for first in range(0, count, BLOCK)
    ]


@dataclass(frozen=True, slots=True)
class Encoding:
    """What is done to each block: a job, as `kriss.work` has it."""

    prototypes: Path
    ontology: Path
    encoder: Path
    """A folder with graphs, or for torch the artifact."""
    backend: Literal["onnx", "torch"] = "onnx"
    precision: Precision = "fp32"
    threads: int = 0

    def open(self) -> Callable[[Block, Path], dict[str, int]]:
        """Load the encoder; return what encodes a block."""
        prototypes, ontology, encoder = Prototypes(self.prototypes), Ontology.load(self.ontology), self._encoder()

        def encode(block: Block, path: Path) -> dict[str, int]:
            if block.part == "vectors":
                found = encoder.mentions(prototypes.mentions(block.first, block.last))
            else:
                found = encoder.references([ontology.at(row) for row in range(block.first, block.last)])
            if not np.isfinite(found).all():
                raise DamagedError("the encoder gives vectors that are not numbers; train or export it again")
            with path.open("wb") as stream:
                np.save(stream, found)
            return {"count": block.last - block.first}

        return encode

    def _encoder(self) -> OnnxEncoder | Encoder:
        if self.backend == "onnx":
            return OnnxEncoder.load(self.encoder, self.precision, self.threads)
        import torch

        from kriss.encoder.model import Encoder

        loaded = Encoder.load(self.encoder)
        return loaded.to("cuda") if torch.cuda.is_available() else loaded


def joined(blocks: Iterable[Block], work: Path, part: Part) -> Iterator[tuple[Block, NDArray[np.float32]]]:
    """Yield the vectors of one part, block by block."""
    for block in blocks:
        if block.part != part:
            continue
        file = work / block.name
        try:
            found = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            found = None
        if found is None or len(found) != block.last - block.first:
            file.unlink(missing_ok=True)
            raise DamagedError(f"{file} is damaged and was removed; run the command again to go on")
        yield block, found
