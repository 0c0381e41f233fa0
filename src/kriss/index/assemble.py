"""The parts of a linker put together: vectors, n-grams, names, and a calibration of the whole."""

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
from kriss.index.layout import LOOKED_FOR, NAMES, NGRAMS, PROTOTYPES, REFERENCES, VECTORS
from kriss.index.prototypes import KINDS, Prototypes
from kriss.mine.names import write_names
from kriss.ontology import Ontology
from kriss.rank import ngrams
from kriss.rank.calibrate import WEIGHTS, Calibration, Question, calibrate, dev_questions, name_questions, usable
from kriss.rank.hierarchy import Hierarchy
from kriss.rank.query import query_vectors
from kriss.rank.spelling import Spelling
from kriss.rank.weights import choose_weight

_QUERIES, _ENOUGH = 1000, 50
"""Dev mentions that are asked, if there are so many, and the fewest that will do."""
_FOR_WEIGHT, _FOR_RECALL = 400, 200
"""How many of them choose the weight of references, and measure recall."""


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

    def run(self, mined: pq.ParquetFile, progress: Progress) -> Calibration:
        """Write everything; what is worth knowing of it is in `facts` then."""
        questions = usable(self._prototypes, dev_questions(mined, self._ontology, _QUERIES, self._config.seed))
        from_dev = len(questions) >= _ENOUGH
        if not from_dev:
            questions = usable(self._prototypes, name_questions(self._prototypes, _QUERIES, self._config.seed))
        self._write_vectors(questions, progress)
        if self._config.ngrams:
            ngrams.build(self._folder / NGRAMS, self._ontology.names_table())
        with suppress(InputError):  # no name that could stand in text: then none are looked for
            (self._folder / NAMES).mkdir()
            write_names(self._ontology.names_table(), LOOKED_FOR, self._folder / NAMES)
        progress({"event": "calibrating"})
        index = vectors.Index.open(self._folder / VECTORS)
        spelling = None
        if self._config.ngrams:
            surfaces = [question.mention.surface for question in questions]
            spelling = Spelling(ngrams.NgramIndex.open(self._folder / NGRAMS), self._ontology, surfaces)
        weights = WEIGHTS if from_dev else (0.0,)
        hierarchy = Hierarchy(self._ontology)
        calibration = calibrate(self._encoder, index, self._prototypes, questions, weights, spelling, hierarchy)
        calibration.save(self._folder)
        self.facts |= {
            "recall_at_64": self._recall(index, questions, calibration.context),
            "calibration_queries": calibration.queries,
            "context": calibration.context,
            "ngrams": calibration.ngrams,
            "broader": calibration.broader,
        }
        return calibration

    def _write_vectors(self, questions: list[Question], progress: Progress) -> None:
        """Add references to prototypes, and write the index of the sums."""
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
        weight = self._config.references
        if weight is None:
            asked = questions[:: max(1, len(questions) // _FOR_WEIGHT)]
            weight = choose_weight(self._encoder, asked, prototypes, joined(blocks, work, "vectors"), references)
        sums = np.lib.format.open_memmap(work / "sums.npy", "w+", np.float32, (len(prototypes), width))
        for block, found in joined(blocks, work, "vectors"):
            owners = prototypes.entity[block.first : block.last]
            sums[block.first : block.last] = found + np.float32(weight) * references[owners].astype(np.float32)
        (self._folder / VECTORS).mkdir()
        facts = vectors.build(self._folder / VECTORS, sums, kind, seed=self._config.seed)
        self.facts |= {"references": weight, "index": facts}

    def _recall(self, index: vectors.Index, questions: list[Question], context: float) -> float:
        """Return what share of the 64 best prototypes the index finds, for queries as they will be asked."""
        if index.kind == "flat" or not questions:
            return 1.0
        asked = questions[:: max(1, len(questions) // _FOR_RECALL)]
        queries = query_vectors(self._encoder, [question.mention for question in asked], context)
        return round(float(vectors.recall(index, queries)), 4)
