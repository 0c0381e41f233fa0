"""PubTator: `pmid|t|title`, `pmid|a|abstract`, annotations in columns, a blank line after each document.

The format counts one character between title and abstract, an empty title included; so does the text here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kriss.documents.plain import numbered_lines
from kriss.documents.problems import Problems
from kriss.errors import Place
from kriss.records import Document

_HEADER = re.compile(rb"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)


@dataclass(slots=True)
class _Draft:
    id: bytes
    ordinal: int
    line: int
    parts: dict[bytes, bytes] = field(default_factory=dict)
    problem: str = ""
    problem_line: int = 0

    def complain(self, problem: str, line: int) -> None:
        if not self.problem:
            self.problem, self.problem_line = problem, line


def read_pubtator(path: Path, problems: Problems, stripe: int, stripes: int) -> Iterator[Document]:
    """Yield the documents; one with a doubled header or a line that is no part of the format is a bad one."""
    for draft in _drafts(path):
        if draft.ordinal % stripes != stripe:
            continue
        try:
            document_id = draft.id.decode("utf-8")
            title, body = (draft.parts.get(part, b"").decode("utf-8") for part in (b"t", b"a"))
        except UnicodeDecodeError:
            problems.add("the document is not in UTF-8", Place(path, draft.line), draft.id.decode("utf-8", "replace"))
            continue
        text = f"{title}\n{body}" if body.strip() else title
        if "\0" in text:
            draft.complain("it holds a NUL character", draft.line)
        if draft.problem:
            problems.add(draft.problem, Place(path, draft.problem_line), document_id)
        elif text.strip():
            yield Document(document_id, text, ordinal=draft.ordinal)


def _drafts(path: Path) -> Iterator[_Draft]:
    draft: _Draft | None = None
    ordinal = 0
    for number, raw in numbered_lines(path):
        header = _HEADER.match(raw)
        if header:
            name, part, text = header[1].strip(), header[2], header[3]
            if draft and draft.id != name:
                yield draft
                draft = None
            if not draft:
                draft = _Draft(name, ordinal, number)
                ordinal += 1
            if part in draft.parts:
                draft.complain(f"a second line of '{name.decode('utf-8', 'replace')}|{part.decode()}|'", number)
            draft.parts.setdefault(part, text)
        elif not raw.strip():
            if draft:
                yield draft
            draft = None
        elif b"\t" not in raw:
            if not draft:
                draft = _Draft(b"", ordinal, number)
                ordinal += 1
            draft.complain("the line is neither a title, nor an abstract, nor an annotation", number)
    if draft:
        yield draft
