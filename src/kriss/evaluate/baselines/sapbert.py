"""Training as SapBERT does: names of one entity are pulled together, no text is read (Liu et al. 2021).

train_sapbert(SapbertConfig(), Ontology.load("out/mesh"), Path("out/sapbert"))
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kriss.artifacts import check_target, create
from kriss.config import to_mapping
from kriss.encoder.model import Encoder
from kriss.encoder.windows import Sequences
from kriss.errors import InputError, KrissError
from kriss.evaluate.baselines.contrast import hard_pairs, multi_similarity_loss
from kriss.evaluate.baselines.encoders import name_sequences
from kriss.evaluate.baselines.nearest import Progress
from kriss.evaluate.baselines.settings import SapbertConfig, check
from kriss.ontology import Ontology
from kriss.train.names import divide, kept_keys

_LOG_EVERY = 10
_CHUNK = 128
"""Names encoded at a time; those of like length, so that little is padding."""


@dataclass(frozen=True, slots=True)
class SapbertReport:
    """What came of a run."""

    steps: int
    pairs: int
    entities: int
    loss: float
    """The mean of the last steps."""


@dataclass(frozen=True, slots=True)
class NamePairs:
    """Pairs of names of one entity: two columns of places in `names`, and the entity of each."""

    names: list[str]
    pairs: NDArray[np.int64]
    entities: NDArray[np.int64]

    @classmethod
    def of(cls, ontology: Ontology, most: int, seed: int, held_out: float = 0.0) -> NamePairs:
        """Return all pairs of each entity, or `most` that are drawn; names that differ in case alone are one."""
        kept = kept_keys((ontology.names_at(row)[0] for row in ontology.rows()), held_out, seed)
        names: list[str] = []
        pairs: list[tuple[int, int]] = []
        entities: list[int] = []
        for row in ontology.rows():
            seen = divide(ontology.names_at(row), held_out, seed, kept).seen
            own = list({name.lower(): name for name in reversed(seen)}.values())[::-1]
            if len(own) < 2:
                continue
            every = list(combinations(range(len(names), len(names) + len(own)), 2))
            if len(every) > most:
                drawn = np.random.default_rng((seed, 0, row)).choice(len(every), most, replace=False)
                every = [every[place] for place in sorted(drawn.tolist())]
            names += own
            pairs += every
            entities += [row] * len(every)
        if not pairs or entities[0] == entities[-1]:
            raise InputError(f"{ontology.artifact.path}: SapBERT learns from synonyms, and needs two entities with two")
        return cls(names, np.array(pairs, dtype=np.int64), np.array(entities, dtype=np.int64))

    def batches(self, size: int, steps: int, seed: int) -> Iterator[tuple[list[str], Tensor]]:
        """Yield the names of each step, and the entity of each; every pair comes once in a round."""
        size = min(size, len(self.pairs))
        a_round = len(self.pairs) // size
        order = np.empty(0, dtype=np.int64)
        for step in range(steps):
            number, at = divmod(step, a_round)
            if not at:
                order = np.random.default_rng((seed, 1, number)).permutation(len(self.pairs))
            chosen = order[at * size : (at + 1) * size]
            places = self.pairs[chosen].T.reshape(-1)
            yield [self.names[place] for place in places.tolist()], torch.from_numpy(np.tile(self.entities[chosen], 2))


def train_sapbert(
    config: SapbertConfig,
    ontology: Ontology,
    out: Path,
    *,
    force: bool = False,
    progress: Progress = lambda event: None,
) -> SapbertReport:
    """Train an encoder on the synonyms of an ontology and write it to `out`.

    Both of its towers are the same one, so that whatever reads an encoder reads this.
    """
    check(config)
    check_target(out, "encoder", force=force)
    progress({"event": "prepare"})
    examples = NamePairs.of(ontology, config.most_pairs, config.seed, config.held_out)
    steps = config.steps or math.ceil(config.epochs * len(examples.pairs) / min(config.batch, len(examples.pairs)))
    torch.manual_seed(config.seed)
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout)
    encoder.reference = encoder.mention
    encoder.to("cuda" if torch.cuda.is_available() else "cpu").train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    progress({"event": "plan", "steps": steps, "step": 0, "entities": len(np.unique(examples.entities))})
    since, losses, mean = time.perf_counter(), list[float](), 0.0
    for step, (names, labels) in enumerate(examples.batches(config.batch, steps, config.seed), 1):
        vectors = _encoded(encoder, name_sequences(encoder.windows, names, marked=config.markers))
        positive, negative = hard_pairs(vectors, labels.to(vectors.device), config.margin)
        loss = multi_similarity_loss(
            vectors, positive, negative, alpha=config.alpha, beta=config.beta, base=config.base
        )
        losses.append(float(loss.detach()))
        if not torch.isfinite(vectors).all():  # no pair of these is hard, so the loss would be 0
            raise KrissError(f"vectors are no numbers any more at step {step}: lower the learning rate")
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if step % _LOG_EVERY == 0 or step == steps:
            mean, pace = float(np.mean(losses)), len(losses) * len(names) / (time.perf_counter() - since)
            progress({"event": "log", "step": step, "loss": mean, "sequences_per_second": pace})
            since, losses = time.perf_counter(), []
    report = SapbertReport(steps, len(examples.pairs), len(np.unique(examples.entities)), mean)
    inputs = [{"name": ontology.artifact.path.name, "sha256": ontology.artifact.digest}]
    with create(out, "encoder", config=to_mapping(config), inputs=inputs, seed=config.seed, force=force) as draft:
        encoder.cpu().save(draft.path)
        draft.facts |= {"baseline": "sapbert", "steps": steps, "pairs": report.pairs, "entities": report.entities}
    return report


def _encoded(encoder: Encoder, sequences: Sequences) -> Tensor:
    """Return the vectors of a batch with their gradients, in its order."""
    parts = list(sequences.batches(_CHUNK))
    vectors = torch.cat([encoder.mention.run(part) for _, part in parts])
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    return vectors[torch.from_numpy(order).to(vectors.device)]
