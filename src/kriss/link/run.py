"""Linking documents: mentions of several are encoded together, and documents come out one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kriss.documents.format import Linked
from kriss.link.linker import Linker
from kriss.records import Document, Mention

_AT_ONCE = 256
"""Mentions, or documents with few of them, that are gathered before they are linked."""


def link_documents(linker: Linker, documents: Iterable[Document], top: int = 5) -> Iterator[Linked]:
    """Link the mentions of each document, in constant memory."""
    held: list[Document] = []
    mentions: list[Mention] = []
    for document in documents:
        held.append(document)
        mentions += mentions_of(document)
        if len(mentions) >= _AT_ONCE or len(held) >= _AT_ONCE:
            yield from _linked(linker, held, mentions, top)
            held, mentions = [], []
    yield from _linked(linker, held, mentions, top)


def mentions_of(document: Document) -> list[Mention]:
    """Return the mentions of a document; a span outside its text is named with the document."""
    return [Mention(document, span.start, span.end) for span in document.spans]


def _linked(linker: Linker, documents: list[Document], mentions: list[Mention], top: int) -> Iterator[Linked]:
    links = iter(linker.link(mentions, top))
    for document in documents:
        yield document, [next(links) for _ in document.spans]
