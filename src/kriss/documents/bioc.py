"""BioC in XML and in JSON: texts and annotations at the offsets in the document that the format gives them.

XML is turned into the form that the JSON has, so that one reading of the format serves both. Gaps between
passages are filled, the first character of one with a line end and the rest with blanks, so that the offsets
of the file's own annotations hold in the text. A passage whose offset lies within the text before it (some
writers count bytes, or start each at 0) follows on a new line, and its annotations go with it.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO
from xml.sax.saxutils import escape, quoteattr

from kriss.documents.format import Format, Linked, Record
from kriss.documents.jsoncut import json_records
from kriss.documents.jsonl import dump, finite
from kriss.documents.spans import NO_ENTITY, mark, split_entities, whole_number
from kriss.documents.xmlcut import Layout, XmlRecord
from kriss.records import Document, Link, Span

_LAYOUT = Layout(roots=(b"collection",), records=(b"document",), ignored=(b"source", b"date", b"key", b"infon"))
_TOLD = re.compile(rb'[{[].*"(?:documents|PubTator3|passages)"\s*:\s*\[', re.DOTALL)
_WIDEST_GAP = 1 << 20
_IDENTIFIER = "identifier"
_VOCABULARIES = (
    "mesh", "omim", "umls", "cui", "ncbi gene", "ncbigene", "gene_id", "geneid", "entrez", "ncbi taxonomy",
    "chebi", "hpo", "hp", "mondo", "doid", "snomed", "snomedct", "concept_id", "conceptid",
)  # fmt: skip
"""The keys under which corpora give the id where they do not call it `identifier`, or `NCBI Gene identifier`."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCES = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}

_Object = Mapping[str, Any]
_Piece = tuple[int, str]
"""A passage or a sentence: its offset and its text."""


# --- Reading ----------------------------------------------------------------------------------


def _parse_json(record: Record, marked: bool) -> Document:
    return _document(record, json.loads(record.content), marked)


def _parse_xml(record: XmlRecord, marked: bool) -> Document:
    return _document(record, _from_xml(record.element(), marked), marked)


def _from_xml(element: ET.Element, marked: bool) -> dict[str, Any]:
    """Return a document, passage or sentence in the form of BioC's JSON."""
    return {
        "id": (element.findtext("id") or "").strip(),
        "offset": element.findtext("offset"),
        "text": element.findtext("text"),
        "passages": [_from_xml(part, marked) for part in element.findall("passage")],
        "sentences": [_from_xml(part, marked) for part in element.findall("sentence")],
        "annotations": [
            {
                "id": annotation.get("id"),
                "infons": _infons(annotation),
                "locations": [dict(location.attrib) for location in annotation.findall("location")],
                "text": annotation.findtext("text"),
            }
            for annotation in (element.findall("annotation") if marked else ())
        ],
    }


def _infons(annotation: ET.Element) -> dict[str, str]:
    """Return the infons; one that is given twice, as corpora do for a mention of two entities, has both values."""
    found: dict[str, dict[str, None]] = {}
    for infon in annotation.findall("infon"):
        found.setdefault(infon.get("key", ""), {})[_text(infon.text)] = None
    return {key: "|".join(values) for key, values in found.items()}


def _document(record: Record, fields: _Object, marked: bool) -> Document:
    name = record.identify(fields.get("id", fields.get("_id")))
    pieces: list[_Piece] = []
    found: list[tuple[_Object, range]] = []  # an annotation, and the pieces in one of which it begins
    for passage in _objects(fields.get("passages"), "passages"):
        sentences = _objects(passage.get("sentences"), "sentences")
        first = len(pieces)
        whole = bool(passage.get("text"))
        if whole:
            pieces.append(_piece(passage))
        for sentence in sentences:
            if not whole:
                pieces.append(_piece(sentence))
            if marked:
                found += _annotations(sentence, range(len(pieces) - 1, len(pieces)))
        if marked:
            found += _annotations(passage, range(first, len(pieces)))
    if marked:
        found += _annotations(fields, range(len(pieces)))
    text, starts = _lay_out(pieces)
    bare = Document(name, text, ordinal=record.ordinal)
    # One without a place says something of the passage and marks none of its text, as MeSH indexing does.
    spans = (_span(bare, one, pieces, starts, where) for one, where in found if one.get("locations"))
    return Document(name, text, tuple(spans), 0, record.ordinal) if found else bare


def _annotations(owner: _Object, pieces: range) -> list[tuple[_Object, range]]:
    return [(annotation, pieces) for annotation in _objects(owner.get("annotations"), "annotations")]


def _objects(value: object, name: str) -> list[dict[str, Any]]:
    """Return a field that must be a list of objects, none if it is absent."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"'{name}' is not a list of objects")
    return value


def _piece(part: _Object) -> _Piece:
    text, offset = part.get("text") or "", str(part.get("offset")).strip()
    if not isinstance(text, str):
        raise ValueError("the text of a passage is not a text")
    if not re.fullmatch("[0-9]{1,18}", offset):
        raise ValueError(f"the offset of a passage is {part.get('offset')!r}, not a number of characters")
    return int(offset), text


def _lay_out(pieces: Iterable[_Piece]) -> tuple[str, list[int]]:
    """Return the text of a document and where in it each piece begins; a blank one is left out: -1."""
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for offset, text in pieces:
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


def _span(document: Document, annotation: _Object, pieces: list[_Piece], starts: list[int], where: range) -> Span:
    name = _text(annotation.get("id"))
    runs = sorted(_run(one, f"annotation '{name}'") for one in _objects(annotation["locations"], "locations"))
    first, last = runs[0][0], max(end for _, end in runs)
    # A passage may lie elsewhere than its offset says; its annotations go with it.
    shift = next((starts[at] - pieces[at][0] for at in where if _holds(pieces[at], first)), None)
    if shift is None:
        raise ValueError(f"annotation '{name}' begins at {first}, outside of its passage; mend its offset")
    infons = annotation.get("infons") or {}
    if not isinstance(infons, dict):
        raise ValueError(f"the infons of annotation '{name}' are not an object")
    span = Span(first + shift, last + shift, _entities(infons), _text(infons.get("type")), name)
    surface = annotation.get("text")
    joined = " ".join(document.text[start + shift : end + shift] for start, end in runs)
    if isinstance(surface, str) and len(runs) > 1 and "".join(surface.split()) == "".join(joined.split()):
        surface = None  # a discontinuous mention, given by its pieces
    return mark(document, span, *([surface] if isinstance(surface, str) and surface.strip() else []))


def _run(location: _Object, which: str) -> tuple[int, int]:
    start, length = (
        whole_number(location.get(key), f"{which}: the {key} of a location") for key in ("offset", "length")
    )
    return start, start + length


def _holds(piece: _Piece, offset: int) -> bool:
    return bool(piece[1].strip()) and piece[0] <= offset < piece[0] + len(piece[1])


def _entities(infons: _Object) -> tuple[str, ...]:
    by_key = {key.strip().lower().removesuffix(" identifier"): _text(value) for key, value in infons.items()}
    if _IDENTIFIER in by_key:
        return split_entities(by_key[_IDENTIFIER])
    return split_entities("|".join(by_key[key] for key in by_key if key in _VOCABULARIES))


def _text(value: object) -> str:
    return str(value).strip() if value is not None else ""


# --- Writing: each text as one passage, since a mention may cross any line end that passages could be cut at ----


def _write_xml(links: Iterable[Linked], out: TextIO) -> None:
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n')
    out.write("<collection>\n<source>kriss</source>\n<date></date>\n<key>kriss.key</key>\n")
    for document, found in links:
        text = _xml(document.text)
        out.write(f"<document>\n<id>{_xml(document.id)}</id>\n<passage>\n<offset>0</offset>\n<text>{text}</text>\n")
        for span, link in zip(document.spans, found, strict=True):
            own = _NOT_XML.sub("\ufffd", span.id)
            name = f" id={quoteattr(own, _REFERENCES)}" if own else ""
            infons = (f"<infon key={quoteattr(key)}>{_xml(value)}</infon>" for key, value in _told(span, link))
            place = f'<location offset="{span.start}" length="{span.end - span.start}"/>'
            surface = _xml(document.text[span.start : span.end])
            out.write(f"<annotation{name}>{''.join(infons)}{place}<text>{surface}</text></annotation>\n")
        out.write("</passage>\n</document>\n")
    out.write("</collection>\n")


def _xml(text: str) -> str:
    """Return text for XML; a carriage return, which a parser would make a line end, by its number."""
    return escape(_NOT_XML.sub("\ufffd", text), {"\r": "&#13;"})


def _write_json(links: Iterable[Linked], out: TextIO) -> None:
    out.write('{"source": "kriss", "date": "", "key": "kriss.key", "infons": {}, "documents": [')
    separator = "\n"
    for document, found in links:
        annotations = [
            {
                "id": span.id,
                "infons": dict(_told(span, link)),
                "locations": [{"offset": span.start, "length": span.end - span.start}],
                "text": document.text[span.start : span.end],
            }
            for span, link in zip(document.spans, found, strict=True)
        ]
        passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": annotations}
        out.write(separator)
        dump({"id": document.id, "infons": {}, "passages": [passage], "relations": []}, out)
        separator = ",\n"
    out.write("\n]}\n")


def _told(span: Span, link: Link) -> Iterator[tuple[str, str]]:
    if span.type:
        yield "type", span.type
    yield _IDENTIFIER, NO_ENTITY if link.entity is None else link.entity
    if link.entity is not None:
        yield "name", link.name
    for key, value in (("score", link.score), ("probability", link.probability)):
        if finite(value) is not None:
            yield key, f"{value:.4f}"


BIOC_XML = Format("bioc-xml", lambda head: head.root in _LAYOUT.roots, _LAYOUT.cut, _parse_xml, _write_xml)
BIOC_JSON = Format(
    "bioc-json", lambda head: _TOLD.match(head.start) is not None, json_records, _parse_json, _write_json
)
