"""Benchmarks that are a PubTator file a split: NCBI-disease, BC5CDR, BioRED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kriss.documents.marked import Format, read_annotated
from kriss.documents.plain import numbered_lines
from kriss.documents.spans import decode, known_entities
from kriss.errors import Place
from kriss.evaluate.corpora.files import below
from kriss.records import Document, Span


@dataclass(frozen=True, slots=True)
class PubTatorFiles:
    """A file a split; of its mentions, those of some types or all."""

    files: Mapping[str, str]
    types: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    """Types whose ids are one, though they hold the `|` that joins those of other types: `p|SUB|V|600|E`."""

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Return the splits whose file lies below the folder."""
        return tuple(split for split, name in self.files.items() if below(folder, name))

    def read(self, folder: Path, splits: Sequence[str]) -> dict[str, list[Document]]:
        """Read the splits; a document that has no mention of the types stays, without mentions."""
        found = {split: below(folder, self.files[split]) for split in splits}
        return {split: list(self._documents(path)) for split, path in found.items() if path}

    def wanted(self, split: str) -> str:
        """Return the name of the split's file."""
        return self.files[split]

    def _documents(self, path: Path) -> Iterator[Document]:
        ids = _ids(path) if self.whole else iter(())
        for document in read_annotated([path], Format.PUBTATOR):
            spans = document.spans
            if self.whole:
                spans = tuple(self._mend(span, next(ids)) for span in spans)
            kept = tuple(span for span in spans if not self.types or span.type in self.types)
            yield Document(document.id, document.text, kept)

    def _mend(self, span: Span, identifier: str) -> Span:
        if span.type not in self.whole:
            return span
        return Span(span.start, span.end, known_entities(identifier.split(",")), span.type)


def _ids(path: Path) -> Iterator[str]:
    """Yield the id of every mention as the file writes it, in the order in which the documents have them."""
    for number, raw in numbered_lines(path):
        row = decode(raw, Place(path, number)).split("\t")
        if len(row) > 4 and row[1].strip().isdecimal():
            yield row[5] if len(row) > 5 else ""
