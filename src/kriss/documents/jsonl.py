"""JSON lines: one document a line with its `mentions`, or one mention a line with its text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kriss.documents.plain import numbered_lines, parse_record
from kriss.documents.spans import check_characters, decode, known_entities, mark, whole_number
from kriss.errors import InputError, Place
from kriss.records import Document, Span


def read_marked_jsonl(path: Path) -> Iterator[Document]:
    """Yield a document from each line; one without mentions is legal."""
    ordinal = 0
    for number, raw in numbered_lines(path):
        if not raw or raw.isspace():
            continue
        place = Place(path, number)
        try:
            record = json.loads(decode(raw, place))
            found = parse_record(record, path, ordinal)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"not valid JSON ({error}); write one object on each line", place) from None
        except ValueError as error:
            raise InputError(str(error), place) from None
        document = Document(found.id, found.text, ())
        spans = tuple(_span(mention, document, place, nth) for nth, mention in enumerate(_mentions(record, place), 1))
        offset = whole_number(record.get("offset") or 0, f"document '{found.id}': its 'offset'", place)
        yield check_characters(Document(found.id, found.text, spans, offset), place)
        ordinal += 1


def _mentions(record: dict[str, object], place: Place) -> list[object]:
    flat = "start" in record or "end" in record
    listed = record.get("mentions")
    if flat and listed is not None:
        raise InputError("the line has both 'mentions' and a 'start' of its own; keep one of them", place)
    if flat:  # what names the line is its document's
        return [{key: record[key] for key in record if key != "id"}]
    if not isinstance(listed, list | None):
        raise InputError('\'mentions\' is not a list; write [{"start": 0, "end": 5}]', place)
    return listed or []


def _span(mention: object, document: Document, place: Place, nth: int) -> Span:
    which = f"document '{document.id}': mention {nth}"
    if not isinstance(mention, dict):
        raise InputError(f"{which} is not an object with 'start' and 'end'", place)
    for name in ("start", "end"):
        if name not in mention:
            raise InputError(f"{which} has no '{name}'; it counts characters from 0", place)
        if isinstance(mention[name], str):
            raise InputError(f"{which}: its '{name}' is a text; write the number without quotes", place)
    start, end = (whole_number(mention[name], f"{which}: its '{name}'", place) for name in ("start", "end"))
    if "entity" in mention and "entities" in mention:
        raise InputError(f"{which} has both 'entity' and 'entities'; keep one of them", place)
    listed = mention.get("entities", mention.get("entity"))
    if "entity" in mention and isinstance(listed, list):
        raise InputError(f"{which}: its 'entity' is a list; call it 'entities'", place)
    if "entities" in mention and not isinstance(listed, list | None):
        raise InputError(f"{which}: its 'entities' is not a list; call a single one 'entity'", place)
    ids = listed if isinstance(listed, list) else [listed]
    entities = known_entities(_text(one, f"{which}: its entity", place) for one in ids)
    kind, own, surface, name = (
        _text(mention.get(key), f"{which}: its '{key}'", place) for key in ("type", "id", "surface", "name")
    )
    surfaces = (surface,) if mention.get("surface") is not None else ()
    return mark(document, Span(start, end, entities, kind, own, name), place, *surfaces)


def _text(value: object, what: str, place: Place) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{what} is neither a text nor a whole number", place)
    return str(value)
