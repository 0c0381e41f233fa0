"""Linking as BLINK's bi-encoder does: a mention in its context against what is said of each entity.

    score(q, e) = c_q . r_e

There are no prototypes and no names, which is what sets it apart from kriss. The mention encoder and the entity encoder
are the two towers of a kriss encoder that was trained on L' alone (recipes/results.toml has the command). Its
cross-encoder is a re-ranker that is shown what is said of an entity and nothing else; its order is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
from benchmarks.baselines.encoders import finite
from benchmarks.baselines.queries import MOST, answer, queries

from kriss.artifacts import open_artifact
from kriss.encoder.pairs import Option
from kriss.encoder.session import OnnxCrossEncoder, OnnxEncoder
from kriss.errors import ConfigError
from kriss.evaluate.predictions import Prediction, Scored
from kriss.ontology import Ontology
from kriss.records import Document, Excerpt

_BLOCK = 2048
_READ = 16
"""Entities that the cross-encoder puts in order."""
Found = list[tuple[int, float]]
"""Rows of the ontology and their scores, the best first."""


def link_description(
    ontology: Ontology,
    documents: Iterable[Document],
    encoder: OnnxEncoder,
    *,
    cross: OnnxCrossEncoder | None = None,
    abbreviations: bool = False,
) -> Iterator[Prediction]:
    """Link each mention to the entity whose reference has the highest score; the name given is the preferred one."""
    if cross and cross.pairs.config.shown != "reference":
        raise ConfigError("BLINK's cross-encoder is shown descriptions alone: train it with shown=reference")
    rows = list(ontology.rows())
    index: Any = None
    for first in range(0, len(rows), _BLOCK):
        vectors = finite(encoder.references([ontology.at(row) for row in rows[first : first + _BLOCK]]))
        index = index or faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
    asked = queries(documents, abbreviations=abbreviations)
    for first in range(0, len(asked), _BLOCK):
        part = asked[first : first + _BLOCK]
        excerpts = [query.excerpt for query in part]
        scores, places = index.search(encoder.mentions(excerpts), min(MOST, len(rows)))
        found = [
            [(rows[place], score) for place, score in zip(near, likely, strict=True)]
            for near, likely in zip(places.tolist(), scores.tolist(), strict=True)
        ]
        if cross:
            found = _reordered(ontology, excerpts, found, cross)
        for query, listed in zip(part, found, strict=True):
            yield answer(query, [Scored(ontology.id_at(row), score, ontology.name_at(row)) for row, score in listed])


def _reordered(
    ontology: Ontology, excerpts: Sequence[Excerpt], found: Sequence[Found], cross: OnnxCrossEncoder
) -> list[Found]:
    """Return the first entities by the cross-encoder's scores, and behind them the others as they were."""
    options = [
        [Option(ontology.at(row), Excerpt.bare(ontology.name_at(row))) for row, _ in listed[:_READ]] for listed in found
    ]
    scores = iter(cross.scores(excerpts, options).tolist())
    ordered = []
    for listed in found:
        first = sorted(((row, next(scores)) for row, _ in listed[:_READ]), key=lambda one: -one[1])
        ordered.append(first + [(row, first[-1][1] - rank) for rank, (row, _) in enumerate(listed[_READ:], 1)])
    return ordered


def open_cross(folder: Path) -> OnnxCrossEncoder:
    """Open a re-ranker that `kriss rerank train` wrote."""
    return OnnxCrossEncoder(folder, open_artifact(folder, "reranker").facts["onnx"]["precision"])
