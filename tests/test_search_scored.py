"""Entities that likeness in spelling brings in: scored together, each by its own best prototype or example."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kriss.link.linker import Linker
from kriss.rank.query import query_vectors
from kriss.records import Excerpt


def test_together_they_score_as_by_brute_force(taught: Path) -> None:
    linker = Linker.load(taught, threads=1)
    rows = [5, 0, 3, 1]
    for number, row in enumerate([3, 0, 3, 5]):  # not in the order of the ontology
        linker.add(Excerpt("an odd ", f"word {number}", " here"), linker.ontology.id_at(row))
    gone = linker.add(Excerpt.bare("gone"), linker.ontology.id_at(1))
    linker.remove(gone)
    [query] = query_vectors(linker.encoder, [Excerpt("the ", "word 2", " hurts")], 0.5)
    learned = linker.learned.now()
    found = linker.search._scored(query, rows, learned)
    assert sorted(int(hit.entity) for hit in found) == sorted(rows)
    stored = linker._index.vectors(np.arange(len(linker._index))).astype(np.float64) @ query
    places = np.flatnonzero(learned.standing)
    taught_scores = dict(zip(places.tolist(), learned.vectors_at(places).astype(np.float64) @ query, strict=True))
    for hit in found:
        own = {int(row): stored[row] for row in np.flatnonzero(linker.prototypes.entity == hit.entity)}
        for place, score in taught_scores.items():
            if learned.owner[place] == hit.entity:
                own[len(linker._index) + place] = score + linker.config.gold * abs(score)
        assert hit.row == max(own, key=lambda row: own[row])
        assert np.isclose(hit.score, max(own.values()), atol=1e-5)
    assert any(hit.row >= len(linker._index) for hit in found)  # an example decides
    assert linker.search._scored(query, [], learned) == []
