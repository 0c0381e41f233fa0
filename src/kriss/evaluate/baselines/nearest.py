"""Linking to the entities that own the nearest name, as SapBERT does: what stands around a mention is not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from kriss.encoder.windows import Sequences
from kriss.evaluate.baselines.encoders import NameEncoder, Vectors
from kriss.evaluate.baselines.queries import MOST, TIE, answer, queries
from kriss.evaluate.predictions import Prediction, Scored
from kriss.ontology import Ontology
from kriss.records import Document

_BLOCK = 1 << 14
"""Names tokenized and encoded at a time."""
_NAMES = 256
"""Names looked up for a mention; an entity may have many of them."""
_QUERIES = 1024

Progress = Callable[[dict[str, Any]], None]


class NameIndex:
    """All names of an ontology by their vectors. Names with the same tokens share one, so that they tie exactly."""

    def __init__(self, ontology: Ontology, encoder: NameEncoder, progress: Progress = lambda event: None) -> None:
        table = ontology.names_table()
        self._ontology = ontology
        self._text, self._owner = table.column("text"), np.asarray(table.column("entity"))
        self._index: Any = None
        number = np.empty(len(table), dtype=np.int64)
        known: dict[bytes, int] = {}
        progress({"event": "encode", "total": len(table), "done": 0})
        for first in range(0, len(table), _BLOCK):
            names = self._text[first : first + _BLOCK].to_pylist()
            sequences = encoder.sequences(names)
            new: list[int] = []
            for place, ids in enumerate(sequences.ids):
                key = np.array(ids, dtype=np.int32).tobytes()
                if key not in known:
                    known[key] = len(known)
                    new.append(place)
                number[first + place] = known[key]
            if new:
                spans = [sequences.spans[place] for place in new]
                self._add(encoder.encode(Sequences([sequences.ids[place] for place in new], spans, sequences.pad)))
            progress({"event": "encoded", "count": len(names)})
        self._order = np.argsort(number, kind="stable")
        self._starts = np.searchsorted(number[self._order], np.arange(len(known) + 1))

    def _add(self, vectors: Vectors) -> None:
        if self._index is None:
            self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)

    def search(self, vectors: Vectors) -> Iterator[list[Scored]]:
        """Yield the entities nearest to each vector, the best first, each with its nearest name."""
        for first in range(0, len(vectors), _QUERIES):
            asked = vectors[first : first + _QUERIES]
            if self._index is None:
                yield from ([] for _ in asked)
                continue
            scores, places = self._index.search(asked, min(_NAMES, self._index.ntotal))
            for row in range(len(asked)):
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
    ontology: Ontology,
    documents: Iterable[Document],
    encoder: NameEncoder,
    *,
    abbreviations: bool = False,
    progress: Progress = lambda event: None,
) -> Iterator[Prediction]:
    """Link each mention to the owners of the name with the highest cosine; several owners are a tie."""
    asked = queries(documents, abbreviations=abbreviations)
    surfaces = list(dict.fromkeys(query.mention.surface for query in asked))
    found = dict(zip(surfaces, NameIndex(ontology, encoder, progress).search(encoder.vectors(surfaces)), strict=True))
    for query in asked:
        yield answer(query, found[query.mention.surface])
