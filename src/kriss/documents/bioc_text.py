"""BioC in XML and in JSON: passages at the offsets the format gives them.

Gaps between passages are filled, the first character of one with a line end and the rest with blanks,
so that the offsets of the file's own annotations hold in the text. A passage whose offset lies within
the text before it (some writers count bytes, or start each at 0) follows on a new line.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

from kriss.documents.jsoncut import json_records
from kriss.documents.plain import identify
from kriss.documents.problems import Problems, flaw_of, stem
from kriss.documents.xmlcut import Layout, XmlRecords, reason
from kriss.errors import Place
from kriss.records import Document

LAYOUT = Layout(roots=(b"collection",), records=(b"document",), ignored=(b"source", b"date", b"key", b"infon"))
_WIDEST_GAP = 1 << 20

Passage = tuple[int, str]


def read_bioc_xml(path: Path, problems: Problems, stripe: int, stripes: int) -> Iterator[Document]:
    """Yield the documents of a BioC collection in XML."""
    records = XmlRecords(path, LAYOUT, stripe, stripes)
    for record in records:
        document_id, line = "", 1
        try:
            element = records.parse(record)
            document_id = (element.findtext("id") or "").strip() or f"{stem(path)}:{record.ordinal}"
            text, _ = lay_out(_xml_passages(element))
        except ET.ParseError as error:
            problem, line = f"the document is not well-formed XML: {reason(error)}", error.position[0]
        except ValueError as error:
            problem = str(error)
        else:
            if text:
                yield Document(document_id, text, ordinal=record.ordinal)
            continue
        problems.add(problem, Place(path) if problems.full else records.place(record, line), document_id)


def read_bioc_json(path: Path, problems: Problems, stripe: int, stripes: int) -> Iterator[Document]:
    """Yield the documents of BioC in JSON, as PubMed Central and PubTator serve it."""
    for record in json_records(path, stripe, stripes):
        document_id = ""
        try:
            value = json.loads(record.json)
            document_id = identify(value.get("id", value.get("_id")), path, record.ordinal)
            text, _ = lay_out(_json_passages(value))
            problem = flaw_of(document_id + text)
        except json.JSONDecodeError as error:
            problem, line = f"not valid JSON: {error.msg}", record.line + error.lineno - 1
        except (ValueError, RecursionError) as error:
            problem, line = str(error), record.line
        else:
            if not problem:
                if text:
                    yield Document(document_id, text, ordinal=record.ordinal)
                continue
            line = record.line
        problems.add(problem, Place(path, line), document_id.encode("ascii", "replace").decode())


def _xml_passages(document: ET.Element) -> Iterator[Passage]:
    for passage in document.findall("passage"):
        whole = passage.findtext("text")
        for part in [passage] if whole else passage.findall("sentence"):
            yield passage_offset(part.findtext("offset")), part.findtext("text") or ""


def _json_passages(document: dict[str, object]) -> Iterator[Passage]:
    for passage in objects_of(document.get("passages"), "passages"):
        for part in [passage] if passage.get("text") else objects_of(passage.get("sentences"), "sentences"):
            text = part.get("text") or ""
            if not isinstance(text, str):
                raise ValueError("the text of a passage is not a text")
            yield passage_offset(part.get("offset")), text


def objects_of(value: object, name: str) -> list[dict[str, object]]:
    """Return a field that must be a list of objects, none if it is absent; else a `ValueError` says so."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"'{name}' is not a list of objects")
    return value


def passage_offset(value: object) -> int:
    """Return the offset of a passage as a number; a `ValueError` if it is none."""
    try:
        offset = int(str(value).strip())
    except ValueError:
        offset = -1
    if offset < 0:
        raise ValueError(f"the offset of a passage is {value!r}, not a number of characters")
    return offset


def lay_out(passages: Iterable[Passage]) -> tuple[str, list[int]]:
    """Return the text of a document and where in it each passage begins; a blank passage is left out: -1."""
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for offset, text in passages:
        if not text.strip():
            starts.append(-1)
            continue
        gap = max(offset - length, 1 if length else 0)
        if gap > _WIDEST_GAP:
            raise ValueError(f"the offset {offset} of a passage lies {gap:,} characters after the text before it")
        if gap:
            parts.append("\n" + " " * (gap - 1))
        parts.append(text)
        starts.append(length + gap)
        length += gap + len(text)
    return "".join(parts), starts
