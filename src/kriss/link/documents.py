"""Linking documents: the mentions that they mark, with memory that stays bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

from kriss.documents.format import Linked
from kriss.documents.read import read
from kriss.files import Where
from kriss.link.linker import BATCH, Linker
from kriss.records import Document, Link, Mention


def link_documents(
    linker: Linker | Where,
    documents: Where | Iterable[Where | Document],
    top: int = 5,
    **settings: Any,  # noqa: ANN401 - the fields of LinkConfig
) -> Iterator[Linked]:
    """Link the mentions that documents mark, in files of any format or in memory; they come out one by one."""
    loaded = linker.with_options(**settings) if isinstance(linker, Linker) else Linker.load(linker, **settings)
    waiting: deque[Document] = deque()

    def batches() -> Iterator[list[Mention]]:
        held: list[Mention] = []
        count = 0
        for document in _each(documents):
            waiting.append(document)
            count += 1
            for span in document.spans:
                held.append(Mention(document, span.start, span.end))
                if len(held) == BATCH:
                    yield held
                    held, count = [], 0
            if count == BATCH:  # those that mark little or nothing must not pile up
                yield held
                held, count = [], 0
        yield held

    links: list[Link] = []
    for batch in loaded.link_batches(batches(), top):
        links += batch
        while waiting and len(links) >= len(waiting[0].spans):
            first = len(waiting[0].spans)
            yield waiting.popleft(), links[:first]
            del links[:first]


def _each(given: Where | Iterable[Where | Document]) -> Iterator[Document]:
    for one in [given] if isinstance(given, str | PathLike) else given:
        if isinstance(one, Document):
            yield one
        else:
            yield from read([str(one)])
