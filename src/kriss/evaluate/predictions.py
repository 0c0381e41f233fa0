"""The form in which any system's links are scored: JSON lines, one mention or one document each.

    {"document": "8528200", "start": 12, "end": 16, "entity": "D003110",
     "candidates": [{"entity": "D003110", "score": 0.93, "name": "colonic neoplasms"}, "D015179"], "probability": 0.97}

`entity` is null for no link, and a list for a tie that the system leaves unbroken; `probability` says how likely the
first candidate is right. What `kriss link` writes, a
document with its `mentions`, is read too. Nothing is passed over: a line that cannot be understood is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kriss.documents.problems import at, flaw_of
from kriss.documents.spans import whole_number
from kriss.documents.table import shown_evidence
from kriss.documents.text import decode
from kriss.documents.write import output
from kriss.errors import InputError, Place
from kriss.evaluate.gold import Key
from kriss.files import numbered_lines
from kriss.records import Evidence


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate, and the name or the mention by which it was found."""

    entity: str
    score: float | None = None
    name: str = ""
    evidence: str = ""
    """What the system shows for it, if anything."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a system says of one mention."""

    document: str
    start: int
    end: int
    entities: tuple[str, ...]
    """Its answer: none for no link, one, or several that it leaves tied."""
    candidates: tuple[Scored, ...] = ()
    """Best first; an answer that the file does not list among them comes before them."""
    line: int = 0
    probability: float | None = None
    """How likely its first candidate is right."""

    @property
    def key(self) -> Key:
        """Which mention it is of."""
        return self.document, self.start, self.end


def read_predictions(path: Path) -> dict[Key, Prediction]:
    """Read a file of predictions; two that contradict each other on one mention are an error."""
    found: dict[Key, Prediction] = {}
    for number, raw in numbered_lines(path):
        if not raw or raw.isspace():
            continue
        place = Place(path, number)
        with at(place):
            parsed = list(_parse(decode(raw), place))
        for prediction in parsed:
            known = found.setdefault(prediction.key, prediction)
            if replace(known, line=prediction.line) != prediction:
                where = f"the mention of '{prediction.document}' from {prediction.start} to {prediction.end}"
                other = "another entity" if known.entities != prediction.entities else "other candidates"
                if (known.entities, known.candidates) == (prediction.entities, prediction.candidates):
                    other = "another probability"
                raise InputError(f"{where} was given {other} in line {known.line}; keep one of them", place)
    if not found:
        raise InputError("the file has no predictions; write one a line", Place(path))
    return found


def write_predictions(path: Path, predictions: Iterable[Prediction], *, force: bool = False) -> int:
    """Write predictions, compressed if the name ends in `.gz`; return how many."""
    count = 0
    with output(path, force=force) as stream:
        for prediction in predictions:
            stream.write(json.dumps(_as_json(prediction), ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
    return count


def _as_json(prediction: Prediction) -> dict[str, Any]:
    first: str | list[str] | None = list(prediction.entities)
    if len(prediction.entities) < 2:
        first = prediction.entities[0] if prediction.entities else None
    return {
        "document": prediction.document,
        "start": prediction.start,
        "end": prediction.end,
        "entity": first,
        "candidates": [
            {
                "entity": one.entity,
                **({"score": round(one.score, 6)} if one.score is not None and math.isfinite(one.score) else {}),
                **({"name": one.name} if one.name else {}),
                **({"evidence": one.evidence} if one.evidence else {}),
            }
            for one in prediction.candidates
        ],
        **({} if prediction.probability is None else {"probability": round(prediction.probability, 6)}),
    }


def _parse(text: str, place: Place) -> Iterator[Prediction]:
    try:
        row = json.loads(text, object_pairs_hook=partial(_once, place))
    except (ValueError, RecursionError) as error:  # also of a number with thousands of digits
        raise InputError(f"not valid JSON ({error}); write one object on each line", place) from None
    if "\\u" in text and (flaw := next(filter(None, map(flaw_of, _texts(row))), None)):
        raise InputError(f"{flaw}; remove it", place)
    if not isinstance(row, dict):
        raise InputError("a prediction is an object with 'document', 'start', 'end' and 'entity'", place)
    if "mentions" not in row:
        yield _prediction(row, row.get("document"), 0, place)
        return
    if not isinstance(row["mentions"], list):
        raise InputError("'mentions' is not a list", place)
    offset = whole_number(row.get("offset") or 0, "the document's 'offset'")
    for mention in row["mentions"]:
        if not isinstance(mention, dict):
            raise InputError("a mention is an object with 'start', 'end' and 'entity'", place)
        yield _prediction(mention, row.get("id"), offset, place)


def _once(place: Place, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"'{twice}' stands twice in one object; keep one of them", place)
    return found


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(one)


def _prediction(row: dict[str, Any], document: object, offset: int, place: Place) -> Prediction:
    if isinstance(document, bool) or not isinstance(document, str | int) or document == "":
        raise InputError("the prediction does not say of which 'document' it is", place)
    for name in ("start", "end", "entity"):
        if name not in row:
            raise InputError(f"the prediction has no '{name}'" + ("; null says no link" * (name == "entity")), place)
    start, end = (whole_number(row[name], f"its '{name}'") + offset for name in ("start", "end"))
    given = row["entity"]
    listed = given if isinstance(given, list) else [] if given is None else [given]
    entities = tuple(dict.fromkeys(_entity(one, place) for one in listed))
    ranked = row.get("candidates", [])
    if not isinstance(ranked, list):
        raise InputError("'candidates' is not a list", place)
    candidates = tuple(_candidate(one, place) for one in ranked)
    found = {one.entity for one in candidates}
    best = tuple(Scored(one) for one in entities if one not in found)
    return Prediction(str(document), start, end, entities, best + candidates, place.line or 0, _probability(row, place))


def _probability(row: dict[str, Any], place: Place) -> float | None:
    value = row.get("probability")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        raise InputError(f"its 'probability' is {value!r}, not a number from 0 to 1", place)
    return None if value is None else float(value)


def _candidate(value: object, place: Place) -> Scored:
    if not isinstance(value, dict):
        return Scored(_entity(value, place))
    score, evidence = value.get("score"), value.get("evidence")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise InputError(f"a candidate's score is {score!r}, which is no number", place)
    name, shown = value.get("name"), evidence
    if isinstance(evidence, dict):  # as `kriss link` writes it: the surface is what matched
        name = evidence.get("surface") or name
        shown = _shown(evidence)
    if not all(isinstance(text, str | None) for text in (name, shown)):
        raise InputError("a candidate's 'name' and 'evidence' are texts", place)
    entity = _entity(value.get("entity"), place)
    try:
        return Scored(entity, None if score is None else float(score), name or "", shown or "")
    except OverflowError:
        raise InputError("a candidate's score is too large for a number of 64 bits", place) from None


def _shown(evidence: dict[str, Any]) -> str:
    surface, left, right, document = (
        str(evidence.get(name) or "") for name in ("surface", "left", "right", "document")
    )
    return shown_evidence(Evidence(evidence.get("kind") or "name", surface, left, right, document))


def _entity(value: object, place: Place) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError(f"an entity is {json.dumps(value)}, not an id", place)
    return str(value)
