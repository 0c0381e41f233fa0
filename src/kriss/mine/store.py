"""Reading mined mentions: opened only beside the ontology that they were mined with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kriss.artifacts import open_artifact
from kriss.errors import ArtifactError
from kriss.ontology import Ontology


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
