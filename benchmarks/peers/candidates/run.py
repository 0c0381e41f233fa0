"""scispaCy's candidate generator on names that it is given.

    python run.py NAMES SURFACES FOLDER

NAMES is its own JSON-lines form of a knowledge base, SURFACES a JSON list of mentions, FOLDER where its index
of character 3-grams is written. One JSON object is printed: seconds for all mentions at once, as its
linker would ask for those of a document, with its default of 30 neighbours; building is timed apart.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(names: Path, surfaces: Path, folder: Path) -> None:
    """Build the index, look the mentions up, and print how long both took."""
    from scispacy.candidate_generation import (  # type: ignore[import-not-found]
        CandidateGenerator,
        create_tfidf_ann_index,
    )
    from scispacy.linking_utils import KnowledgeBase  # type: ignore[import-not-found]

    folder.mkdir(parents=True, exist_ok=True)
    base = KnowledgeBase(str(names))
    began = time.perf_counter()
    aliases, vectorizer, index = create_tfidf_ann_index(str(folder), base)
    built = time.perf_counter() - began
    generator = CandidateGenerator(index, vectorizer, aliases, base)
    mentions = json.loads(surfaces.read_text(encoding="utf-8"))
    generator(mentions[:32], 30)
    began = time.perf_counter()
    generator(mentions, 30)
    print(json.dumps({"seconds": time.perf_counter() - began, "mentions": len(mentions), "build": built}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
