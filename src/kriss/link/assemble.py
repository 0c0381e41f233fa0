"""The parts of a linker put together: vectors, spellings, names, and weights chosen by linking dev mentions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from kriss.encoder.session import OnnxEncoder
from kriss.errors import InputError
from kriss.index import vectors
from kriss.index.config import IndexConfig
from kriss.index.encode import Block, Progress, joined
from kriss.index.prototypes import KINDS, Prototypes
from kriss.mine.config import MineConfig
from kriss.mine.names import write_names
from kriss.ontology import Ontology
from kriss.rank import spelling
from kriss.rank.decide import Ranking
from kriss.rank.parts import NAMES, PROTOTYPES, REFERENCES, SPELLING, VECTORS, Parts
from kriss.rank.queries import Queries
from kriss.rank.tune import Case, Weights, dev_cases, name_cases, tune, usable

LOOKED_FOR = MineConfig(min_length=2)
"""How names are found in text that is annotated: `MS` too, which mining passes over as too short."""
_CASES, _ENOUGH = 1000, 50
"""Dev mentions that are linked, if there are so many, and the fewest that will do."""
_FOR_RECALL = 200
"""How many of them measure recall."""


class Assembly:
    """Writes into the folder of a linker what encoding left in the work folder."""

    def __init__(
        self,
        work: Path,
        folder: Path,
        config: IndexConfig,
        ontology: Ontology,
        encoder: OnnxEncoder,
        blocks: list[Block],
    ) -> None:
        self._work = work
        self._folder = folder
        self._config = config
        self._ontology = ontology
        self._encoder = encoder
        self._blocks = blocks
        self._prototypes = Prototypes(work / PROTOTYPES)
        self.facts: dict[str, Any] = {
            "entities": len(ontology),
            "reachable": len(np.unique(self._prototypes.entity)),
            "mined": len(np.unique(self._prototypes.entity[self._prototypes.kind == KINDS.index("mined")])),
            "prototypes": self._prototypes.counts(),
        }

    def run(self, mined: pq.ParquetFile, progress: Progress) -> Weights:
        """Write everything; what is worth knowing of it is in `facts` then."""
        self._write_vectors(progress)
        spelling.build(self._folder / SPELLING, self._ontology.names_table())
        with suppress(InputError):  # no name that could stand in text: then none are looked for
            (self._folder / NAMES).mkdir()
            write_names(self._ontology.names_table(), LOOKED_FOR, self._folder / NAMES)
        progress({"event": "tuning"})
        cases = usable(self._prototypes, dev_cases(mined, self._ontology, _CASES, self._config.seed))
        if len(cases) < _ENOUGH:
            cases = usable(self._prototypes, name_cases(self._prototypes, _CASES, self._config.seed))
        parts = Parts.open(self._folder)
        weights = tune(Ranking(parts, {}), self._encoder, cases)
        weights.save(self._folder)
        self.facts |= {
            "recall_at_64": self._recall(parts.index, cases, weights.weights["context"]),
            "dev_mentions": weights.queries,
            "dev_accuracy": dict(weights.accuracy),
            "weights": dict(weights.weights),
        }
        return weights

    def _write_vectors(self, progress: Progress) -> None:
        """Write the index of prototypes, and the references."""
        prototypes, blocks, work = self._prototypes, self._blocks, self._work
        width = next(joined(blocks, work, "vectors"))[1].shape[1]
        kind = vectors.choose(len(prototypes), width) if self._config.index == "auto" else self._config.index
        progress({"event": "indexing", "kind": kind, "count": len(prototypes)})
        references = np.lib.format.open_memmap(
            self._folder / REFERENCES, "w+", np.float32 if kind == "flat" else np.float16, (len(self._ontology), width)
        )
        for block, found in joined(blocks, work, "references"):
            references[block.first : block.last] = found
        references.flush()
        whole = np.lib.format.open_memmap(work / "whole.npy", "w+", np.float32, (len(prototypes), width))
        for block, found in joined(blocks, work, "vectors"):
            whole[block.first : block.last] = found
        (self._folder / VECTORS).mkdir()
        self.facts["index"] = vectors.build(self._folder / VECTORS, whole, kind, seed=self._config.seed)

    def _recall(self, index: vectors.Index, cases: list[Case], context: float) -> float:
        """Return what share of the 64 best prototypes the index finds, for queries as they will be asked."""
        if index.kind == "flat" or not cases:
            return 1.0
        excerpts = [case.excerpt for case in cases[:: max(1, len(cases) // _FOR_RECALL)]]
        queries = Queries.of(self._encoder, excerpts, context=context > 0)
        return round(float(vectors.recall(index, queries.vectors(context))), 4)
