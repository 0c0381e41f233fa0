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
    columns = _check_columns(config, {name for _, header, _ in readers for name in header}, sources[0])
    for path, _, rows in readers:
        _stage(path, rows, columns, config.separators, staging, bad)


def load_jsonl(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Stage one entity from each line of JSON."""
    columns = _check_columns(config, None, sources[0])
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
        cells = line.split("\t")
        if len(cells) < 2 or not cells[0].strip() or not cells[1].strip():
            bad.add("a row of retired ids needs an old id, a tab and a new id", Place(path, number))
            continue
        if number > 1 or cells[0] not in ("old_id", "old", "retired", "id"):
            staging.retire(cells[0].strip(), cells[1].strip())


def _check_columns(config: OntologyConfig, headers: set[str] | None, path: Path) -> dict[str, str]:
    """Return field -> header, for the fields that the user mapped and those found under their own name."""
    for option in (config.columns, config.separators):
        for name in option:
            if name not in FIELDS:
                raise ConfigError(f"'{name}' is not a field; the fields are {', '.join(FIELDS)}")
    columns = {**dict(zip(FIELDS, FIELDS, strict=True)), **config.columns}
    if headers is not None:
        for name in ("id", "name", *config.columns):
            if columns[name] not in headers:
                raise InputError(
                    f"there is no column '{columns[name]}' for the field '{name}'; the header has "
                    f"{', '.join(sorted(headers))}; name it with --column {name}=HEADER",
                    Place(path, 1),
                )
    return columns


def _table(path: Path, delimiter: str, bad: BadRows) -> tuple[list[str], Iterator[Row]]:
    """Return the header of a table, and its rows; only a comma-separated file knows quotes."""
    delimiter = delimiter or ("," if path.name.removesuffix(".gz").endswith(".csv") else "\t")
    lines = read_lines(path, bad)
    unquoted = ((number, line.split("\t")) for number, line in lines)
    cells = unquoted if delimiter == "\t" else _quoted(path, lines, delimiter)
    header = [name.strip() for name in next(cells, (1, []))[1]]
    return header, _rows(path, header, cells, bad)


def _quoted(path: Path, lines: Iterator[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"not a valid table: {error}", Place(path, reader.line_num)) from None


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
                encoded = json.dumps(value, ensure_ascii=False).encode("utf-8")
                if b"\\u0000" in encoded:
                    raise ValueError("it holds a NUL character")
        except (ValueError, RecursionError) as error:
            bad.add(f"not valid JSON: {error}", Place(path, number))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            bad.add("the line is not a JSON object", Place(path, number))


def _stage(
    path: Path,
    rows: Iterable[Row],
    columns: Mapping[str, str],
    separators: Mapping[str, str],
    staging: Staging,
    bad: BadRows,
) -> None:
    count = 0
    for number, row in rows:
        count += 1
        place = Place(path, number)
        nested = [name for name in FIELDS if not _is_plain(_cell(row, columns, name))]
        if nested:
            bad.add(f"the field '{nested[0]}' holds neither text nor a list of texts", place)
            continue
        single = {name: _single(_cell(row, columns, name)) for name in SINGLE}
        several = {name: _several(_cell(row, columns, name), separators.get(name, "|")) for name in SEVERAL}
        if not single["id"] or not single["name"]:
            lacking = "name" if single["id"] else "id"
            bad.add(
                f"the entity '{single['id']}' has no name" if lacking == "name" else "an entity has no id",
                place,
            )
            continue
        for old in several.pop("retired"):
            staging.retire(old, single["id"])
        # MeSH marks a major heading by a star before the id it maps to.
        several["parents"] = tuple(parent.lstrip("*") for parent in several["parents"])
        staging.add(Entity(single["id"], single["name"], definition=single["definition"], **several), place)
    if not count and not bad.count:
        raise InputError("there is no entity in it", Place(path))


def _cell(row: Mapping[str, object], columns: Mapping[str, str], name: str) -> object:
    if columns[name] in row:
        return row[columns[name]]
    return row.get(ALSO_CALLED[name]) if name in ALSO_CALLED and columns[name] == name else None


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str | int | float) for item in value)
    return value is None or isinstance(value, str | int | float)


def _single(value: object) -> str:
    return "" if value is None else str(value).strip()


def _several(value: object, separator: str) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    values = value if isinstance(value, list) else str(value).split(separator)
    return tuple(text for item in values if (text := _single(item)))
