"""What a sequence is made of, how its vector is taken, and where a saved model says so; no torch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from kriss.config import Setting, Settings, from_mapping, to_mapping
from kriss.errors import DamagedError

MINILM = "minilm"
"""The name of the embedded default, all-MiniLM-L6-v2."""
SETTINGS, TOKENIZER = "encoder.json", "tokenizer.json"
REFERENCES = "references"
"""The folder of the reference encoder, below that of the mention encoder."""

Precision = Literal["fp32", "int8"]
Shown = Literal["reference", "prototype", "both"]
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
class PairConfig:
    """Settings that a trained re-ranker carries with it: changing one would change its scores."""

    window: int = 64
    """Tokens of the mention's side, [CLS], [SEP] and markers included."""
    reference_window: int = 32
    """Tokens of a candidate's reference, counted with the [CLS] that is then removed."""
    prototype_window: int = 32
    """Tokens of a candidate's prototype, counted likewise."""
    shown: Shown = "both"
    """What is shown of a candidate: its entity's reference, its best prototype, or the one and then the other."""
    fields: tuple[Field, ...] = FIELDS
    """What a reference tells of its entity."""

    def longest(self) -> int:
        """Return how many tokens a pair has at most."""
        reference = self.reference_window - 1 if self.shown != "prototype" else 0
        prototype = self.prototype_window - 1 if self.shown != "reference" else 0
        return self.window + reference + prototype


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The roles that a tokenizer's own tokens play, and the two markers."""

    cls: str
    sep: str
    pad: str
    mask: str
    start: str
    end: str


T = TypeVar("T")


def read_settings(file: Path, kind: type[T], advice: str = "write the encoder again") -> tuple[SpecialTokens, T]:
    """Read what a saved model says of its tokens and sequences; `kind` is the class of its settings."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        tokens = from_mapping(SpecialTokens, settings.pop("tokens"), str(file))
        return tokens, from_mapping(kind, settings, str(file))
    except FileNotFoundError:
        raise DamagedError(f"{file.parent} holds no {file.stem}: there is no {file.name} in it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{file} cannot be read ({error}); {advice}") from None


def write_settings(file: Path, tokens: SpecialTokens, config: Any) -> None:  # noqa: ANN401 - any dataclass of settings
    """Write what `read_settings` reads."""
    settings = {**to_mapping(config), "tokens": dataclasses.asdict(tokens)}
    file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
