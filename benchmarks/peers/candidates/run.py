"""scispaCy's candidate generator on names that it is given.

    python run.py NAMES SURFACES

NAMES is its own JSON-lines form of a knowledge base, SURFACES a JSON list of mentions. One JSON object is printed:
seconds for all mentions at once, as its linker would ask for those of a document, with its default of 30
neighbours; building its index of character 3-grams is timed apart.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(names: Path, surfaces: Path) -> None:
    """Build the index, look the mentions up, and print how long both took."""
    from scispacy import candidate_generation  # type: ignore[import-not-found]
    from scispacy.candidate_generation import CandidateGenerator  # type: ignore[import-not-found]
    from scispacy.linking_utils import KnowledgeBase  # type: ignore[import-not-found]

    # It refuses to build with a scipy that cannot save float16; nothing is saved here.
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    base = KnowledgeBase(str(names))
    began = time.perf_counter()
    aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, base)
    built = time.perf_counter() - began
    generator = CandidateGenerator(index, vectorizer, aliases, base)
    mentions = json.loads(surfaces.read_text(encoding="utf-8"))
    generator(mentions[:32], 30)
    began = time.perf_counter()
    generator(mentions, 30)
    print(json.dumps({"seconds": time.perf_counter() - began, "mentions": len(mentions), "build": built}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
