"""What can be set for a training: of any kind, and of an encoder; the paper's settings, and some for a laptop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from kriss.config import Setting, Settings
from kriss.encoder.config import FIELDS, MINILM, EncoderConfig, Field, Pooling
from kriss.errors import ConfigError

Draw = Literal["entities", "names"]
_MODEL = Setting("minilm, a folder, or a name on the Hugging Face hub.", "MODEL")
_STEPS = Setting("If not 0, so many batches instead of --epochs.")
_RATE = Setting("Learning rate at its highest.", above=0)
_MASK = Setting("Probability that a mention is masked.", "P", high=1)
_QUERIES = Setting("Dev mentions of each kind.", above=0)
_EVERY = Setting("Steps between two looks at the dev set.", above=0)
_SAVE = Setting("Steps between two checkpoints.", above=0)


@dataclass(frozen=True, slots=True)
class LoopSettings(Settings):
    """Settings of the training loop; what is trained adds its own, and may have other defaults."""

    model: Annotated[str, _MODEL] = MINILM
    mentions_per_entity: Annotated[int, Setting("The most mentions of an entity that are used.", above=0)] = 3
    epochs: Annotated[float, Setting("How often each mention is seen, on average; the paper does not say.")] = 1.0
    steps: Annotated[int, _STEPS] = 0
    learning_rate: Annotated[float, _RATE] = 1e-5
    warmup: Annotated[
        float, Setting("Share of the steps in which the learning rate rises; then it falls to 0.", "SHARE", high=1)
    ] = 0.1
    weight_decay: Annotated[float, Setting("Weight decay of the optimizer.")] = 0.0
    clip: Annotated[float, Setting("Gradients longer than this are shortened to it.", above=0, high=math.inf)] = 1.0
    dropout: Annotated[float, Setting("Share of what the model computes that is dropped.", "SHARE", high=1)] = 0.1
    p_mask: Annotated[float, _MASK] = 0.2
    p_replace: Annotated[
        float, Setting("Probability that a mention is replaced by another name of its entity.", "P", high=1)
    ] = 0.2
    dev_queries: Annotated[int, _QUERIES] = 1000
    dev_every: Annotated[int, _EVERY] = 500
    save_every: Annotated[int, _SAVE] = 250
    seed: Annotated[int, Setting("Draws other batches.", high=2**32 - 1)] = 0

    def check(self) -> None:
        """Refuse settings that make no sense together."""
        if self.p_mask + self.p_replace > 1:
            raise ConfigError("'p_mask' and 'p_replace' are at most 1 together")
        if not self.steps and not self.epochs:
            raise ConfigError("'steps' or 'epochs' must be more than 0")

    @staticmethod
    def implied(values: dict[str, Any]) -> dict[str, Any]:
        """Let epochs that are asked for come before the steps of a preset."""
        return {"steps": 0} | values if "epochs" in values else values


@dataclass(frozen=True, slots=True)
class TrainConfig(LoopSettings):
    """Settings that change the trained weights. The defaults are section 4.2 of the paper."""

    presets: ClassVar[Mapping[str, TrainConfig]]

    model: Annotated[str, _MODEL] = "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract"
    """PubMedBERT under its present name."""
    window: Annotated[int, Setting("Tokens of a mention with its context.")] = 64
    reference_window: Annotated[int, Setting("Tokens of an entity's reference.")] = 64
    pooling: Annotated[
        Pooling, Setting("A vector is that of [CLS] (the paper), or the mean of all tokens or of the marked mention.")
    ] = "cls"
    normalize: Annotated[bool, Setting("Give vectors length 1.")] = False
    fields: Annotated[
        tuple[Field, ...],
        Setting(
            "What a reference says of its entity: tree, type, names, definition. Repeatable.", "FIELD", flag="--field"
        ),
    ] = FIELDS
    batch: Annotated[int, Setting("Mentions in a batch: 2N, two of each of N entities.", above=0)] = 512
    p_bare: Annotated[
        float, Setting("Probability that a mention loses its context; not in the paper.", "P", high=1)
    ] = 0.0
    name_only: Annotated[
        float,
        Setting(
            "Share of a batch's entities with no mined mention: pairs of bare names; not in the paper.", "SHARE", high=1
        ),
    ] = 0.0
    draw: Annotated[Draw, Setting("Draw entities all alike, or those with more names more often.")] = "entities"
    tau: Annotated[float, Setting("Temperature between mentions.", above=0)] = 1.0
    pi: Annotated[float, Setting("Temperature between mentions and references.", above=0)] = 1.0
    alpha: Annotated[float, Setting("Weight of the loss between mentions.")] = 0.5
    beta: Annotated[float, Setting("Weight of the loss between mentions and references.")] = 0.5
    chunk: Annotated[int, Setting("Sequences encoded at a time.", above=0)] = 32
    cache: Annotated[bool, Setting("Cache gradients: memory for one chunk only, with a second forward pass.")] = True
    precision: Annotated[
        Literal["auto", "fp32", "bf16"], Setting("auto: bf16 where a GPU has it; on CPUs it is slower.")
    ] = "auto"
    held_out: Annotated[
        float, Setting("Share of the aliases that training never sees, for the dev set.", "SHARE", high=1)
    ] = 0.1
    dev_entities: Annotated[int, Setting("Candidates of the dev set.", above=0)] = 2000

    def encoder(self) -> EncoderConfig:
        """Return the part that the encoder carries with it."""
        return EncoderConfig(self.window, self.reference_window, self.pooling, self.normalize, self.fields)

    def check(self) -> None:
        """Refuse settings that make no sense together."""
        LoopSettings.check(self)
        if self.batch % 2 or self.batch < 4:
            raise ConfigError(f"'batch' is 2N, an even number of at least 4 mentions, not {self.batch}")
        if self.alpha + self.beta == 0:
            raise ConfigError("'alpha' and 'beta' are not negative, and one of them is more than 0")
        if self.beta and not self.fields:
            raise ConfigError("'fields' is empty: references would say nothing; name one, or set 'beta' to 0")
        if self.name_only >= 1:
            raise ConfigError("'name_only' leaves no entity with mentions; take less than 1")


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
TrainConfig.presets = {"mini": MINI, "paper": PAPER}
