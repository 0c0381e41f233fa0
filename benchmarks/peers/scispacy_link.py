"""scispaCy's linker on names and mentions that it is given.

    python scispacy_link.py NAMES MENTIONS ANSWERS

Run by the Python of `candidates/requirements.txt`. NAMES is its own JSON-lines form of a knowledge base, MENTIONS
and ANSWERS are the JSON lines of `baselines/packages.py`.

Settings are those of its EntityLinker, except:

- 200 neighbouring names are looked up where its default is 30, or there would not be 64 entities to rank;
- all candidates are written, not the 5 best above its threshold of 0.7, which is applied to the answer later;
- `filter_for_definitions` is off: it would raise the threshold to 0.95 for entities without a definition;
- the nearest names are found by comparing with all of them. Its own index, a graph of nmslib's, approximates just
  that, and takes 40 minutes to build for 114,000 names where this takes none.

An entity's score is its best name's similarity, as there. Its linker breaks ties by the order of ids; here they
stay ties.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

NEIGHBOURS = 200
_QUERIES = 256
"""Mentions that are compared with all names at a time."""


class ExactIndex:
    """What scispaCy asks of nmslib's index of sparse vectors of length 1, without the approximation."""

    def __init__(self, **_: object) -> None:
        self._names: Any = None

    def addDataPointBatch(self, vectors: Any) -> None:  # noqa: N802, ANN401 - nmslib's name, scipy's class
        """Keep the vectors of the names, a row each."""
        self._names = vectors.T.tocsr()

    def createIndex(self, *_: object, **__: object) -> None:  # noqa: N802
        """Build nothing."""

    def knnQueryBatch(self, vectors: Any, k: int) -> list[tuple[Any, Any]]:  # noqa: N802, ANN401
        """Return the places and distances (1 - cosine) of the k nearest names of each vector, the nearest first."""
        found = []
        for first in range(0, vectors.shape[0], _QUERIES):
            scores = (vectors[first : first + _QUERIES] @ self._names).tocsr()
            for row in range(scores.shape[0]):
                part = slice(scores.indptr[row], scores.indptr[row + 1])  # names without a 3-gram in common are none
                places, near = scores.indices[part], scores.data[part]
                order = np.lexsort((places, -near))[:k]
                found.append((places[order], 1 - near[order]))
        return found


def write_answers(path: Path, generator: Any, surfaces: Sequence[str]) -> None:  # noqa: ANN401 - its own class
    """Look the mentions up, all at once, and write their candidates."""
    with path.open("w", encoding="utf-8") as lines:
        for candidates in generator(list(surfaces), NEIGHBOURS):
            rows = []
            for one in candidates:
                score, name = max(zip(one.similarities, one.aliases, strict=True))
                rows.append({"entity": one.concept_id, "score": float(score), "name": name})
            lines.write(json.dumps({"candidates": rows}, ensure_ascii=False) + "\n")


def main(names: Path, asked: Path, answers: Path) -> None:
    """Build its index of character 3-grams, and answer."""
    from scispacy import candidate_generation  # type: ignore[import-not-found]
    from scispacy.linking_utils import KnowledgeBase  # type: ignore[import-not-found]

    # It refuses to build with a scipy that cannot save float16; nothing is saved here.
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    candidate_generation.nmslib = SimpleNamespace(init=ExactIndex, DataType=candidate_generation.nmslib.DataType)
    base = KnowledgeBase(str(names))
    aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, base)
    generator = candidate_generation.CandidateGenerator(index, vectorizer, aliases, base)
    with asked.open(encoding="utf-8") as lines:
        write_answers(answers, generator, [json.loads(line)["surface"] for line in lines])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
