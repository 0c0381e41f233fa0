"""Plain text, one document a file, and JSON lines, one document a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from kriss.documents.problems import Problems, flaw_of, join_text, stem
from kriss.errors import Place
from kriss.files import open_bytes, read_blocks, reading
from kriss.records import Document

_BOM = b"\xef\xbb\xbf"
_IDS = ("id", "pmid", "_id")
_TEXTS = ("text", "abstract", "body")
_WRAPPED = re.compile(r"(?<=[^\n]{60})\r?\n(?=\S)")
"""The end of a long line followed by another: a paragraph was wrapped there, and a name may go on."""


def read_text(path: Path, problems: Problems, stripe: int, stripes: int) -> Iterator[Document]:
    """Yield the file as one document, to the character: brat's offsets count carriage returns too.

    Where a paragraph was wrapped at the end of a long line, blanks stand in the place of the line end.
    """
    if stripe:
        return
    with open_bytes(path) as stream, reading(path):
        raw = stream.read().removeprefix(_BOM)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Place(path, 1 + raw.count(b"\n", 0, error.start))
        problems.add(f"the text holds the byte {raw[error.start]:#04x}, which is not UTF-8", place, stem(path))
        return
    if "\0" in text:
        place = Place(path, 1 + text.count("\n", 0, text.index("\0")))
        problems.add("the text holds a NUL character", place, stem(path))
    elif text.strip():
        yield Document(stem(path), unwrap(text), ordinal=0)


def read_jsonl(path: Path, problems: Problems, stripe: int, stripes: int) -> Iterator[Document]:
    """Yield one document from each line: `id`, `title` and `text`, or what PubMed exports call them."""
    ordinal = -1
    for number, raw in numbered_lines(path):
        if not raw or raw.isspace():
            continue
        ordinal += 1
        if ordinal % stripes != stripe:
            continue
        try:
            found = parse_record(json.loads(raw.decode("utf-8")), path, ordinal)
            # Only an escape can smuggle in what no UTF-8 line can hold; a raw NUL is not JSON.
            flaw = flaw_of(found.id + found.text) if _has_escapes(raw) else ""
        except UnicodeDecodeError as error:
            problems.add(f"byte {error.start + 1} of the line is not UTF-8", Place(path, number))
        except (json.JSONDecodeError, RecursionError) as error:
            problems.add(f"not valid JSON: {error}", Place(path, number))
        except ValueError as error:
            problems.add(str(error), Place(path, number))
        else:
            if flaw:
                problems.add(flaw, Place(path, number), ascii(found.id)[1:-1])
            elif found.text:
                yield found


def unwrap(text: str) -> str:
    """Return the text with blanks for the line ends within paragraphs; no character changes its place."""
    return _WRAPPED.sub(lambda end: " " * len(end[0]), text)


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, bytes) without line ends and byte order mark."""
    number = 0
    for block in read_blocks(path, 1 << 18):
        for raw in block.split(b"\n")[: -1 if block.endswith(b"\n") else None]:
            number += 1
            yield number, (raw.removeprefix(_BOM) if number == 1 else raw).removesuffix(b"\r")


def identify(value: object, path: Path, ordinal: int) -> str:
    """Return a JSON record's id as text, or one made from the file and the ordinal if it has none."""
    if isinstance(value, bool | list | dict):
        raise ValueError("the record's id is neither text nor a number")
    if isinstance(value, float) and value.is_integer():  # a table's column of numbers with gaps
        value = int(value)
    return str(value) if value is not None and value != "" else f"{stem(path)}:{ordinal}"


def parse_record(record: object, path: Path, ordinal: int) -> Document:
    """Return the document that one line of JSON holds; a `ValueError` says what is wrong with it."""
    if not isinstance(record, dict):
        raise ValueError("the line is not a JSON object")
    document_id = identify(_first(record, _IDS), path, ordinal)
    title, body = record.get("title"), _first(record, _TEXTS)
    if title is None and body is None and not any(name in record for name in ("title", *_TEXTS)):
        raise ValueError(f"the record '{document_id}' has no text; the field is 'text', 'abstract' or 'body'")
    if not isinstance(title, str | None) or not isinstance(body, str | None):
        raise ValueError(f"the title or the text of the record '{document_id}' is not a text")
    return Document(document_id, join_text(title or "", body or ""), ordinal=ordinal)


def _has_escapes(raw: bytes) -> bool:
    r"""Whether there is a `\u`, by way of the rare backslash: several times as fast as a search for both."""
    at = raw.find(b"\\")
    while at >= 0:
        if raw[at + 1 : at + 2] == b"u":
            return True
        at = raw.find(b"\\", at + 2)
    return False


def _first(record: dict[str, object], names: tuple[str, ...]) -> object:
    return next((record[name] for name in names if record.get(name) is not None), None)
