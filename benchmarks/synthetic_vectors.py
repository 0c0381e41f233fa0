"""Prototype vectors and queries by the million that lie as an encoder's do.

    python benchmarks/synthetic_vectors.py vectors.f32 queries.npy --vectors 4000000
    python benchmarks/synthetic_vectors.py --compare ENCODER ONTOLOGY      # are they like real ones?

An entity is the sum of its place in a hierarchy of groups (top, middle, low; sizes with a long tail)
and of something of its own, all normal with one covariance whose spectrum falls as the real one does.
A view of an entity keeps a share of it, which differs from view to view, and is noise of the same
covariance otherwise; it is made a unit vector around a common mean. As in the paper's Eq. 4 a
prototype is the sum of two views, one drawn for each prototype (c) and one for each entity (r), so
its length differs; a query is one view. An entity has one to seven prototypes, four on average,
that stand next to each other, as in a built index.

`--compare` encodes names of an ontology with an exported encoder and prints, for both, the share of
variance in the first dimensions and the scores at some ranks. Real queries are names held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
WIDTH, SEED, BLOCK = 384, 7, 16_384
DECAY, REACH = 0.54, 140.0
"""The spectrum: dimension j has a variance of j^-DECAY · exp(-j / REACH)."""
SIZES = (14, 22, 25)
"""Mean number of entities in a low group, of those in a middle one, of those in a top one."""
TAIL = 1.5
"""How unlike the sizes of groups are: the deviation of their logarithm."""
WEIGHTS = (0.1, 0.5, 0.2, 0.2)
"""Shares of variance that the top, middle and low group have in an entity, and its own."""
SHARE, QUERY_SHARE, SPREAD = 0.68, 0.6, 0.25
"""What a prototype's view and a query's keep of the entity, and the deviation of that."""
MEAN = 0.08
"""The squared length of the mean that all vectors share."""

Vectors = NDArray[np.float32]


class Space:
    """Groups, and how entities and views are drawn."""

    def __init__(self, entities: int, width: int = WIDTH, seed: int = SEED) -> None:
        draw = np.random.default_rng(seed)
        place = np.arange(width)
        spectrum = (place + 1.0) ** -DECAY * np.exp(-place * WIDTH / width / REACH)
        self._deviation = np.sqrt(spectrum / spectrum.sum()).astype(np.float32)
        mean = draw.standard_normal(width)
        self._mean = (mean / np.linalg.norm(mean) * np.sqrt(MEAN)).astype(np.float32)
        self._groups: list[NDArray[np.int64]] = []
        self._centres: list[Vectors] = []
        count = entities
        for size, weight in zip(SIZES, WEIGHTS[2::-1], strict=True):
            groups = _groups(count, size, draw)
            count = int(groups[-1]) + 1
            self._groups.append(groups)
            self._centres.append(self._normal((count, width), draw) * np.float32(np.sqrt(weight)))

    def _normal(self, shape: tuple[int, int], draw: np.random.Generator) -> Vectors:
        return np.asarray(draw.standard_normal(shape, dtype=np.float32) * self._deviation)

    def entities(self, which: NDArray[np.int64], draw: np.random.Generator) -> Vectors:
        """Return what is meant by these entities."""
        found = self._normal((len(which), len(self._mean)), draw) * np.float32(np.sqrt(WEIGHTS[3]))
        for groups, centres in zip(self._groups, self._centres, strict=True):
            which = groups[which]
            found += centres[which]
        return found

    def views(self, meant: Vectors, share: float, draw: np.random.Generator) -> Vectors:
        """Return a view of each, as a unit vector."""
        kept = np.clip(share + SPREAD * draw.standard_normal((len(meant), 1)), 0.15, 0.98).astype(np.float32)
        noise = self._normal(meant.shape, draw)
        found = self._mean + np.float32(np.sqrt(1 - MEAN)) * (np.sqrt(kept) * meant + np.sqrt(1 - kept) * noise)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))

    def block(
        self, which: NDArray[np.int64], draw: np.random.Generator, queries: int
    ) -> tuple[Vectors, NDArray[np.int64], Vectors]:
        """Return prototypes of some entities, their owners (counted from 0), and queries for some."""
        meant = self.entities(which, draw)
        owners = np.repeat(np.arange(len(which)), draw.integers(1, 8, len(which)))
        prototypes = self.views(meant[owners], SHARE, draw) + self.views(meant, SHARE, draw)[owners]
        asked = self.views(meant[draw.choice(len(which), min(queries, len(which)), replace=False)], QUERY_SHARE, draw)
        return prototypes, owners, asked


def _groups(count: int, size: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Return the group of each of so many members; groups are stretches of them."""
    sizes = draw.lognormal(np.log(size) - TAIL**2 / 2, TAIL, 4 * count // size + 8)
    return np.searchsorted(np.cumsum(np.maximum(sizes, 1)), np.arange(count), side="right")


def blocks(vectors: int, queries: int) -> Iterator[tuple[Vectors, Vectors]]:
    """Yield prototypes, so many in all, and queries with them, a block of entities at a time."""
    entities = vectors // 3 + 100  # a few more than are needed, for their prototypes are four on average
    space, left = Space(entities), vectors
    each = -(-queries * BLOCK * 4 // vectors) + 1
    for number, start in enumerate(range(0, entities, BLOCK)):
        which = np.arange(start, min(start + BLOCK, entities))
        prototypes, _, asked = space.block(which, np.random.default_rng((SEED, number)), each)
        yield prototypes[:left], asked
        left -= len(prototypes)
        if left <= 0:
            return


def write(file: Path, queries_file: Path, vectors: int, queries: int) -> None:
    """Write prototypes as bare float32, row after row, and queries as an array."""
    found: list[Vectors] = []
    with file.open("wb") as stream:
        for prototypes, asked in blocks(vectors, queries):
            stream.write(prototypes.astype("<f4").tobytes())
            found.append(asked)
    order = np.random.default_rng(SEED).permutation(sum(map(len, found)))
    np.save(queries_file, np.vstack(found)[order[:queries]])


def describe(title: str, vectors: Vectors, queries: Vectors) -> None:
    """Print the spectrum, the lengths, and the scores at some ranks."""
    values = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False) ** 2
    shares = np.cumsum(values) / values.sum()
    lengths = np.linalg.norm(vectors, axis=1)
    ranked = -np.sort(-(queries @ vectors.T), axis=1)
    print(f"{title}: {len(vectors):,} vectors, length {lengths.mean():.2f} ± {lengths.std():.2f}")
    print("  variance in the first", {at: round(float(shares[at - 1]), 3) for at in (1, 4, 16, 32, 64, 128, 256)})
    print("  score at rank", {at: round(float(ranked[:, at - 1].mean()), 3) for at in (1, 4, 16, 64, 256, 1024)})
    print(f"  score at rank 64, deviation over queries {ranked[:, 63].std():.3f}; all {ranked.mean():.3f}")


def compare(encoder_folder: Path, ontology_folder: Path, entities: int = 9000) -> None:
    """Print what real and synthetic vectors are like, of as many entities drawn from as many."""
    from kriss import Ontology
    from kriss.encoder.session import OnnxEncoder
    from kriss.records import Excerpt

    encoder, ontology = OnnxEncoder.load(encoder_folder), Ontology.load(str(ontology_folder))
    draw = np.random.default_rng(SEED)
    which = np.sort(draw.choice(len(ontology), min(entities, len(ontology)), replace=False))
    names = [list(dict.fromkeys(ontology.names_at(int(row))))[:6] for row in which]
    owners = np.repeat(np.arange(len(which)), [len(own) for own in names])
    views = encoder.mentions([Excerpt.bare(name) for own in names for name in own])
    references = encoder.references([ontology.at(int(row)) for row in which])
    first = np.flatnonzero(np.diff(owners, prepend=-1) & (np.bincount(owners)[owners] > 1))[:1500]
    stored = np.ones(len(owners), dtype=np.bool_)
    stored[first] = False
    describe("real", (views + references[owners])[stored], views[first])
    prototypes, _, queries = Space(len(ontology)).block(which, draw, 1500)
    describe("synthetic", prototypes, queries)


def main() -> None:
    """Read the arguments; write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="where vectors and queries go")
    parser.add_argument("--vectors", type=int, default=4_000_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("ENCODER", "ONTOLOGY"))
    given = parser.parse_args()
    if given.compare:
        compare(*given.compare)
    else:
        vectors_file, queries_file = given.files
        write(vectors_file, queries_file, given.vectors, given.queries)


if __name__ == "__main__":
    main()
