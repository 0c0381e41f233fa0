"""What a user can ask of the trainer, and two sets of answers: the paper's, and one for a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kriss.encoder.base import MINILM
from kriss.encoder.config import FIELDS, EncoderConfig, Field, Pooling
from kriss.errors import ConfigError
from kriss.train.settings import LoopSettings, check_settings

Hard = Literal["none", "names", "encoder"]
Draw = Literal["entities", "names"]


@dataclass(frozen=True, slots=True)
class TrainConfig(LoopSettings):
    """Settings that change the trained weights. The defaults are section 4.2 of the paper."""

    model: str = "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract"
    """`minilm`, a folder or a name on the hub; the default is PubMedBERT under its present name."""
    window: int = 64
    reference_window: int = 64
    pooling: Pooling = "cls"
    normalize: bool = False
    fields: tuple[Field, ...] = FIELDS
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
    beta: float = 0.5
    hard: Hard = "none"
    """Which entities share a batch: any, those with like names, or those the encoder confuses."""
    hard_group: int = 4
    """How many entities that are hard to tell apart come together."""
    hard_every: int = 500
    """With `encoder`: steps after which they are looked up again."""
    chunk: int = 32
    """Sequences encoded at a time."""
    cache: bool = True
    """Cache gradients: memory for one chunk only, at the price of a second forward pass."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`auto`: bf16 where a GPU has it; on CPUs it is slower."""
    held_out: float = 0.1
    """Share of the aliases that training never sees, for the dev set."""
    dev_entities: int = 2000

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
    check_settings(
        config, ("batch", "tau", "pi", "chunk", "hard_every", "dev_entities"), ("p_bare", "name_only", "held_out")
    )
    if config.batch % 2 or config.batch < 4:
        raise ConfigError(f"'batch' is 2N, an even number of at least 4 mentions, not {config.batch}")
    if config.alpha < 0 or config.beta < 0 or config.alpha + config.beta == 0:
        raise ConfigError("'alpha' and 'beta' are not negative, and one of them is more than 0")
    if config.beta and not config.fields:
        raise ConfigError("'fields' is empty: references would say nothing; name one, or set 'beta' to 0")
    if config.hard_group < 2:
        raise ConfigError("'hard_group' is at least 2")
    if config.name_only >= 1:
        raise ConfigError("'name_only' leaves no entity with mentions; take less than 1")
