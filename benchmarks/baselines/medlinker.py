"""MedLinker (Loureiro and Jorge 2020): a supervised classifier joined with approximate dictionary match.

The classifier is one softmax layer over the entities of a training set. It sees the vector of a mention in its
context, which the encoder gives as it is: the encoder is not trained, as in the original. It cannot know an entity
without examples; for these there is the dictionary, whose names are compared by character 3-grams.

An entity's confidence is the higher of the two, its probability and its similarity, and the highest confidence wins:

    confidence(e) = max( softmax_e(W c_q + b), max_{name of e} cos(name, mention) )

Two things differ. Similarity weighs 3-grams by rarity, where SimString counts them alike. And the original leaves out
what is below 0.5 in either, since its mentions are found and many are none; here mentions are given, and the best that
there is is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from benchmarks.baselines.encoders import Vectors
from benchmarks.baselines.queries import MOST, answer, queries
from torch import Tensor

from kriss.encoder.session import OnnxEncoder
from kriss.errors import InputError
from kriss.evaluate.predictions import Prediction, Scored
from kriss.ontology import Ontology
from kriss.rank.spelling import Spelling, build
from kriss.records import Document

_BLOCK = 1024
_BATCH = 64
Confidences = list[tuple[int, float]]
"""Rows of the ontology, and how sure each is."""


class Softmax:
    """One softmax layer over the entities of a training set. It begins at zero, so the seed draws the batches alone."""

    def __init__(
        self, vectors: Vectors, rows: Sequence[int], epochs: int, *, seed: int = 0, learning_rate: float = 1e-3
    ) -> None:
        self.rows, labels = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        self._mean, spread = vectors.mean(axis=0), vectors.std(axis=0)
        self._scale = 1 / np.maximum(spread, 1e-6)  # encoders differ in the length of their vectors
        x, y = self._prepared(vectors), torch.from_numpy(labels)
        self._layer = torch.nn.Linear(x.shape[1], len(self.rows))
        torch.nn.init.zeros_(self._layer.weight)
        torch.nn.init.zeros_(self._layer.bias)
        optimizer = torch.optim.Adam(self._layer.parameters(), lr=learning_rate)
        for epoch in range(epochs):
            order = np.random.default_rng((seed, epoch)).permutation(len(x))
            for first in range(0, len(x), _BATCH):
                chosen = torch.from_numpy(order[first : first + _BATCH])
                loss = torch.nn.functional.cross_entropy(self._layer(x[chosen]), y[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()

    def _prepared(self, vectors: Vectors) -> Tensor:
        return torch.from_numpy(((vectors - self._mean) * self._scale).astype(np.float32))

    def best(self, vectors: Vectors) -> list[Confidences]:
        """Return the likeliest entities of each vector, as rows of the ontology, with their probabilities."""
        with torch.inference_mode():
            found = self._layer(self._prepared(vectors)).softmax(dim=1).topk(min(MOST, len(self.rows)), dim=1)
        return [
            [(int(self.rows[place]), score) for place, score in zip(places, scores, strict=True)]
            for places, scores in zip(found.indices.tolist(), found.values.tolist(), strict=True)
        ]


def link_medlinker(
    ontology: Ontology,
    documents: Iterable[Document],
    train: Iterable[Document],
    encoder: OnnxEncoder,
    *,
    epochs: int = 30,
    abbreviations: bool = False,
) -> Iterator[Prediction]:
    """Train the classifier on the mentions of `train` and link those of `documents`."""
    classifier = _fitted(ontology, train, encoder, epochs, abbreviations=abbreviations)
    asked = queries(documents, abbreviations=abbreviations)
    with TemporaryDirectory(prefix="kriss-") as folder:
        build(Path(folder), ontology.names_table())
        spelling = Spelling(Path(folder))
        alike = {surface: _alike(spelling, ontology, surface) for surface in {query.excerpt.surface for query in asked}}
    for first in range(0, len(asked), _BLOCK):
        part = asked[first : first + _BLOCK]
        likely = classifier.best(encoder.mentions([query.excerpt for query in part]))
        for query, by_context in zip(part, likely, strict=True):
            yield answer(query, _joined(ontology, [*by_context, *alike[query.excerpt.surface]]))


def _fitted(
    ontology: Ontology, train: Iterable[Document], encoder: OnnxEncoder, epochs: int, *, abbreviations: bool
) -> Softmax:
    """Return the classifier; a mention with several entities is an example of each; unknown ones are left out."""
    examples = [
        (query.excerpt, row)
        for query in queries(train, abbreviations=abbreviations)
        for entity in query.gold.entities
        if (found := ontology.find(entity)) is not None and (row := ontology.row_of(found)) is not None
    ]
    if not examples:
        raise InputError(f"no mention of the training set has an entity of {ontology.artifact.path}: do the ids agree?")
    excerpts, rows = zip(*examples, strict=True)
    parts = [encoder.mentions(excerpts[first : first + _BLOCK]) for first in range(0, len(excerpts), _BLOCK)]
    return Softmax(np.concatenate(parts), rows, epochs)


def _alike(spelling: Spelling, ontology: Ontology, surface: str) -> Confidences:
    """Return the entities with the names most like a surface."""
    rows = np.array(list(ontology.rows()))
    likeness = spelling.likeness(surface).of(rows)
    first = np.argsort(-likeness, kind="stable")[:MOST]
    return [(int(rows[place]), float(likeness[place])) for place in first.tolist() if likeness[place] > 0]


def _joined(ontology: Ontology, found: Confidences) -> list[Scored]:
    """Return the entities of classifier and dictionary, each with the higher of its confidences, the highest first."""
    scores: dict[int, float] = {}
    for row, score in found:
        scores[row] = max(score, scores.get(row, 0.0))
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return [Scored(ontology.id_at(row), score, ontology.name_at(row)) for row, score in ranked]
