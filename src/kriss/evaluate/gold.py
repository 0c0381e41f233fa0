"""The mentions that are scored: every one to which a corpus gives an entity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kriss.abbreviations import abbreviations
from kriss.errors import InputError
from kriss.records import Document

Key = tuple[str, int, int]
"""Document, start and end: how a prediction says which mention it is of."""
SHOWN = 100
"""Characters on each side that an error list shows."""


@dataclass(frozen=True, slots=True)
class GoldMention:
    """A mention and what it means; with several entities, each of them is right."""

    document: str
    start: int
    end: int
    surface: str
    entities: tuple[str, ...]
    type: str = ""
    left: str = ""
    right: str = ""
    abbreviation: bool = False
    """Its document defines it as the short form of something."""

    @property
    def key(self) -> Key:
        """Which mention it is."""
        return self.document, self.start, self.end


def unlinked(documents: Iterable[Document]) -> frozenset[Key]:
    """Return the mentions to which gold gives no entity: they may be linked, and are not scored."""
    return frozenset(
        (document.id, document.offset + span.start, document.offset + span.end)
        for document in documents
        for span in document.spans
        if not span.entities
    )


def gold_mentions(documents: Iterable[Document]) -> list[GoldMention]:
    """Return the mentions of documents that have an entity; a document that stands twice counts once.

    A mention that is marked twice is one, and means all that it is said to mean. Offsets are those of the whole
    document, where a text is a part of one.
    """
    texts: dict[tuple[str, int], str] = {}
    found: dict[Key, GoldMention] = {}
    for document in documents:
        known = texts.setdefault((document.id, document.offset), document.text)
        shared = min(len(known), len(document.text))  # of an exported example, the text around it is kept alone
        if known[:shared] != document.text[:shared]:
            raise InputError(f"two documents have the id '{document.id}' and different texts; give each its own")
        short = abbreviations(document.text)
        for span in document.spans:
            if not span.entities:
                continue
            surface = document.text[span.start : span.end]
            mention = GoldMention(
                document.id,
                document.offset + span.start,
                document.offset + span.end,
                surface,
                span.entities,
                span.type,
                document.text[max(0, span.start - SHOWN) : span.start],
                document.text[span.end : span.end + SHOWN],
                surface in short,
            )
            first = found.setdefault(mention.key, mention)
            if first.entities != mention.entities:
                both = tuple(dict.fromkeys(first.entities + mention.entities))
                found[mention.key] = replace(first, entities=both)
    return list(found.values())
