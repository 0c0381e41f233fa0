"""What a user can ask of an index; the same fields are the options of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kriss.encoder.session import Precision
from kriss.errors import ConfigError
from kriss.mine.config import SPLITS

Names = Literal["all", "missing", "none"]
Backend = Literal["onnx", "torch"]
Choice = Literal["auto", "flat", "fp16", "sq8", "hnsw", "ivf"]


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """Settings that change what a linker answers."""

    per_entity: int = 16
    """Mined mentions that an entity has as prototypes, at most."""
    splits: tuple[str, ...] = ("prototypes",)
    """Which mined mentions may be prototypes; those of `train` add to them once training is done."""
    names: Names = "all"
    """Names without context as prototypes: of entities without a mined mention (`missing`, all that the
    paper needs), of `all`, or of `none`."""
    index: Choice = "auto"
    precision: Precision = "fp32"
    """In which numbers mentions are encoded, here and when linking."""
    backend: Backend = "onnx"
    """What encodes prototypes; torch uses a GPU if there is one, and needs fp32."""
    seed: int = 0


def check(config: IndexConfig) -> None:
    """Refuse settings that make no sense together."""
    if config.per_entity < 0:
        raise ConfigError(f"'per_entity' must not be negative, and is {config.per_entity}")
    if unknown := sorted(set(config.splits) - set(SPLITS)):
        raise ConfigError(f"there is no split '{unknown[0]}'; mentions have {', '.join(SPLITS)}")
    if "dev" in config.splits:
        raise ConfigError("mentions of the split 'dev' calibrate the linker and cannot be its prototypes")
    if not config.per_entity and config.names == "none":
        raise ConfigError("no mined mentions and no names: nothing would be in the index")
    if config.backend == "torch" and config.precision != "fp32":
        raise ConfigError("torch encodes in fp32; take '--backend onnx' for int8")
