"""What the peers that link read and write: an ontology's names, the mentions to link, and their answers.

Run by kriss's own Python. The peers see a mention's surface and the text around it, never its entities. Their
answers become predictions by one rule for all of them, so that none is ranked more kindly than another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kriss.evaluate.datasets import gold
from kriss.evaluate.gold import gold_mentions
from kriss.evaluate.predictions import Prediction, Scored
from kriss.names import clean
from kriss.records import Document, Entity

TOP = 64
_SAME = 1e-6
"""Similarities that differ by less are a tie: the peers compute them in single precision."""
_SEMANTIC_TYPE = "T047|B2.2.1.2.1|Disease or Syndrome"
"""QuickUMLS wants a type for every concept; it is told to accept all, so any will do."""


@dataclass(frozen=True, slots=True)
class Query:
    """A mention to link, without its answer; offsets are those of the whole document."""

    document: str
    start: int
    end: int
    surface: str
    text: str
    offset: int = 0
    """Where in its document the text begins."""


def read_gold(source: str, types: Sequence[str] = (), data: Path | None = None) -> list[Document]:
    """Return the documents of a dataset's split or of files, with the mentions of some types, or with all."""
    return [
        replace(document, spans=tuple(span for span in document.spans if not types or span.type in types))
        for document in gold(source, data)
    ]


def queries(documents: Iterable[Document]) -> list[Query]:
    """Return the mentions that have an entity, each place in a document once."""
    found: dict[tuple[str, int, int], Query] = {}
    for document in documents:
        for one in gold_mentions([document]):
            query = Query(one.document, one.start, one.end, clean(one.surface), document.text, document.offset)
            found.setdefault(one.key, query)
    return list(found.values())


def write_queries(path: Path, asked: Iterable[Query]) -> None:
    """Write the mentions as JSON lines."""
    with path.open("w", encoding="utf-8", newline="\n") as lines:
        for query in asked:
            row = {name: getattr(query, name) for name in query.__slots__}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


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


def read_answers(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Iterate over a peer's answers: for each query the candidates, in any order."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            candidates: list[dict[str, Any]] = json.loads(line)["candidates"]
            yield candidates


def predictions(
    asked: Iterable[Query], answers: Iterable[Iterable[dict[str, Any]]], above: float = 0.0
) -> Iterator[Prediction]:
    """Turn a peer's answers into predictions: there must be one for each query.

    A candidate has an `entity`, a `score`, the `name` that matched, and, if it matched a part of the mention
    only, the share that it `covered`. More covered is better, then a higher score. Equals for the first place
    stay a tie. The mention is not linked if the best score is not above the threshold.
    """
    for query, candidates in zip(asked, answers, strict=True):
        best: dict[str, dict[str, Any]] = {}
        for one in candidates:
            if one["entity"] not in best or _rank(one) > _rank(best[one["entity"]]):
                best[one["entity"]] = one
        ranked = sorted(best.values(), key=lambda one: (-_rank(one)[0], -_rank(one)[1], one["entity"]))
        first = _rank(ranked[0]) if ranked else (0.0, 0.0)
        tied = (
            one["entity"] for one in ranked if all(abs(a - b) < _SAME for a, b in zip(_rank(one), first, strict=True))
        )
        scored = tuple(Scored(one["entity"], one["score"], one["name"]) for one in ranked[:TOP])
        yield Prediction(query.document, query.start, query.end, tuple(tied) if first[1] > above else (), scored)


def _rank(candidate: dict[str, Any]) -> tuple[float, float]:
    return candidate.get("covered", 1.0), candidate["score"]
