"""Stand-off files whose columns are parted by `||`: what ShARe/CLEF and n2c2 have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kriss.documents.plain import numbered_lines, unwrap
from kriss.documents.spans import decode, load_text, split_entities, whole_number
from kriss.errors import InputError, Place

_CUI = re.compile(r"[Cc][0-9]{7}")


def piped_rows(path: Path) -> Iterator[tuple[Place, list[str]]]:
    """Yield the columns of each line; an empty file is how a note without mentions is written."""
    if path.stat().st_size:
        for number, raw in numbered_lines(path):
            place = Place(path, number)
            line = decode(raw, place)
            if line.strip():
                yield place, [column.strip() for column in line.split("||")]


def hull(offsets: Sequence[str], form: str, place: Place) -> tuple[int, int]:
    """Return where a mention begins and ends; what lies between the pieces of a discontinuous one belongs to it."""
    if not offsets or len(offsets) % 2:
        raise InputError(f"the line is not of the form '{form}'; mend it", place)
    numbers = [whole_number(offset, "an offset of the line", place) for offset in offsets]
    pieces = sorted(zip(numbers[::2], numbers[1::2], strict=True))
    for start, end in pieces:
        if start >= end:
            raise InputError(f"the piece from {start} to {end} is empty; its end must be greater than its start", place)
    return pieces[0][0], max(end for _, end in pieces)


def concepts(field: str) -> tuple[str, ...]:
    """Return the concepts of one column.

    >>> concepts("c0027051"), concepts("CUI-less")
    (('C0027051',), ())
    """
    found = split_entities(field.replace("CUI_less", "CUI-less"))
    return tuple(one.upper() if _CUI.fullmatch(one) else one for one in found)


def note_text(path: Path) -> str:
    """Return a note to the character, with blanks for the line ends within its paragraphs."""
    return unwrap(load_text(path)) if path.stat().st_size else ""
