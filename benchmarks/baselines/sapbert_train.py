"""Training as SapBERT does: names of one entity are pulled together, no text is read (Liu et al. 2021).

train_sapbert(SapbertConfig(), Ontology.load("out/mesh"), Path("out/sapbert"))
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from benchmarks.baselines.encoders import name_sequences
from numpy.typing import NDArray
from torch import Tensor

from kriss.artifacts import check_target, create
from kriss.config import to_mapping
from kriss.encoder.config import MINILM, EncoderConfig, Pooling
from kriss.encoder.model import Encoder
from kriss.encoder.windows import Sequences
from kriss.errors import InputError, KrissError
from kriss.ontology import Ontology
from kriss.train.examples import divide, kept_keys

_LOG_EVERY = 10
_CHUNK = 128
"""Names encoded at a time; those of like length, so that little is padding."""
_MARKERS = 2
"""Tokens that the windows of kriss put around a name beside its own."""
_ALPHA, _BETA, _BASE, _MARGIN = 2.0, 50.0, 0.5, 0.2
"""The paper's; its released code has an alpha of 1 and a beta of 60."""


@dataclass(frozen=True, slots=True)
class SapbertConfig:
    """Settings of SapBERT. The defaults are the paper's, but for what suits MiniLM: the model and the rate."""

    model: str = MINILM
    """`minilm`, a folder or a name on the hub; the authors took PubMedBERT."""
    pooling: Pooling = "cls"
    length: int = 25
    """Tokens of a name, the first and the last included; of a longer one head and tail are kept."""
    markers: bool = False
    """Mark names as mentions are marked elsewhere: for an encoder that is to serve in a linker of kriss."""
    batch: int = 256
    """Pairs of names in a batch."""
    steps: int = 0
    """Batches; if 0, as many as see each pair once."""
    learning_rate: float = 1e-4
    """The authors took 2e-5 for PubMedBERT, and kept it from the first step to the last."""
    weight_decay: float = 0.01
    dropout: float = 0.1
    most_pairs: int = 50
    """Pairs of an entity with many names."""
    held_out: float = 0.0
    """Share of the aliases that are not learned from: those that `kriss train` holds out with the same seed."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class NamePairs:
    """Pairs of names of one entity: two columns of places in `names`, and the entity of each."""

    names: list[str]
    pairs: NDArray[np.int64]
    entities: NDArray[np.int64]

    @classmethod
    def of(cls, ontology: Ontology, most: int, seed: int, held_out: float = 0.0) -> NamePairs:
        """Return all pairs of each entity, or `most` that are drawn; names that differ in case alone are one."""
        kept = kept_keys((ontology.name_at(row) for row in ontology.rows()), held_out, seed)
        names: list[str] = []
        pairs: list[tuple[int, int]] = []
        entities: list[int] = []
        for row in ontology.rows():
            seen = divide(ontology.names_at(row), held_out, seed, kept).seen
            own = list({name.lower(): name for name in reversed(seen)}.values())[::-1]
            every = list(combinations(range(len(names), len(names) + len(own)), 2))
            if not every:
                continue
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


def hard_pairs(vectors: Tensor, labels: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return masks of the positive and of the negative pairs that are in a triplet which violates the margin.

    Liu et al. (2021), section 2: of all triplets of an anchor, a name of the same entity and one of another, those
    with d(a, n) - d(a, p) <= margin, d being the distance of unit vectors ("all" in their code). A pair is kept if
    any third name makes such a triplet of it, so the farthest positive and the nearest negative decide, and the
    n^3 triplets need not be made. `vectors` have length 1; rows are anchors.
    """
    distance = (2 - 2 * vectors.detach() @ vectors.detach().T).clamp(min=0).sqrt()
    same = labels[:, None] == labels[None, :]
    positive = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    farthest = distance.masked_fill(~positive, float("-inf")).amax(dim=1, keepdim=True)
    nearest = distance.masked_fill(same, float("inf")).amin(dim=1, keepdim=True)
    return positive & (nearest - distance <= margin), ~same & (distance - farthest <= margin)


def multi_similarity_loss(vectors: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Return the multi-similarity loss of Wang et al. (2019) over the given pairs, S being their cosines.

    L = 1/m sum_i { 1/alpha log[1 + sum_{k in P_i} exp(-alpha (S_ik - base))]
                  + 1/beta  log[1 + sum_{k in N_i} exp( beta  (S_ik - base))] }
    """
    scores = vectors @ vectors.T - _BASE
    pull = _log_of_one_and(-_ALPHA * scores, positive) / _ALPHA
    push = _log_of_one_and(_BETA * scores, negative) / _BETA
    return (pull + push).mean()


def _log_of_one_and(exponents: Tensor, chosen: Tensor) -> Tensor:
    """Return log(1 + sum of exp) over the chosen ones of each row, without overflow."""
    one = exponents.new_zeros((len(exponents), 1))
    return torch.cat([one, exponents.masked_fill(~chosen, float("-inf"))], dim=1).logsumexp(dim=1)


def train_sapbert(config: SapbertConfig, ontology: Ontology, out: Path, *, force: bool = False) -> float:
    """Train an encoder on the synonyms of an ontology, write it to `out`, and return its last loss.

    Both of its towers are the same one, so that whatever reads an encoder reads this.
    """
    check_target(out, "encoder", force=force)
    examples = NamePairs.of(ontology, config.most_pairs, config.seed, config.held_out)
    steps = config.steps or math.ceil(len(examples.pairs) / config.batch)
    torch.manual_seed(config.seed)
    shape = EncoderConfig(window=config.length + _MARKERS, pooling=config.pooling, normalize=True)
    encoder = Encoder.from_pretrained(config.model, shape, dropout=config.dropout)
    encoder.reference = encoder.mention
    encoder.to("cuda" if torch.cuda.is_available() else "cpu").train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    since, losses, mean = time.perf_counter(), list[float](), 0.0
    for step, (names, labels) in enumerate(examples.batches(config.batch, steps, config.seed), 1):
        vectors = _encoded(encoder, name_sequences(encoder.windows, names, marked=config.markers))
        if not torch.isfinite(vectors).all():  # no pair of these is hard, so the loss would be 0
            raise KrissError(f"vectors are no numbers any more at step {step}: lower the learning rate")
        loss = multi_similarity_loss(vectors, *hard_pairs(vectors, labels.to(vectors.device), _MARGIN))
        losses.append(float(loss.detach()))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if step % _LOG_EVERY == 0 or step == steps:
            mean, pace = float(np.mean(losses)), len(losses) * len(names) / (time.perf_counter() - since)
            print(f"step {step:,} of {steps:,}: loss {mean:.3f}, {pace:.0f} names a second", file=sys.stderr)
            since, losses = time.perf_counter(), []
    inputs = [{"name": ontology.artifact.path.name, "sha256": ontology.artifact.digest}]
    with create(out, "encoder", config=to_mapping(config), inputs=inputs, seed=config.seed, force=force) as draft:
        encoder.cpu().save(draft.path)
        draft.facts |= {"baseline": "sapbert", "steps": steps, "pairs": len(examples.pairs)}
    return mean


def _encoded(encoder: Encoder, sequences: Sequences) -> Tensor:
    """Return the vectors of a batch with their gradients, in its order."""
    parts = list(sequences.batches(_CHUNK))
    vectors = torch.cat([encoder.mention.run(part) for _, part in parts])
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    return vectors[torch.from_numpy(order).to(vectors.device)]
