"""Benchmarks that are a PubTator file a split: NCBI-disease, BC5CDR, BioRED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kriss.documents.corpora.files import below
from kriss.documents.pubtator import PUBTATOR
from kriss.documents.registry import read_marked
from kriss.records import Document


@dataclass(frozen=True, slots=True)
class PubTatorFiles:
    """A file a split; of its mentions, those of some types or all."""

    files: Mapping[str, str]
    types: tuple[str, ...] = ()

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
        for document in read_marked(path, PUBTATOR):
            kept = tuple(span for span in document.spans if not self.types or span.type in self.types)
            yield Document(document.id, document.text, kept)
