"""What a user can ask of a linker that is built; each field is also an option of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kriss.config import Setting, Settings
from kriss.encoder.config import Precision
from kriss.errors import ConfigError
from kriss.mine.config import Split

Names = Literal["all", "missing", "none"]
Backend = Literal["onnx", "torch"]
Choice = Literal["auto", "flat", "ivf"]


@dataclass(frozen=True, slots=True)
class IndexConfig(Settings):
    """Settings that change what a linker answers."""

    per_entity: Annotated[int, Setting("Mined mentions that an entity has as prototypes, at most.")] = 16
    splits: Annotated[
        tuple[Split, ...],
        Setting(
            "Which mined mentions may be prototypes: prototypes, and train once training is done. Repeatable.",
            "SPLIT",
            flag="--split",
        ),
    ] = ("prototypes",)
    names: Annotated[
        Names,
        Setting("Names without context as prototypes: all, of entities with no mined mention (the paper), or none."),
    ] = "all"
    index: Annotated[Choice, Setting("Kind of index; auto chooses by size.")] = "auto"
    precision: Annotated[
        Precision, Setting("In which numbers mentions are encoded, here and when linking; int8 is faster.")
    ] = "fp32"
    backend: Annotated[
        Backend, Setting("What encodes prototypes; torch uses a GPU if there is one, and needs fp32.")
    ] = "onnx"
    seed: Annotated[int, Setting("Draws other mentions to choose weights by.")] = 0

    def check(self) -> None:
        """Refuse settings that make no sense together."""
        if "dev" in self.splits:
            raise ConfigError("mentions of the split 'dev' calibrate the linker and cannot be its prototypes")
        if not self.per_entity and self.names == "none":
            raise ConfigError("no mined mentions and no names: nothing would be in the index")
        if self.backend == "torch" and self.precision != "fp32":
            raise ConfigError("torch encodes in fp32; take '--backend onnx' for int8")
