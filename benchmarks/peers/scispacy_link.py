"""scispaCy's linker on names and mentions that it is given.

    python scispacy_link.py NAMES QUERIES ANSWERS LONG_ANSWERS

Run by the Python of `candidates/requirements.txt`. NAMES is its own JSON-lines form of a knowledge base, QUERIES
and the answers are the JSON lines of `export.py`. ANSWERS are to the mentions as they stand; LONG_ANSWERS to
those that its abbreviation detector knows a long form of by that, as its EntityLinker asks with
`resolve_abbreviations`. The detector sees the tokens of a blank English pipeline: it uses nothing else of one.

Settings are those of its EntityLinker, except:

- 200 neighbouring names are looked up where its default is 30, or there would not be 64 entities to rank;
- all candidates are written, not the 5 best above its threshold of 0.7: `peer_links.py` applies that to the answer;
- `filter_for_definitions` is off: it would raise the threshold to 0.95 for entities without a definition.

An entity's score is its best name's similarity, as there. Its linker breaks ties by the order of ids; here they
stay ties. Its index is built by 60 threads whatever the machine has, so run it under `nice` where others work; a
rare neighbour may differ from one run to the next.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NEIGHBOURS = 200


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


def main(names: Path, asked: Path, answers: Path, long_answers: Path) -> None:
    """Build its index of character 3-grams, and answer twice."""
    from scispacy import candidate_generation  # type: ignore[import-not-found]
    from scispacy.linking_utils import KnowledgeBase  # type: ignore[import-not-found]

    # It refuses to build with a scipy that cannot save float16; nothing is saved here.
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    with asked.open(encoding="utf-8") as lines:
        queries = [json.loads(line) for line in lines]
    base = KnowledgeBase(str(names))
    aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, base)
    generator = candidate_generation.CandidateGenerator(index, vectorizer, aliases, base)
    write_answers(answers, generator, [query["surface"] for query in queries])
    write_answers(long_answers, generator, long_forms(queries))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
