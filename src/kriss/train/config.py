"""What can be set for a training: of any kind, and of an encoder; the paper's settings, and some for a laptop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from kriss.encoder.config import FIELDS, MINILM, EncoderConfig, Field, Pooling
from kriss.errors import ConfigError

Draw = Literal["entities", "names"]


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of the training loop; what is trained adds its own, and may have other defaults."""

    model: str = MINILM
    """`minilm`, a folder or a name on the hub."""
    mentions_per_entity: int = 3
    """The most mentions of an entity that are used."""
    epochs: float = 1.0
    """How often each training mention is seen, on average; the paper does not say."""
    steps: int = 0
    """If not 0, so many batches instead of `epochs`."""
    learning_rate: float = 1e-5
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises; then it falls to 0 in a straight line."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Gradients longer than this are shortened to it."""
    dropout: float = 0.1
    p_mask: float = 0.2
    """Probability that a mention is masked."""
    p_replace: float = 0.2
    """Probability that a mention is replaced by another name of its entity."""
    dev_queries: int = 1000
    """Dev mentions of each kind."""
    dev_every: int = 500
    """Steps between two looks at the dev set."""
    save_every: int = 250
    """Steps between two checkpoints."""
    seed: int = 0
    """Another seed draws other batches."""


@dataclass(frozen=True, slots=True)
class TrainConfig(LoopSettings):
    """Settings that change the trained weights. The defaults are section 4.2 of the paper."""

    model: str = "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract"
    """`minilm`, a folder or a name on the hub; the default is PubMedBERT under its present name."""
    window: int = 64
    """Tokens of a mention with its context."""
    reference_window: int = 64
    """Tokens of an entity's reference."""
    pooling: Pooling = "cls"
    """Which tokens a vector is made of."""
    normalize: bool = False
    """Whether vectors have length 1."""
    fields: tuple[Field, ...] = FIELDS
    """What a reference says of its entity."""
    batch: int = 512
    """Mentions in a batch: 2N, two of each of N entities."""
    p_bare: float = 0.0
    """Probability that a mention loses its context; not in the paper, see docs/training.md."""
    name_only: float = 0.0
    """Share of a batch's entities that have no mined mention: pairs of their bare names; not in the paper."""
    draw: Draw = "entities"
    """How often an entity comes: all alike, or those with more names, so with more to learn, more often."""
    tau: float = 1.0
    """Temperature between mentions."""
    pi: float = 1.0
    """Temperature between mentions and references."""
    alpha: float = 0.5
    """Weight of the loss between mentions."""
    beta: float = 0.5
    """Weight of the loss between mentions and references."""
    chunk: int = 32
    """Sequences encoded at a time."""
    cache: bool = True
    """Cache gradients: memory for one chunk only, at the price of a second forward pass."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`auto`: bf16 where a GPU has it; on CPUs it is slower."""
    held_out: float = 0.1
    """Share of the aliases that training never sees, for the dev set."""
    dev_entities: int = 2000
    """Candidates of the dev set."""

    def encoder(self) -> EncoderConfig:
        """Return the part that the encoder carries with it."""
        return EncoderConfig(self.window, self.reference_window, self.pooling, self.normalize, self.fields)


PAPER = TrainConfig()
MINI = replace(
    PAPER,
    model=MINILM,
    window=32,
    reference_window=32,
    pooling="mean",
    normalize=True,
    batch=128,
    steps=400,
    learning_rate=1e-4,
    dropout=0.0,
    p_bare=0.25,
    name_only=0.25,
    tau=0.05,
    pi=0.05,
    chunk=64,
    cache=False,
    dev_queries=500,
    dev_entities=1000,
    dev_every=100,
)
PRESETS: Mapping[str, TrainConfig] = {"paper": PAPER, "mini": MINI}


def preset(name: str) -> TrainConfig:
    """Return the settings of a preset."""
    if name not in PRESETS:
        raise ConfigError(f"no preset '{name}': there are {', '.join(PRESETS)}")
    return PRESETS[name]


def check(config: TrainConfig) -> None:
    """Refuse settings that make no sense, in one sentence."""
    check_settings(config, ("batch", "tau", "pi", "chunk", "dev_entities"), ("p_bare", "name_only", "held_out"))
    if config.batch % 2 or config.batch < 4:
        raise ConfigError(f"'batch' is 2N, an even number of at least 4 mentions, not {config.batch}")
    if config.alpha < 0 or config.beta < 0 or config.alpha + config.beta == 0:
        raise ConfigError("'alpha' and 'beta' are not negative, and one of them is more than 0")
    if config.beta and not config.fields:
        raise ConfigError("'fields' is empty: references would say nothing; name one, or set 'beta' to 0")
    if config.name_only >= 1:
        raise ConfigError("'name_only' leaves no entity with mentions; take less than 1")


_POSITIVE = ("mentions_per_entity", "clip", "dev_queries", "dev_every", "save_every", "learning_rate")
_SHARES = ("p_mask", "p_replace", "warmup", "dropout")


def check_settings(settings: LoopSettings, positive: Sequence[str], shares: Sequence[str]) -> None:
    """Refuse settings that make no sense, in one sentence; those named are positive, or shares, as well."""
    values: dict[str, Any] = {one.name: getattr(settings, one.name) for one in fields(settings)}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value) and name != "clip":
            raise ConfigError(f"'{name}' must be a number, not {value}")
    for name in (*_POSITIVE, *positive):
        if not values[name] > 0:
            raise ConfigError(f"'{name}' must be more than 0, not {values[name]}")
    for name in (*_SHARES, *shares):
        if not 0 <= values[name] <= 1:
            raise ConfigError(f"'{name}' is a share, from 0 to 1, not {values[name]}")
    if settings.p_mask + settings.p_replace > 1:
        raise ConfigError("'p_mask' and 'p_replace' are at most 1 together")
    if settings.steps < 0 or (settings.steps == 0 and not settings.epochs > 0):
        raise ConfigError("'steps' or 'epochs' must be more than 0")
    if settings.weight_decay < 0:
        raise ConfigError(f"'weight_decay' must be 0 or more, not {settings.weight_decay}")
    if not 0 <= settings.seed < 2**32:
        raise ConfigError(f"'seed' is a whole number from 0 to {2**32 - 1}, not {settings.seed}")
