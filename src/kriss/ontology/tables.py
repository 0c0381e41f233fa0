"""Spreadsheets and their like: TSV, CSV and JSON lines with a documented schema, and `id|id||name` dictionaries.

A table has a header. The fields are `id` and `name`, and, each optional, `aliases` (or
`synonyms`), `types`, `tree_numbers`, `definition`, `parents`, `xrefs` and `retired` (ids the
entity had before). A field that holds several values separates them by `|`; in JSON it is a list.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kriss.errors import ConfigError, InputError, Place
from kriss.files import BadRows, read_lines
from kriss.ontology.config import OntologyConfig
from kriss.ontology.staging import Staging
from kriss.records import Entity

SINGLE = ("id", "name", "definition")
FIELDS = (*SINGLE, "aliases", "types", "tree_numbers", "parents", "xrefs", "retired")
ALSO_CALLED = {"aliases": "synonyms", "types": "type", "definition": "description"}
"""A second header under which a field is found without a --column option."""

Row = tuple[int, Mapping[str, object]]


def load_tsv(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Stage the rows of tables with a header, tab-separated unless it is a `.csv` or told otherwise."""
    columns = _columns(config)
    tables = []
    for path in sources:
        cells = _cells(path, config.delimiter, bad)
        tables.append((path, [name.strip() for name in next(cells, (1, []))[1]], cells))
    anywhere = {name for _, header, _ in tables for name in header}
    for path, header, _ in tables:
        # Every table needs an id and a name; another column that was asked for, one table at least.
        lacking = [name for name in ("id", "name") if columns[name] not in header]
        lacking += [name for name in config.columns if columns[name] not in anywhere]
        if lacking:
            raise InputError(
                f"there is no column '{columns[lacking[0]]}' for the field '{lacking[0]}'; the header has "
                f"{', '.join(header) or 'no column'}; name it with --column {lacking[0]}=HEADER",
                Place(path, 1),
            )
        if twice := [name for name in columns.values() if header.count(name) > 1]:
            raise InputError(f"the header has the column '{twice[0]}' twice", Place(path, 1))
    for path, header, cells in tables:
        _stage(path, _rows(path, header, cells, bad), columns, config.separators, staging, bad)


def load_jsonl(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Stage one entity from each line of JSON."""
    columns = _columns(config)
    for path in sources:
        _stage(path, _objects(path, bad), columns, config.separators, staging, bad)


def load_dictionary(sources: tuple[Path, ...], staging: Staging, bad: BadRows) -> None:
    """Stage the files of BioSyn and SapBERT: `id|id||name|name`, the first id the primary one.

    An id may come back on a later line with another name: it is the same entity. The other ids of
    a line count as retired: they lead to the entity, which is what a scorer needs.
    """
    found: dict[str, tuple[Place, dict[str, None]]] = {}
    for path in sources:
        for number, line in _full_lines(path, bad):
            left, bars, right = line.partition("||")
            ids, names = (list(filter(None, map(str.strip, part.split("|")))) for part in (left, right))
            if bars and ids and names:
                _, known = found.setdefault(ids[0], (Place(path, number), {}))
                known.update(dict.fromkeys(names))
                for other in ids[1:]:
                    staging.retire(other, ids[0])
            else:
                lacking = "no '||' between ids and names" if not bars else "no name" if ids else "no id"
                bad.report(f"the line has {lacking}; it should read id||name or id|id||name|name", Place(path, number))
    if not found:
        raise InputError("there is no entry in it", Place(sources[0]))
    for entity_id, (place, (name, *aliases)) in found.items():
        staging.add(Entity(entity_id, name, tuple(aliases)), place)


def load_retired(path: Path, staging: Staging, bad: BadRows) -> None:
    """Stage a table of retired ids: the old id, a tab, the new id; further columns and a header are ignored."""
    for number, line in _full_lines(path, bad):
        old, new, *_ = (*map(str.strip, line.split("\t")), "")
        if not old or not new:
            bad.report("a row of retired ids needs an old id, a tab and a new id", Place(path, number))
        elif number > 1 or old not in ("old_id", "old", "retired", "id"):
            staging.retire(old, new)


def _full_lines(path: Path, bad: BadRows) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in read_lines(path, bad) if line and not line.isspace())


def _columns(config: OntologyConfig) -> dict[str, str]:
    """Return where each field stands: field -> header."""
    for name in (*config.columns, *config.separators):
        if name not in FIELDS:
            raise ConfigError(f"'{name}' is not a field; the fields are {', '.join(FIELDS)}")
    return {**dict(zip(FIELDS, FIELDS, strict=True)), **config.columns}


def _cells(path: Path, delimiter: str, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, the header's first, with the last line that the row stands on."""
    delimiter = delimiter or ("," if path.name.removesuffix(".gz").endswith(".csv") else "\t")
    csv.field_size_limit(1 << 30)
    if delimiter == "\t":
        yield from _tabbed(read_lines(path, bad))
        return
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for number, line in read_lines(path, bad):
            last = number
            yield line + "\n"

    try:
        for row in csv.reader(texts(), delimiter=delimiter, strict=True):
            yield last, row
    except csv.Error as error:
        raise InputError(f"not a valid table: {error}", Place(path, last)) from None


def _tabbed(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Cut lines at their tabs. Spreadsheets quote a cell with a tab or a quote in it: undone where that fits."""
    width = None
    for number, line in lines:
        cells = line.split("\t")
        if width and (line.startswith('"') or '\t"' in line):
            try:
                unquoted = next(csv.reader([line], delimiter="\t", strict=True))
            except csv.Error:  # a quotation mark that is only that
                unquoted = cells
            cells = unquoted if len(unquoted) == width else cells
        width = width or len(cells)
        yield number, cells


def _rows(path: Path, header: list[str], cells: Iterator[tuple[int, list[str]]], bad: BadRows) -> Iterator[Row]:
    for number, row in cells:
        if len(row) == len(header):
            yield number, dict(zip(header, row, strict=True))
        elif row not in ([], [""]):
            bad.report(f"the row has {len(row)} columns where the header has {len(header)}", Place(path, number))


def _objects(path: Path, bad: BadRows) -> Iterator[Row]:
    for number, line in _full_lines(path, bad):
        try:
            value = json.loads(line)
            if "\\u" in line:  # an escape can smuggle in what no UTF-8 file can hold
                text = json.dumps(value, ensure_ascii=False)
                text.encode("utf-8")
                if "\\u0000" in text.replace("\\\\", ""):
                    raise ValueError("it holds a NUL character")
        except (ValueError, RecursionError) as error:
            bad.report(f"not valid JSON: {error}", Place(path, number))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            bad.report("the line is not a JSON object", Place(path, number))


def _stage(
    path: Path,
    rows: Iterable[Row],
    columns: Mapping[str, str],
    separators: Mapping[str, str],
    staging: Staging,
    bad: BadRows,
) -> None:
    field_of = {other: name for name, other in ALSO_CALLED.items() if columns[name] == name}
    field_of |= {header: name for name, header in columns.items()}
    number = 0
    for number, row in rows:
        values: dict[str, Any] = {}
        for header, value in row.items():
            name = field_of.get(header)
            if name and value is not None and value != "" and (header == columns[name] or columns[name] not in row):
                values[name] = _single(value) if name in SINGLE else _several(value, separators.get(name, "|"))
        place = Place(path, number)
        if nested := [name for name, value in values.items() if value is None]:
            bad.report(f"the field '{nested[0]}' holds neither text nor a list of texts", place)
        elif not values.get("id"):
            bad.report("an entity has no id", place)
        elif not values.get("name"):
            bad.report(f"the entity '{values['id']}' has no name", place)
        else:
            for old in values.pop("retired", ()):
                staging.retire(old, values["id"])
            if "parents" in values:  # MeSH marks a major heading by a star before the id it maps to
                values["parents"] = tuple(parent.lstrip("*") for parent in values["parents"])
            staging.add(Entity(**values), place)
    if not number and not bad.count:
        raise InputError("there is no entity in it", Place(path))


def _single(value: object) -> str | None:
    """Return the text of a cell; None if it is not text or a number."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) else None


def _several(value: object, separator: str) -> tuple[str, ...] | None:
    """Return the texts of a cell that may hold several; None if one of them is not text or a number."""
    items = value.split(separator) if isinstance(value, str) else value if isinstance(value, list) else [value]
    texts = [_single(item) for item in items]
    return None if None in texts else tuple(text for text in texts if text)
