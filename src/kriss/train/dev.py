"""The self-supervised dev set: mentions of held-out documents whose surface gives nothing away.

Mined names are unambiguous, so a dictionary would link every dev mention. Hence a query is either
masked, and the context must tell, or swapped for a name of its entity that training never saw.
Candidates are entities with prototypes, from documents of their own; a query is right if its
entity scores above all others by Eq. 4, so a tie is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import open_artifact
from kriss.config import from_mapping
from kriss.encoder.model import Encoder
from kriss.errors import InputError
from kriss.ontology import Ontology
from kriss.records import Entity, Excerpt
from kriss.train.config import TrainConfig
from kriss.train.examples import MinedMentions, TrainingSet, read_mentions
from kriss.train.log import Score

_PROTOTYPES = 2
"""Prototypes an entity has here: two keep a look at the dev set affordable while training."""
TOP = (1, 5)

Vectors = NDArray[np.float32]


class Scorable(Protocol):
    """Whatever encodes mentions and references: in torch or in ONNX Runtime."""

    def mentions(self, mentions: Sequence[Excerpt], size: int = 64) -> Vectors:
        """Return c for each mention."""

    def references(self, entities: Sequence[Entity], size: int = 64) -> Vectors:
        """Return r for each entity."""


class DevSet:
    """Queries and candidates; the same for every encoder that is scored on it.

    `queries` has by kind mentions to link, each with the place of its entity among the candidates.
    """

    def __init__(self, examples: TrainingSet, folder: Path, config: TrainConfig) -> None:
        """Draw from the mentions in `folder`."""
        ontology, draw = examples.ontology, random.Random(config.seed)  # noqa: S311 - not a secret
        dev = read_mentions(folder, ontology, "dev", 1)
        prototypes = read_mentions(folder, ontology, "prototypes", _PROTOTYPES, examples.held_out)
        asked = [int(row) for row in np.intersect1d(dev.rows, prototypes.rows)]
        draw.shuffle(asked)
        masked = asked[: config.dev_queries]
        swapped = [row for row in asked if examples.names(row).unseen][: config.dev_queries]
        rest = [int(row) for row in np.setdiff1d(prototypes.rows, np.array([*masked, *swapped], dtype=np.int64))]
        room = max(config.dev_entities - len({*masked, *swapped}), 0)
        self.rows = sorted({*masked, *swapped, *draw.sample(rest, min(room, len(rest)))})
        place = {row: number for number, row in enumerate(self.rows)}
        dev_mention = {int(row): dev.get(number, 0) for number, row in enumerate(dev.rows)}
        unseen = {row: draw.choice(examples.names(row).unseen) for row in swapped}
        kinds = {
            "masked": [(replace(dev_mention[row], masked=True), place[row]) for row in masked],
            "swapped": [(replace(dev_mention[row], surface=unseen[row]), place[row]) for row in swapped],
        }
        self.queries = {kind: found for kind, found in kinds.items() if found}
        self.prototypes, self.owners = _prototypes(prototypes, self.rows)
        self._references = examples.references(self.rows)

    def __bool__(self) -> bool:
        return bool(self.queries)

    def score(self, encoder: Scorable, *, references: bool) -> Score:
        """Return the shares of the queries, by kind, that are right at 1 and among the best 5: `masked@1` and so on.

        Without `references` a prototype stands alone, as in Eq. 3.
        """
        stored = encoder.mentions(self.prototypes)
        if references:
            stored = stored + encoder.references(self._references)[self.owners]
        figures: dict[str, float] = {}
        for kind, queries in self.queries.items():
            vectors, gold = encoder.mentions([one for one, _ in queries]), np.array([right for _, right in queries])
            ranks = _ranks(vectors, stored, self.owners, gold)
            figures |= {f"{kind}@{top}": float(np.mean(ranks < top)) for top in TOP}
        return Score(float(np.mean([figures[f"{kind}@1"] for kind in self.queries])), figures)


def score_encoder(
    folder: Path,
    ontology: Ontology,
    mentions: Path,
    *,
    queries: int,
    entities: int,
    references: bool = True,
    untrained: bool = False,
) -> tuple[Score, DevSet]:
    """Score a trained encoder, or the model it started from, on the dev set of its own training.

    Names held out from its training are the unseen ones.
    """
    artifact = open_artifact(folder, "encoder")
    config = from_mapping(TrainConfig, artifact.config, str(folder / "manifest.json"))
    config = replace(config, dev_queries=queries, dev_entities=entities)
    dev = DevSet(TrainingSet(ontology, mentions, config), mentions, config)
    if not dev:
        raise InputError(f"{mentions} has no dev mentions of entities with prototypes: mine more text")
    encoder = Encoder.from_pretrained(config.model, config.encoder()) if untrained else Encoder.load(folder)
    return dev.score(encoder, references=references), dev


def _prototypes(mined: MinedMentions, rows: list[int]) -> tuple[list[Excerpt], NDArray[np.int64]]:
    counts, place = mined.counts(), {int(row): number for number, row in enumerate(mined.rows)}
    numbers = [(number, place[row]) for number, row in enumerate(rows)]
    mentions = [mined.get(at, which) for _, at in numbers for which in range(int(counts[at]))]
    return mentions, np.array([number for number, at in numbers for _ in range(int(counts[at]))], dtype=np.int64)


def _ranks(queries: Vectors, stored: Vectors, owners: NDArray[np.int64], gold: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many other entities the right one does not beat; `owners` is sorted.

    A score that is not a number beats none and is beaten by none: an encoder gone astray links nothing.
    """
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    best = np.maximum.reduceat(queries @ stored.T, starts, axis=1)
    right = best[np.arange(len(gold)), gold]
    return np.asarray((~(right[:, None] > best)).sum(axis=1) - 1, dtype=np.int64)
