"""An encoder by its path: one that kriss wrote, or a published checkpoint in Hugging Face's layout.

    encoder, marked = load_encoder("out/sapbert", EncoderConfig(...))
    NameEncoder(encoder, marked=marked).vectors(["heart attack"])

SapBERT reads a bare name, `[CLS] heart attack [SEP]`. The windows of kriss put markers around every mention, which a
published model has never seen, so they are taken out again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import MANIFEST, open_artifact
from kriss.config import from_mapping, to_mapping
from kriss.encoder.config import EncoderConfig, Precision
from kriss.encoder.session import OnnxEncoder, onnx_file
from kriss.encoder.settings import SETTINGS
from kriss.encoder.windows import Sequences, Windows
from kriss.errors import ConfigError, DamagedError, MissingExtraError
from kriss.records import Excerpt

if TYPE_CHECKING:
    from kriss.encoder.model import Encoder

_TORCH, _ONNX = 64, 16
"""Sequences in a batch."""

Vectors = NDArray[np.float32]


def load_encoder(
    model: str, default: EncoderConfig, given: Mapping[str, Any] | None = None, precision: Precision = "fp32"
) -> tuple[OnnxEncoder | Encoder, bool]:
    """Return an encoder, and whether it was trained with markers around mentions.

    What kriss wrote has settings of its own, and links without torch where it has ONNX graphs. Any other model gets
    `default`, with the values of `given` that are not None instead, and no markers. Eight bits need its graphs.
    """
    chosen = {key: value for key, value in (given or {}).items() if value is not None}
    folder = Path(model)
    if not (folder / SETTINGS).is_file() and not (folder / MANIFEST).is_file():
        if precision != "fp32":
            raise ConfigError(
                f"{model} has no graphs of eight bits: write them with 'kriss export {model} --int8 --out DIR'"
            )
        _need_torch()
        from kriss.encoder.model import Encoder

        config = from_mapping(EncoderConfig, to_mapping(default) | chosen, "the encoder's settings")
        return _placed(Encoder.from_pretrained(model, config)), False
    if chosen:
        raise ConfigError(f"{folder} is an encoder with settings of its own: leave out --{next(iter(chosen))}")
    artifact = open_artifact(folder, "encoder") if (folder / MANIFEST).is_file() else None
    marked = bool(artifact.config.get("markers", True)) if artifact else True
    if precision != "fp32" or onnx_file(folder, "mention", "fp32").is_file():
        return OnnxEncoder.load(folder, precision), marked
    _need_torch()
    from kriss.encoder.model import Encoder

    return _placed(Encoder.load(folder)), marked


def _need_torch() -> None:
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "train", "an encoder without ONNX graphs")


def _placed(encoder: Encoder) -> Encoder:
    import torch

    return encoder.to("cuda") if torch.cuda.is_available() else encoder


class NameEncoder:
    """Names to vectors of length 1."""

    def __init__(self, encoder: OnnxEncoder | Encoder, *, marked: bool) -> None:
        self._encoder = encoder
        self._marked = marked

    def sequences(self, names: Sequence[str]) -> Sequences:
        """Return the tokens of names; equal ones are one name to the encoder."""
        return name_sequences(self._encoder.windows, names, marked=self._marked)

    def encode(self, sequences: Sequences) -> Vectors:
        """Return a vector for each sequence."""
        if isinstance(self._encoder, OnnxEncoder):
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
                found = sequences.encode(self._encoder.open("mention"), _ONNX, padded=False, workers=workers)
        else:
            found = self._encoder.vectors(self._encoder.mention, sequences, _TORCH)
        return unit(found)

    def vectors(self, names: Sequence[str]) -> Vectors:
        """Return a vector for each name."""
        return self.encode(self.sequences(names))


def name_sequences(windows: Windows, names: Sequence[str], *, marked: bool) -> Sequences:
    """Return names as sequences, with the markers of a mention around them or without."""
    found = windows.mentions([Excerpt.bare(name) for name in names])
    if marked:
        return found
    # [CLS] [M_s] name [M_e] [SEP]: without context the markers are always second and last but one.
    ids = [[sequence[0], *sequence[2:-2], sequence[-1]] for sequence in found.ids]
    match windows.config.pooling:
        case "cls":
            spans = found.spans
        case "mean":
            spans = [(0, len(sequence)) for sequence in ids]
        case "mention":
            spans = [(1, max(len(sequence) - 1, 2)) for sequence in ids]  # a name may have no token at all
    return Sequences(ids, spans, found.pad)


def unit(vectors: Vectors) -> Vectors:
    """Return vectors of length 1; one that is not a number is an error, or it would be the nearest of all."""
    if not np.isfinite(vectors).all():
        raise DamagedError("the encoder gives vectors that are not numbers; train or export it again")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) if vectors.size else np.ones((len(vectors), 1), np.float32)
    return cast(Vectors, np.ascontiguousarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32))
