"""MeSH from the XML that NLM ships: descriptors (`desc2024.xml`) and supplementary records (`supp2024.xml`).

The files are streamed record by record, so the 700 MB of supplementary records need no memory.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from kriss.errors import InputError, Place
from kriss.files import BadRows, find_line, open_bytes, reading
from kriss.ontology.staging import Staging
from kriss.records import Entity

_RECORDS = {"DescriptorRecord": "Descriptor", "SupplementalRecord": "SupplementalRecord"}
_OPENING = re.compile(rb"<(?:Descriptor|Supplemental)Record[ >]")


def load_mesh(sources: tuple[Path, ...], staging: Staging, bad: BadRows) -> None:
    """Stage every descriptor and supplementary record of the files given."""
    staging.locate = locate
    for path in sources:
        count = 0
        for count, record in enumerate(_records(path), start=1):
            prefix = _RECORDS[record.tag]
            entity = _entity(record, prefix)
            if entity.id and entity.name:
                staging.add(entity, Place(path))
            else:
                lacking = f"{prefix}{'Name' if entity.id else 'UI'}"
                place = Place(path, locate(path, entity.id) if entity.id else None)
                bad.report(f"{record.tag} number {count} has no {lacking}", place)
        if not count:
            raise InputError("there is no DescriptorRecord or SupplementalRecord in it; is it MeSH XML?", Place(path))


def locate(path: Path, entity_id: str, nth: int = 1) -> int | None:
    """Return the line on which a record's id stands, as its own and not as a reference to it."""
    inside = False

    def is_own_id(line: bytes) -> bool:
        nonlocal inside
        inside = inside or bool(_OPENING.search(line))
        if not inside or b"UI>" not in line:
            return False
        inside = False  # the first id after the opening tag is the record's own
        return f"RecordUI>{entity_id}</".encode() in line or f"DescriptorUI>{entity_id}</".encode() in line

    return find_line(path, is_own_id, nth)


def _records(path: Path) -> Iterator[ET.Element]:
    with open_bytes(path) as stream:
        events = ET.iterparse(stream, events=("start", "end"))  # noqa: S314 - expat limits expansion
        try:
            with reading(path):
                _, root = next(events)
                for event, element in events:
                    if event == "end" and element.tag in _RECORDS:
                        yield element
                        root.clear()
        except ET.ParseError as error:
            raise InputError(f"not well-formed XML: {error.msg}", Place(path, error.position[0])) from None
        except (ValueError, LookupError) as error:  # an encoding that the parser does not know
            raise InputError(f"the XML cannot be read: {error}", Place(path, 1)) from None


def _entity(record: ET.Element, prefix: str) -> Entity:
    concepts = record.findall("ConceptList/Concept")
    concepts.sort(key=lambda concept: concept.get("PreferredConceptYN") != "Y")
    notes = [*(concept.findtext("ScopeNote") for concept in concepts[:1]), record.findtext("Note")]
    mapped = record.findall("HeadingMappedToList/HeadingMappedTo/DescriptorReferredTo/DescriptorUI")
    return Entity(
        id=_text(record.findtext(f"{prefix}UI")),
        name=_text(record.findtext(f"{prefix}Name/String")),
        aliases=tuple(_text(term.text) for concept in concepts for term in concept.findall("TermList/Term/String")),
        tree_numbers=tuple(_text(number.text) for number in record.findall("TreeNumberList/TreeNumber")),
        definition=next(filter(None, map(_text, notes)), ""),
        parents=tuple(_text(ui.text).lstrip("*") for ui in mapped),
    )


def _text(value: str | None) -> str:
    return (value or "").strip()
