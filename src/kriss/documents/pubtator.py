"""PubTator: `id|t|title` and `id|a|abstract`, then annotations in columns: `id start end surface type entity`.

The format counts one character between title and abstract, an empty title included; so does the text here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TextIO

from kriss.documents.format import Format, Linked, Record
from kriss.documents.problems import RecordError
from kriss.documents.spans import NO_ENTITY, known_entities, mark, split_entities, whole_number
from kriss.documents.text import decode
from kriss.errors import InputError
from kriss.files import numbered_lines
from kriss.records import Document, Span

_TOLD = re.compile(rb"\s*[^\s|][^|\t\r\n]{0,199}\|[ta]\|")  # an id may hold blanks: that of a file named so
_BEGINS = re.compile(rb"([^|\t]+)\|[ta]\|")
_HEADER = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_RELATION = re.compile(r"\s*[A-Za-z]")
_WHOLE = ("SequenceVariant",)
"""Types whose ids hold the `|` that joins those of other types: `p|SUB|V|600|E`."""
_LINE_ENDS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", " "))


def _records(path: Path, stripe: int, stripes: int) -> Iterator[Record]:
    """Cut the file where there is a blank line, or a title or abstract of another document."""
    held: list[bytes] = []
    first, ordinal, name = 1, 0, b""
    for number, raw in chain(numbered_lines(path), [(0, b"")]):
        header = _BEGINS.match(raw) if b"|" in raw else None  # most lines are annotations
        blank = not raw or raw.isspace()
        if held and (blank or (header and header[1].strip() != name)):
            if ordinal % stripes == stripe:
                yield Record(path, ordinal, b"\n".join(held), first, name.decode("utf-8", "replace"))
            held, ordinal = [], ordinal + 1
        if not blank:
            if not held:
                first, name = number, header[1].strip() if header else b""
            held.append(raw)


def _parse(record: Record, marked: bool) -> Document:
    content = decode(record.content)
    if "\r" in content:
        what = "a carriage return stands inside the line; write line feeds at the ends of lines"
        raise RecordError(what, content.count("\n", 0, content.index("\r")))
    parts: dict[str, str] = {}
    rows: list[tuple[int, str]] = []
    for line, text in enumerate(content.split("\n")):
        header = _HEADER.match(text) if "|" in text else None
        if header:
            if header[2] in parts:
                what = f"a second line of '{record.id}|{header[2]}|'"
                raise RecordError(f"{what}; remove it, or put a blank line between two documents", line)
            parts[header[2]] = header[3]
        elif "\t" not in text:
            raise RecordError("the line is neither a title, nor an abstract, nor an annotation; mend it", line)
        elif marked:
            rows.append((line, text))
    title, body = parts.get("t", ""), parts.get("a", "")
    text = f"{title}\n{body}" if body.strip() else title
    bare = Document(record.id, text if text.strip() else "", ordinal=record.ordinal)
    return Document(bare.id, bare.text, tuple(_spans(rows, bare)), 0, bare.ordinal) if rows else bare


def _spans(rows: list[tuple[int, str]], document: Document) -> Iterator[Span]:
    for line, text in rows:
        row = text.split("\t")
        try:
            _check_document(row[0].strip(), document.id)
            # Corpora hold relations of four or five columns: `id CID entity entity`.
            if len(row) not in (4, 5) or not _RELATION.match(row[1]):
                yield _span(row, document)
        except ValueError as error:
            raise RecordError(str(error), line) from None


def _check_document(name: str, expected: str) -> None:
    if name != expected:
        here = f"the document here is '{expected}'" if expected else "no document begins before it"
        raise ValueError(f"the row belongs to document '{name}', but {here}; put it under its own title and abstract")


def _span(row: list[str], document: Document) -> Span:
    if len(row) < 5:
        expected = "id, start, end, surface, type and, if there is one, entity"
        raise ValueError(f"the row has {len(row)} columns where 5 or 6 are expected: {expected}")
    start, end = (whole_number(row[at], f"the {name} of the row") for at, name in ((1, "start"), (2, "end")))
    kind, ids = row[4].strip(), row[5] if len(row) > 5 else ""
    entities = known_entities(ids.split(",")) if kind in _WHOLE else split_entities(ids)
    return mark(document, Span(start, end, entities, kind), row[3])


def _write(links: Iterable[Linked], out: TextIO) -> None:
    """Write title and abstract on a line each: the first line of the text, and the rest with blanks for line ends."""
    for document, found in links:
        name = document.id
        if not name or "|" in name or name != _on_a_line(name):
            what = "it is empty, or has a '|', a tab, a line end or a blank at its end"
            raise InputError(f"the document id {name!r} cannot stand in PubTator: {what}; write jsonl instead")
        title, _, body = document.text.partition("\n")
        out.write(f"{name}|t|{title.translate(_LINE_ENDS)}\n{name}|a|{body.translate(_LINE_ENDS)}\n")
        for span, link in zip(document.spans, found, strict=True):
            surface = document.text[span.start : span.end].translate(_LINE_ENDS)
            entity = NO_ENTITY if link.entity is None else _on_a_line(link.entity)
            out.write(f"{name}\t{span.start}\t{span.end}\t{surface}\t{_on_a_line(span.type)}\t{entity}\n")
        out.write("\n")


def _on_a_line(name: str) -> str:
    return name.translate(_LINE_ENDS).strip()


PUBTATOR = Format("pubtator", lambda head: _TOLD.match(head.start) is not None, _records, _parse, _write)
