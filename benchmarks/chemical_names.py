"""What PubChem calls chemicals, and the symbols of the elements, as an ontology to merge names from.

    python benchmarks/chemical_names.py --out chemicals.jsonl
    kriss ontology build jsonl chemicals.jsonl --out out/chemicals
    kriss ontology build tsv ... --merge out/chemicals --on NAMES --out out/mesh-chemical

The package `chemicals` (Caleb Bell and others, MIT) holds PubChem's names of 75,000 substances. Many are what a shop or
a catalogue calls them; what no text would say is left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from kriss.documents.write import output
from kriss.errors import ConfigError, InputError, KrissError

PACKAGE = "chemicals"
SUBSTANCES = (
    "chemical identifiers example user db.tsv",
    "chemical identifiers pubchem small.tsv",
    "chemical identifiers pubchem large.tsv",
    "Inorganic db.tsv",
)
"""The better kept files first: a substance that stands in several is read from the first."""
CATIONS = "Cation db.tsv"
REGISTRY, FORMULA, SYSTEMATIC = 1, 2, 7
"""Columns: the CAS number, the formula, the systematic name. The usual name comes next, then all others."""
SHORTEST, LONGEST = 3, 60
ACRONYM = 4
"""Letters up to which a name, which the package has in small letters, is taken for an acronym."""
_NO_NAME = re.compile(r"\d{2,7}-\d\d-\d|.*\d{5}.*|.*-")
"""A CAS number, a catalogue's number, or an entry of an index turned round ("adenine, 9-ethyl-")."""
_GREEK = re.compile(r"\.(alpha|beta|gamma|delta|epsilon|omega)\.")
_QUALIFIER = re.compile(r" \((?:\dci|van|inn|usan|ban|jan|usp|iso)\)$| \[[^][]*\]$")
_ION = re.compile(r"([A-Z][a-z]?)\+(\d?)")

Record = dict[str, object]


def substances(folder: Path) -> Iterator[Record]:
    """Yield a record for each substance, by its usual name."""
    for columns in _substances(folder):
        names = dict.fromkeys(filter(None, map(tidied, [*columns[SYSTEMATIC + 1 :], columns[SYSTEMATIC]])))
        if names:
            usual, *others = names
            yield {"id": f"CAS:{columns[REGISTRY]}", "name": usual, "aliases": others}


def elements(folder: Path, symbols: Iterable[tuple[str, str]]) -> Iterator[Record]:
    """Yield a record for each element: its name, its symbol, and its ions as they are written (Ca2+, Ca(2+)).

    A symbol that in capitals is the formula of something else is left out: NO is no nobelium, CO no cobalt.
    """
    formulas = {columns[FORMULA] for columns in _substances(folder)}
    ions: dict[str, list[str]] = {}
    for columns in _table(folder / CATIONS):
        if ion := _ION.fullmatch(columns[FORMULA]):
            symbol, charge = ion.groups()
            ions.setdefault(symbol, []).extend((f"{symbol}{charge}+", f"{symbol}({charge}+)"))
    for symbol, name in symbols:
        alone = [] if len(symbol) > 1 and symbol.upper() in formulas else [symbol]
        yield {"id": f"ELEMENT:{symbol}", "name": name, "aliases": [*alone, *ions.get(symbol, ())]}


def tidied(name: str) -> str:
    """Return a name as a text would have it, or nothing if none would."""
    name = _QUALIFIER.sub("", _GREEK.sub(r"\1", name)).strip()
    if not SHORTEST <= len(name) <= LONGEST or _NO_NAME.fullmatch(name):
        return ""
    return name.upper() if len(name) <= ACRONYM and name.isalnum() else name


def carried() -> Iterator[Record]:
    """Yield the records of the installed package."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{PACKAGE} is not installed; 'pip install {PACKAGE}' adds it")
    from chemicals.elements import periodic_table

    folder = Path(spec.origin).parent / "Identifiers"
    yield from substances(folder)
    yield from elements(folder, ((one.symbol, one.name) for one in periodic_table))


def _substances(folder: Path) -> Iterator[list[str]]:
    """Yield the rows of all substances, each from the first file that has it."""
    seen: set[str] = set()
    for file in SUBSTANCES:
        for columns in _table(folder / file):
            if columns[REGISTRY] not in seen:
                seen.add(columns[REGISTRY])
                yield columns


def _table(path: Path) -> Iterator[list[str]]:
    remedy = "install constraints.txt's version"
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                columns = line.rstrip("\n").split("\t")
                if len(columns) <= SYSTEMATIC:
                    raise InputError(f"{path}, line {number}: {len(columns)} columns are too few; {remedy}")
                yield columns
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); {remedy}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the records."""
    parser = argparse.ArgumentParser(description="Names of chemicals that a package carries, as JSON lines.")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        with output(given.out, force=True) as stream:
            stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in carried())
    except KrissError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
