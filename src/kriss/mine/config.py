"""What a user can ask of the miner; the same fields are the options of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Casing = Literal["variants", "preserve"]
SPLITS = ("train", "dev", "prototypes")


@dataclass(frozen=True, slots=True)
class MineConfig:
    """Settings that change which mentions are found and kept; how many workers there are does not."""

    aliases: bool = True
    """Mine aliases as well as preferred names (section 3.4 of the paper)."""
    casing: Casing = "variants"
    """`variants`: words that are not acronyms in lower case or with a capital, and inverted names
    turned round; `preserve`: names only as the ontology writes them, as in the paper."""
    min_length: int = 3
    """Forms with fewer characters are dropped."""
    per_entity: int = 16
    """How many mentions an entity keeps in each split."""
    per_document: int = 2
    """How many of those may come from one document."""
    context: int = 512
    """Characters kept on each side of a mention: more than any tokenizer's 64-token window needs."""
    train: float = 0.5
    """Share of the documents that are for training; prototypes get what train and dev leave."""
    dev: float = 0.05
    seed: int = 0
