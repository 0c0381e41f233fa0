"""When is a stretch of text an ontology's name? The case policy, and names turned round.

UMLS lists lower-case variants of its names; MeSH and HPO write `Gait Disturbance` or
`Neoplasms, Breast`, and text does not. So each word of a name may stand in lower case or with a
capital, unless it is an acronym or a symbol, which must stand as it is: `Vitamin D` is found as
`vitamin D` but not as `vitamin d`, `AIDS` is never found as `aids`.

A name and all of its variants have one `key`: lower case, and a blank for every character after
which a word may start. Keys are what `lookup` finds; `fits` then says whether the text
found is a variant of the name. Only ASCII letters change case, so a key is as long as its text.
"""

from __future__ import annotations

import re

import numpy as np

from kriss.mine.pages import beyond_ascii

OPENING = b" \t\n\r\x0b\x0c\0([{\"'`/\\;:,.=<>+*|!?&%~@#$^"
"""ASCII characters after which a word may start. A hyphen is not among them: `β-catenin` is one word."""

_OPENING_OTHER = re.compile(
    "[\u0085\u00a0-\u00a9\u00ab\u00ac\u00ae-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    "\u2000-\u200f\u2014-\u202f\u2032-\u2037\u2039\u203a\u2190-\u2211\u2213-\u23ff\u3000]"
)
"""The same beyond ASCII: quotation marks, dashes between clauses, spaces, mathematical signs."""

_KEY_TABLE = bytes(32 if byte in OPENING else byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))

_CAPITALS = bytes(range(65, 91))
_RUN = re.compile(rb"[A-Za-z0-9]+")
_SHORT_WORDS = {b"of", b"in", b"to", b"by", b"on", b"or", b"at", b"an", b"as", b"is", b"no", b"de"}
_PART = re.compile(r"[^\W_][\w' -]*")
_STAYS_LAST = {"and", "or", "of", "in", "with", "without", "due", "to", "by", "for", "not", "nos", "included"}


def opens(char: str) -> bool:
    """Tell whether a word may start after this character."""
    return (ord(char) < 128 and ord(char) in OPENING) or _OPENING_OTHER.match(char) is not None


_OPENS = np.array([opens(chr(code)) for code in range(0x3100)])


def key(name: bytes) -> bytes:
    """Return the key of a name.

    >>> key(b"Neoplasms, Breast")
    b'neoplasms  breast'
    """
    return bytes(keyed(name))


def keyed(text: bytes) -> bytearray:
    """Return the key of text, byte for byte as long as it."""
    key = bytearray(text.translate(_KEY_TABLE))
    if not text.isascii():
        view = np.frombuffer(key, dtype=np.uint8)
        for length, lead, code in beyond_ascii(np.frombuffer(text, dtype=np.uint8)):
            opening = lead[(code < len(_OPENS)) & _OPENS.take(code, mode="clip")]
            for place in range(length):
                view[opening + place] = 32
    return key


def fits(surface: bytes, name: bytes) -> bool:
    """Tell whether `surface`, which has the same key as `name`, is a permitted way to write it.

    >>> fits(b"vitamin D", b"Vitamin D"), fits(b"vitamin d", b"Vitamin D"), fits(b"aids", b"AIDS")
    (True, False, False)
    """
    if surface == name:
        return True
    shouted = name.isupper() and any(len(run) > 5 for run in _RUN.findall(name))
    end = 0
    for run in _RUN.finditer(name):
        if surface[end : run.start()] != name[end : run.start()]:
            return False
        end = run.end()
        word, written = run[0], surface[run.start() : end]
        if written != word and (is_symbol(word, shouted=shouted) or written not in (word.lower(), word.capitalize())):
            return False
    return surface[end:] == name[end:]


def is_symbol(word: bytes, *, shouted: bool = False) -> bool:
    """Tell whether a word must stand as it is: an acronym, a symbol, a single letter.

    `shouted` says that the whole name is in capitals, as OMIM writes, so that they mean nothing.
    """
    capitals = len(word) - len(word.translate(None, _CAPITALS))
    if not capitals:
        return False
    if shouted:
        return len(word) < 4 and word.lower() not in _SHORT_WORDS
    if capitals > 1:
        return True
    if len(word) < 3:
        return word.lower() not in _SHORT_WORDS
    return not word.isalpha() and sum(97 <= byte <= 122 for byte in word) < 3


def turned_round(name: str) -> str | None:
    """Return an inverted name as it would be written in text, or None if it is not inverted.

    >>> turned_round("Leukemia, Myeloid, Acute"), turned_round("N,N-dimethylaniline")
    ('Acute Myeloid Leukemia', None)
    """
    if ", " not in name:
        return None
    parts = name.split(", ")
    if len(parts) > 4 or not all(_PART.fullmatch(part) for part in parts):
        return None
    if any(part.split()[-1].lower() in _STAYS_LAST or part.split()[0].lower() in _STAYS_LAST for part in parts):
        return None
    return " ".join(reversed(parts))
