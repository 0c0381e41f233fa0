"""Learning from gold files: every mention with one known entity becomes an example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.link.run import mentions_of
from kriss.link.spans import Annotated
from kriss.records import Mention

_AT_ONCE = 1024
"""Examples that are encoded and written together: the disk is waited for once for all of them."""


@dataclass(slots=True)
class LearnReport:
    """What was learned, and what was not."""

    examples: int = 0
    documents: int = 0
    without_entity: int = 0
    """Mentions that the file links to nothing."""
    composite: int = 0
    """Mentions of several entities at once, which are no example of any one."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Ids that the linker does not have, each with its mentions."""


def learn(
    linker: Linker,
    documents: Iterable[Annotated],
    *,
    skip_unknown: bool = False,
    progress: Callable[[int], None] = lambda count: None,
) -> LearnReport:
    """Add the mentions of gold documents as examples: all, or none if an id is unknown and not to be skipped.

    An id may have the prefix of a corpus, or lack that of the ontology.
    """
    report = LearnReport()
    if not skip_unknown:
        documents = list(documents)
        _check(linker, documents)
    held: list[tuple[Mention, str, str]] = []

    def flush() -> None:
        linker.add_all([(mention, entity) for mention, entity, _ in held], documents=[where for *_, where in held])
        report.examples += len(held)
        progress(len(held))
        held.clear()

    find = cache(linker.find_id)
    for document in documents:
        report.documents += 1
        for span, mention in zip(document.spans, mentions_of(document), strict=True):
            if len(span.entities) != 1:
                report.composite += len(span.entities) > 1
                report.without_entity += not span.entities
                continue
            entity = find(span.entities[0])
            if entity is None:
                report.unknown[span.entities[0]] += 1
                continue
            held.append((mention, entity, document.id))
            if len(held) >= _AT_ONCE:
                flush()
    if held:
        flush()
    return report


def _check(linker: Linker, documents: Iterable[Annotated]) -> None:
    """Refuse documents with ids that the linker does not have, before anything is learned."""
    find = cache(linker.find_id)
    first: dict[str, str] = {}
    for document in documents:
        for span in document.spans:
            if len(span.entities) == 1 and find(span.entities[0]) is None:
                first.setdefault(span.entities[0], document.id)
    if first:
        entity, where = next(iter(first.items()))
        raise InputError(
            f"{len(first):,} of the ids are unknown to {linker.artifact.path}, the first being '{entity}' in document "
            f"'{where}'; nothing was learned; give --skip-unknown to pass over their mentions"
        )
