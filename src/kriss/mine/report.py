"""What was mined, in figures and in examples that a person can judge."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kriss.artifacts import open_artifact
from kriss.errors import ArtifactError
from kriss.mine.config import SPLITS
from kriss.mine.names import Names, Verdict
from kriss.ontology import Ontology
from kriss.records import Excerpt

AT_LEAST = (1, 3, 16)
_TYPES = 20


@dataclass(frozen=True, slots=True)
class MiningFigures:
    """What `kriss mine report` shows."""

    facts: dict[str, int]
    entities_with: dict[int, int]
    """How many entities have at least so many hits."""
    kept: dict[str, int]
    """Mentions kept in each split."""
    forms: tuple[tuple[str, str, int], ...]
    """The most frequent forms: surface, entity, hits."""
    types: tuple[tuple[str, int], ...]
    """Hits by type, when the ontology is given."""


def figures(folder: Path, ontology: Ontology | None = None, forms: int = 50) -> MiningFigures:
    """Count what an artifact of mentions holds."""
    artifact = open_artifact(folder, "mentions")
    if ontology and not any(given.get("sha256") == ontology.artifact.digest for given in artifact.inputs):
        raise ArtifactError(f"{folder} was not mined with the ontology {ontology.artifact.path}")
    table = pq.read_table(folder / "forms.parquet")
    per_entity = table.group_by("entity").aggregate([("hits", "sum")])
    hits = per_entity.column("hits_sum")
    splits = pq.read_table(folder / "mentions.parquet", columns=["split"]).column("split")
    counted = {row["values"]: row["counts"] for row in pc.value_counts(splits).to_pylist()}
    by_type: Counter[str] = Counter()
    if ontology:
        for row in per_entity.to_pylist():
            for name in ontology[row["entity"]].types:
                by_type[name] += row["hits_sum"]
    return MiningFigures(
        {name: int(value) for name, value in artifact.facts.items()},
        {least: int(pc.sum(pc.greater_equal(hits, least)).as_py() or 0) for least in AT_LEAST},
        {split: counted.get(split, 0) for split in SPLITS},
        tuple((row["surface"], row["entity"], row["hits"]) for row in table.slice(0, forms).to_pylist()),
        tuple(by_type.most_common(_TYPES)),
    )


def examples(folder: Path, count: int, seed: int = 0) -> list[tuple[str, str, Excerpt]]:
    """Draw mentions at random from those kept, each with its entity and document; the same seed draws the same."""
    open_artifact(folder, "mentions")
    table = pq.read_table(folder / "mentions.parquet", columns=["entity", "document", "left", "surface", "right"])
    rows = sorted(random.Random(seed).sample(range(len(table)), min(count, len(table))))  # noqa: S311 - not a secret
    drawn = [tuple(row.values()) for row in table.take(pa.array(rows, pa.int64())).to_pylist()]
    return [(entity, document, Excerpt(*text)) for entity, document, *text in drawn]


def judged(names: Names) -> Iterator[tuple[str, Verdict]]:
    """Judge every name as the ontology writes it, also those turned round, as the miner would if it met it."""
    for number in range(len(names)):
        for name in dict.fromkeys(names.names_under(number)):
            yield name, names.judge(name.encode(), number).verdict
