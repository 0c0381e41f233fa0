"""What a sequence is made of, and how its vector is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["fp32", "int8"]
Pooling = Literal["cls", "mean", "mention"]
Field = Literal["tree", "type", "names", "definition"]
FIELDS: tuple[Field, ...] = ("tree", "type", "names", "definition")
START, END = "[M_s]", "[M_e]"
KNOWN_MARKERS = ((START, END), ("<ENT>", "</ENT>"))
"""Pairs of markers that a model may already have: our own, and those of the authors' checkpoint."""


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """Settings that a trained encoder carries with it: changing one would change its vectors."""

    window: int = 64
    """Tokens of a mention's sequence, special tokens and markers included."""
    reference_window: int = 64
    """Tokens of an entity's reference."""
    pooling: Pooling = "cls"
    """`cls` as in the paper; `mean` of all tokens; `mention`: mean of the marked span, markers included
    (references, which have no span, are then pooled by `mean`)."""
    normalize: bool = False
    """Whether vectors have length 1."""
    fields: tuple[Field, ...] = FIELDS
    """What a reference tells of its entity; all of them as in section 3.4."""


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The roles that a tokenizer's own tokens play, and the two markers."""

    cls: str
    sep: str
    pad: str
    mask: str
    start: str
    end: str
