"""Linking as BLINK's bi-encoder does: a mention in its context against what is said of each entity.

    score(q, e) = c_q . r_e

There are no prototypes and no names, which is what sets it apart from kriss. The mention encoder and the entity encoder
are the two towers of a kriss encoder that was trained on L' alone (docs/baselines.md has the command). Its
cross-encoder is a re-ranker that is shown what is said of an entity and nothing else; its order is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from kriss.encoder.cross import OnnxCrossEncoder
from kriss.encoder.pairs import Option
from kriss.encoder.session import OnnxEncoder
from kriss.errors import ConfigError, DamagedError
from kriss.evaluate.baselines.nearest import Progress
from kriss.evaluate.baselines.queries import MOST, answer, queries
from kriss.evaluate.predictions import Prediction, Scored
from kriss.ontology import Ontology
from kriss.records import Document, Excerpt

if TYPE_CHECKING:
    from kriss.encoder.model import Encoder

_BLOCK = 2048
Owners = list[tuple[int, float]]
"""Rows of the ontology and their scores, the best first."""


def link_description(
    ontology: Ontology,
    documents: Iterable[Document],
    encoder: OnnxEncoder | Encoder,
    *,
    cross: OnnxCrossEncoder | None = None,
    top: int = 16,
    abbreviations: bool = False,
    progress: Progress = lambda event: None,
) -> Iterator[Prediction]:
    """Link each mention to the entity whose reference has the highest score; the name given is the preferred one.

    With a cross-encoder, the first `top` of them are put in its order.
    """
    if cross and cross.pairs.config.shown != "reference":
        raise ConfigError("BLINK's cross-encoder is shown descriptions alone: train it with --set shown=reference")
    asked = queries(documents, abbreviations=abbreviations)
    rows = list(ontology.rows())
    index: Any = None
    progress({"event": "encode", "total": len(rows), "done": 0})
    for first in range(0, len(rows), _BLOCK):
        block = rows[first : first + _BLOCK]
        vectors = encoder.references([ontology.at(row) for row in block])
        if not np.isfinite(vectors).all():
            raise DamagedError("the encoder gives vectors that are not numbers; train or export it again")
        if index is None:
            index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        progress({"event": "encoded", "count": len(block)})
    for first in range(0, len(asked), _BLOCK):
        part = asked[first : first + _BLOCK]
        vectors = encoder.mentions([query.mention for query in part])
        scores, places = index.search(vectors, min(MOST, len(rows)))
        listed = [
            [(rows[place], score) for place, score in zip(found, near, strict=True)]
            for near, found in zip(scores.tolist(), places.tolist(), strict=True)
        ]
        if cross:
            listed = _reordered(ontology, [query.mention for query in part], listed, cross, top)
        for query, owners in zip(part, listed, strict=True):
            yield answer(query, [Scored(ontology.id_at(row), score, ontology.name_at(row)) for row, score in owners])


def _reordered(
    ontology: Ontology, mentions: Sequence[Excerpt], listed: Sequence[Owners], cross: OnnxCrossEncoder, top: int
) -> list[Owners]:
    """Return the first entities by the cross-encoder's scores, and behind them the others as they were."""
    options = [
        [Option(ontology.at(row), Excerpt.bare(ontology.name_at(row))) for row, _ in owners[:top]] for owners in listed
    ]
    scores = iter(cross.scores(cross.pairs(mentions, options)).tolist())
    found = []
    for owners in listed:
        first = sorted(((row, next(scores)) for row, _ in owners[:top]), key=lambda one: -one[1])
        found.append(first + [(row, first[-1][1] - rank) for rank, (row, _) in enumerate(owners[top:], 1)])
    return found
