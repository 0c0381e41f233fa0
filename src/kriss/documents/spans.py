"""Marked mentions: the rules that hold in every format they are read from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kriss.names import clean
from kriss.records import Document, Span

_JOINTS = re.compile(r"[|+;,]")
NO_ENTITY = "-1"
"""What PubTator and BioC write for a mention of no entity."""
_NO_ENTITY = ("", "-", NO_ENTITY, "cui-less", "nil")
_SHOWN = 60


def split_entities(identifier: str) -> tuple[str, ...]:
    """Return the ids that one field joins: how PubTator and BioC write a mention of several entities.

    >>> split_entities("D003110|D009369"), split_entities("MESH:D003110"), split_entities("-1")
    (('D003110', 'D009369'), ('MESH:D003110',), ())
    """
    return known_entities(_JOINTS.split(identifier))


def known_entities(identifiers: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that name an entity, each once; `-1`, `-`, `CUI-less` and `NIL` say that there is none.

    A prefix does not make an id of them (`MESH:-1`, `UMLS:CUI-less`).
    """
    stripped = (identifier.strip() for identifier in identifiers)
    return tuple(dict.fromkeys(one for one in stripped if one.rpartition(":")[2].strip().lower() not in _NO_ENTITY))


def mark(document: Document, span: Span, *surfaces: str) -> Span:
    """Return the span if it lies in the document's text and is what the file says stands there.

    Surfaces are compared after white space: corpora have them trimmed, or with a line end as a blank.
    With several, one must agree: a discontinuous mention is given whole or by its pieces.
    """
    text, start, end = document.text, span.start, span.end
    own = f" '{span.id}'" if span.id else ""
    where = f"the mention{own} from {start} to {end}"
    if start >= end:
        raise ValueError(f"{where} is empty; its end must be greater than its start")
    if start < 0 or end > len(text):
        raise ValueError(f"{where} does not lie in its text of {len(text)} characters; offsets count characters from 0")
    surface = clean(text[start:end])
    if not surface:
        raise ValueError(f"{where} is nothing but white space; mend its offsets or remove it")
    if surfaces and surface not in map(clean, surfaces):
        what = f"is '{_short(surfaces[0])}' in the annotation, but '{_short(text[start:end])}' in the text"
        raise ValueError(f"{where} {what}; mend its offsets, which count characters and not bytes")
    return span


def whole_number(value: object, what: str) -> int:
    """Return an offset as the file gives it, a number or its digits; anything else is an error."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value):
        return int(value)
    raise ValueError(f"{what} is {_short(repr(value))}, not a whole number of characters")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
