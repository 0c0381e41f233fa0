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
SEVERAL = ("aliases", "types", "tree_numbers", "parents", "xrefs", "retired")
FIELDS = (*SINGLE, *SEVERAL)
ALSO_CALLED = {"aliases": "synonyms", "types": "type", "definition": "description"}
"""A second header under which a field is found without a --column option."""

Row = tuple[int, Mapping[str, object]]


def load_tsv(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Stage the rows of tables with a header, tab-separated unless it is a `.csv` or told otherwise."""
    readers = [(path, *_table(path, config.delimiter, bad)) for path in sources]
    columns = _check_columns(config, {path: header for path, header, _ in readers})
    for path, _, rows in readers:
        _stage(path, rows, columns, config.separators, staging, bad)


def load_jsonl(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Stage one entity from each line of JSON."""
    columns = _check_columns(config, {})
    for path in sources:
        _stage(path, _objects(path, bad), columns, config.separators, staging, bad)


def load_dictionary(sources: tuple[Path, ...], staging: Staging, bad: BadRows) -> None:
    """Stage the files of BioSyn and SapBERT: `id|id||name|name`, the first id the primary one.

    An id may come back on a later line with another name: it is the same entity. The other ids of
    a line count as retired: they lead to the entity, which is what a scorer needs.
    """
    names: dict[str, dict[str, None]] = {}
    places: dict[str, Place] = {}
    for path in sources:
        for number, line in read_lines(path, bad):
            if not line.strip():
                continue
            left, found, right = line.partition("||")
            ids = [part.strip() for part in left.split("|") if part.strip()]
            texts = [part.strip() for part in right.split("|") if part.strip()]
            if not found or not ids or not texts:
                lacking = "no '||' between ids and names" if not found else "no name" if ids else "no id"
                bad.add(
                    f"the line has {lacking}; it should read id||name or id|id||name|name",
                    Place(path, number),
                )
                continue
            names.setdefault(ids[0], {}).update(dict.fromkeys(texts))
            places.setdefault(ids[0], Place(path, number))
            for other in ids[1:]:
                staging.retire(other, ids[0])
    if not names:
        raise InputError("there is no entry in it", Place(sources[0]))
    for entity_id, texts_of in names.items():
        name, *aliases = texts_of
        staging.add(Entity(entity_id, name, tuple(aliases)), places[entity_id])


def load_retired(path: Path, staging: Staging, bad: BadRows) -> None:
    """Stage a table of retired ids: the old id, a tab, the new id; further columns and a header are ignored."""
    for number, line in read_lines(path, bad):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < 2 or not cells[0].strip() or not cells[1].strip():
            bad.add("a row of retired ids needs an old id, a tab and a new id", Place(path, number))
            continue
        if number > 1 or cells[0] not in ("old_id", "old", "retired", "id"):
            staging.retire(cells[0].strip(), cells[1].strip())


def _check_columns(config: OntologyConfig, headers: Mapping[Path, list[str]]) -> dict[str, str]:
    """Return field -> header, for the fields that the user mapped and those found under their own name."""
    for option in (config.columns, config.separators):
        for name in option:
            if name not in FIELDS:
                raise ConfigError(f"'{name}' is not a field; the fields are {', '.join(FIELDS)}")
    columns = {**dict(zip(FIELDS, FIELDS, strict=True)), **config.columns}
    anywhere = {name for header in headers.values() for name in header}
    for path, header in headers.items():
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
    return columns


def _table(path: Path, delimiter: str, bad: BadRows) -> tuple[list[str], Iterator[Row]]:
    """Return the header of a table, and its rows."""
    delimiter = delimiter or ("," if path.name.removesuffix(".gz").endswith(".csv") else "\t")
    lines = read_lines(path, bad)
    csv.field_size_limit(1 << 30)
    cells = _tabbed(lines) if delimiter == "\t" else _quoted(path, lines, delimiter)
    header = [name.strip() for name in next(cells, (1, []))[1]]
    return header, _rows(path, header, cells, bad)


def _tabbed(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
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


def _quoted(path: Path, lines: Iterator[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for number, line in lines:
            last = number
            yield line + "\n"

    try:
        for row in csv.reader(texts(), delimiter=delimiter, strict=True):
            yield last, row
    except csv.Error as error:
        raise InputError(f"not a valid table: {error}", Place(path, last)) from None


def _rows(path: Path, header: list[str], cells: Iterator[tuple[int, list[str]]], bad: BadRows) -> Iterator[Row]:
    for number, row in cells:
        if row and row != [""]:
            if len(row) != len(header):
                bad.add(f"the row has {len(row)} columns where the header has {len(header)}", Place(path, number))
            else:
                yield number, dict(zip(header, row, strict=True))


def _objects(path: Path, bad: BadRows) -> Iterator[Row]:
    for number, line in read_lines(path, bad):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if "\\u" in line:  # an escape can smuggle in what no UTF-8 file can hold
                _check_texts(value)
        except (ValueError, RecursionError) as error:
            bad.add(f"not valid JSON: {error}", Place(path, number))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            bad.add("the line is not a JSON object", Place(path, number))


def _check_texts(value: object) -> None:
    """Raise ValueError if a text somewhere in a JSON value has a NUL or half of a surrogate pair."""
    if isinstance(value, str):
        value.encode("utf-8")
        if "\0" in value:
            raise ValueError("it holds a NUL character")
    elif isinstance(value, dict):
        _check_texts([*value.keys(), *value.values()])
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)


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
    count = 0
    for number, row in rows:
        count += 1
        place = Place(path, number)
        values: dict[str, Any] = {}
        for header, value in row.items():
            name = field_of.get(header)
            if name and value is not None and value != "" and (header == columns[name] or columns[name] not in row):
                values[name] = _single(value) if name in SINGLE else _several(value, separators.get(name, "|"))
        nested = [name for name, value in values.items() if value is None]
        if nested:
            bad.add(f"the field '{nested[0]}' holds neither text nor a list of texts", place)
        elif not values.get("id"):
            bad.add("an entity has no id", place)
        elif not values.get("name"):
            bad.add(f"the entity '{values['id']}' has no name", place)
        else:
            for old in values.pop("retired", ()):
                staging.retire(old, values["id"])
            if "parents" in values:  # MeSH marks a major heading by a star before the id it maps to
                values["parents"] = tuple(parent.lstrip("*") for parent in values["parents"])
            staging.add(Entity(**values), place)
    if not count and not bad.count:
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
    if any(text is None for text in texts):
        return None
    return tuple(text for text in texts if text)
