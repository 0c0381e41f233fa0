"""What can be set for the training of a re-ranker."""

from __future__ import annotations

from dataclasses import dataclass

from kriss.encoder.config import FIELDS, Field
from kriss.encoder.pairs import PairConfig, Shown
from kriss.errors import ConfigError
from kriss.train.config import LoopSettings, check_settings


@dataclass(frozen=True, slots=True)
class RerankConfig(LoopSettings):
    """Settings that change the trained weights. The paper gives none for its re-ranker: all are ours, for a CPU."""

    window: int = 32
    """Tokens of the mention's side."""
    reference_window: int = 24
    """Tokens of a candidate's reference."""
    prototype_window: int = 16
    """Tokens of a candidate's prototype."""
    shown: Shown = "both"
    """What is shown of a candidate: its reference, its best prototype, or both."""
    fields: tuple[Field, ...] = FIELDS
    """What a reference says of its entity."""
    candidates: int = 4
    """K, the entities among which the correct one must be found, in training and in use."""
    batch: int = 16
    """Mentions in a batch; the model reads each of them with K candidates."""
    chunk: int = 4
    """Mentions that are read at a time."""
    steps: int = 300
    learning_rate: float = 1e-4
    p_mask: float = 0.1
    p_same_prototype: float = 0.3
    """Share of the mentions whose candidates may show a prototype that is spelled as the mention."""
    p_same_name: float = 0.5
    """Share of the mentions whose candidates may have the mention's spelling among the names of their reference."""
    dev_queries: int = 200
    dev_every: int = 100
    save_every: int = 50

    def pair(self) -> PairConfig:
        """Return the part that the re-ranker carries with it."""
        return PairConfig(self.window, self.reference_window, self.prototype_window, self.shown, self.fields)


def check(config: RerankConfig) -> None:
    """Refuse settings that make no sense, in one sentence."""
    check_settings(config, ("batch", "chunk"), ("p_same_prototype", "p_same_name"))
    if config.candidates < 2:
        raise ConfigError(f"'candidates' is at least 2, not {config.candidates}: among fewer there is no choice")
    if config.shown == "reference" and not config.fields:
        raise ConfigError("'fields' is empty: a candidate would show nothing; name one, or show prototypes")
