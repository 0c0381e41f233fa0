"""Linking to the entities that own the nearest name, as SapBERT does: what stands around a mention is not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import faiss
import numpy as np
from benchmarks.baselines.encoders import NameEncoder, Vectors
from benchmarks.baselines.queries import MOST, TIE, answer, queries
from numpy.typing import NDArray

from kriss.encoder.windows import Sequences
from kriss.evaluate.predictions import Prediction, Scored
from kriss.ontology import Ontology
from kriss.records import Document

_BLOCK = 1 << 14
"""Names tokenized and encoded at a time."""
_NAMES = 256
"""Names looked up for a mention; an entity may have many of them."""
_QUERIES = 1024


class NameIndex:
    """All names of an ontology by their vectors. Names with the same tokens share one, so that they tie exactly."""

    def __init__(self, ontology: Ontology, encoder: NameEncoder) -> None:
        table = ontology.names_table()
        self._ontology = ontology
        self._text, self._owner = table.column("text"), np.asarray(table.column("entity"))
        number = np.empty(len(table), dtype=np.int64)
        known: dict[tuple[int, ...], int] = {}
        self._index: Any = None
        for first in range(0, len(table), _BLOCK):
            sequences = encoder.sequences(self._text[first : first + _BLOCK].to_pylist())
            new: list[int] = []
            for place, ids in enumerate(map(tuple, sequences.ids)):
                if ids not in known:
                    known[ids] = len(known)
                    new.append(place)
                number[first + place] = known[ids]
            if new:
                spans = [sequences.spans[place] for place in new]
                vectors = encoder.encode(Sequences([sequences.ids[place] for place in new], spans, sequences.pad))
                self._index = self._index or faiss.IndexFlatIP(vectors.shape[1])
                self._index.add(vectors)
        self._order = np.argsort(number, kind="stable")
        self._starts = np.searchsorted(number[self._order], np.arange(len(known) + 1))

    def search(self, vectors: Vectors) -> Iterator[list[Scored]]:
        """Yield the entities nearest to each vector, the best first, each with its nearest name."""
        for first in range(0, len(vectors), _QUERIES):
            scores, places = self._index.search(vectors[first : first + _QUERIES], min(_NAMES, self._index.ntotal))
            for row in range(len(scores)):
                yield self._entities(scores[row], places[row])

    def _entities(self, scores: NDArray[np.float32], places: NDArray[np.int64]) -> list[Scored]:
        found: dict[int, Scored] = {}
        for score, place in zip(scores.tolist(), places.tolist(), strict=True):
            if len(found) >= MOST and score < scores[0] - TIE:
                break
            for name in self._order[self._starts[place] : self._starts[place + 1]].tolist():
                row = int(self._owner[name])
                if row not in found:
                    found[row] = Scored(self._ontology.id_at(row), float(score), self._text[name].as_py())
        return list(found.values())


def link_nearest_name(
    ontology: Ontology, documents: Iterable[Document], encoder: NameEncoder, *, abbreviations: bool = False
) -> Iterator[Prediction]:
    """Link each mention to the owners of the name with the highest cosine; several owners are a tie."""
    asked = queries(documents, abbreviations=abbreviations)
    surfaces = list(dict.fromkeys(query.excerpt.surface for query in asked))
    found = dict(zip(surfaces, NameIndex(ontology, encoder).search(encoder.vectors(surfaces)), strict=True))
    for query in asked:
        yield answer(query, found[query.excerpt.surface])
