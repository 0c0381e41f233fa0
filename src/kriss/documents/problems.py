"""What is wrong with a document or its file, said in one sentence with its place."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kriss.errors import InputError, Place

FLAWS = (ValueError, RecursionError, ET.ParseError)
"""What the parse of one document raises if that document is bad; an `InputError` is about the file, or has a place."""


class RecordError(ValueError):
    """Something is wrong so many lines into a record."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Deleted:
    """A document that PubMed has withdrawn (`<DeleteCitation>`): earlier files may still hold it."""

    id: str


def explain(error: Exception) -> tuple[str, int]:
    """Return what is wrong as a sentence, and how many lines into the record."""
    if isinstance(error, RecordError):
        return str(error), error.line
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg} at column {error.colno}); mend it", error.lineno - 1
    if isinstance(error, UnicodeDecodeError):
        before = error.object[: error.start]
        column = error.start - before.rfind(b"\n")
        what = f"byte {column} of the line is {error.object[error.start]:#04x}"
        return f"{what}, which is not UTF-8; convert the file to UTF-8", before.count(b"\n")
    if isinstance(error, ET.ParseError):  # its own line counts from the record's start
        return f"not well-formed XML in UTF-8: {error.msg.partition(': line ')[0]}; mend it", error.position[0] - 1
    return ("not valid JSON (nested too deep); mend it" if isinstance(error, RecursionError) else str(error)), 0


@contextmanager
def at(place: Place, document: str = "") -> Iterator[None]:
    """Give the place, and the document, to what goes wrong in a line of a file."""
    try:
        yield
    except FLAWS as error:
        raise InputError(f"{named(document)}{explain(error)[0]}", place) from None


def named(document: str) -> str:
    """Return how a sentence about a document begins; nothing if it has no id yet."""
    return f"document '{document.encode('utf-8', 'backslashreplace').decode()}': " if document else ""


def flaw_of(text: str) -> str:
    """Say what makes a text unfit to be stored, or nothing: a NUL, or half of a surrogate pair."""
    if "\0" in text:
        return "it holds a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:  # what errors="surrogateescape" makes of a byte that is not UTF-8
            return f"it holds the byte {code - 0xDC00:#04x}, which is not UTF-8"
        return f"it holds half of a surrogate pair, U+{code:04X}"
    return ""
