"""Where a word starts and ends in biomedical text: hyphens, Greek letters, primes and digits.

These two functions are the definition. The matcher settles the plain cases by table lookup, on
many hits at once, and asks here about the rest.

| text | found | not found |
|---|---|---|
| `IL-2-dependent growth` | `IL-2` | `IL`, `2` |
| `TNF-α`, `TNF-alpha`, `TNFα` | | `TNF` |
| `β-catenin`, `anti-TNF`, `pre-diabetes` | | `catenin`, `TNF`, `diabetes` |
| `the 5'-UTR` | `5'-UTR` | `UTR`, `5` |
| `1,25-dihydroxyvitamin D` | | `25-dihydroxyvitamin D` |
| `"asthma"`, `(asthma)`, `asthma/COPD` | `asthma` | |
| `insulin-like growth factor` | | `insulin` |

A third function tells when what was found is only part of a longer name that the ontology lacks:

| text | not found |
|---|---|
| `Eden Prairie, MN`, `Alzheimer Disease Neuroimaging Initiative` | `Prairie`, `Alzheimer Disease` |
| `H. neptunium` | `neptunium` |
| `ethylenediamine tetraacetic acid`, `bile acid` | `ethylenediamine`, `bile` |
| `phosphatidyl ethanolamine`, `tetrazolium bromide` | `ethanolamine`, `bromide` |
"""

from __future__ import annotations

import re
import unicodedata

from kriss.mine.casing import opens

HYPHENS = frozenset("-\u2010\u2011\u2012\u2013\u2212\u00ad")
APOSTROPHES = frozenset("'`\u2018\u2019\u201b\u2032\u2033\u02b9\u02bc")
REACH = 48
"""No decision looks further than this many characters to either side."""

_GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi "
    "chi psi omega".split()
)
_OTHER_THING = frozenset({"like"})
_TOKEN = re.compile(r"[^\W_]+")


def is_word(char: str) -> bool:
    """Tell whether a character is part of a word: a letter, a digit, a mark on one, an underscore."""
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"


def is_start(text: str, at: int) -> bool:
    """Tell whether a mention may start at this offset."""
    if unicodedata.category(text[at])[0] == "M":
        return False
    if at == 0:
        return True
    before = text[at - 1]
    if not opens(before):
        return False
    if at >= 2 and before in APOSTROPHES:
        return not is_word(text[at - 2])  # a quotation mark opens, a prime or a genitive does not
    if at >= 2 and before in ".,":
        return not (text[at - 2].isdigit() and text[at].isdigit())
    return True


def is_end(text: str, at: int) -> bool:
    """Tell whether a mention may end before this offset."""
    if at == len(text):
        return True
    after = text[at]
    if is_word(after):
        return False
    if after in HYPHENS:
        return _ends_before_hyphen(text, at)
    if after in APOSTROPHES:
        return not (text[at - 1].isdigit() or (at + 1 < len(text) and is_word(text[at + 1])))
    if after in ".,":
        return not (text[at - 1].isdigit() and at + 1 < len(text) and text[at + 1].isdigit())
    return True


def _ends_before_hyphen(text: str, at: int) -> bool:
    """A suffix such as `-dependent` leaves the name whole; `-2`, `-α`, `-alpha`, `-Barr` and `-` alone do not."""
    token = _TOKEN.match(text[at + 1 : at + 1 + REACH])
    if token is None:
        return False
    suffix = token[0]
    return (
        len(suffix) > 2
        and suffix.isascii()
        and suffix.islower()
        and suffix.isalpha()
        and (suffix not in _GREEK and suffix not in _OTHER_THING)
    )


_CAPITALIZED_BEFORE = re.compile(r"(?<![^\s(])([A-Z][a-z]+) \Z")
_CAPITALIZED_AFTER = re.compile(r" [A-Z][a-z]+")
_GENUS_BEFORE = re.compile(r"(?<![^\s(])[A-Z]\. \Z")
_ACID_AFTER = re.compile(r" (?:[\w-]+ic )?acids?\b")
_GROUP_BEFORE = re.compile(r"[a-z]yl \Z")
_CATION_BEFORE = re.compile(r"[a-z]ium \Z")
_ANION = re.compile(r"(?:ide|ate|ite)s?\Z")


def is_fragment(left: str, mention: str, right: str, common: frozenset[str]) -> bool:
    """Tell whether a mention is a piece of a proper name or of a compound; `common` are ordinary words.

    Of `left` and `right` the nearest REACH characters matter.
    """
    left, right = left[-REACH:], right[:REACH]
    if mention[0].isupper() and not mention.isupper():
        before = _CAPITALIZED_BEFORE.search(left)  # an ordinary word may only stand first in its sentence
        if _CAPITALIZED_AFTER.match(right) or (before and before[1].lower() not in common):
            return True
    if mention[0].islower() and _GENUS_BEFORE.search(left):
        return True
    if _ACID_AFTER.match(right) or _GROUP_BEFORE.search(left):
        return True
    return _ANION.search(mention) is not None and _CATION_BEFORE.search(left) is not None
