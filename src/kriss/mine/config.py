"""What a user can ask of the miner; each field is also an option of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from kriss.config import Setting, Settings
from kriss.errors import ConfigError

Casing = Literal["variants", "preserve"]
Split = Literal["train", "dev", "prototypes"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class MineConfig(Settings):
    """Settings that change which mentions are found and kept; how many workers there are does not."""

    aliases: Annotated[bool, Setting("Mine aliases as well as preferred names (section 3.4 of the paper).")] = True
    casing: Annotated[
        Casing,
        Setting("variants: words in lower case or with a capital, inverted names turned round; preserve: the paper."),
    ] = "variants"
    min_length: Annotated[int, Setting("Drop forms with fewer characters.", low=1)] = 3
    per_entity: Annotated[int, Setting("Mentions that an entity keeps in each split.", low=1)] = 16
    per_document: Annotated[int, Setting("Of those, at most so many of one document.", low=1)] = 2
    context: Annotated[int, Setting("Characters kept on each side of a mention.", low=1)] = 512
    train: Annotated[float, Setting("Share of the documents for training.", "SHARE", high=1)] = 0.5
    dev: Annotated[float, Setting("Share of the documents for dev; the rest is for prototypes.", "SHARE", high=1)] = (
        0.05
    )
    seed: Annotated[int, Setting("Draws another sample.")] = 0

    def check(self) -> None:
        """Refuse settings that make no sense together."""
        if self.train + self.dev > 1:
            raise ConfigError(
                f"train ({self.train}) and dev ({self.dev}) are shares of the documents: at most 1 in all"
            )
