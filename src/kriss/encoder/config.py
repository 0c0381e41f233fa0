"""What a sequence is made of, and how its vector is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kriss.config import Setting, Settings

Precision = Literal["fp32", "int8"]
Pooling = Literal["cls", "mean", "mention"]
Field = Literal["tree", "type", "names", "definition"]
FIELDS: tuple[Field, ...] = ("tree", "type", "names", "definition")
START, END = "[M_s]", "[M_e]"
KNOWN_MARKERS = ((START, END), ("<ENT>", "</ENT>"))
"""Pairs of markers that a model may already have: our own, and those of the authors' checkpoint."""


@dataclass(frozen=True, slots=True)
class EncoderConfig(Settings):
    """Settings that a trained encoder carries with it: changing one would change its vectors."""

    window: Annotated[int, Setting("Tokens of a mention with its context, special ones included.")] = 64
    reference_window: Annotated[int, Setting("Tokens of an entity's reference.")] = 64
    pooling: Annotated[
        Pooling, Setting("A vector is that of [CLS] (the paper), or the mean of all tokens or of the marked mention.")
    ] = "cls"
    """References have no marked span: with `mention` they are pooled by `mean`."""
    normalize: Annotated[bool, Setting("Give vectors length 1.")] = False
    fields: Annotated[
        tuple[Field, ...],
        Setting(
            "What a reference says of its entity: tree, type, names, definition. Repeatable.", "FIELD", flag="--field"
        ),
    ] = FIELDS


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The roles that a tokenizer's own tokens play, and the two markers."""

    cls: str
    sep: str
    pad: str
    mask: str
    start: str
    end: str
