"""Plain text, one document a file; mentions stand in double brackets, as in `Patients with [[MS]] relapsed`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from kriss.documents.format import Format, Head, Record, stem
from kriss.documents.problems import RecordError
from kriss.errors import InputError
from kriss.files import open_bytes, reading
from kriss.records import Document, Span

SUFFIXES = (".txt", ".text")
_BOM = b"\xef\xbb\xbf"
_LONG = 60
"""Characters of a line that is followed by another: a paragraph was wrapped there, and a name may go on."""
_SIGN = re.compile(r"[\[\]\n]")


def whole_file(path: Path, stripe: int = 0, _stripes: int = 1) -> Iterator[Record]:
    """Yield the file as one record."""
    if not stripe:
        with open_bytes(path) as stream, reading(path):
            yield Record(path, 0, stream.read().removeprefix(_BOM), id=stem(path))


def decode(raw: bytes) -> str:
    """Return lines as text, to the character; what is not UTF-8, or a NUL, is an error with its line."""
    text = raw.decode("utf-8")
    if "\0" in text:
        raise RecordError("the line holds a NUL character; remove it", text.count("\n", 0, text.index("\0")))
    return text


def unwrap(text: str) -> str:
    """Return the text with blanks for the line ends within paragraphs; no character changes its place."""
    parts: list[str] = []
    for line, following in pairwise((*text.split("\n"), "")):
        if len(line) < _LONG or not following[:1].strip():
            parts += line, "\n"
        elif line.endswith("\r") and len(line) > _LONG:
            parts += line[:-1], "  "
        else:
            parts += line, " "
    return "".join(parts[:-1]) if text.strip() else ""


def join_text(title: str, body: str) -> str:
    r"""Return title and body with exactly one character between, as PubTator counts them.

    >>> join_text("Cystic fibrosis", "A common disease."), join_text("", "A common disease.")
    ('Cystic fibrosis\nA common disease.', 'A common disease.')
    """
    if not title.strip():
        return body if body.strip() else ""
    return f"{title}\n{body}" if body.strip() else title


def parse_bracketed(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text without its double brackets, and where in that the mentions stand.

    >>> parse_bracketed("[[MS]] and [[[11C]methionine]] [see [1]]")
    ('MS and [11C]methionine [see [1]]', [(0, 2), (7, 22)])
    """
    try:
        return _unbracket(text)
    except RecordError as error:
        raise InputError(f"line {error.line + 1} of the text: {error}") from None


def _unbracket(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Take off the double brackets; single ones that are balanced, on a line or within a mention, are ordinary text."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    copied = removed = depth = 0
    opened: int | None = None  # where the mention that we are in begins, behind its brackets
    for sign in _SIGN.finditer(text):
        at = sign.start()
        if at < copied:  # the second of two brackets
            continue
        double = text[at : at + 2] == 2 * sign[0] and sign[0] != "\n"
        if sign[0] == "\n":
            depth = depth if opened is not None else 0
        elif sign[0] == "[" and double:
            if opened is not None:
                line = 1 + text.count("\n", 0, opened)
                _fail(f"a mention begins within the one of line {line}; close that with ']]' first", text, at)
            parts.append(text[copied:at])
            opened = copied = at + 2
            removed += 2
            depth = 0
        elif sign[0] == "[":
            depth += 1
        elif depth:
            depth -= 1
        elif double and opened is None:
            _fail("']]' closes no mention; write '[[' before it, or a blank between the two", text, at)
        elif double and opened is not None:
            if not text[opened:at].strip():
                _fail("there is no mention between '[[' and ']]'; write one or remove the brackets", text, at)
            spans.append((opened - removed, at - removed))
            parts.append(text[copied:at])
            copied, opened = at + 2, None
            removed += 2
    if opened is not None:
        _fail("the mention that begins here is not closed; write ']]' behind it", text, opened)
    return "".join((*parts, text[copied:])), spans


def _fail(message: str, text: str, at: int) -> NoReturn:
    raise RecordError(message, text.count("\n", 0, at))


def _parse(record: Record, marked: bool) -> Document:
    text = decode(record.content)
    if not marked:
        return Document(record.id, unwrap(text))
    text, places = _unbracket(text)
    return Document(record.id, unwrap(text), tuple(Span(*place) for place in places))


def _tells(head: Head) -> bool:
    return bool(head.start) and (head.suffix in (*SUFFIXES, ".md") or (not head.suffix and b"\0" not in head.start))


TEXT = Format("text", _tells, whole_file, _parse)
