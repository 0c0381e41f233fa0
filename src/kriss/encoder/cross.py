"""A re-ranker in ONNX Runtime: a score for each pair of a mention and a candidate, where torch is not installed.

    cross = OnnxCrossEncoder(folder, precision="int8", threads=2)
    scores = cross.scores(cross.pairs([mention], [options]))      # numpy, one score an option

Same sequences and, to rounding, same scores as `kriss.rerank.model.CrossEncoder`. A score does not depend on what
it is computed with: batches hold one length alone, and eight-bit scales are fixed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from kriss.encoder.config import Precision
from kriss.encoder.pairs import Pairs, read_settings
from kriss.encoder.session import open_graph
from kriss.encoder.settings import TOKENIZER
from kriss.encoder.windows import Sequences
from kriss.encoder.workers import Workers
from kriss.errors import DamagedError

_SIZE = 16
"""Pairs in a batch; larger ones are no faster on a CPU."""
_ADVICE = "train the re-ranker again"


def cross_file(folder: Path, precision: Precision) -> Path:
    """Return where a saved re-ranker keeps a graph."""
    return folder / "onnx" / f"pairs{'-int8' if precision == 'int8' else ''}.onnx"


class OnnxCrossEncoder:
    """Scores candidates; it may be called from several threads."""

    def __init__(self, folder: Path, precision: Precision, threads: int = 0) -> None:
        tokens, config = read_settings(folder)
        file = cross_file(folder, precision)
        if not file.is_file():
            raise DamagedError(f"there is no {file}; {_ADVICE}")
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # noqa: BLE001 - tokenizers raises bare Exception
            raise DamagedError(f"{folder / TOKENIZER} is no tokenizer ({error}); {_ADVICE}") from None
        self.pairs = Pairs(tokenizer, tokens, config)
        self._run = open_graph(file, threads=1, advice=_ADVICE)
        self._workers = Workers(threads)

    def scores(self, pairs: Sequences) -> NDArray[np.float32]:
        """Return the scores of pairs in their order."""
        return pairs.encode(self._run, _SIZE, padded=False, workers=self._workers.pool).reshape(len(pairs))
