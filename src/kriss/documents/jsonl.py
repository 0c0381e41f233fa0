"""JSON lines: one document a line with its `mentions`, or one mention a line with its text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from kriss.documents.format import Format, Head, Linked, Record
from kriss.documents.spans import known_entities, mark, whole_number
from kriss.documents.text import SUFFIXES, join_text
from kriss.files import numbered_lines
from kriss.records import Document, Link, Span

_IDS = ("id", "pmid", "_id")
_TEXTS = ("text", "abstract", "body")


def _records(path: Path, stripe: int, stripes: int) -> Iterator[Record]:
    ordinal = -1
    for number, raw in numbered_lines(path):
        if raw and not raw.isspace():
            ordinal += 1
            if ordinal % stripes == stripe:
                yield Record(path, ordinal, raw, number)


def _parse(record: Record, marked: bool) -> Document:
    """Read `id`, `title` and `text`, or what PubMed exports call them, and the mentions."""
    fields = json.loads(record.content.decode("utf-8"))
    if not isinstance(fields, dict):
        raise ValueError("the line is not a JSON object; write one object on each line")
    name = record.identify(_first(fields, _IDS))
    title, body = fields.get("title"), _first(fields, _TEXTS)
    if title is None and body is None and not any(field in fields for field in ("title", *_TEXTS)):
        raise ValueError("the record has no text; the field is 'text', 'abstract' or 'body'")
    if not isinstance(title, str | None) or not isinstance(body, str | None):
        raise ValueError("the title or the text of the record is not a text")
    text = join_text(title or "", body or "")
    if not marked:
        return Document(name, text, ordinal=record.ordinal)
    bare = Document(name, text)
    spans = tuple(_span(mention, bare, f"mention {nth}") for nth, mention in enumerate(_mentions(fields), 1))
    offset = whole_number(fields.get("offset") or 0, "its 'offset'")
    return Document(name, text, spans, offset, record.ordinal)


def _first(fields: dict[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _mentions(fields: dict[str, object]) -> list[object]:
    flat = "start" in fields or "end" in fields
    listed = fields.get("mentions")
    if flat and listed is not None:
        raise ValueError("the line has both 'mentions' and a 'start' of its own; keep one of them")
    if flat:  # what names the line is its document's
        return [{key: fields[key] for key in fields if key != "id"}]
    if not isinstance(listed, list | None):
        raise ValueError('\'mentions\' is not a list; write [{"start": 0, "end": 5}]')
    return listed or []


def _span(mention: object, document: Document, which: str) -> Span:
    if not isinstance(mention, dict):
        raise ValueError(f"{which} is not an object with 'start' and 'end'")
    for name in ("start", "end"):
        if name not in mention:
            raise ValueError(f"{which} has no '{name}'; it counts characters from 0")
        if isinstance(mention[name], str):
            raise ValueError(f"{which}: its '{name}' is a text; write the number without quotes")
    start, end = (whole_number(mention[name], f"{which}: its '{name}'") for name in ("start", "end"))
    if "entity" in mention and "entities" in mention:
        raise ValueError(f"{which} has both 'entity' and 'entities'; keep one of them")
    listed = mention.get("entities", mention.get("entity"))
    if "entity" in mention and isinstance(listed, list):
        raise ValueError(f"{which}: its 'entity' is a list; call it 'entities'")
    if "entities" in mention and not isinstance(listed, list | None):
        raise ValueError(f"{which}: its 'entities' is not a list; call a single one 'entity'")
    ids = listed if isinstance(listed, list) else [listed]
    entities = known_entities(_text(one, f"{which}: its entity") for one in ids)
    kind, own, surface, name = (
        _text(mention.get(key), f"{which}: its '{key}'") for key in ("type", "id", "surface", "name")
    )
    surfaces = (surface,) if mention.get("surface") is not None else ()
    return mark(document, Span(start, end, entities, kind, own, name), *surfaces)


def _text(value: object, what: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{what} is neither a text nor a whole number")
    return str(value)


def _write(links: Iterable[Linked], out: TextIO) -> None:
    for document, found in links:
        mentions = [_as_json(document, span, link) for span, link in zip(document.spans, found, strict=True)]
        offset = {"offset": document.offset} if document.offset else {}
        dump({"id": document.id, **offset, "text": document.text, "mentions": mentions}, out)
        out.write("\n")


def _as_json(document: Document, span: Span, link: Link) -> dict[str, Any]:
    candidates = [
        {"entity": one.entity, "name": one.name, "score": finite(one.score), "evidence": asdict(one.evidence)}
        for one in link.candidates
    ]
    return {
        "start": span.start,
        "end": span.end,
        "surface": document.text[span.start : span.end],
        **({"id": span.id} if span.id else {}),
        **({"type": span.type} if span.type else {}),
        **({"expanded": link.expanded} if link.expanded else {}),
        "entity": link.entity,
        "name": link.name,
        "score": finite(link.score),
        "probability": finite(link.probability),
        "candidates": candidates,
    }


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, which has none for infinity."""
    return value if math.isfinite(value) else None


def dump(value: dict[str, Any], out: TextIO) -> None:
    """Write an object as JSON on a line."""
    out.write(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _tells(head: Head) -> bool:
    if head.suffix in (".jsonl", ".ndjson"):
        return bool(head.start)
    return head.suffix not in SUFFIXES and _is_object(head.start)


def _is_object(start: bytes) -> bool:
    """Whether the first line is a JSON object, or begins one that is longer than what is looked at."""
    line, ended, _ = start.partition(b"\n")
    if not ended and len(start) > 1 << 15:
        return start.startswith(b"{")
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


JSONL = Format("jsonl", _tells, _records, _parse, _write)
