"""Learning from gold files: every mention becomes an example of its entity. And saving what was learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b

from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.names import folded
from kriss.records import Document, Mention, Span

_Find = Callable[[str], str | None]


@dataclass(slots=True)
class LearnReport:
    """What was learned, and what was not."""

    examples: int = 0
    documents: int = 0
    without_entity: int = 0
    """Mentions that the file links to nothing."""
    composite: int = 0
    """Mentions of several entities at once that became an example of more than one."""
    left_out: int = 0
    """Examples of entities, or of a spelling in a document, that had enough."""
    added: set[str] = field(default_factory=set)
    """Entities that the linker did not have, and that the file gives a name."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Ids that the linker does not have, each with its mentions."""


def learn(
    linker: Linker,
    documents: Iterable[Document],
    *,
    skip_unknown: bool = False,
    per_entity: int | None = None,
    per_document: int | None = None,
    seed: int = 0,
    who: str = "",
    progress: Callable[[int], None] = lambda count: None,
) -> LearnReport:
    """Add the mentions of gold documents as examples, in one change: all, or none if an id is unknown and not skipped.

    An id may have the prefix of a corpus, or lack that of the ontology. An entity that the linker does not have
    is added where a mention of it brings its name. `per_document` are the most examples of an entity by one
    spelling in a document, the first ones; `per_entity` those of an entity in all, of these, drawn by `seed`.
    """
    documents = list(documents)  # what is wrong with the last of them is to be known before the first is learned
    find = cache(linker.find_id)
    names = _names(documents, find)
    if not skip_unknown:
        _check(linker, documents, {*names}, find)
    chosen = None if per_entity is per_document is None else _drawn(documents, per_entity, per_document, seed, find)
    report = LearnReport(documents=len(documents))
    examples: list[tuple[Mention, str]] = []
    for number, document in enumerate(documents):
        for place, span in enumerate(document.spans):
            report.without_entity += not span.entities
            before = len(examples)
            for given in _means(span, find):
                entity = given if given in names else find(given)
                if entity is None:
                    report.unknown[given] += 1
                elif chosen is not None and (number, place, given) not in chosen:
                    report.left_out += 1
                else:
                    examples.append((Mention(document, span.start, span.end), entity))
            report.composite += len(examples) - before > 1
    linker.add_all(
        examples,
        names=names,
        documents=[mention.document.id for mention, _ in examples],
        offsets=[mention.document.offset for mention, _ in examples],
        who=who,
        progress=progress,
    )
    report.examples = len(examples)
    report.added = {entity for _, entity in examples if entity in names}
    return report


def _means(span: Span, find: _Find) -> Iterable[str]:
    """Return the ids of a mention, one for each entity: an id and the retired one before it are the same.

    The first comes last, for what was last said of a mention is what holds of it.
    """
    return {find(given) or given: given for given in reversed(span.entities)}.values()


def _drawn(
    documents: Iterable[Document], most: int | None, in_document: int | None, seed: int, find: _Find
) -> set[tuple[int, int, str]]:
    """Choose mentions of each entity, by document, place and id: of the first in documents those with small hashes."""
    found: dict[str, list[tuple[bytes, tuple[int, int, str]]]] = {}
    had: Counter[tuple[str, str, str]] = Counter()
    for number, document in enumerate(documents):
        for place, span in enumerate(document.spans):
            key = f"{seed}\0{document.id}\0{document.offset + span.start}\0{document.offset + span.end}"
            drawn = blake2b(key.encode(), digest_size=8).digest()
            for given in _means(span, find):
                entity = find(given) or given
                spelled = document.id, entity, folded(document.text[span.start : span.end])
                had[spelled] += 1
                if in_document is None or had[spelled] <= in_document:
                    found.setdefault(entity, []).append((drawn, (number, place, given)))
    return {where for mentions in found.values() for _, where in sorted(mentions)[:most]}


def _linked(documents: Iterable[Document]) -> Iterator[tuple[Document, Span, str]]:
    """Yield the mentions that are linked to something, one by one for each of their entities."""
    for document in documents:
        for span in document.spans:
            for entity in span.entities:
                yield document, span, entity


def _names(documents: Iterable[Document], find: _Find) -> dict[str, str]:
    """Return the names that documents give entities which the linker does not have, the first of each."""
    names: dict[str, str] = {}
    for _, span, entity in _linked(documents):
        if span.name.strip() and len(span.entities) == 1 and find(entity) is None:
            names.setdefault(entity, span.name)
    return names


def _check(linker: Linker, documents: Iterable[Document], named: set[str], find: _Find) -> None:
    """Refuse documents with ids that the linker does not have, before anything is learned."""
    first: dict[str, str] = {}
    for document, _, entity in _linked(documents):
        if entity not in named and find(entity) is None:
            first.setdefault(entity, document.id)
    if first:
        entity, where = next(iter(first.items()))
        raise InputError(
            f"{len(first):,} of the ids are unknown to {linker.artifact.path}, the first being '{entity}' in document "
            f"'{where}'; nothing was learned; give --skip-unknown to pass over their mentions"
        )


def exported(linker: Linker) -> Iterator[dict[str, object]]:
    """Yield what was learned as records that `learn` takes again, each one mention and its text.

    The name of an entity that was added comes with its mentions, and on its own only where none is left.
    """
    examples = linker.examples()
    mentioned = {example.entity for example in examples if example.evidence.kind == "gold"}
    for example in examples:
        shown = example.evidence
        if shown.kind == "name" and example.entity in mentioned:
            continue
        name, offset = linker.added_name(example.entity), shown.start - len(shown.left)
        yield {
            "id": shown.document,
            **({"offset": offset} if offset else {}),
            "text": f"{shown.left}{shown.surface}{shown.right}",
            "start": len(shown.left),
            "end": len(shown.left) + len(shown.surface),
            "entity": example.entity,
            **({"name": name} if name else {}),
        }
