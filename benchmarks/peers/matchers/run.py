"""Other libraries that find names in text, on the forms and documents that kriss is given.

    python run.py PEER FORMS DOCUMENTS

FORMS is a text file with a form on each line, DOCUMENTS a JSON list of texts. One JSON object is
printed: seconds to build, seconds to find, hits. The clock of the search starts with texts in
memory and a matcher that is built, and stops when the offsets of the hits are known; the better of
two passes counts, here and for kriss.

Each is used as its documentation advises for a list of literal names: case-sensitive, since the
forms are written out in all their cases. Each has its own notion of a word, so hits differ.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PASSES = 2
Find = Callable[[str], int]
"""Finds the names in a text and returns how many there are."""


def phrase_matcher(forms: list[str]) -> Find:
    """spaCy: the tokenizer of a blank English pipeline, and the PhraseMatcher on exact tokens.

    It gives all matches, also those inside longer ones; sorting these out would cost it more time.
    """
    import spacy
    from spacy.matcher import PhraseMatcher

    nlp: Any = spacy.blank("en")
    matcher = PhraseMatcher(nlp.vocab, attr="ORTH")
    step = 10_000  # the documents of all forms at once would fill the memory
    for start in range(0, len(forms), step):
        matcher.add("name", list(nlp.tokenizer.pipe(forms[start : start + step])))
    return lambda text: len(matcher(nlp.make_doc(text)))


def flashtext(forms: list[str]) -> Find:
    """flashtext2: a trie of words, written in Rust; the longest match, whole words."""
    from flashtext2 import KeywordProcessor  # type: ignore[import-not-found]

    processor = KeywordProcessor(case_sensitive=True)
    processor.add_keywords_from_iter(forms)
    return lambda text: len(processor.extract_keywords_with_span(text))


def pyahocorasick(forms: list[str]) -> Find:
    """`pyahocorasick`, and the loop that it takes to make whole words, leftmost and longest, of its matches.

    `iter_long` would be quicker, but a match inside a word hides the right one from it.
    """
    import ahocorasick  # type: ignore[import-not-found]

    automaton = ahocorasick.Automaton(ahocorasick.STORE_LENGTH)
    for form in forms:
        automaton.add_word(form)
    automaton.make_automaton()

    def find(text: str) -> int:
        longest: dict[int, int] = {}
        size = len(text)
        for last, length in automaton.iter(text):
            start, end = last - length + 1, last + 1
            if (end == size or not text[end].isalnum()) and (start == 0 or not text[start - 1].isalnum()):
                longest[start] = end  # matches come by their end: a later one is longer
        hits, free = [], 0
        for start in sorted(longest):
            if start >= free:
                free = longest[start]
                hits.append((start, free, text[start:free]))
        return len(hits)

    return find


PEERS: dict[str, Callable[[list[str]], Find]] = {
    "spaCy PhraseMatcher": phrase_matcher,
    "flashtext2": flashtext,
    "pyahocorasick loop": pyahocorasick,
}


def main(peer: str, forms: Path, documents: Path) -> None:
    """Build, find, print."""
    given = forms.read_text(encoding="utf-8").split("\n")
    texts: list[str] = json.loads(documents.read_text(encoding="utf-8"))
    began = time.perf_counter()
    find = PEERS[peer](given)
    built = time.perf_counter()
    passes = []
    for _ in range(PASSES):
        start = time.perf_counter()
        hits = sum(map(find, texts))
        passes.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"build": built - began, "seconds": min(passes), "passes": passes, "hits": hits, "rss": peak}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
