"""Reading UMLS Rich Release Format: pipes between columns, one pipe more at the end of each line.

A block of lines is parsed by Arrow at once. Only a block in which something is wrong is gone
through line by line, so that every bad row is named with its line and the good case stays fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from kriss.errors import KrissError, Place
from kriss.files import BadRows, decode_line, read_blocks

COLUMNS: dict[str, tuple[str, ...]] = {
    table: tuple(columns.split())
    for table, columns in {
        "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
        "MRSTY": "CUI TUI STN STY ATUI CVF",
        "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
        "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
        "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
        "MRRANK": "RANK SAB TTY SUPPRESS",
    }.items()
}
_BLOCK = 16 << 20


def read_rrf(
    path: Path, table: str, wanted: tuple[str, ...], bad: BadRows, problems: list[KrissError]
) -> pa.RecordBatchReader:
    """Stream the `wanted` columns of an RRF file, and its line numbers as the column `line`.

    An error that ends the stream is also put into `problems`, for whoever reads the stream may
    make another of it.
    """
    schema = pa.schema([*((name, pa.string()) for name in wanted), ("line", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from _batches(path, table, wanted, schema, bad)
        except KrissError as error:
            problems.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, batches())


def _batches(
    path: Path, table: str, wanted: tuple[str, ...], schema: pa.Schema, bad: BadRows
) -> Iterator[pa.RecordBatch]:
    columns = COLUMNS[table]
    first = 1
    for block in read_blocks(path, _BLOCK):
        if first == 1:
            block = block.removeprefix(b"\xef\xbb\xbf")
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        parsed = _parse(block, columns, wanted) if _looks_sound(block, count, len(columns)) else None
        if parsed is not None and parsed.num_rows == count:
            lines = pa.array(np.arange(first, first + count, dtype=np.int64))
            yield from pa.Table.from_arrays([*parsed.columns, lines], schema=schema).to_batches()
        else:
            yield _sift(block, path, first, columns, wanted, schema, bad)
        first += count


def _looks_sound(block: bytes, lines: int, columns: int) -> bool:
    return block.count(b"|") == lines * columns and b"\0" not in block


def _parse(block: bytes, columns: tuple[str, ...], wanted: tuple[str, ...]) -> pa.Table | None:
    """Parse a sound block; None if Arrow objects to a column count, a byte or a very long line."""
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(block),
            read_options=pyarrow.csv.ReadOptions(column_names=[*columns, "end"], block_size=4 << 20),
            parse_options=pyarrow.csv.ParseOptions(delimiter="|", quote_char=False, escape_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=list(wanted),
                strings_can_be_null=False,
                check_utf8=True,
            ),
        )
    except pa.ArrowInvalid:
        return None


def _sift(
    block: bytes,
    path: Path,
    first: int,
    columns: tuple[str, ...],
    wanted: tuple[str, ...],
    schema: pa.Schema,
    bad: BadRows,
) -> pa.RecordBatch:
    """Go through a block line by line, keep the good rows and report each bad one."""
    chosen = [columns.index(name) for name in wanted]
    rows: list[tuple[object, ...]] = []
    for number, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), start=first):
        place = Place(path, number)
        text = decode_line(raw.removesuffix(b"\r"), place, bad)
        if text is None:
            continue
        cells = text.split("|")
        if len(cells) != len(columns) + 1:
            bad.add(f"the row has {max(len(cells) - 1, 0)} columns where {len(columns)} are expected", place)
            continue
        rows.append((*(cells[index] for index in chosen), number))
    arrays = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(arrays, schema, strict=True)], schema=schema
    )
