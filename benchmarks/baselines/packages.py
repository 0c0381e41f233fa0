"""QuickUMLS and scispaCy, the packages themselves: what they read, and what becomes of their answers.

Each runs in an environment of its own, made from its requirements unless it is there, on the ontology's names in the
form that it wants. It is told where the mentions are, sees their surface and the text around it, and never an entity.
How each is set is told at the top of `peers/quickumls_link.py` and `peers/scispacy_link.py`. Their answers become
predictions by one rule for both, so that none is ranked more kindly than the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from benchmarks.baselines.queries import MOST, TIE, Query, queries
from benchmarks.figures import peer_python

from kriss.evaluate.predictions import Prediction, Scored
from kriss.names import clean
from kriss.ontology import Ontology
from kriss.records import Document, Entity

Package = Literal["quickumls", "scispacy"]
PEERS = Path(__file__).resolve().parents[1] / "peers"
THRESHOLD = 0.7
"""What an answer of scispaCy must be above, its default; QuickUMLS sees to its own by itself."""
_SEMANTIC_TYPE = "T047|B2.2.1.2.1|Disease or Syndrome"
"""QuickUMLS wants a type for every concept; it is told to accept all, so any will do."""


def link_by_package(
    package: Package, ontology: Ontology, documents: Iterable[Document], work: Path
) -> Iterator[Prediction]:
    """Run a package on the mentions of documents; its environment is kept in `work`."""
    asked = queries(documents)
    work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=work, prefix=f"{package}-") as folder:
        names, mentions, answers = (Path(folder) / f"{name}.jsonl" for name in ("names", "mentions", "answers"))
        write_mentions(mentions, asked)
        write, environment = (write_rrf, "quickumls") if package == "quickumls" else (write_names, "candidates")
        write(names, ontology)
        python = peer_python(environment, work)
        command = [python, PEERS / f"{package}_link.py", names, mentions, answers]
        subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)
        with answers.open(encoding="utf-8") as lines:
            found = [json.loads(line)["candidates"] for line in lines]
    yield from predictions(asked, found, THRESHOLD if package == "scispacy" else 0.0)


def write_mentions(path: Path, asked: Iterable[Query]) -> None:
    """Write the mentions as JSON lines, without their answers."""
    with path.open("w", encoding="utf-8", newline="\n") as lines:
        for query in asked:
            lines.write(json.dumps({"surface": clean(query.mention.surface)}, ensure_ascii=False) + "\n")


def write_names(path: Path, entities: Iterable[Entity]) -> None:
    """Write an ontology as scispaCy's knowledge base in JSON lines; definitions play no part in its search."""
    with path.open("w", encoding="utf-8", newline="\n") as lines:
        for entity in entities:
            row = {"concept_id": entity.id, "canonical_name": entity.name, "aliases": list(entity.aliases), "types": []}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_rrf(folder: Path, entities: Iterable[Entity]) -> None:
    """Write an ontology as MRCONSO.RRF and MRSTY.RRF; our ids stand for CUIs, whose form QuickUMLS does not check.

    Every name is marked ISPREF=Y: in UMLS this says that an atom is the preferred one of those with the same
    string in a concept, and here a concept has a string once. A bar would end the field, so it becomes a blank.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / "MRCONSO.RRF").open("w", encoding="utf-8", newline="\n") as names,
        (folder / "MRSTY.RRF").open("w", encoding="utf-8", newline="\n") as types,
    ):
        for entity in entities:
            for number, given in enumerate(dict.fromkeys(entity.names)):
                status, term = ("S", "SY") if number else ("P", "PT")
                name = clean(given.replace("|", " "))
                names.write(f"{entity.id}|ENG|{status}||PF||Y|||||KRISS|{term}||{name}|0|N||\n")
            types.write(f"{entity.id}|{_SEMANTIC_TYPE}|||\n")


def predictions(
    asked: Iterable[Query], answers: Iterable[Sequence[dict[str, Any]]], above: float = 0.0
) -> Iterator[Prediction]:
    """Turn a package's answers into predictions: there must be one for each query.

    A candidate has an `entity`, a `score`, the `name` that matched, and, if it matched a part of the mention
    only, the share that it `covered`. More covered is better, then a higher score. Equals for the first place
    stay a tie. The mention is not linked if the best score is not above the threshold.
    """
    for query, candidates in zip(asked, answers, strict=True):
        best: dict[str, dict[str, Any]] = {}
        for one in sorted(candidates, key=lambda one: (-_rank(one)[0], -_rank(one)[1], one["entity"])):
            best.setdefault(one["entity"], one)
        ranked = list(best.values())
        first = _rank(ranked[0]) if ranked else (0.0, 0.0)
        tied = [
            one["entity"] for one in ranked if all(abs(a - b) < TIE for a, b in zip(_rank(one), first, strict=True))
        ]
        scored = tuple(Scored(one["entity"], one["score"], one["name"]) for one in ranked[:MOST])
        yield Prediction(*query.gold.key, tuple(tied) if first[1] > above else (), scored)


def _rank(candidate: dict[str, Any]) -> tuple[float, float]:
    return candidate.get("covered", 1.0), candidate["score"]
