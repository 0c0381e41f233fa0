"""The size of a benchmark, as in Table 1 of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kriss.records import Document


@dataclass(frozen=True, slots=True)
class Statistics:
    """What can be counted without an ontology."""

    documents: int
    mentions: int
    entities: int
    """Distinct ids; each of a composite one counts."""
    without_entity: int
    """Mentions whose concept is not in the ontology: `-1`, `CUI-less`."""
    composite: int
    """Mentions of several entities."""
    in_documents: int
    """Distinct ids of each document, summed: what the paper's mentions of BC5CDR are."""
    repeated: int
    """Mentions of documents that stand again, word for word: they are counted here and scored once."""


def statistics(documents: Iterable[Document]) -> Statistics:
    """Count documents, mentions and entities as the files have them."""
    mentions = without = composite = in_documents = repeated = count = 0
    entities: set[str] = set()
    first: dict[str, Document] = {}
    for document in documents:
        count += 1
        mentions += len(document.spans)
        for span in document.spans:
            without += not span.entities
            composite += len(span.entities) > 1
        named = {entity for span in document.spans for entity in span.entities}
        in_documents += len(named)
        entities |= named
        if first.setdefault(document.id, document) is not document and first[document.id] == document:
            repeated += len(document.spans)
    return Statistics(count, mentions, len(entities), without, composite, in_documents, repeated)


def without_repeats(documents: Iterable[Document]) -> list[Document]:
    """Leave out documents that stand again, word for word; two that differ under one id are left as they are."""
    return list(dict.fromkeys(documents))
