"""Bare names to vectors, by an encoder with ONNX graphs: what `kriss export` writes of any model.

    NameEncoder(Path("out/sapbert-onnx"), "int8").vectors(["heart attack"])

SapBERT reads a bare name, `[CLS] heart attack [SEP]`. The windows of kriss put markers around every mention, which a
published model has never seen, so they are taken out again unless the encoder was trained with them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import open_artifact
from kriss.encoder.config import Precision
from kriss.encoder.session import OnnxEncoder
from kriss.encoder.windows import Sequences, Windows
from kriss.errors import DamagedError
from kriss.records import Excerpt

_SIZE = 16
"""Sequences in a batch."""

Vectors = NDArray[np.float32]


class NameEncoder:
    """Names to vectors of length 1."""

    def __init__(self, folder: Path, precision: Precision = "fp32") -> None:
        self.marked = bool(open_artifact(folder, "encoder").config.get("markers", True))
        self._encoder = OnnxEncoder.load(folder, precision)

    def sequences(self, names: Sequence[str]) -> Sequences:
        """Return the tokens of names; equal ones are one name to the encoder."""
        return name_sequences(self._encoder.windows, names, marked=self.marked)

    def encode(self, sequences: Sequences) -> Vectors:
        """Return a vector for each sequence."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
            return unit(sequences.encode(self._encoder.open("mention"), _SIZE, padded=False, workers=workers))

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
    lengths = np.linalg.norm(finite(vectors), axis=1, keepdims=True)
    return cast(Vectors, np.ascontiguousarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32))


def finite(vectors: Vectors) -> Vectors:
    """Return vectors that are numbers."""
    if not np.isfinite(vectors).all():
        raise DamagedError("the encoder gives vectors that are not numbers; train or export it again")
    return vectors
