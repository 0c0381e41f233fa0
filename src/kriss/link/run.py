"""Linking documents: mentions of several are encoded together, and documents come out one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.link.spans import Annotated
from kriss.link.write import Linked
from kriss.records import Mention

_AT_ONCE = 256
"""Mentions, or documents with few of them, that are gathered before they are linked."""


def link_documents(linker: Linker, documents: Iterable[Annotated], top: int = 5) -> Iterator[Linked]:
    """Link the mentions of each document, in constant memory."""
    held: list[Annotated] = []
    mentions: list[Mention] = []
    for document in documents:
        held.append(document)
        mentions += mentions_of(document)
        if len(mentions) >= _AT_ONCE or len(held) >= _AT_ONCE:
            yield from _linked(linker, held, mentions, top)
            held, mentions = [], []
    yield from _linked(linker, held, mentions, top)


def mentions_of(document: Annotated) -> list[Mention]:
    """Return the mentions of a document; a span outside its text is named with the document."""
    try:
        return [Mention.at(document.text, span.start, span.end) for span in document.spans]
    except InputError as error:
        raise InputError(f"document '{document.id}': {error}") from None


def _linked(linker: Linker, documents: list[Annotated], mentions: list[Mention], top: int) -> Iterator[Linked]:
    links = iter(linker.link(mentions, top))
    for document in documents:
        yield document, [next(links) for _ in document.spans]
