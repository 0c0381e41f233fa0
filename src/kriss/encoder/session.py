"""The two Transformers in ONNX Runtime: what links where torch is not installed.

    encoder = OnnxEncoder.load(folder, precision="int8", threads=2)
    vectors = encoder.mentions([Excerpt.at(text, 14, 16)])       # numpy, one row each

Same sequences, same methods and, to rounding, same vectors as `kriss.encoder.model.Encoder`.

Here a vector does not depend on what it is encoded with, to the last bit: batches are not padded, and the
scales of the eight-bit graphs are fixed (`kriss.encoder.quantize`). The batches are shared by threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Self, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from kriss.encoder.config import SETTINGS, TOKENIZER, EncoderConfig, PairConfig, Precision, read_settings
from kriss.encoder.pairs import SETTINGS as RERANKER
from kriss.encoder.pairs import Option, Pairs
from kriss.encoder.windows import Batch, Sequences, Windows, read_fast_tokenizer
from kriss.errors import ArtifactError, ConfigError, DamagedError
from kriss.records import Entity, Excerpt

Part = Literal["mention", "references"]
PARTS: tuple[Part, ...] = ("mention", "references")
_SIZE = 16
"""Sequences in a batch; larger ones are no faster on a CPU."""
_SLOW = ["SkipLayerNormFusion"]
"""What ONNX Runtime would fuse into an operation that is slower than its parts."""
Run = Callable[[Batch], NDArray[np.float32]]


def onnx_file(folder: Path, part: Part, precision: Precision) -> Path:
    """Return where a saved encoder keeps one of its graphs."""
    return folder / "onnx" / f"{part}{'-int8' if precision == 'int8' else ''}.onnx"


def cross_file(folder: Path, precision: Precision) -> Path:
    """Return where a saved re-ranker keeps a graph."""
    return folder / "onnx" / f"pairs{'-int8' if precision == 'int8' else ''}.onnx"


class Workers:
    """Threads that share batches; 0 are all cores. In a forked process they are made anew."""

    def __init__(self, threads: int = 0) -> None:
        if threads < 0:
            raise ConfigError(f"'threads' must be at least 1, or 0 for all cores, not {threads}")
        self._threads = threads
        self._process, self._pool = 0, ThreadPoolExecutor(1)

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The threads of this process: those that a fork inherits do not run, and would be waited for."""
        if self._process != os.getpid():
            self._pool = ThreadPoolExecutor(self._threads or len(os.sched_getaffinity(0)))
            self._process = os.getpid()
        return self._pool


class OnnxEncoder:
    """Mentions and entities to vectors of one space, without torch.

    One encoder may be called from several threads. A pickled one is its path and options, and is
    read again where it is unpickled: sessions do not travel between processes.
    """

    def __init__(self, folder: Path, precision: Precision = "fp32", threads: int = 0) -> None:
        if precision not in ("fp32", "int8"):
            raise ConfigError(f"the precision of an encoder is fp32 or int8, not '{precision}'")
        self._options = (folder, precision, threads)
        tokens, config = read_settings(folder / SETTINGS, EncoderConfig)
        self._graphs: dict[Part, Run] = {}
        for part in PARTS:
            _check(folder, part, precision)
        self._workers = Workers(threads)
        self.windows = Windows(read_fast_tokenizer(folder / TOKENIZER), tokens, config)

    @classmethod
    def load(cls, folder: Path, precision: Precision = "fp32", threads: int = 0) -> Self:
        """Read an encoder that `kriss export` wrote; `threads` of 0 are all cores."""
        return cls(folder, precision, threads)

    def __reduce__(self) -> tuple[type[Self], tuple[Path, Precision, int]]:
        return type(self), self._options

    @property
    def config(self) -> EncoderConfig:
        """How sequences are made and pooled."""
        return self.windows.config

    @property
    def precision(self) -> Precision:
        """In which numbers the graphs calculate."""
        return self._options[1]

    def mentions(self, mentions: Sequence[Excerpt]) -> NDArray[np.float32]:
        """Return c for each mention."""
        return self._encode(self.windows.mentions(mentions), "mention")

    def references(self, entities: Sequence[Entity]) -> NDArray[np.float32]:
        """Return r for each entity."""
        return self._encode(self.windows.references(entities), "references")

    def open(self, part: Part) -> Run:
        """Read a graph if it was not read yet; linking hardly ever needs that of references."""
        if part not in self._graphs:
            folder, precision, _ = self._options
            self._graphs[part] = open_graph(onnx_file(folder, part, precision), threads=1)
        return self._graphs[part]

    def _encode(self, sequences: Sequences, part: Part) -> NDArray[np.float32]:
        run = self.open(part)
        return sequences.encode(run, _SIZE, padded=False, workers=self._workers.pool)


class OnnxCrossEncoder:
    """A re-ranker: a score for each pair of a mention and a candidate. It may be called from several threads.

    cross = OnnxCrossEncoder(folder, precision="int8", threads=2)
    scores = cross.scores([mention], [options])      # numpy, one score an option
    """

    def __init__(self, folder: Path, precision: Precision, candidates: int = 0, threads: int = 0) -> None:
        self.candidates = candidates
        """How many of each mention a linker lets it read."""
        advice = "train the re-ranker again"
        tokens, config = read_settings(folder / RERANKER, PairConfig, advice)
        file = cross_file(folder, precision)
        if not file.is_file():
            raise DamagedError(f"there is no {file}; {advice}")
        self.pairs = Pairs(read_fast_tokenizer(folder / TOKENIZER, advice), tokens, config)
        self._run = open_graph(file, threads=1, advice=advice)
        self._workers = Workers(threads)

    def scores(self, mentions: Sequence[Excerpt], options: Sequence[Sequence[Option]]) -> NDArray[np.float32]:
        """Return a score for each option of each mention, those of the first mention first."""
        pairs = self.pairs(mentions, options)
        return pairs.encode(self._run, _SIZE, padded=False, workers=self._workers.pool).reshape(len(pairs))


def open_session(model: Path | bytes, threads: int = 0) -> onnxruntime.InferenceSession:
    """Open a graph for the CPU; eight-bit products are exact on every processor.

    On one without VNNI instructions, ONNX Runtime would add two products in 16 bits, which overflow and are cut off:
    a linker would give other answers there than where it was built.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOW)


def open_graph(file: Path, threads: int = 0, advice: str = "export the encoder again") -> Run:
    """Return what turns a batch into vectors; `advice` is for whom the file is damaged."""
    try:
        session = open_session(file, threads)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime has a dozen kinds without a common base
        reason = " ".join(str(error).split())[:200]
        raise DamagedError(f"{file} is no graph that ONNX Runtime reads ({reason}); {advice}") from None

    def run(batch: Batch) -> NDArray[np.float32]:
        [vectors] = session.run(["vectors"], {"ids": batch.ids, "mask": batch.mask, "pool": batch.pool})
        return cast(NDArray[np.float32], vectors)

    return run


def _check(folder: Path, part: Part, precision: Precision) -> None:
    file = onnx_file(folder, part, precision)
    if not file.is_file():
        flag = " --int8" if precision == "int8" else ""
        raise ArtifactError(f"there is no {file}: write it with 'kriss export {folder} --out DIR{flag}'")
