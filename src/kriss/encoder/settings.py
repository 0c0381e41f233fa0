"""What a saved encoder says of itself in `encoder.json`; no torch, so that linking can read it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from kriss.config import from_mapping, to_mapping
from kriss.encoder.config import EncoderConfig, SpecialTokens
from kriss.errors import DamagedError

SETTINGS = "encoder.json"
REFERENCES = "references"
"""The folder of the reference encoder, below that of the mention encoder."""
TOKENIZER = "tokenizer.json"


def read_settings(folder: Path) -> tuple[SpecialTokens, EncoderConfig]:
    """Read what a saved encoder says of its tokens and sequences."""
    file = folder / SETTINGS
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        tokens = from_mapping(SpecialTokens, settings.pop("tokens"), str(file))
        return tokens, from_mapping(EncoderConfig, settings, str(file))
    except FileNotFoundError:
        raise DamagedError(f"{folder} holds no encoder: there is no {SETTINGS} in it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{file} cannot be read ({error}); write the encoder again") from None


def write_settings(folder: Path, tokens: SpecialTokens, config: EncoderConfig) -> None:
    """Write what `read_settings` reads."""
    settings = {**to_mapping(config), "tokens": dataclasses.asdict(tokens)}
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
