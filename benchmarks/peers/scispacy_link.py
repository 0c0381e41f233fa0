"""scispaCy's linker on names and mentions that it is given.

    python scispacy_link.py NAMES QUERIES ANSWERS LONG_ANSWERS [--graph]

Run by the Python of `candidates/requirements.txt`. NAMES is its own JSON-lines form of a knowledge base, QUERIES
and the answers are the JSON lines of `export.py`. ANSWERS are to the mentions as they stand; LONG_ANSWERS to
those that its abbreviation detector knows a long form of by that, as its EntityLinker asks with
`resolve_abbreviations`. The detector sees the tokens of a blank English pipeline: it uses nothing else of one.

Settings are those of its EntityLinker, except:

- 200 neighbouring names are looked up where its default is 30, or there would not be 64 entities to rank;
- all candidates are written, not the 5 best above its threshold of 0.7: `peer_links.py` applies that to the answer;
- `filter_for_definitions` is off: it would raise the threshold to 0.95 for entities without a definition;
- the nearest names are found by comparing with all of them, unless `--graph` is given. Its own index, a graph of
  nmslib's, approximates just that, and takes 40 minutes to build for 114,000 names where this takes none.

An entity's score is its best name's similarity, as there. Its linker breaks ties by the order of ids; here they
stay ties. Its graph is built by 60 threads whatever the machine has, so run it under `nice` where others work; a
rare neighbour may then differ from one run to the next.
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


def long_forms(queries: Sequence[dict[str, Any]]) -> list[str]:
    """Return the mentions, abbreviations that their text defines in their long form."""
    import spacy
    from scispacy.abbreviation import AbbreviationDetector  # type: ignore[import-not-found]

    nlp: Any = spacy.blank("en")
    detector = AbbreviationDetector(nlp)
    read: dict[str, Any] = {}
    found = []
    for query in queries:
        text, offset = query["text"], query["offset"]
        if text not in read:
            read[text] = detector(nlp(text))
        span = read[text].char_span(query["start"] - offset, query["end"] - offset)
        long = span._.long_form if span is not None else None  # None where a mention cuts through a token
        found.append(query["surface"] if long is None else " ".join(str(long).split()))
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


def main(names: Path, asked: Path, answers: Path, long_answers: Path, *, graph: bool) -> None:
    """Build its index of character 3-grams, and answer twice."""
    from scispacy import candidate_generation  # type: ignore[import-not-found]
    from scispacy.linking_utils import KnowledgeBase  # type: ignore[import-not-found]

    # It refuses to build with a scipy that cannot save float16; nothing is saved here.
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    if not graph:
        candidate_generation.nmslib = SimpleNamespace(init=ExactIndex, DataType=candidate_generation.nmslib.DataType)
    with asked.open(encoding="utf-8") as lines:
        queries = [json.loads(line) for line in lines]
    base = KnowledgeBase(str(names))
    aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, base)
    if graph:  # its linker sets this when it loads an index from disk, and not when it has just built one
        index.setQueryTimeParams({"efSearch": 200})
    generator = candidate_generation.CandidateGenerator(index, vectorizer, aliases, base)
    write_answers(answers, generator, [query["surface"] for query in queries])
    write_answers(long_answers, generator, long_forms(queries))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]), graph="--graph" in sys.argv[5:])
