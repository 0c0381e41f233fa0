"""What a reader of text hands on: documents, deletions, and a count of what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kriss.errors import Place

SHOWN = 10
"""How many bad documents are kept word for word; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A document that PubMed has withdrawn (`<DeleteCitation>`): earlier files may still hold it."""

    id: str


class Problems:
    """The documents that could not be read: all counted, the first ones kept word for word.

    >>> problems = Problems()
    >>> problems.add("the record has no text", Place(Path("a.jsonl"), 7), "PMC12")
    >>> problems.count, problems.shown
    (1, ["a.jsonl:7: document 'PMC12': the record has no text"])
    """

    def __init__(self) -> None:
        self.count = 0
        self.shown: list[str] = []

    @property
    def full(self) -> bool:
        """Whether a further problem is only counted, so that its line need not be looked for."""
        return len(self.shown) >= SHOWN

    def add(self, message: str, place: Place, document_id: str = "") -> None:
        """Count a bad document; reading goes on."""
        self.count += 1
        if not self.full:
            named = f"document '{document_id}': " if document_id else ""
            self.shown.append(f"{place}: {named}{message}")


def join_text(title: str, body: str) -> str:
    r"""Return title and body with exactly one character between, as PubTator counts them.

    >>> join_text("Cystic fibrosis", "A common disease."), join_text("", "A common disease.")
    ('Cystic fibrosis\nA common disease.', 'A common disease.')
    """
    if not title.strip():
        return body if body.strip() else ""
    return f"{title}\n{body}" if body.strip() else title


def flaw_of(text: str) -> str:
    """Say what makes a text unfit to be stored, or nothing: a NUL, or half of a surrogate pair."""
    if "\0" in text:
        return "it holds a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:  # what errors="surrogateescape" makes of a byte that is not UTF-8
            return f"it holds the byte {code - 0xDC00:#04x}, which is not UTF-8"
        return f"it holds half of a surrogate pair, U+{code:04X}"
    return ""


def stem(path: Path) -> str:
    """Return the file's name without its suffix and without `.gz`: what documents without an id are named by."""
    name = path.name
    return Path(name[:-3] if name.lower().endswith(".gz") else name).stem
