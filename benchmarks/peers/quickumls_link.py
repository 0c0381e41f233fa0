"""QuickUMLS on names and mentions that it is given.

    python quickumls_link.py RRF MENTIONS ANSWERS

Run by the Python of `quickumls/requirements.txt`. RRF is a folder with MRCONSO.RRF and MRSTY.RRF, which its own
installer reads; MENTIONS and ANSWERS are the JSON lines of `baselines/packages.py`. It is asked for all candidates
of the mention's surface (`best_match=False`), with its defaults of Jaccard similarity, a threshold of 0.7 and at
least 3 characters, and all semantic types accepted. Otherwise than by default:

- it is installed with `-L` and `-U`, so that neither case nor accents keep a name from matching;
- its n-grams have up to 30 tokens: with its default of 5, a longer mention could not match as a whole;
- `_match` is called, since `match` of version 1.4.2 does not pass `best_match` on.

It wants two things that no package index has, and gets others: in place of the spaCy model `en_core_web_sm` a
blank English pipeline, so that its rules on determiners, prepositions and conjunctions rest on stop words alone,
and in place of NLTK's stop words those of spaCy.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

WINDOW = 30


def candidates(surface: str, groups: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the entities of all matches, each with the best of its: that which covers most, then the most similar."""
    best: dict[str, dict[str, Any]] = {}
    for match in (match for group in groups for match in group):
        covered = (match["end"] - match["start"]) / len(surface)
        row = {"entity": match["cui"], "score": match["similarity"], "covered": covered, "name": match["term"]}
        known = best.get(row["entity"])
        if known is None or (covered, row["score"]) > (known["covered"], known["score"]):
            best[row["entity"]] = row
    return list(best.values())


def replace_downloads(folder: Path) -> None:
    """Give it a pipeline and stop words that need no download."""
    import nltk  # type: ignore[import-not-found]
    import spacy
    from quickumls import constants  # type: ignore[import-not-found]
    from spacy.lang.en.stop_words import STOP_WORDS

    spacy.blank("en").to_disk(folder)
    constants.SPACY_LANGUAGE_MAP["ENG"] = str(folder)
    nltk.corpus.stopwords = SimpleNamespace(words=lambda *_: sorted(STOP_WORDS))


def install(rrf: Path, folder: Path) -> None:
    """Run its installer."""
    from quickumls import install as installer

    folder.mkdir()
    given, sys.argv = sys.argv, ["quickumls.install", "-L", "-U", str(rrf), str(folder)]
    installer.main()
    sys.argv = given


def main(rrf: Path, asked: Path, answers: Path) -> None:
    """Install it and answer; a surface that comes again is asked for once."""
    with tempfile.TemporaryDirectory(dir=answers.parent) as work:
        replace_downloads(Path(work) / "blank")
        install(rrf, Path(work) / "installed")
        from quickumls import QuickUMLS

        matcher = QuickUMLS(str(Path(work) / "installed"), window=WINDOW, accepted_semtypes=None)
        known: dict[str, str] = {}
        with asked.open(encoding="utf-8") as lines, answers.open("w", encoding="utf-8") as written:
            for line in lines:
                surface = json.loads(line)["surface"]
                if surface not in known:
                    found = candidates(surface, matcher._match(matcher.nlp(surface), best_match=False))
                    known[surface] = json.dumps({"candidates": found}, ensure_ascii=False)
                written.write(known[surface] + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
