"""brat: a text file, and beside it an `.ann` file that marks mentions (T) and the entities they mean (N)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kriss.documents.plain import numbered_lines, unwrap
from kriss.documents.problems import stem
from kriss.documents.spans import decode, known_entities, load_text, mark, whole_number
from kriss.errors import InputError, Place
from kriss.records import Document, Span

_PASSED_OVER = tuple("REAM*#")
"""Relations, events, attributes, modifications, equivalences and notes: they mark no mention."""
_NORMALISATION = re.compile(r"(\S+)\s+(\S+)\s+(.*\S)\s*")


def annotations_beside(text: Path) -> Path | None:
    """Return the annotation file that belongs to a text file, if there is one."""
    return _beside(text, ".ann")


def text_beside(annotations: Path) -> Path | None:
    """Return the text file that belongs to an annotation file, if there is one."""
    return _beside(annotations, ".txt")


def read_brat(path: Path) -> Iterator[Document]:
    """Yield the one document that a text file and its annotations make."""
    annotations = annotations_beside(path)
    if not annotations:
        what = f"there is no {stem(path)}.ann beside it"
        raise InputError(f"{what}; make an empty one if nothing is marked", Place(path))
    text = unwrap(load_text(path))
    bare = Document(stem(path), text if text.strip() else "", ())
    spans: dict[str, tuple[Place, Span, list[str]]] = {}
    entities: list[tuple[Place, str, str]] = []
    for number, line in _lines(annotations):
        place = Place(annotations, number)
        if line.startswith("T"):
            span, surfaces = _mention(line, text, place)
            if span.id in spans:
                raise InputError(f"a second mention with the id {span.id}; give each its own", place)
            spans[span.id] = place, span, surfaces
        elif line.startswith("N"):
            entities.append((place, *_normalisation(line, place)))
        elif not line.startswith(_PASSED_OVER):
            raise InputError(f"the line begins with {line[:1]!r}, which no annotation of brat does; mend it", place)
    meant: dict[str, list[str]] = {name: [] for name in spans}
    for place, name, entity in entities:
        if name in meant:
            meant[name].append(entity)
        elif name.startswith("T"):  # that of an event is passed over with it
            raise InputError(f"the line names an entity for {name}, but there is no such mention; remove it", place)
    yield Document(
        bare.id,
        bare.text,
        tuple(
            mark(bare, Span(span.start, span.end, known_entities(meant[name]), span.type, name), place, *surfaces)
            for name, (place, span, surfaces) in spans.items()
        ),
    )


def _mention(line: str, text: str, place: Place) -> tuple[Span, list[str]]:
    """Read `T1<tab>Disease 0 5;16 23<tab>heart failure`; what lies between the pieces belongs to the span."""
    columns = line.split("\t")
    kind, _, places = columns[1].strip().partition(" ") if len(columns) > 1 else ("", "", "")
    runs = [run.split() for run in places.split(";")]
    if any(len(run) != 2 for run in runs):
        form = "'T1<tab>Type start end<tab>text'"
        raise InputError(f"the line is not of the form {form}; mend it", place)
    numbers = sorted(
        (whole_number(start, "the start of the mention", place), whole_number(end, "the end of the mention", place))
        for start, end in runs
    )
    span = Span(numbers[0][0], max(end for _, end in numbers), (), kind, columns[0].strip())
    surface = "\t".join(columns[2:])
    if len(runs) == 1:
        return span, [surface] if surface.strip() else []
    joined = "".join("".join(text[max(start, 0) : max(end, 0)] for start, end in numbers).split())
    return span, [] if "".join(surface.split()) in ("", joined) else [surface]


def _normalisation(line: str, place: Place) -> tuple[str, str]:
    """Read `N1<tab>Reference T1 MeSH:D003110<tab>name` as the mention and the entity."""
    columns = line.split("\t")
    found = _NORMALISATION.fullmatch(columns[1].strip()) if len(columns) > 1 else None
    if not found:
        form = "'N1<tab>Reference T1 MeSH:D003110<tab>name'"
        raise InputError(f"the line is not of the form {form}; mend it", place)
    return found[2], found[3]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if path.stat().st_size:  # an empty file is how brat says that nothing is marked
        for number, raw in numbered_lines(path):
            line = decode(raw, Place(path, number))
            if line.strip():
                yield number, line


def _beside(path: Path, suffix: str) -> Path | None:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    other = path.with_name(Path(name).with_suffix(suffix).name)
    gzipped = other.with_name(f"{other.name}.gz")
    return next((file for file in (other, gzipped) if file.is_file() and file != path), None)
