"""PubTator with its annotations: `id start end surface type entity`, in columns, under title and abstract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kriss.documents.plain import numbered_lines
from kriss.documents.spans import decode, mark, split_entities, whole_number
from kriss.errors import InputError, Place
from kriss.records import Document, Span

_HEADER = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_RELATION = re.compile(r"\s*[A-Za-z]")


@dataclass(slots=True)
class _Draft:
    id: str
    parts: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)

    def finish(self, path: Path) -> Document:
        title, body = self.parts.get("t", ""), self.parts.get("a", "")
        text = f"{title}\n{body}" if body.strip() else title
        document = Document(self.id, text if text.strip() else "", ())
        spans = tuple(_span(row, document, Place(path, number)) for number, row in self.rows)
        return Document(document.id, document.text, spans)


def read_marked_pubtator(path: Path) -> Iterator[Document]:
    """Yield the documents with their mentions; rows of relations are passed over."""
    draft: _Draft | None = None
    for number, raw in numbered_lines(path):
        place = Place(path, number)
        line = decode(raw, place)
        if "\r" in line:
            raise InputError("a carriage return stands inside the line; write line feeds at the ends of lines", place)
        if header := _HEADER.match(line):
            name, part, text = header[1].strip(), header[2], header[3]
            if draft and draft.id != name:
                yield draft.finish(path)
                draft = None
            draft = draft or _Draft(name)
            if part in draft.parts:
                what = f"a second line of '{name}|{part}|'"
                raise InputError(f"{what}; remove it, or put a blank line between two documents", place)
            draft.parts[part] = text
        elif not line.strip():
            if draft:
                yield draft.finish(path)
            draft = None
        elif "\t" not in line:
            raise InputError("the line is neither a title, nor an abstract, nor an annotation; mend it", place)
        else:
            row = line.split("\t")
            _check_document(row[0].strip(), draft.id if draft else None, place)
            if draft and not _is_relation(row):
                draft.rows.append((number, row))
    if draft:
        yield draft.finish(path)


def _check_document(name: str, expected: str | None, place: Place) -> None:
    if name != expected:
        what = f"the row belongs to document '{name}', but "
        here = "no document begins before it" if expected is None else f"the document here is '{expected}'"
        raise InputError(f"{what}{here}; put it under its own title and abstract", place)


def _is_relation(row: list[str]) -> bool:
    """Tell `id CID entity entity` from a mention: corpora hold relations of four or five columns."""
    return len(row) in (4, 5) and _RELATION.match(row[1]) is not None


def _span(row: list[str], document: Document, place: Place) -> Span:
    if len(row) < 5:
        expected = "id, start, end, surface, type and, if there is one, entity"
        raise InputError(f"the row has {len(row)} columns where 5 or 6 are expected: {expected}", place)
    start, end = (whole_number(row[at], f"the {name} of the row", place) for at, name in ((1, "start"), (2, "end")))
    entities = split_entities(row[5]) if len(row) > 5 else ()
    return mark(document, Span(start, end, entities, row[4].strip()), place, row[3])
