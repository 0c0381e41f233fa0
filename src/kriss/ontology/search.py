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
    if not wanted or limit < 1 or (not wanted.isascii() and any("\ud800" <= char <= "\udfff" for char in wanted)):
        return []  # half of a surrogate pair is in no file, but may be in an argument of the command line
    by_id = ontology.row_of(wanted)
    found: dict[int, str] = {} if by_id is None else {by_id: wanted}
    hits = ontology.names_table()
    for word in wanted.split():
        hits = hits.filter(pc.match_substring(hits.column("text"), word, ignore_case=True))
    sought, at_word = wanted.casefold(), re.compile(rf"(?<!\w){re.escape(wanted)}", re.IGNORECASE)
    best: dict[int, tuple[bool | int | str, ...]] = {}
    for name, owner in zip(hits.column("text").to_pylist(), np.asarray(hits.column("entity")).tolist(), strict=True):
        lowered = name.casefold()
        looser = name != wanted, lowered != sought, not lowered.startswith(sought), not at_word.search(name)
        distance = (*looser, sought not in lowered, len(name), name)
        best[owner] = min(best.get(owner, distance), distance)
    for (*_, name), owner in heapq.nsmallest(limit, ((distance, owner) for owner, distance in best.items())):
        found.setdefault(owner, str(name))
    return [Match(ontology.at(row), name) for row, name in list(found.items())[:limit]]
