"""Joining the results of shards: which records count, and which mentions remain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kriss.mine.config import SPLITS, MineConfig
from kriss.mine.pages import Ints
from kriss.ontology import Ontology
from kriss.ontology.arrowfile import rebatched

MENTIONS = pa.schema(
    [
        ("entity", pa.string()),
        ("split", pa.string()),
        ("document", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("surface", pa.string()),
        ("preferred", pa.bool_()),
        ("left", pa.string()),
        ("right", pa.string()),
    ]
)
FORMS = pa.schema([("surface", pa.string()), ("entity", pa.string()), ("hits", pa.int64())])
CONTEXTS = pa.schema(
    [
        ("end", pa.int32()),
        ("surface", pa.large_string()),
        ("preferred", pa.bool_()),
        ("left", pa.large_string()),
        ("right", pa.large_string()),
    ]
)
CONTEXTS_FILE = "contexts.arrow"
_ROWS = 1 << 16
"""Rows of a Parquet row group: fixed, so that the bytes depend on the content alone."""


def superseded(folders: Sequence[Path], files: Sequence[int]) -> dict[int, list[int]]:
    """Return, by shard, the records that do not count, as NLM's baseline and update files have it.

    Of records with one id the last counts: in the last file by name, and there the last of the
    file. A record that the same or a later file deletes does not count at all.
    """
    parts = [pq.read_table(folder / "documents.parquet") for folder in folders]
    sizes = [len(part) for part in parts]
    table = pa.concat_tables(parts)
    key, ordinal = np.asarray(table.column("key")), np.asarray(table.column("ordinal"))
    deleted = np.asarray(table.column("deleted"))
    shard = np.repeat(np.arange(len(folders)), sizes)
    file = np.repeat(np.array(files, dtype=np.int64), sizes)
    order = np.lexsort((ordinal, deleted, file, key))  # of one file, a deletion comes last
    key, deleted = key[order], deleted[order]
    last = np.concatenate((key[1:] != key[:-1], [True])) if len(key) else np.zeros(0, dtype=bool)
    lost: dict[int, list[int]] = {}
    for index in order[~last & ~deleted].tolist():
        lost.setdefault(int(shard[index]), []).append(int(ordinal[index]))
    return {number: sorted(ordinals) for number, ordinals in lost.items()}


def merge_samples(
    folders: Sequence[Path], ontology: Ontology, config: MineConfig, out: Path, spill: Path
) -> dict[str, Any]:
    """Write the sample of all shards, and the count of every form; return figures for the manifest."""
    con = duckdb.connect(config={"memory_limit": "2GB", "temp_directory": str(spill), "threads": "2"})
    try:
        candidates = [str(folder / "candidates.parquet") for folder in folders]
        # The narrow columns decide; the contexts are fetched only for the rows that remain.
        reader = con.sql(
            """
            WITH distinct_context AS (
              SELECT entity, split, number, version, document, start, filename, file_row_number AS row
              FROM read_parquet($files, filename = true, file_row_number = true)
              QUALIFY row_number() OVER (
                PARTITION BY entity, split, likeness ORDER BY number, version, document, start, filename) = 1)
            SELECT entity, split, document, start, filename, row FROM distinct_context
            QUALIFY row_number() OVER (PARTITION BY entity, split ORDER BY number, version, document, start) <= $keep
            ORDER BY entity, split, number, version, document, start
            """,
            params={"files": candidates, "keep": config.per_entity},
        ).to_arrow_reader(_ROWS)
        mentions, entities = _write_mentions(reader, folders, ontology, out / "mentions.parquet")
        forms = [str(folder / "forms.parquet") for folder in folders]
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in forms)
        reader = con.sql(
            f"""
            SELECT surface, entity, sum(hits)::BIGINT AS hits FROM read_parquet([{listed}])
            GROUP BY surface, entity ORDER BY hits DESC, surface, entity
            """
        ).to_arrow_reader(_ROWS)
        _write(out / "forms.parquet", FORMS, (_with_ids(batch, ontology, FORMS) for batch in reader))
    finally:
        con.close()
    return {"mentions": mentions, "entities": entities}


def _write_mentions(
    reader: pa.RecordBatchReader, folders: Sequence[Path], ontology: Ontology, path: Path
) -> tuple[int, int]:
    contexts = Contexts(folders)
    files = pa.array([str(folder / "candidates.parquet") for folder in folders], pa.string())
    seen: set[int] = set()
    rows = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in reader:
            rows += batch.num_rows
            seen.update(np.unique(np.asarray(batch.column("entity"))).tolist())
            shard = np.asarray(pc.index_in(batch.column("filename"), value_set=files))
            fetched = contexts.take(contexts.firsts[shard] + np.asarray(batch.column("row")))
            split = pa.array(SPLITS, pa.string()).take(batch.column("split"))
            columns = [batch.column("entity"), split, batch.column("document"), batch.column("start"), *fetched.columns]
            yield _with_ids(pa.RecordBatch.from_arrays(columns, MENTIONS.names), ontology, MENTIONS)

    _write(path, MENTIONS, batches())
    return rows, len(seen)


def _with_ids(batch: pa.RecordBatch, ontology: Ontology, schema: pa.Schema) -> pa.RecordBatch:
    """Put ids in the place of the ontology's row numbers, which mean nothing outside it."""
    position = batch.schema.get_field_index("entity")
    rows, place = np.unique(np.asarray(batch.column("entity")), return_inverse=True)
    ids = pa.array([ontology.id_at(row) for row in rows.tolist()], pa.string()).take(pa.array(place))
    return batch.set_column(position, "entity", ids).cast(schema)


def _write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """Write batches of any size as row groups of one size; while one is compressed, the next is made ready."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer, ThreadPoolExecutor(1) as beside:
        writing: Future[None] | None = None
        for table in rebatched(batches, _ROWS):
            if writing:
                writing.result()
            writing = beside.submit(writer.write_table, table, row_group_size=_ROWS)
        if writing:
            writing.result()


class Contexts:
    """The contexts of some shards, one behind the other: most of what shards write, in files mapped into memory.

    The merge wants only those that remain, in its own order. Each shard has its rows in nearly that order, so
    looking them up reads every file from its beginning to its end.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._batches: list[pa.RecordBatch] = []
        firsts = [0]
        for folder in folders:
            with pa.memory_map(str(folder / CONTEXTS_FILE)) as source:
                batches = pa.ipc.open_file(source).read_all().to_batches()
            self._batches += batches
            firsts.append(firsts[-1] + sum(batch.num_rows for batch in batches))
        self.firsts = np.array(firsts, dtype=np.int64)
        """The row at which each shard begins."""
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)], dtype=np.int64)

    def take(self, rows: Ints) -> pa.RecordBatch:
        """Return rows in the order that is asked for."""
        batch = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(batch, kind="stable")
        edges = np.searchsorted(batch[order], np.arange(len(self._batches) + 1))
        taken = [
            self._batches[number].take(pa.array(rows[order[first:last]] - self._starts[number]))
            for number, (first, last) in enumerate(pairwise(edges))
            if first < last
        ]
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        return pa.concat_batches([pa.RecordBatch.from_pylist([], CONTEXTS), *taken]).take(pa.array(back))
