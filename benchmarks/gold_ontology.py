"""An ontology of what a labeled split shows, for corpora whose own ontology is not to be had.

    python benchmarks/gold_ontology.py medmentions-st21pv:train --out terms.jsonl
    kriss ontology build jsonl terms.jsonl --out out/st21pv

An entity is called by the surfaces that the split gives it, the most frequent first. Nothing of another split is read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kriss.documents.read import gold
from kriss.documents.write import output
from kriss.errors import KrissError
from kriss.names import folded
from kriss.records import Document


def entities(documents: Iterable[Document]) -> Iterator[dict[str, object]]:
    """Yield a record for each entity that a mention alone means, by id."""
    seen: dict[str, Counter[str]] = {}
    for document in documents:
        for span in document.spans:
            if len(span.entities) == 1:
                seen.setdefault(span.entities[0], Counter())[document.text[span.start : span.end]] += 1
    for entity, surfaces in sorted(seen.items()):
        names: dict[str, str] = {}
        for surface, _ in sorted(surfaces.items(), key=lambda pair: (-pair[1], pair[0])):
            names.setdefault(folded(surface), surface)
        first, *others = names.values()
        yield {"id": entity, "name": first, "aliases": others}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the records of a split."""
    parser = argparse.ArgumentParser(description="An ontology of what a labeled split shows.")
    parser.add_argument("gold", help="a data set and its split, or files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=None, help="the data folder; default KRISS_DATA")
    given = parser.parse_args(arguments)
    try:
        with output(given.out) as stream:
            stream.writelines(
                json.dumps(record, ensure_ascii=False) + "\n" for record in entities(gold(given.gold, given.data))
            )
    except KrissError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
