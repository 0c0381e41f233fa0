"""What can be asked of the baselines that are trained; no torch, so that a wrong setting is told at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kriss.encoder.base import MINILM
from kriss.encoder.config import EncoderConfig, Pooling
from kriss.errors import ConfigError

MARKERS = 2
"""Tokens that the windows of kriss put around a name beside its own."""


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
    epochs: float = 1.0
    steps: int = 0
    """If not 0, so many steps instead of `epochs`."""
    learning_rate: float = 1e-4
    """The authors took 2e-5 for PubMedBERT, and kept it from the first step to the last."""
    weight_decay: float = 0.01
    dropout: float = 0.1
    most_pairs: int = 50
    """Pairs of an entity with many names."""
    held_out: float = 0.0
    """Share of the aliases that are not learned from: those that `kriss train` holds out with the same seed."""
    margin: float = 0.2
    """A pair is hard if an anchor is not this much nearer to it than to another (or the other way round)."""
    alpha: float = 2.0
    beta: float = 50.0
    base: float = 0.5
    seed: int = 0

    def encoder(self) -> EncoderConfig:
        """Return the part that the encoder carries with it; the loss is one of cosines, so vectors have length 1."""
        return EncoderConfig(window=self.length + MARKERS, pooling=self.pooling, normalize=True)


@dataclass(frozen=True, slots=True)
class MedlinkerConfig:
    """Settings of MedLinker's classifier, a single softmax layer."""

    epochs: int = 30
    batch: int = 64
    learning_rate: float = 1e-3
    seed: int = 0


_POSITIVE = ("batch", "learning_rate", "most_pairs", "alpha", "beta")


def check(config: SapbertConfig | MedlinkerConfig) -> None:
    """Refuse settings that make no sense, in one sentence."""
    values: dict[str, Any] = {name: getattr(config, name) for name in type(config).__dataclass_fields__}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"'{name}' must be a number, not {value}")
        if name in _POSITIVE and not value > 0:
            raise ConfigError(f"'{name}' must be more than 0, not {value}")
    if values.get("steps", 0) < 0 or (not values.get("steps") and not values["epochs"] > 0):
        raise ConfigError("'steps' or 'epochs' must be more than 0")
    if not 0 <= config.seed < 2**32:
        raise ConfigError(f"'seed' is a whole number from 0 to {2**32 - 1}, not {config.seed}")
    if isinstance(config, SapbertConfig):
        if config.batch < 2:
            raise ConfigError("'batch' is at least 2: one pair has nothing to be told apart from")
        if not 0 <= config.dropout <= 1:
            raise ConfigError(f"'dropout' is a share, from 0 to 1, not {config.dropout}")
        if not 0 <= config.held_out < 1:
            raise ConfigError(f"'held_out' is a share, from 0 to less than 1, not {config.held_out}")
        if config.margin < 0 or config.weight_decay < 0:
            raise ConfigError("'margin' and 'weight_decay' must be 0 or more")
