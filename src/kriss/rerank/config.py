"""What a user can ask of the trainer of re-rankers, and a set of answers for a laptop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kriss.encoder.base import MINILM
from kriss.encoder.config import FIELDS, Field
from kriss.encoder.pairs import PairConfig, Shown
from kriss.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RerankConfig:
    """Settings that change the trained weights. The paper gives none for its re-ranker: all are ours."""

    model: str = MINILM
    """`minilm`, a folder or a name on the hub."""
    window: int = 64
    reference_window: int = 32
    prototype_window: int = 32
    shown: Shown = "both"
    fields: tuple[Field, ...] = FIELDS
    candidates: int = 16
    """K, the entities among which the correct one must be found."""
    mentions_per_entity: int = 3
    batch: int = 16
    """Mentions in a batch; the model reads each of them with K candidates."""
    chunk: int = 4
    """Mentions that are read at a time."""
    epochs: float = 1.0
    """How often each mention is seen."""
    steps: int = 200
    """If not 0, so many steps instead of `epochs`."""
    learning_rate: float = 1e-4
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises; then it falls to 0 in a straight line."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Gradients longer than this are shortened to it."""
    dropout: float = 0.1
    p_mask: float = 0.1
    p_replace: float = 0.2
    p_same_prototype: float = 0.3
    """Share of the mentions whose candidates may show a prototype that is spelled as the mention."""
    p_same_name: float = 0.5
    """Share of the mentions whose candidates may have the mention's spelling among the names of their reference."""
    dev_queries: int = 500
    dev_every: int = 100
    save_every: int = 50
    seed: int = 0

    def pair(self) -> PairConfig:
        """Return the part that the re-ranker carries with it."""
        return PairConfig(self.window, self.reference_window, self.prototype_window, self.shown, self.fields)


FULL = RerankConfig()
MINI = replace(FULL, window=32, reference_window=24, prototype_window=16, candidates=8, dev_queries=200)
PRESETS: Mapping[str, RerankConfig] = {"mini": MINI, "full": FULL}


def preset(name: str) -> RerankConfig:
    """Return the settings of a preset."""
    if name not in PRESETS:
        raise ConfigError(f"no preset '{name}': there are {', '.join(PRESETS)}")
    return PRESETS[name]


_POSITIVE = ("mentions_per_entity", "batch", "chunk", "clip", "dev_queries", "dev_every", "save_every", "learning_rate")
_SHARES = ("p_mask", "p_replace", "p_same_prototype", "p_same_name", "warmup", "dropout")


def check(config: RerankConfig) -> None:
    """Refuse settings that make no sense, in one sentence."""
    values: dict[str, Any] = {name: getattr(config, name) for name in RerankConfig.__dataclass_fields__}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value) and name != "clip":
            raise ConfigError(f"'{name}' must be a number, not {value}")
    for name in _POSITIVE:
        if not values[name] > 0:
            raise ConfigError(f"'{name}' must be more than 0, not {values[name]}")
    for name in _SHARES:
        if not 0 <= values[name] <= 1:
            raise ConfigError(f"'{name}' is a share, from 0 to 1, not {values[name]}")
    if config.candidates < 2:
        raise ConfigError(f"'candidates' is at least 2, not {config.candidates}: among fewer there is no choice")
    if config.p_mask + config.p_replace > 1:
        raise ConfigError("'p_mask' and 'p_replace' are at most 1 together")
    if config.steps < 0 or (config.steps == 0 and not config.epochs > 0):
        raise ConfigError("'steps' or 'epochs' must be more than 0")
    if config.weight_decay < 0:
        raise ConfigError(f"'weight_decay' must be 0 or more, not {config.weight_decay}")
    if not 0 <= config.seed < 2**32:
        raise ConfigError(f"'seed' is a whole number from 0 to {2**32 - 1}, not {config.seed}")
    if config.shown == "reference" and not config.fields:
        raise ConfigError("'fields' is empty: a candidate would show nothing; name one, or show prototypes")
