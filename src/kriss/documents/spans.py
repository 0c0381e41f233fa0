"""Documents with marked mentions, and the rules that hold in every format they are read from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from kriss.documents.problems import flaw_of
from kriss.errors import InputError, Place
from kriss.files import open_bytes, reading
from kriss.names import clean
from kriss.records import Document, Span

_JOINTS = re.compile(r"[|+;,]")
_NO_ENTITY = ("", "-", "-1", "cui-less", "nil")
_SHOWN = 60
_BOM = b"\xef\xbb\xbf"


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


def mark(document: Document, span: Span, place: Place, *surfaces: str) -> Span:
    """Return the span if it lies in the document's text and is what the file says stands there.

    Surfaces are compared after white space: corpora have them trimmed, or with a line end as a blank.
    With several, one must agree: a discontinuous mention is given whole or by its pieces.
    """
    text, start, end = document.text, span.start, span.end
    where = f"document '{document.id}': the mention{_named(span.id)} from {start} to {end}"
    if start >= end:
        raise InputError(f"{where} is empty; its end must be greater than its start", place)
    if start < 0 or end > len(text):
        size = f"its text of {len(text)} characters"
        raise InputError(f"{where} does not lie in {size}; offsets count characters from 0", place)
    surface = clean(text[start:end])
    if not surface:
        raise InputError(f"{where} is nothing but white space; mend its offsets or remove it", place)
    if surfaces and surface not in map(clean, surfaces):
        what = f"is '{_short(surfaces[0])}' in the annotation, but '{_short(text[start:end])}' in the text"
        raise InputError(f"{where} {what}; mend its offsets, which count characters and not bytes", place)
    return span


def whole_number(value: object, what: str, place: Place) -> int:
    """Return an offset as the file gives it, a number or its digits; anything else is an error."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value):
        return int(value)
    raise InputError(f"{what} is {_short(repr(value))}, not a whole number of characters", place)


def check_characters(document: Document, place: Place) -> Document:
    """Return the document unless it holds what no UTF-8 file can: only escapes of JSON bring that in."""
    marked = (part for span in document.spans for part in (*span.entities, span.type, span.id, span.name))
    if flaw := flaw_of("".join((document.id, document.text, *marked))):
        name = document.id.encode("ascii", "backslashreplace").decode()
        raise InputError(f"document '{name}': {flaw}; remove it", place)
    return document


def load_text(path: Path) -> str:
    """Return a whole file as text, to the character: brat's offsets count carriage returns too."""
    with open_bytes(path) as stream, reading(path):
        raw = stream.read().removeprefix(_BOM)
    return "\n".join(decode(line, Place(path, number)) for number, line in enumerate(raw.split(b"\n"), 1))


def decode(raw: bytes, place: Place) -> str:
    """Return one line as text; a byte that is not UTF-8 or is NUL is an error with its place."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start + 1} of the line is {raw[error.start]:#04x}, which is not UTF-8"
        raise InputError(f"{what}; convert the file to UTF-8", place) from None
    if "\0" in text:
        raise InputError("the line holds a NUL character; remove it", place)
    return text


def _named(span_id: str) -> str:
    return f" '{span_id}'" if span_id else ""


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
