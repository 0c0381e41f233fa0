"""brat: a text file, and beside it an `.ann` file that marks mentions (T) and the entities they mean (N)."""

from __future__ import annotations

import re
from pathlib import Path

from kriss.documents.format import Format, Head, Record, stem
from kriss.documents.problems import at
from kriss.documents.spans import known_entities, mark, whole_number
from kriss.documents.text import decode, unwrap, whole_file
from kriss.errors import InputError, Place
from kriss.files import numbered_lines
from kriss.records import Document, Span

_PASSED_OVER = tuple("REAM*#")
"""Relations, events, attributes, modifications, equivalences and notes: they mark no mention."""
_MENTION = re.compile(r"(T\S*)\t *(\S*) +(-?\w+ +-?\w+(?:;-?\w+ +-?\w+)*) *(?:\t(.*))?")
_NORMALISATION = re.compile(r"N\S*\s+\S+\s+(\S+)\s+([^\t]*[^\t\s])\s*(?:\t.*)?")


def text_beside(annotations: Path) -> Path | None:
    """Return the text file that belongs to an annotation file, if there is one."""
    return _beside(annotations, ".txt")


def _beside(path: Path, suffix: str) -> Path | None:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    other = path.with_name(Path(name).with_suffix(suffix).name)
    gzipped = other.with_name(f"{other.name}.gz")
    return next((file for file in (other, gzipped) if file.is_file() and file != path), None)


def _parse(record: Record, marked: bool) -> Document:
    annotations = _beside(record.path, ".ann")
    if marked and not annotations:
        what = f"there is no {stem(record.path)}.ann beside it"
        raise InputError(f"{what}; make an empty one if nothing is marked", Place(record.path))
    bare = Document(record.id, unwrap(decode(record.content)))
    return Document(bare.id, bare.text, _spans(annotations, bare)) if marked and annotations else bare


def _spans(path: Path, document: Document) -> tuple[Span, ...]:
    found: dict[str, Span] = {}
    entities: dict[str, list[str]] = {}
    named: list[tuple[Place, str]] = []
    # An empty file is how brat says that nothing is marked.
    for number, raw in numbered_lines(path) if path.stat().st_size else ():
        place = Place(path, number)
        with at(place, document.id):
            line = decode(raw)
            if line.startswith("T"):
                span = _mention(line, document)
                if span.id in found:
                    raise ValueError(f"a second mention with the id {span.id}; give each its own")
                found[span.id] = span
            elif line.startswith("N"):
                if not (means := _NORMALISATION.fullmatch(line)):
                    raise ValueError("the line is not of the form 'N1<tab>Reference T1 MeSH:D003110<tab>name'; mend it")
                entities.setdefault(means[1], []).append(means[2])
                named.append((place, means[1]))
            elif line.strip() and not line.startswith(_PASSED_OVER):
                raise ValueError(f"the line begins with {line[:1]!r}, which no annotation of brat does; mend it")
    for place, name in named:
        if name not in found and name.startswith("T"):  # that of an event is passed over with it
            raise InputError(f"the line names an entity for {name}, but there is no such mention; remove it", place)
    return tuple(
        Span(span.start, span.end, known_entities(entities.get(name, ())), span.type, name)
        for name, span in found.items()
    )


def _mention(line: str, document: Document) -> Span:
    """Read `T1<tab>Disease 0 5;16 23<tab>heart failure`; what lies between the pieces belongs to the span."""
    found = _MENTION.fullmatch(line)
    if not found:
        raise ValueError("the line is not of the form 'T1<tab>Type start end<tab>text'; mend it")
    runs = sorted(
        (whole_number(start, "the start of the mention"), whole_number(end, "the end of the mention"))
        for start, end in (run.split() for run in found[3].split(";"))
    )
    span = Span(runs[0][0], max(end for _, end in runs), (), found[2], found[1])
    surface = found[4] or ""
    joined = "".join(document.text[max(start, 0) : max(end, 0)] for start, end in runs)
    by_pieces = len(runs) > 1 and "".join(surface.split()) == "".join(joined.split())
    return mark(document, span, *([surface] if surface.strip() and not by_pieces else []))


def _tells(head: Head) -> bool:
    return head.suffix == ".txt" and _beside(head.path, ".ann") is not None


BRAT = Format("brat", _tells, whole_file, _parse)
