"""Phrases of a text, as they are counted and looked up: words in lower case, whatever stands between them."""

from __future__ import annotations

import re

LONGEST = 5
"""Words of the longest phrase."""
_BREAK = re.compile(r"[^\w\s'’/-]+|\n")
"""No phrase goes on behind these: what stands between two sentences, in brackets, in a list."""
_WORD = re.compile(r"[^\W_]+")
_INNER = frozenset(
    "a an and are as at be been but by can did do does during for from had has have he her his if in into is it its "
    "may more most no not of on or our s she such than that the their then there these they this those to under was "
    "we were when which while who with without".split()
)
"""Words that may stand in a phrase, but neither first nor last."""


def phrase_of(surface: str) -> str:
    """Return a mention as a phrase.

    >>> phrase_of("Drug-induced  Dyskinesias")
    'drug induced dyskinesias'
    """
    return " ".join(_WORD.findall(surface.casefold()))


def phrases(text: str) -> set[str]:
    """Return the phrases that a text has, each once.

    >>> sorted(phrases("Loss of hearing (rare)."))
    ['hearing', 'loss', 'loss of hearing', 'rare']
    """
    found: set[str] = set()
    for stretch in _BREAK.split(text.casefold()):
        words = _WORD.findall(stretch)
        for first, word in enumerate(words):
            if word in _INNER:
                continue
            for last in range(first, min(first + LONGEST, len(words))):
                if words[last] not in _INNER:
                    found.add(" ".join(words[first : last + 1]))
    return {phrase for phrase in found if len(phrase) > 1}
