"""One way into every format of documents with marked mentions.

What is wrong with a file stops the reading there, with its line: a mention that is silently left out
would be missing from what is linked and from what is counted.
"""

from __future__ import annotations

import glob
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from kriss.documents import sources as text_sources
from kriss.documents.bioc import read_marked_bioc_json, read_marked_bioc_xml
from kriss.documents.bracketed import parse_bracketed, read_bracketed
from kriss.documents.brat import annotations_beside, read_brat, text_beside
from kriss.documents.jsonl import read_marked_jsonl
from kriss.documents.pubtator import read_marked_pubtator
from kriss.errors import InputError, Place
from kriss.records import Document, Span

__all__ = ["Document", "Format", "Span", "parse_bracketed", "read_annotated"]

STANDARD_INPUT = "-"


class Format(StrEnum):
    """The formats of documents with marked mentions."""

    JSONL = "jsonl"
    PUBTATOR = "pubtator"
    BIOC_XML = "bioc-xml"
    BIOC_JSON = "bioc-json"
    BRAT = "brat"
    TEXT = "text"


_READERS: dict[Format, Callable[[Path], Iterator[Document]]] = {
    Format.JSONL: read_marked_jsonl,
    Format.PUBTATOR: read_marked_pubtator,
    Format.BIOC_XML: read_marked_bioc_xml,
    Format.BIOC_JSON: read_marked_bioc_json,
    Format.BRAT: read_brat,
    Format.TEXT: read_bracketed,
}


def read_annotated(sources: Sequence[Path | str], format: Format | None = None) -> Iterator[Document]:
    """Iterate over the documents of files, folders and globs, one at a time; `-` is standard input.

    Without a format, each file's is told by its content and suffix; a text file with an `.ann` file
    beside it is brat's. Files come in the order of their names, standard input first. A source that names
    nothing is an error at once, not when the reading comes to it.
    """
    named = [text for source in sources if str(source) != STANDARD_INPUT for text in _texts(source)]
    with_input = any(str(source) == STANDARD_INPUT for source in sources)
    return _read(text_sources.find_files(named) if named or not with_input else [], format, with_input=with_input)


def _read(files: Sequence[Path], format: Format | None, *, with_input: bool) -> Iterator[Document]:
    if with_input:
        yield from _read_stream(sys.stdin.buffer, Path("standard input"), format)
    for path in files:
        if path.is_file():
            yield from _READERS[format or _detect(path)](path)
        else:  # a pipe, as the shell makes for <(...)
            with path.open("rb") as stream:
                yield from _read_stream(stream, path, format)


def _texts(source: Path | str) -> list[Path | str]:
    """Return the text files where brat's annotations are named, and any other source as it is."""
    if not str(source).lower().endswith((".ann", ".ann.gz")):
        return [source]
    matches = glob.glob(str(source), recursive=True)  # noqa: PTH207 - it takes absolute patterns too
    named = [str(source)] if Path(source).exists() else matches
    if not named:
        raise InputError("no such file", Place(Path(source)))
    texts: list[Path | str] = []
    for marked in map(Path, named):
        text = text_beside(marked)
        if not text:
            raise InputError("there is no text file of the same name beside these annotations", Place(marked))
        texts.append(text)
    return texts


def _detect(path: Path) -> Format:
    if path.name.lower().endswith((".txt", ".txt.gz")) and annotations_beside(path):
        return Format.BRAT
    found = text_sources.detect_format(path)
    if found is text_sources.Format.PUBMED:
        raise InputError("this is PubMed's XML, which marks no mentions; link a format that does", Place(path))
    return Format(found)


def _read_stream(stream: BinaryIO, name: Path, format: Format | None) -> Iterator[Document]:
    """Read what can be read only once from a copy on disk, since telling its format takes a second look."""
    with tempfile.TemporaryDirectory(prefix="kriss-") as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as target:
            shutil.copyfileobj(stream, target)
        try:
            if format is Format.BRAT:
                raise InputError("brat's texts and annotations are files; name their folder", Place(copy))
            yield from _READERS[format or _detect(copy)](copy)
        except InputError as error:
            place = error.place or Place(copy)
            raise InputError(str(error).removeprefix(f"{place}: "), Place(name, place.line)) from None
