"""Reading mined mentions: beside the ontology that they were mined with, and as figures and examples for a person."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kriss.artifacts import open_artifact
from kriss.errors import ArtifactError
from kriss.ontology import Ontology
from kriss.records import Excerpt


def open_mentions(folder: Path, ontology: Ontology) -> pq.ParquetFile:
    """Open mentions, which come by the ids of their entities, as the ontology's rows do."""
    inputs = open_artifact(folder, "mentions").inputs
    if not any(given.get("sha256") == ontology.artifact.digest for given in inputs):
        raise ArtifactError(f"{folder} was not mined with the ontology {ontology.artifact.path}; mine it again")
    return pq.ParquetFile(folder / "mentions.parquet")


def mentions_of(file: pq.ParquetFile, splits: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the mentions of some splits, a part of the file at a time."""
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=list(dict.fromkeys(["split", *columns])))
        yield table.filter(pc.is_in(table.column("split"), pa.array(list(splits)))).select(list(columns))


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
