"""Linking by equal names: the least that any linker must beat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from benchmarks.baselines.queries import Query, answer, queries

from kriss.evaluate.predictions import Prediction, Scored
from kriss.names import folded
from kriss.ontology import Ontology
from kriss.records import Document

_BATCH = 1 << 16


def link_exact(
    ontology: Ontology, documents: Iterable[Document], *, abbreviations: bool = False
) -> Iterator[Prediction]:
    """Link each mention to the entities that have its surface as a name: several are a tie, none is no link."""
    asked = queries(documents, abbreviations=abbreviations)
    owners = _owners(ontology, asked)
    for query in asked:
        yield answer(query, owners[folded(query.excerpt.surface)])


def link_as_is(ontology: Ontology, documents: Iterable[Document]) -> Iterator[Prediction]:
    """Predict each mention's surface itself: the paper's "mention as is".

    The entities are those of `link_exact`, since only they make a name of it; the name that is said to have matched
    is the surface. A lenient scorer takes that for right wherever gold has such a name, a strict one only where
    no other entity has.
    """
    for query, found in zip(queries(documents), link_exact(ontology, documents), strict=True):
        named = (replace(one, name=query.excerpt.surface) for one in found.candidates)
        yield replace(found, candidates=tuple(named))


def _owners(ontology: Ontology, asked: Sequence[Query]) -> dict[str, list[Scored]]:
    """Return the entities of every name that is looked for, in the order of their ids; the others are not kept."""
    found: dict[str, dict[int, str]] = {folded(query.excerpt.surface): {} for query in asked}
    for batch in ontology.names_table().select(["text", "entity"]).to_batches(max_chunksize=_BATCH):
        for text, row in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            rows = found.get(folded(text))
            if rows is not None:
                rows.setdefault(row, text)
    return {
        name: [Scored(ontology.id_at(row), 1.0, text) for row, text in sorted(rows.items())]
        for name, rows in found.items()
    }
