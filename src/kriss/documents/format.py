"""What a format is: how its files are told, cut into records, parsed, and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kriss.documents.problems import Deleted
from kriss.errors import Place
from kriss.records import Document, Link

Linked = tuple[Document, Sequence[Link]]
"""A document and its links, the nth being that of its nth span."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a format is told by."""

    path: Path
    suffix: str
    """In small letters, without `.gz`."""
    start: bytes
    """The first bytes, from the first one that is not white space."""
    root: bytes
    """The root element, if it is XML."""


@dataclass(slots=True)
class Record:
    """One document as its file has it, not parsed yet."""

    path: Path
    ordinal: int
    """Its number within the file, from 0; workers share a file by it."""
    content: Any
    line: int = 1
    """Where in the file it begins."""
    id: str = ""
    """The id of the document, as soon as it is known: for what is wrong with it to be told by."""

    def identify(self, value: object) -> str:
        """Take a JSON record's id as text, or make one from the file and the ordinal if it has none."""
        if isinstance(value, bool | list | dict):
            raise ValueError("the record's id is neither text nor a number")
        if isinstance(value, float) and value.is_integer():  # a table's column of numbers with gaps
            value = int(value)
        self.id = str(value) if value is not None and value != "" else f"{stem(self.path)}:{self.ordinal}"
        return self.id

    def place(self, line: int = 0) -> Place:
        """Return the place of the record, or of a line within it."""
        return Place(self.path, self.line + line)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of documents. `registry.FORMATS` lists them all; what is listed there is read and written everywhere."""

    name: str
    tells: Callable[[Head], bool] = lambda _: False
    """Whether a file is of this format."""
    records: Callable[[Path, int, int], Iterator[Record]] | None = None
    """Cuts a file into records: those whose ordinal, modulo a number of stripes, is that of a stripe.

    What is wrong with the file is an `InputError` of this; what is wrong with one document, one of `parse`.
    """
    parse: Callable[[Any, bool], Document | Deleted] | None = None
    """Makes a document of a record, with its marked mentions or as text alone; raises `problems.FLAWS` if it is bad."""
    write: Callable[[Iterable[Linked], TextIO], None] | None = None
    marks: bool = True
    """Whether mentions can be marked in it."""
    replaces: bool = False
    """Whether a record replaces earlier ones of its id, in the same file and in those before it."""


def stem(path: Path) -> str:
    """Return the file's name without its suffix and without `.gz`: what documents without an id are named by."""
    name = path.name
    return Path(name[:-3] if name.lower().endswith(".gz") else name).stem
