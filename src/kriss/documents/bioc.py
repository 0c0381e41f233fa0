"""BioC with its annotations, in XML and in JSON: their offsets are the document's, as are those of the text.

XML is turned into the form that the JSON has, so that one reading of the format serves both.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kriss.documents.bioc_text import LAYOUT, Passage, lay_out, objects_of, passage_offset
from kriss.documents.jsoncut import json_records
from kriss.documents.plain import identify
from kriss.documents.problems import stem
from kriss.documents.spans import check_characters, mark, split_entities, whole_number
from kriss.documents.xmlcut import XmlRecord, XmlRecords, reason
from kriss.errors import InputError, Place
from kriss.records import Document, Span

IDENTIFIER = "identifier"
_VOCABULARIES = (
    "mesh", "omim", "umls", "cui", "ncbi gene", "ncbigene", "gene_id", "geneid", "entrez", "ncbi taxonomy",
    "chebi", "hpo", "hp", "mondo", "doid", "snomed", "snomedct", "concept_id", "conceptid",
)  # fmt: skip
"""The keys under which corpora give the id where they do not call it `identifier`, or `NCBI Gene identifier`."""

_Object = Mapping[str, Any]
_Found = tuple[_Object, range]
"""An annotation, and the pieces of text in one of which it begins."""


def read_marked_bioc_xml(path: Path) -> Iterator[Document]:
    """Yield the documents of a BioC collection in XML, with their annotations."""
    records = XmlRecords(path, LAYOUT, 0, 1)
    for record in records:
        try:
            document = _from_xml(records.parse(record))
        except ET.ParseError as error:
            what = f"the document is not well-formed XML in UTF-8: {reason(error)}"
            raise InputError(f"{what}; mend it", records.place(record, error.position[0])) from None
        name = document["id"].strip() or f"{stem(path)}:{record.ordinal}"
        yield _located(name, document, records, record)


def read_marked_bioc_json(path: Path) -> Iterator[Document]:
    """Yield the documents of BioC in JSON, with their annotations."""
    for record in json_records(path, 0, 1):
        place = Place(path, record.line)
        name = ""
        try:
            document = json.loads(record.json)
            name = identify(document.get("id", document.get("_id")), path, record.ordinal)
            found = _annotated(name, document, place)
        except json.JSONDecodeError as error:
            place = Place(path, record.line + error.lineno - 1)
            raise InputError(f"not valid JSON ({error.msg}); mend it", place) from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"document '{name}': {error}" if name else str(error), place) from None
        yield check_characters(found, place)


def _located(name: str, document: _Object, records: XmlRecords, record: XmlRecord) -> Document:
    """Annotate; the line is looked for only when there is something to complain of, as that reads the file again."""
    somewhere = Place(records.path)
    try:
        return _annotated(name, document, somewhere)
    except InputError as error:
        raise InputError(str(error).removeprefix(f"{somewhere}: "), records.place(record)) from None
    except ValueError as error:
        raise InputError(f"document '{name}': {error}", records.place(record)) from None


def _annotated(name: str, document: _Object, place: Place) -> Document:
    pieces: list[Passage] = []
    found: list[_Found] = []
    for passage in objects_of(document.get("passages"), "passages"):
        sentences = objects_of(passage.get("sentences"), "sentences")
        first = len(pieces)
        whole = bool(passage.get("text"))
        if whole:
            pieces.append(_piece(passage))
        for sentence in sentences:
            if not whole:
                pieces.append(_piece(sentence))
            found += _annotations(sentence, range(len(pieces) - 1, len(pieces)))
        found += _annotations(passage, range(first, len(pieces)))
    found += _annotations(document, range(len(pieces)))
    text, starts = lay_out(pieces)
    bare = Document(name, text, ())
    return Document(name, text, tuple(_spans(bare, pieces, starts, found, place)))


def _annotations(owner: _Object, pieces: range) -> list[_Found]:
    return [(annotation, pieces) for annotation in objects_of(owner.get("annotations"), "annotations")]


def _piece(part: _Object) -> Passage:
    text = part.get("text") or ""
    if not isinstance(text, str):
        raise ValueError("the text of a passage is not a text")
    return passage_offset(part.get("offset")), text


def _spans(
    bare: Document, pieces: list[Passage], starts: list[int], found: Iterable[_Found], place: Place
) -> Iterator[Span]:
    for annotation, where in found:
        locations = objects_of(annotation.get("locations"), "locations")
        if not locations:  # it says something of the passage and marks none of its text, as MeSH indexing does
            continue
        name = _text(annotation.get("id"))
        which = f"document '{bare.id}': annotation '{name}'"
        runs = sorted(_run(location, which, place) for location in locations)
        first, last = runs[0][0], max(end for _, end in runs)
        # A passage may lie elsewhere than its offset says; its annotations go with it.
        shift = next((starts[at] - pieces[at][0] for at in where if _holds(pieces[at], first)), None)
        if shift is None:
            raise InputError(f"{which} begins at {first}, outside of its passage; mend its offset", place)
        infons = annotation.get("infons") or {}
        if not isinstance(infons, dict):
            raise ValueError(f"the infons of annotation '{name}' are not an object")
        span = Span(first + shift, last + shift, _entities(infons), _text(infons.get("type")), name)
        surface = annotation.get("text")
        joined = " ".join(bare.text[start + shift : end + shift] for start, end in runs)
        if isinstance(surface, str) and len(runs) > 1 and "".join(surface.split()) == "".join(joined.split()):
            surface = None  # a discontinuous mention, given by its pieces
        yield mark(bare, span, place, *([surface] if isinstance(surface, str) and surface.strip() else []))


def _run(location: _Object, which: str, place: Place) -> tuple[int, int]:
    start, length = (
        whole_number(location.get(key), f"{which}: the {key} of a location", place) for key in ("offset", "length")
    )
    return start, start + length


def _holds(piece: Passage, offset: int) -> bool:
    return bool(piece[1].strip()) and piece[0] <= offset < piece[0] + len(piece[1])


def _entities(infons: _Object) -> tuple[str, ...]:
    by_key = {key.strip().lower().removesuffix(" identifier"): _text(value) for key, value in infons.items()}
    if IDENTIFIER in by_key:
        return split_entities(by_key[IDENTIFIER])
    return split_entities("|".join(by_key[key] for key in by_key if key in _VOCABULARIES))


def _text(value: object) -> str:
    return str(value).strip() if value is not None else ""


def _from_xml(element: ET.Element) -> dict[str, Any]:
    """Return a document, passage or sentence in the form of BioC's JSON."""
    return {
        "id": element.findtext("id") or "",
        "offset": element.findtext("offset"),
        "text": element.findtext("text"),
        "passages": [_from_xml(part) for part in element.findall("passage")],
        "sentences": [_from_xml(part) for part in element.findall("sentence")],
        "annotations": [
            {
                "id": annotation.get("id"),
                "infons": _infons(annotation),
                "locations": [dict(location.attrib) for location in annotation.findall("location")],
                "text": annotation.findtext("text"),
            }
            for annotation in element.findall("annotation")
        ],
    }


def _infons(annotation: ET.Element) -> dict[str, str]:
    """Return the infons; one that is given twice, as corpora do for a mention of two entities, has both values."""
    found: dict[str, dict[str, None]] = {}
    for infon in annotation.findall("infon"):
        found.setdefault(infon.get("key", ""), {})[_text(infon.text)] = None
    return {key: "|".join(values) for key, values in found.items()}
