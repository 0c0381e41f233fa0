"""What can be set for the training of a re-ranker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kriss.config import Setting
from kriss.encoder.config import FIELDS, Field, PairConfig, Shown
from kriss.errors import ConfigError
from kriss.train.config import LoopSettings


@dataclass(frozen=True, slots=True)
class RerankConfig(LoopSettings):
    """Settings that change the trained weights. The paper gives none for its re-ranker: all are ours, for a CPU."""

    window: Annotated[int, Setting("Tokens of the mention's side.")] = 32
    reference_window: Annotated[int, Setting("Tokens of a candidate's reference.")] = 24
    prototype_window: Annotated[int, Setting("Tokens of a candidate's prototype.")] = 16
    shown: Annotated[Shown, Setting("What is shown of a candidate: its reference, its best prototype, or both.")] = (
        "both"
    )
    fields: Annotated[
        tuple[Field, ...],
        Setting(
            "What a reference says of its entity: tree, type, names, definition. Repeatable.", "FIELD", flag="--field"
        ),
    ] = FIELDS
    candidates: Annotated[
        int, Setting("K, the entities among which the correct one must be found, in training and in use.", "K", low=2)
    ] = 4
    batch: Annotated[int, Setting("Mentions in a batch; the model reads each of them with K candidates.", above=0)] = 16
    chunk: Annotated[int, Setting("Mentions that are read at a time.", above=0)] = 4
    steps: Annotated[int, Setting("If not 0, so many batches instead of --epochs.")] = 300
    learning_rate: Annotated[float, Setting("Learning rate at its highest.", above=0)] = 1e-4
    p_mask: Annotated[float, Setting("Probability that a mention is masked.", "P", high=1)] = 0.1
    p_same_prototype: Annotated[
        float,
        Setting("Share of the mentions whose candidates may show a prototype spelled as the mention.", "P", high=1),
    ] = 0.3
    p_same_name: Annotated[
        float,
        Setting("Share of those whose candidates may have the mention's spelling in their reference.", "P", high=1),
    ] = 0.5
    dev_queries: Annotated[int, Setting("Dev mentions.", above=0)] = 200
    dev_every: Annotated[int, Setting("Steps between two looks at the dev set.", above=0)] = 100
    save_every: Annotated[int, Setting("Steps between two checkpoints.", above=0)] = 50

    def pair(self) -> PairConfig:
        """Return the part that the re-ranker carries with it."""
        return PairConfig(self.window, self.reference_window, self.prototype_window, self.shown, self.fields)

    def check(self) -> None:
        """Refuse settings that make no sense together."""
        LoopSettings.check(self)
        if self.shown == "reference" and not self.fields:
            raise ConfigError("'fields' is empty: a candidate would show nothing; name one, or show prototypes")
