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
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from kriss.encoder.session import OnnxEncoder
from kriss.errors import InputError
from kriss.evaluate.baselines.encoders import Vectors
from kriss.evaluate.baselines.queries import MOST, answer, queries
from kriss.evaluate.baselines.settings import MedlinkerConfig, check
from kriss.evaluate.predictions import Prediction, Scored
from kriss.ontology import Ontology
from kriss.rank.ngrams import NgramIndex, build
from kriss.records import Document

if TYPE_CHECKING:
    from kriss.encoder.model import Encoder

_BLOCK = 1024


class Softmax:
    """One softmax layer over the entities of a training set. It begins at zero, so the seed draws the batches alone."""

    def __init__(self, vectors: Vectors, rows: Sequence[int], config: MedlinkerConfig) -> None:
        check(config)
        self.rows, labels = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        self._mean, spread = vectors.mean(axis=0), vectors.std(axis=0)
        self._scale = 1 / np.maximum(spread, 1e-6)  # encoders differ in the length of their vectors
        x, y = self._prepared(vectors), torch.from_numpy(labels)
        self._layer = torch.nn.Linear(x.shape[1], len(self.rows))
        torch.nn.init.zeros_(self._layer.weight)
        torch.nn.init.zeros_(self._layer.bias)
        optimizer = torch.optim.Adam(self._layer.parameters(), lr=config.learning_rate)
        for epoch in range(config.epochs):
            order = np.random.default_rng((config.seed, epoch)).permutation(len(x))
            for first in range(0, len(x), config.batch):
                chosen = torch.from_numpy(order[first : first + config.batch])
                loss = torch.nn.functional.cross_entropy(self._layer(x[chosen]), y[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()

    def _prepared(self, vectors: Vectors) -> Tensor:
        return torch.from_numpy(((vectors - self._mean) * self._scale).astype(np.float32))

    def best(self, vectors: Vectors, most: int = MOST) -> list[list[tuple[int, float]]]:
        """Return the likeliest entities of each vector, as rows of the ontology, with their probabilities."""
        with torch.inference_mode():
            found = self._layer(self._prepared(vectors)).softmax(dim=1).topk(min(most, len(self.rows)), dim=1)
        return [
            [(int(self.rows[place]), score) for place, score in zip(places, scores, strict=True)]
            for places, scores in zip(found.indices.tolist(), found.values.tolist(), strict=True)
        ]


def link_medlinker(
    ontology: Ontology,
    documents: Iterable[Document],
    train: Iterable[Document],
    encoder: OnnxEncoder | Encoder,
    config: MedlinkerConfig | None = None,
    *,
    abbreviations: bool = False,
) -> Iterator[Prediction]:
    """Train the classifier on the mentions of `train` and link those of `documents`."""
    classifier = _fitted(ontology, train, encoder, config or MedlinkerConfig(), abbreviations=abbreviations)
    asked = queries(documents, abbreviations=abbreviations)
    with TemporaryDirectory(prefix="kriss-") as folder:
        build(Path(folder), ontology.names_table())
        names = NgramIndex.open(folder)
        alike: dict[str, list[tuple[int, float]]] = {}
        for first in range(0, len(asked), _BLOCK):
            part = asked[first : first + _BLOCK]
            likely = classifier.best(encoder.mentions([query.mention for query in part]))
            for query, by_context in zip(part, likely, strict=True):
                surface = query.mention.surface
                if surface not in alike:
                    rows, similarity = names.search(surface, MOST)
                    alike[surface] = list(zip(rows.tolist(), similarity.tolist(), strict=True))
                yield answer(query, _joined(ontology, by_context, alike[surface]))


def _fitted(
    ontology: Ontology,
    train: Iterable[Document],
    encoder: OnnxEncoder | Encoder,
    config: MedlinkerConfig,
    *,
    abbreviations: bool,
) -> Softmax:
    """Return the classifier; a mention with several entities is an example of each; unknown ones are left out."""
    examples = [
        (query.mention, row)
        for query in queries(train, abbreviations=abbreviations)
        for entity in query.gold.entities
        if (found := ontology.find(entity)) is not None and (row := ontology.row_of(found)) is not None
    ]
    if not examples:
        raise InputError(f"no mention of the training set has an entity of {ontology.artifact.path}: do the ids agree?")
    mentions = [mention for mention, _ in examples]
    parts = [encoder.mentions(mentions[first : first + _BLOCK]) for first in range(0, len(mentions), _BLOCK)]
    return Softmax(np.concatenate(parts), [row for _, row in examples], config)


def _joined(
    ontology: Ontology, by_context: Sequence[tuple[int, float]], by_name: Sequence[tuple[int, float]]
) -> list[Scored]:
    """Return the entities of both, each with the higher of its confidences, the highest first."""
    scores: dict[int, float] = {}
    for row, score in (*by_context, *by_name):
        scores[row] = max(score, scores.get(row, 0.0))
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return [Scored(ontology.id_at(row), score, ontology.name_at(row)) for row, score in ranked]
