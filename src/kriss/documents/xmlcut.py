"""Cutting the records out of a large XML file, without parsing what is not looked at.

A parser over the whole file would take several times as long as unzipping it. Here the bytes between
`<record` and `</record>` are found by search, and what lies around them is checked: the root element,
nothing between records, a root that is closed at the end. A record itself is checked by who reads it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from kriss.documents.format import Record
from kriss.errors import InputError, Place
from kriss.files import open_bytes, reading

ROOT = re.compile(
    rb"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*<([A-Za-z_][\w:.-]*)[^<>]*>", re.DOTALL
)
"""All that may stand before the first tag of an XML file, and that tag."""

_BLOCK = 1 << 18  # larger is no faster: a block should stay in the processor's cache
_TOO_LONG = 1 << 20  # of a prolog, or of what stands between two records
_SPACE = rb"(?:\s|<\?.*?\?>)*"
_HIDING = re.compile(rb"<!--(.*?)-->|<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_UNCLOSED = re.compile(rb"<!--|<!\[CDATA\[")
_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([^"']*)""")


@dataclass(frozen=True, slots=True)
class Layout:
    """The elements that a format has at its top."""

    roots: tuple[bytes, ...]
    records: tuple[bytes, ...]
    others: tuple[bytes, ...] = ()
    """Elements like records that have no ordinal and are for the first stripe only."""
    ignored: tuple[bytes, ...] = ()
    """Elements of mere text that may stand before a record."""

    def cut(self, path: Path, stripe: int, stripes: int) -> Iterator[XmlRecord]:
        """Yield those records of a file whose ordinal, modulo `stripes`, is `stripe`."""
        return _Cut(path, self).records(stripe, stripes)


@dataclass(slots=True)
class XmlRecord(Record):
    """One record, from `<tag` to `</tag>`, without comments and with CDATA as escaped text."""

    tag: bytes = b""
    offset: int = 0
    frame: tuple[bytes, bytes] = (b"", b"")
    """The tags of the root element: it may declare name spaces."""

    def element(self) -> ET.Element:
        """Parse the record."""
        whole = b"".join((self.frame[0], self.content, self.frame[1]))
        return ET.fromstring(whole)[0]  # noqa: S314 - no DOCTYPE reaches it, so no entity either

    def place(self, line: int = 0) -> Place:
        """Return the place of the record, or of a line within it; that takes reading the file again."""
        return Place(self.path, _line(self.path, self.offset) + line)


class _Cut:
    """A file that is being cut."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._path, self._layout = path, layout
        self._root = b""
        self._frame = (b"", b"")
        ignored = b"|".join(layout.ignored) or b"(?!)"
        between = _SPACE + rb"(?:<(?:" + ignored + rb")\b[^>]*(?:(?<=/)>|>[^<]*</[^>]*>)" + _SPACE + b")*"
        starts = b"|".join(layout.records + layout.others)
        self._between = re.compile(between, re.DOTALL)
        self._opening = re.compile(between + rb"<(" + starts + rb")(?=[\s>])", re.DOTALL)

    def records(self, stripe: int, stripes: int) -> Iterator[XmlRecord]:
        with open_bytes(self._path) as file:
            stream = _Uncovered(file, self._path)
            buffer, offset = self._enter(stream)
            ordinal = 0
            block = b"-"
            while block:
                at = 0
                while opening := self._opening.match(buffer, at):
                    tag, start = opening[1], opening.start(1) - 1
                    close = buffer.find(b"</" + tag, opening.end())
                    end = buffer.find(b">", close) + 1 if close > 0 else 0
                    if not end:
                        break
                    at = end
                    counted = tag in self._layout.records
                    if ordinal % stripes == stripe if counted else stripe == 0:
                        xml = buffer[start:end]
                        if xml.find(b"<" + tag, 1) > 0 or xml[close - start + 2 + len(tag) :].strip() != b">":
                            self._fail(f"the <{tag.decode()}> that begins here is not closed", offset + start)
                        number = ordinal if counted else -1
                        yield XmlRecord(self._path, number, xml, 0, "", tag, offset + start, self._frame)
                    ordinal += counted
                buffer = buffer[at:]
                offset += at
                if not opening and len(buffer) > _TOO_LONG:
                    break
                block = stream.read(max(_BLOCK, len(buffer)))  # doubling: a record of any size in linear time
                buffer += block
        self._check_end(buffer, offset)

    def _enter(self, stream: _Uncovered) -> tuple[bytes, int]:
        """Read up to the end of the root's tag; return what was read beyond it, and where that begins."""
        buffer = stream.read(_BLOCK)
        bom = 3 if buffer.startswith(b"\xef\xbb\xbf") else 0
        while not (root := ROOT.match(buffer, bom)) and len(buffer) < _TOO_LONG:
            block = stream.read(_BLOCK)
            if not block:
                break
            buffer += block
        names = " or ".join(f"<{name.decode()}>" for name in self._layout.roots)
        if not root or root[1] not in self._layout.roots:
            raise InputError(f"not an XML file that begins with {names}", Place(self._path, 1))
        encoding = _ENCODING.match(buffer, bom)
        if encoding and encoding[1].lower() not in (b"utf-8", b"utf8", b"us-ascii", b"ascii"):
            name = encoding[1].decode("ascii", "replace")
            raise InputError(f"the XML is in {name}; convert it to UTF-8", Place(self._path, 1))
        self._root = root[1]
        opening = b" ".join(buffer[root.start(1) - 1 : root.end()].split())  # on one line, to count lines by
        self._frame = opening, b"</" + self._root + b">"
        if opening.endswith(b"/>"):
            return self._frame[1] + buffer[root.end() :], root.end()
        return buffer[root.end() :], root.end()

    def _check_end(self, buffer: bytes, offset: int) -> None:
        """Fail unless what is left after the last record closes the root element, and the file with it."""
        if opening := self._opening.match(buffer):
            tag = opening[1].decode()
            start = offset + opening.start(1)
            self._fail(f"the file is cut off inside the <{tag}> that begins here; fetch it again", start)
        between = self._between.match(buffer)
        start = between.end() if between else 0
        closing = re.compile(rb"</" + self._root + rb"\s*>" + _SPACE, re.DOTALL).match(buffer, start)
        if closing and closing.end() == len(buffer):
            return
        root = f"</{self._root.decode()}>"
        if b">" not in buffer[start:]:
            self._fail(f"the file is cut off, {root} is missing; fetch it again", offset + start)
        at = closing.end() if closing else start
        seen = buffer[at : at + 30].decode("utf-8", "replace")
        self._fail(f"{seen!r} stands {'after ' + root if closing else 'where a record should begin'}", offset + at)

    def _fail(self, message: str, offset: int) -> NoReturn:
        raise InputError(message, Place(self._path, _line(self._path, offset)))


def _line(path: Path, offset: int) -> int:
    """Count the lines up to an offset, by reading the file again; only for errors."""
    line = 1
    with open_bytes(path) as file:
        stream = _Uncovered(file, path)
        while offset > 0 and (block := stream.read(_BLOCK)):
            line += block.count(b"\n", 0, offset)
            offset -= len(block)
    return line


class _Uncovered:
    """A stream of XML in which every `<` begins a tag: comments are gone, CDATA is escaped, lines are kept."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._held = b""

    def read(self, size: int) -> bytes:
        """Return about `size` bytes, none only at the end of the file; what may begin a comment waits for its end."""
        while True:
            with reading(self._path):
                block = self._file.read(max(size, len(self._held)))
            ended = not block
            if self._held:
                block, self._held = self._held + block, b""
            if ended:
                return block
            if _declares(block):
                block = _HIDING.sub(_uncover, block)
                if unclosed := _UNCLOSED.search(block):
                    block, self._held = block[: unclosed.start()], block[unclosed.start() :]
            last = block.rfind(b"<", -len(b"<![CDATA"))
            if last >= 0 and block.find(b">", last) < 0:
                block, self._held = block[:last], block[last:] + self._held
            if block:
                return block


def _declares(block: bytes) -> bool:
    """Whether there is a `<!`, by way of the rare `!`: several times as fast as a search for both."""
    at = block.find(b"!")
    while at >= 0:
        if at and block[at - 1] == ord("<"):
            return True
        at = block.find(b"!", at + 1)
    return False


def _uncover(hiding: re.Match[bytes]) -> bytes:
    if hiding[2] is None:  # its lines go into an instruction, which no reader takes for text
        lines = hiding[1].count(b"\n")
        return b"<?x" + b"\n" * lines + b"?>" if lines else b""
    return hiding[2].replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;")
