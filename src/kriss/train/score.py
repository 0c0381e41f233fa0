"""Scoring a trained encoder, or what it started from, on the dev set of its own training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kriss.artifacts import open_artifact
from kriss.config import from_mapping
from kriss.encoder.model import Encoder
from kriss.errors import InputError
from kriss.ontology import Ontology
from kriss.train.config import TrainConfig
from kriss.train.dev import DevSet
from kriss.train.examples import TrainingSet


@dataclass(frozen=True, slots=True)
class DevReport:
    """Scores by kind, each with the number of its queries, and what they were chosen from."""

    kinds: Mapping[str, tuple[int, Mapping[int, float]]]
    entities: int
    prototypes: int


def score_encoder(
    folder: Path,
    ontology: Ontology,
    mentions: Path,
    *,
    queries: int,
    entities: int,
    references: bool = True,
    untrained: bool = False,
) -> DevReport:
    """Score the encoder in a folder; names held out from its training are the unseen ones."""
    artifact = open_artifact(folder, "encoder")
    config = from_mapping(TrainConfig, artifact.config, str(folder / "manifest.json"))
    examples = TrainingSet(ontology, mentions, config)
    dev = DevSet(examples, mentions, config, queries, entities)
    if not dev:
        raise InputError(f"{mentions} has no dev mentions of entities with prototypes: mine more text")
    encoder = Encoder.from_pretrained(config.model, config.encoder()) if untrained else Encoder.load(folder)
    found = dev.score(encoder, references=references).at
    kinds = {kind: (len(dev.queries[kind].gold), at) for kind, at in found.items()}
    return DevReport(kinds, len(dev.rows), len(dev.prototypes))
