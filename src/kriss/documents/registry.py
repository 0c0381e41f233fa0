"""The formats, and the one way into a file of any of them.

A format is a module with a `Format` in it; listed here, it is there for every command that reads or writes documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kriss.documents.bioc import BIOC_JSON, BIOC_XML
from kriss.documents.brat import BRAT
from kriss.documents.format import Format, Head, Record
from kriss.documents.jsonl import JSONL
from kriss.documents.problems import FLAWS, Deleted, explain, flaw_of, named
from kriss.documents.pubmed import PUBMED
from kriss.documents.pubtator import PUBTATOR
from kriss.documents.table import PREDICTIONS, TABLE
from kriss.documents.text import TEXT
from kriss.documents.xmlcut import ROOT
from kriss.errors import ConfigError, InputError, Place
from kriss.files import Problems, open_bytes, reading
from kriss.records import Document

FORMATS: dict[str, Format] = {
    format.name: format for format in (BRAT, PUBMED, BIOC_XML, BIOC_JSON, JSONL, PUBTATOR, TEXT, PREDICTIONS, TABLE)
}
"""By name; a file is of the first that takes it for its own."""
_HEAD = 1 << 16


def find_format(name: str, use: Literal["read", "write"]) -> Format:
    """Return the format of a name that is read, or written."""
    usable = {one.name: one for one in FORMATS.values() if (one.write if use == "write" else one.parse)}
    if name not in usable:
        raise ConfigError(f"there is no format '{name}' to {use}; there are {', '.join(usable)}")
    return usable[name]


def detect_format(path: Path) -> Format:
    """Tell the format from the first bytes, and from the suffix where those leave a choice."""
    with open_bytes(path) as stream, reading(path):
        head = stream.read(_HEAD)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("the file is in UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", Place(path))
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip() or (head if len(head) == _HEAD else b"")
    root = ROOT.match(start)
    seen = Head(path, Path(path.name.lower().removesuffix(".gz")).suffix, start, root[1] if root else b"")
    for format in FORMATS.values():
        if format.tells(seen):
            return format
    if not start:
        raise InputError("there is nothing but white space in the file", Place(path))
    what = "the file has no format that kriss knows"
    if seen.root:
        what = f"this is XML with the root element <{seen.root.decode()}>, which is neither PubMed nor BioC"
    elif start[:1] in (b"{", b"["):
        what = "this is JSON, but neither BioC nor one object on each line"
    raise InputError(f"{what}; kriss reads {', '.join(one.name for one in FORMATS.values() if one.parse)}", Place(path))


def read_file(
    path: Path,
    problems: Problems | None = None,
    *,
    marked: bool = False,
    format: Format | None = None,
    stripe: int = 0,
    stripes: int = 1,
) -> Iterator[Document | Deleted]:
    """Yield the documents of one file, in the order of the file and in constant memory.

    As text alone, those without text are left out; marked, all come with their mentions. A bad document is an error
    with its line, for a mention that is silently left out would be missing from what is linked and counted; with
    `problems` it is counted there, and reading goes on. A bad file is always an error.

    Several workers may share a file: each takes the records whose ordinal, modulo `stripes`, is its `stripe`, and
    reports the problems of those alone; deletions go to stripe 0.
    """
    if not 0 <= stripe < stripes:
        raise ValueError(f"stripe {stripe} of {stripes}")
    chosen = format or detect_format(path)
    if marked and not chosen.marks:
        raise InputError(f"the format {chosen.name} marks no mentions; name a file of one that does", Place(path))
    if not chosen.records or not chosen.parse:
        raise ConfigError(f"kriss writes {chosen.name} and does not read it")
    parse = chosen.parse
    for record in chosen.records(path, stripe, stripes):
        try:
            document = parse(record, marked)
            if isinstance(document, Document):
                if not document.text.isascii() or "\0" in document.text or document.spans or not document.id.isascii():
                    _check_characters(document)
                if not document.text and not marked:
                    continue
        except FLAWS as error:
            if problems is None:
                raise _located(error, record) from None
            problems.add(None if problems.full else _located(error, record))
        except InputError as error:
            if problems is None:
                raise
            problems.add(error)
        else:
            yield document


def read_marked(path: Path, format: Format) -> Iterator[Document]:
    """Yield the documents of one file of a benchmark."""
    return (one for one in read_file(path, marked=True, format=format) if isinstance(one, Document))


def _located(error: Exception, record: Record) -> InputError:
    what, line = explain(error)
    return InputError(f"{named(record.id)}{what}", record.place(line))


def _check_characters(document: Document) -> None:
    """Complain of what no UTF-8 file can hold; escapes of JSON bring that in."""
    spans = (part for span in document.spans for part in (*span.entities, span.type, span.id, span.name))
    if flaw := flaw_of(document.id) or flaw_of(document.text) or flaw_of("".join(spans)):
        raise ValueError(f"{flaw}; remove it")
