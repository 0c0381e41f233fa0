"""Which headings documents have that use a phrase: what names do not say, librarians may.

PubMed's librarians give each article the entities of MeSH that it is about. "Manic" is no name of MeSH, but most
articles that use the word are filed under bipolar disorder. So for each phrase of the text it is counted how many
documents use it, and how many of those have each heading. Which words of a document a heading stands for nobody
says, and no mention is labeled.

Three passes over the text: one draws documents by a hash of their ids, so that memory is bounded and the order of the
files does not matter; one finds out which phrases are frequent enough, in a table of a fixed size; the last counts
these exactly. Documents of the dev split have no say: their mentions calibrate the linker.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kriss.artifacts import check_target, create, describe_inputs
from kriss.config import to_mapping
from kriss.errors import ConfigError, InputError
from kriss.mine.config import SPLITS, MineConfig
from kriss.mine.documents import Deleted, Document, Problems
from kriss.mine.phrases import phrases
from kriss.mine.readers import read_documents
from kriss.mine.run import read_ids
from kriss.mine.sample import document_number, split_of
from kriss.mine.sources import find_files
from kriss.ontology import Ontology
from kriss.ontology.arrowfile import write_arrow

FILE = "headings.arrow"
SCHEMA = pa.schema(
    [("phrase", pa.large_string()), ("entity", pa.large_string()), ("both", pa.int32()), ("documents", pa.int32())]
)
SHRINK = 3
"""Documents without the heading that every phrase is thought to have beside those that were seen."""
_BUCKETS = 1 << 24
_COMPACT = 1 << 24
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeadingsConfig:
    """What is counted; `train`, `dev` and `seed` are those of the mentions that the linker is built of."""

    most: int = 200_000
    """Documents that are counted, at most."""
    least: int = 3
    """Documents that must use a phrase."""
    share: float = 0.05
    """Share of its documents, and three more, that must have a heading."""
    train: float = 0.5
    dev: float = 0.05
    seed: int = 0


@dataclass(frozen=True, slots=True)
class HeadingsReport:
    """What was counted, and what could not be read."""

    path: Path
    documents: int
    """Those that have headings."""
    phrases: int
    pairs: int
    entities: int
    bad_documents: int
    shown: tuple[str, ...]


def mine_headings(
    config: HeadingsConfig,
    ontology: Ontology,
    sources: Sequence[Path | str],
    out: Path,
    *,
    exclude: Path | None = None,
    force: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> HeadingsReport:
    """Count phrases and headings in the documents of `sources` that have any, and write an artifact to `out`."""
    if config.most < 1 or config.least < 1 or not 0 < config.share <= 1:
        raise ConfigError("'most' and 'least' are at least 1, and 'share' is above 0 and at most 1")
    check_target(out, force=force)
    files = find_files(sources)
    problems = Problems()
    progress("looking for documents with headings")
    text = _Text(files, _drawn(files, set(read_ids(exclude)) if exclude else set(), config, problems))
    if not text.drawn:
        raise InputError(
            "no document has headings; PubMed's XML has them, and JSON lines may have them in a list 'headings'"
        )
    progress(f"looking for phrases in {len(text.drawn):,} documents")
    seen = _frequency(text, config.least)
    progress("counting")
    counts = _Counts(ontology)
    for document in text:
        counts.add(document, (phrase for phrase in phrases(document.text) if seen[_bucket(phrase)] >= config.least))
    inputs = describe_inputs([*files, *([exclude] if exclude else [])])
    inputs.append({"name": ontology.artifact.path.name, "sha256": ontology.artifact.digest})
    with create(out, "headings", config=to_mapping(config), inputs=inputs, seed=config.seed, force=force) as draft:
        table = counts.table(config)
        write_arrow(draft.path / FILE, SCHEMA, table.to_batches())
        facts = {
            "documents": len(text.drawn),
            "phrases": len(table.column("phrase").unique()),
            "pairs": table.num_rows,
            "entities": len(table.column("entity").unique()),
        }
        draft.facts |= facts | {"bad_documents": problems.count}
    return HeadingsReport(out, **facts, bad_documents=problems.count, shown=tuple(problems.shown))


def _drawn(files: Sequence[Path], excluded: set[str], config: HeadingsConfig, problems: Problems) -> dict[str, _Place]:
    """Return where the documents stand that are counted: the last version of each, those with the smallest numbers."""
    found: dict[str, _Place] = {}
    limit = 1 << 64
    splits = MineConfig(train=config.train, dev=config.dev, seed=config.seed)
    for number, path in enumerate(files):
        for document in read_documents(path, problems):
            found.pop(document.id, None)
            if isinstance(document, Deleted) or not document.headings or document.id in excluded:
                continue
            drawn = document_number(document.id, config.seed)
            [split] = split_of(np.array([drawn], dtype=np.uint64), splits)
            if drawn < limit and SPLITS[split] != "dev":
                found[document.id] = _Place(drawn, number, document.ordinal)
        if len(found) > 2 * config.most:
            found, limit = _smallest(found, config.most)
    return _smallest(found, config.most)[0]


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """The number of a document, and where it stands: its file and its record."""

    drawn: int
    file: int
    ordinal: int


def _smallest(found: dict[str, _Place], most: int) -> tuple[dict[str, _Place], int]:
    kept = sorted(found.items(), key=lambda item: item[1])[:most]
    return dict(kept), kept[-1][1].drawn + 1 if len(kept) == most else 1 << 64


class _Text:
    """The documents that were drawn, read again each time."""

    def __init__(self, files: Sequence[Path], drawn: dict[str, _Place]) -> None:
        self._files = files
        self.drawn = drawn

    def __iter__(self) -> Iterator[Document]:
        wanted: dict[int, set[int]] = {}
        for place in self.drawn.values():
            wanted.setdefault(place.file, set()).add(place.ordinal)
        for number, ordinals in sorted(wanted.items()):
            for document in read_documents(self._files[number], Problems()):
                if isinstance(document, Document) and document.ordinal in ordinals:
                    yield document


def _frequency(text: _Text, enough: int) -> NDArray[np.uint8]:
    """Return for each bucket how many documents use a phrase of it; of several phrases, all."""
    seen = np.zeros(_BUCKETS, dtype=np.uint8)
    for document in text:
        buckets = np.array([_bucket(phrase) for phrase in phrases(document.text)], dtype=np.int64)
        np.add.at(seen, buckets[seen[buckets] < min(enough, 255)], 1)
    return seen


def _bucket(phrase: str) -> int:
    return crc32(phrase.encode()) & (_BUCKETS - 1)


class _Counts:
    """How many documents use each phrase, and how many of those have each heading."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._row: dict[str, int | None] = {}
        self._number: dict[str, int] = {}
        self._documents = array("i")
        self._fresh = array("q")
        self._pairs = np.zeros(0, dtype=np.int64)
        self._both = np.zeros(0, dtype=np.int64)

    def add(self, document: Document, used: Iterator[str]) -> None:
        """Count a document."""
        rows = {row for heading in document.headings if (row := self._row_of(heading)) is not None}
        for phrase in used:
            number = self._number.setdefault(phrase, len(self._number))
            if number == len(self._documents):
                self._documents.append(0)
            self._documents[number] += 1
            for row in rows:
                self._fresh.append(number * len(self._ontology) + row)
        if len(self._fresh) > _COMPACT:
            self._compact()

    def _row_of(self, heading: str) -> int | None:
        if heading not in self._row:
            found = self._ontology.find(heading)
            self._row[heading] = None if found is None else self._ontology.row_of(found)
        return self._row[heading]

    def _compact(self) -> None:
        pairs, both = np.unique(np.frombuffer(self._fresh, dtype=np.int64), return_counts=True)
        joined, which = np.unique(np.concatenate([self._pairs, pairs]), return_inverse=True)
        counts = np.concatenate([self._both, both])
        self._pairs, self._both = joined, np.bincount(which, counts, len(joined)).astype(np.int64)
        self._fresh = array("q")

    def table(self, config: HeadingsConfig) -> pa.Table:
        """Return the pairs that say something, by phrase, the most frequent heading of each first."""
        self._compact()
        numbers, rows = np.divmod(self._pairs, max(len(self._ontology), 1))
        used = np.array(self._documents, dtype=np.int64)[numbers] if len(numbers) else numbers
        good = (used >= config.least) & (self._both > 1) & (self._both >= config.share * (used + SHRINK))
        listed = list(self._number)
        kept = sorted(
            (listed[number], -both, self._ontology.id_at(row), documents)
            for number, both, row, documents in zip(
                *(column[good].tolist() for column in (numbers, self._both, rows, used)), strict=True
            )
        )
        columns = list(zip(*kept, strict=True)) or [(), (), (), ()]
        phrase, both, entity, documents = columns
        return pa.table([phrase, entity, [-count for count in both], documents], schema=SCHEMA)
