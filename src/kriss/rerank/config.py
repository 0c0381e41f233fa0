"""What a user can ask of the trainer of re-rankers, and a set of answers for a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kriss.encoder.config import FIELDS, Field
from kriss.encoder.pairs import PairConfig, Shown
from kriss.errors import ConfigError
from kriss.train.settings import LoopSettings, check_settings


@dataclass(frozen=True, slots=True)
class RerankConfig(LoopSettings):
    """Settings that change the trained weights. The paper gives none for its re-ranker: all are ours."""

    window: int = 64
    reference_window: int = 32
    prototype_window: int = 32
    shown: Shown = "both"
    fields: tuple[Field, ...] = FIELDS
    candidates: int = 16
    """K, the entities among which the correct one must be found."""
    batch: int = 16
    """Mentions in a batch; the model reads each of them with K candidates."""
    chunk: int = 4
    """Mentions that are read at a time."""
    steps: int = 200
    learning_rate: float = 1e-4
    p_mask: float = 0.1
    p_same_prototype: float = 0.3
    """Share of the mentions whose candidates may show a prototype that is spelled as the mention."""
    p_same_name: float = 0.5
    """Share of the mentions whose candidates may have the mention's spelling among the names of their reference."""
    dev_queries: int = 500
    dev_every: int = 100
    save_every: int = 50

    def pair(self) -> PairConfig:
        """Return the part that the re-ranker carries with it."""
        return PairConfig(self.window, self.reference_window, self.prototype_window, self.shown, self.fields)


FULL = RerankConfig()
MINI = replace(FULL, window=32, reference_window=24, prototype_window=16, candidates=4, steps=300, dev_queries=200)
PRESETS: Mapping[str, RerankConfig] = {"mini": MINI, "full": FULL}


def preset(name: str) -> RerankConfig:
    """Return the settings of a preset."""
    if name not in PRESETS:
        raise ConfigError(f"no preset '{name}': there are {', '.join(PRESETS)}")
    return PRESETS[name]


def check(config: RerankConfig) -> None:
    """Refuse settings that make no sense, in one sentence."""
    check_settings(config, ("batch", "chunk"), ("p_same_prototype", "p_same_name"))
    if config.candidates < 2:
        raise ConfigError(f"'candidates' is at least 2, not {config.candidates}: among fewer there is no choice")
    if config.shown == "reference" and not config.fields:
        raise ConfigError("'fields' is empty: a candidate would show nothing; name one, or show prototypes")
