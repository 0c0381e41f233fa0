"""Entities that are hard to tell apart, by their names or by the encoder itself."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import faiss
import numpy as np
from numpy.typing import NDArray

from kriss.names import name_key
from kriss.records import Excerpt
from kriss.train.dev import Scorable
from kriss.train.examples import TrainingSet

KEPT = 16
"""Neighbours an entity keeps."""
_WIDTH = 256
_EXACT = 100_000
"""Up to so many entities all are compared with all; beyond, an inverted file looks at the likely ones."""

Vectors = NDArray[np.float32]


def by_names(examples: TrainingSet) -> NDArray[np.int64]:
    """Return the neighbours of each entity by the three-letter pieces of its names.

    Pieces are hashed into a vector of fixed width, with random signs, and weighted by rarity; the
    inner product of two such vectors estimates that of the exact ones, in memory that is bounded.
    """
    sketches = np.zeros((len(examples.mentions.rows), _WIDTH), dtype=np.float32)
    pieces = [_pieces(examples.names(int(row)).seen) for row in examples.mentions.rows]
    owners: dict[int, int] = {}
    for found in pieces:
        for piece in found:
            owners[piece] = owners.get(piece, 0) + 1
    for place, found in enumerate(pieces):
        for piece in found:
            sign = 1.0 if piece >> 31 else -1.0
            sketches[place, piece % _WIDTH] += sign * np.log(len(pieces) / owners[piece])
    return _nearest(examples, sketches)


def by_encoder(examples: TrainingSet, encoder: Scorable) -> NDArray[np.int64]:
    """Return the neighbours of each entity by the vectors of their preferred names."""
    names = [Excerpt.bare(examples.names(int(row)).seen[0]) for row in examples.mentions.rows]
    return _nearest(examples, encoder.mentions(names))


def _pieces(names: tuple[str, ...]) -> set[int]:
    return {
        crc32(padded[at : at + 3].encode())
        for name in names
        for padded in (f" {name.casefold()} ",)
        for at in range(len(padded) - 2)
    }


def _nearest(examples: TrainingSet, vectors: Vectors) -> NDArray[np.int64]:
    """Return the nearest by cosine, without those that share a name with the entity.

    Where fewer are left than there are columns, the entity itself fills the rest: it is in its group anyhow.
    """
    vectors = np.ascontiguousarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))
    index: Any
    if len(vectors) <= _EXACT:
        index = faiss.IndexFlatIP(vectors.shape[1])
    else:
        index = faiss.index_factory(
            vectors.shape[1], f"IVF{int(4 * len(vectors) ** 0.5)},Flat", faiss.METRIC_INNER_PRODUCT
        )
        index.train(vectors)
        index.nprobe = 16
    index.add(vectors)
    _, found = index.search(vectors, min(2 * KEPT, len(vectors)))
    keys = [frozenset(map(name_key, examples.ontology.names_at(int(row)))) for row in examples.mentions.rows]
    neighbours = np.empty((len(vectors), min(KEPT, len(vectors) - 1)), dtype=np.int64)
    for place, near in enumerate(found.tolist()):
        apart = [at for at in near if at >= 0 and at != place and not keys[at] & keys[place]]
        neighbours[place] = (apart + [place] * neighbours.shape[1])[: neighbours.shape[1]]
    return neighbours
