"""Finding entities by a piece of a name, over mapped columns and without an index of its own."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kriss.names import clean
from kriss.ontology.store import Match

if TYPE_CHECKING:
    from kriss.ontology.store import Ontology


def search(ontology: Ontology, text: str, limit: int) -> list[Match]:
    """Find names that hold every word of the text.

    The order: the id itself, the name as it stands, in any case, at its start, at a word, anywhere,
    and last the words apart from each other.
    """
    wanted = clean(text)
    if not wanted or limit < 1 or not _is_unicode(wanted):
        return []
    by_id = ontology.row_of(wanted)
    found: dict[int, str] = {} if by_id is None else {by_id: wanted}
    table = ontology.names_table()
    hits = table
    for word in wanted.split():
        hits = hits.filter(pc.match_substring(hits.column("text"), word, ignore_case=True))
    texts, owners = hits.column("text").to_pylist(), np.asarray(hits.column("entity")).tolist()
    at_word = re.compile(rf"(?<!\w){re.escape(wanted)}", re.IGNORECASE)
    best: dict[int, tuple[int, int, str]] = {}
    for name, owner in zip(texts, owners, strict=True):
        distance = _distance(name, wanted, at_word)
        if owner not in best or distance < best[owner]:
            best[owner] = distance
    for (*_, name), owner in heapq.nsmallest(limit, ((distance, owner) for owner, distance in best.items())):
        found.setdefault(owner, name)
    return [Match(ontology.at(row), name) for row, name in list(found.items())[:limit]]


def _distance(name: str, wanted: str, at_word: re.Pattern[str]) -> tuple[int, int, str]:
    lowered, sought = name.casefold(), wanted.casefold()
    if name == wanted:
        kind = 0
    elif lowered == sought:
        kind = 1
    elif lowered.startswith(sought):
        kind = 2
    elif at_word.search(name):
        kind = 3
    else:
        kind = 4 if sought in lowered else 5
    return kind, len(name), name


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be in any file; an argument of the command line need not be."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
