"""Plain text in which mentions stand in double brackets, as in `Patients with [[MS]] relapsed`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from kriss.documents.plain import unwrap
from kriss.documents.problems import stem
from kriss.documents.spans import load_text
from kriss.errors import InputError, Place
from kriss.records import Document, Span

_SIGN = re.compile(r"[\[\]\n]")


def parse_bracketed(text: str, file: Path | None = None) -> tuple[str, list[tuple[int, int]]]:
    """Return the text without its double brackets, and where in that the mentions stand.

    Single brackets that are balanced, on one line or within one mention, are ordinary text.

    >>> parse_bracketed("[[MS]] and [[[11C]methionine]] [see [1]]")
    ('MS and [11C]methionine [see [1]]', [(0, 2), (7, 22)])
    """
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
                _fail(f"a mention begins within the one of line {line}; close that with ']]' first", text, at, file)
            parts.append(text[copied:at])
            opened = copied = at + 2
            removed += 2
            depth = 0
        elif sign[0] == "[":
            depth += 1
        elif depth:
            depth -= 1
        elif double and opened is None:
            _fail("']]' closes no mention; write '[[' before it, or a blank between the two", text, at, file)
        elif double and opened is not None:
            if not text[opened:at].strip():
                _fail("there is no mention between '[[' and ']]'; write one or remove the brackets", text, at, file)
            spans.append((opened - removed, at - removed))
            parts.append(text[copied:at])
            copied, opened = at + 2, None
            removed += 2
    if opened is not None:
        _fail("the mention that begins here is not closed; write ']]' behind it", text, opened, file)
    return "".join((*parts, text[copied:])), spans


def read_bracketed(path: Path) -> Iterator[Document]:
    """Yield the file as one document."""
    text, places = parse_bracketed(load_text(path), path)
    yield Document(stem(path), unwrap(text) if text.strip() else "", tuple(Span(*place) for place in places))


def _fail(message: str, text: str, at: int, file: Path | None) -> NoReturn:
    line = 1 + text.count("\n", 0, at)
    if file:
        raise InputError(message, Place(file, line))
    raise InputError(f"line {line} of the text: {message}")
