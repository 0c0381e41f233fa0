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

COLUMNS: dict[str, list[str]] = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF".split(),
    "MRSTY": "CUI TUI STN STY ATUI CVF".split(),
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF".split(),
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF".split(),
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN".split(),
    "MRRANK": "RANK SAB TTY SUPPRESS".split(),
}
_BLOCK = 16 << 20


def read_rrf(
    path: Path, table: str, wanted: list[str], bad: BadRows, problems: list[KrissError]
) -> pa.RecordBatchReader:
    """Stream the `wanted` columns of an RRF file, and its line numbers as the column `line`.

    An error that ends the stream is also put into `problems`, for whoever reads the stream may
    make another of it.
    """
    schema = pa.schema([*((name, pa.string()) for name in wanted), ("line", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        first = 1
        try:
            for block in read_blocks(path, _BLOCK):
                if first == 1:
                    block = block.removeprefix(b"\xef\xbb\xbf")
                count = block.count(b"\n") + (not block.endswith(b"\n"))
                parsed = _parse(block, COLUMNS[table], wanted)
                if parsed is not None and parsed.num_rows == count:
                    columns, lines = parsed.columns, np.arange(first, first + count, dtype=np.int64)
                else:
                    rows = list(_good_rows(block, path, first, COLUMNS[table], wanted, bad))
                    lines = np.array([number for number, _ in rows], dtype=np.int64)
                    columns = [pa.array([cells[i] for _, cells in rows], pa.string()) for i in range(len(wanted))]
                yield from pa.Table.from_arrays([*columns, pa.array(lines)], schema=schema).to_batches()
                first += count
        except KrissError as error:
            problems.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, batches())


def _parse(block: bytes, columns: list[str], wanted: list[str]) -> pa.Table | None:
    """Parse a sound block; None if it holds a NUL, or Arrow objects to a column count, a byte or a very long line."""
    if b"\0" in block:
        return None
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(block),
            read_options=pyarrow.csv.ReadOptions(column_names=[*columns, "end"], block_size=4 << 20),
            parse_options=pyarrow.csv.ParseOptions(delimiter="|", quote_char=False, escape_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=wanted,
                strings_can_be_null=False,
                check_utf8=True,
            ),
        )
    except pa.ArrowInvalid:
        return None


def _good_rows(
    block: bytes, path: Path, first: int, columns: list[str], wanted: list[str], bad: BadRows
) -> Iterator[tuple[int, list[str]]]:
    """Go through a block line by line: yield the wanted cells of good rows with their line, report each bad one."""
    chosen = [columns.index(name) for name in wanted]
    for number, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), start=first):
        text = decode_line(raw.removesuffix(b"\r"), Place(path, number), bad)
        if text is None:
            continue
        cells = text.split("|")
        if len(cells) == len(columns) + 1:
            yield number, [cells[index] for index in chosen]
        else:
            found = max(len(cells) - 1, 0)
            bad.report(f"the row has {found} columns where {len(columns)} are expected", Place(path, number))
