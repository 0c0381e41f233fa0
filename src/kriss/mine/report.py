"""What was mined, in figures and in examples that a person can judge."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kriss.artifacts import open_artifact
from kriss.records import Excerpt


def figures(folder: Path) -> dict[str, int]:
    """Count what an artifact of mentions holds: what the run wrote down, and the mentions kept in each split."""
    facts = open_artifact(folder, "mentions").facts
    splits = pc.value_counts(pq.read_table(folder / "mentions.parquet", columns=["split"]).column("split"))
    kept = {f"mentions kept for {one['values']}": one["counts"] for one in splits.to_pylist()}
    return {name.replace("_", " "): int(value) for name, value in facts.items()} | kept


def frequent(folder: Path, count: int) -> list[tuple[str, str, int]]:
    """Return the most frequent forms: surface, entity, hits."""
    table = pq.read_table(folder / "forms.parquet").slice(0, count)
    return [(row["surface"], row["entity"], row["hits"]) for row in table.to_pylist()]


def examples(folder: Path, count: int, seed: int = 0) -> list[tuple[str, str, Excerpt]]:
    """Draw mentions at random from those kept, each with its entity and document; the same seed draws the same."""
    table = pq.read_table(folder / "mentions.parquet", columns=["entity", "document", "left", "surface", "right"])
    rows = sorted(random.Random(seed).sample(range(len(table)), min(count, len(table))))  # noqa: S311 - not a secret
    drawn = [tuple(row.values()) for row in table.take(pa.array(rows, pa.int64())).to_pylist()]
    return [(entity, document, Excerpt(*text)) for entity, document, *text in drawn]
