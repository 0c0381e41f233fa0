"""Finding mentions in text: by the names of the ontology and of learned examples, or by a spaCy pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from kriss.documents.read import read
from kriss.errors import ArtifactError, ConfigError, MissingExtraError
from kriss.files import Problems
from kriss.link.linker import Linker
from kriss.mine.config import MineConfig
from kriss.mine.matcher import Matcher
from kriss.mine.names import Names, Verdict, write_names
from kriss.rank.parts import NAMES
from kriss.rank.snapshot import Snapshot
from kriss.records import Document, Span

LOOKED_FOR = MineConfig(min_length=2)
"""How names are found in text that is annotated: `MS` too, which mining passes over as too short."""
_AT_ONCE = 64
"""Documents that are searched together."""
Spans = list[tuple[int, int]]


class FindsMentions(Protocol):
    """Whatever tells where in texts the mentions stand."""

    def __call__(self, texts: Sequence[str]) -> list[Spans]:
        """Return the spans in each text, in order."""


class _Usable(Names):
    """Names that mining passes over: shared ones, which a linker can settle, and common words that were learned."""

    def __init__(self, folder: Path, config: MineConfig, *usable: Verdict) -> None:
        super().__init__(folder, config)
        self._usable = usable

    def judge(self, surface: bytes, number: int) -> tuple[Verdict, int, bool]:
        verdict, entity, preferred = super().judge(surface, number)
        return "kept" if verdict in self._usable else verdict, entity, preferred


class Dictionary:
    """Finds the names of a linker's ontology, and what its examples are called now; the longest at each place."""

    def __init__(self, linker: Linker) -> None:
        folder = linker.artifact.path / NAMES
        if not (folder / "keys.arrow").is_file():
            raise ArtifactError(f"{linker.artifact.path} has no names that can be looked for in text; give --spacy")
        self._names = Matcher(_Usable(folder, LOOKED_FOR, "shared"))
        self._linker = linker
        self._examples = _Examples()

    def __call__(self, texts: Sequence[str]) -> list[Spans]:
        """Return the spans in each text, in order."""
        learned = self._linker.learned.now()
        if learned.change != self._examples.change:
            self._examples = self._examples.at(learned)
        found: list[Spans] = [[] for _ in texts]
        for matcher in filter(None, (self._names, self._examples.matcher)):
            hits = matcher.find(texts)
            for place, start, end in zip(hits.document.tolist(), hits.start.tolist(), hits.end.tolist(), strict=True):
                found[place].append((start, end))
        return [_longest(spans) for spans in found]


@dataclass(frozen=True, slots=True)
class _Examples:
    """What examples are called after some change."""

    change: int = 0
    surfaces: frozenset[str] = frozenset()
    matcher: Matcher | None = None

    def at(self, learned: Snapshot) -> _Examples:
        """Return what they are called now; where nothing is called otherwise, by the same matcher."""
        surfaces = frozenset(example.evidence.surface for example in learned.examples())
        if surfaces == self.surfaces:
            return replace(self, change=learned.change)
        texts = sorted(surface for surface in surfaces if any(map(str.isalpha, surface)))
        return _Examples(learned.change, surfaces, _matcher(texts) if texts else None)


def _matcher(surfaces: list[str]) -> Matcher:
    """Return a matcher of the surfaces of examples."""
    config = MineConfig(min_length=1)
    table = pa.table(
        {"text": pa.array(surfaces, pa.large_string()), "entity": pa.array(range(len(surfaces)), pa.int32())}
    )
    with tempfile.TemporaryDirectory(prefix="kriss-") as folder:
        write_names(table, config, Path(folder))
        return Matcher(
            _Usable(Path(folder), config, "shared", "common word")
        )  # what is mapped stays readable when the folder is gone


def _longest(spans: Spans) -> Spans:
    """Return the spans that overlap no earlier one, of those at one place the longest."""
    chosen: Spans = []
    for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if not chosen or start >= chosen[-1][1]:
            chosen.append((start, end))
    return chosen


class SpacyEntities:
    """Finds what a spaCy pipeline takes for an entity."""

    def __init__(self, pipeline: str) -> None:
        try:
            import spacy
        except ModuleNotFoundError:
            raise MissingExtraError("spacy", "spacy", "--spacy") from None
        try:
            self._pipeline = spacy.load(pipeline)
        except OSError as error:
            raise ConfigError(f"spaCy cannot load the pipeline '{pipeline}': {error}") from None

    def __call__(self, texts: Sequence[str]) -> list[Spans]:
        """Return the spans in each text, in order."""
        documents = self._pipeline.pipe(texts)
        return [[(entity.start_char, entity.end_char) for entity in document.ents] for document in documents]


def annotated(finder: FindsMentions, sources: Sequence[Path | str], problems: Problems) -> Iterator[Document]:
    """Yield the documents of files, folders and globs with the mentions that are found in them."""
    documents = read(sources, marked=False, problems=problems)
    while some := list(islice(documents, _AT_ONCE)):
        for document, spans in zip(some, finder([document.text for document in some]), strict=True):
            yield Document(document.id, document.text, tuple(Span(start, end) for start, end in spans))
