"""What two spellings of a name have in common: three questions, one function each.

    clean    how is it shown?           white space alone is tidied
    folded   is it the same name?       case and white space do not count
    name_key is it a spelling of it?    nor do the order of words, plurals and punctuation

The matcher of mining and the abbreviation finder work on bytes and letters of running text, which is not these
questions: their own forms stand with them.
"""

from __future__ import annotations

import re

_WORDS = re.compile(r"\w+")


def clean(text: str) -> str:
    """Return the text with every run of white space as one blank, and none at the ends."""
    return " ".join(text.split())


def folded(name: str) -> str:
    """Return a name as two are compared that may differ in case and white space.

    >>> folded("Breast  Cancer")
    'breast cancer'
    """
    return " ".join(name.casefold().split())


def name_key(name: str) -> str:
    """Return what the spellings of a name have in common: its words, sorted, without case or plural.

    >>> name_key("Neoplasms, Breast") == name_key("breast neoplasm")
    True
    """
    words = _WORDS.findall(name.casefold())
    return " ".join(sorted(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words))
