"""Cutting the documents out of a large BioC JSON file: by brackets, without parsing those of other workers.

Three ways of wrapping them are in use: a collection (`{"documents": [...]}`, also a list of such, or
PubTator3's `{"PubTator3": [...]}`), a list of documents, and one document after another.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, NoReturn

from kriss.documents.format import Record
from kriss.errors import InputError, Place
from kriss.files import open_bytes, reading

_BLOCK = 1 << 18
_TAIL = 1 << 12  # what is kept while looking for a key, which may be split between two blocks
_LIST = re.compile(r'"(documents|PubTator3|passages)"\s*:\s*\[')
_NEXT_LIST = re.compile(r'"(documents|PubTator3)"\s*:\s*\[')
_DEEPEST = 12  # objects within objects; BioC itself has five
_SEPARATORS = re.compile(r"[\s,]*")


def _object_pattern() -> str:
    """Return an expression for a whole JSON object, which is several times as fast as counting its braces."""
    string = r'"[^"\\]*+(?:\\.[^"\\]*+)*"'
    pattern = "(?!)"
    for _ in range(_DEEPEST):
        pattern = rf'\{{[^{{}}"]*+(?:(?:{string}|{pattern})[^{{}}"]*+)*\}}'
    return pattern


_OBJECT = re.compile(_object_pattern(), re.DOTALL)


class _Wrapping(Enum):
    COLLECTION = auto()
    LIST = auto()
    SEQUENCE = auto()


def json_records(path: Path, stripe: int, stripes: int) -> Iterator[Record]:
    """Yield those documents of a file whose ordinal, modulo `stripes`, is `stripe`."""
    with open_bytes(path) as stream:
        window = _Window(path, stream)
        wrapping = window.find_first()
        ordinal = 0
        while (sign := window.peek()) or wrapping is not _Wrapping.SEQUENCE:
            if sign == "{":
                end = window.find_end()
                if ordinal % stripes == stripe:
                    yield Record(path, ordinal, window.text[window.at : end], window.line())
                window.at = end
                ordinal += 1
            elif sign == "]" and wrapping is _Wrapping.COLLECTION:
                if not window.find_next_collection():
                    return
            elif sign == "]" and wrapping is _Wrapping.LIST:
                window.at += 1
                wrapping = _Wrapping.SEQUENCE
            else:
                seen = f"{sign!r} stands where a document should begin"
                window.fail(seen if sign else "the file is cut off within a list of documents; fetch it again")


class _Window:
    """The part of a text file that is being looked at; it grows at its end and is cut off at its start."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.text = ""
        self.at = 0
        self._path, self._stream = path, stream
        self._line, self._line_at = 1, 0
        # A byte that is not UTF-8 becomes a lone surrogate, so that only the document that has it is bad.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")

    def find_first(self) -> _Wrapping:
        """Go to where the first document should begin, and say what it is wrapped in."""
        while not (found := _LIST.search(self.text)):
            if not self._grow():
                self.fail("there is no BioC document in it")
        if found[1] != "passages":
            self.at = found.end()
            return _Wrapping.COLLECTION
        if self.peek() != "[":
            return _Wrapping.SEQUENCE
        self.at += 1
        return _Wrapping.LIST

    def find_next_collection(self) -> bool:
        """Go from the end of one list of documents into the next; return whether there is one."""
        self.at += 1
        last = ""
        while not (found := _NEXT_LIST.search(self.text, self.at)):
            last = self.text[self.at :].rstrip()[-1:] or last
            self.at = max(self.at, len(self.text) - _TAIL)
            if not self._grow():
                if last not in ("}", "]"):
                    self.fail("the file is cut off after a list of documents; fetch it again")
                return False
        self.at = found.end()
        return True

    def peek(self) -> str:
        """Go to the next character that separates nothing, and return it; nothing at the end of the file."""
        while True:
            separators = _SEPARATORS.match(self.text, self.at)
            self.at = separators.end() if separators else self.at
            if self.at < len(self.text) or not self._grow():
                return self.text[self.at : self.at + 1]

    def find_end(self) -> int:
        """Return where the object that begins here ends."""
        while not (found := _OBJECT.match(self.text, self.at)):
            if not self._grow():
                self.fail(f"the document that begins here is cut off, or nested more than {_DEEPEST} deep")
        return found.end()

    def line(self) -> int:
        """Return the number of the line on which this place lies."""
        self._line += self.text.count("\n", self._line_at, self.at)
        self._line_at = self.at
        return self._line

    def fail(self, message: str) -> NoReturn:
        """Raise the error of a bad file, with this place."""
        raise InputError(message, Place(self._path, self.line()))

    def _grow(self) -> bool:
        """Read on and forget what lies before this place; return whether there was more."""
        with reading(self._path):
            raw = self._stream.read(max(_BLOCK, len(self.text) - self.at))
        self.line()
        self.text = self.text[self.at :] + self._decoder.decode(raw, final=not raw)
        self.at = self._line_at = 0
        return bool(raw)
