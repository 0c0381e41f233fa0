"""Mining one shard: read, match, sample, and write the result as a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kriss.documents.problems import Deleted
from kriss.documents.registry import detect_format, read_file
from kriss.errors import InputError
from kriss.files import Problems
from kriss.mine.config import MineConfig
from kriss.mine.matcher import Hits, Matcher
from kriss.mine.merge import CONTEXTS, CONTEXTS_FILE
from kriss.mine.names import Names
from kriss.mine.pages import Page
from kriss.mine.sample import Kept, Limits, Texts, keep
from kriss.ontology.arrowfile import key_of
from kriss.records import Document

CANDIDATES = pa.schema(
    [
        ("entity", pa.int32()),
        ("split", pa.int8()),
        ("number", pa.uint64()),
        ("likeness", pa.uint64()),
        ("version", pa.uint32()),
        ("document", pa.string()),
        ("start", pa.int32()),
    ]
)
"""What decides which candidates remain; the rest of their rows is in the contexts."""
FORMS = pa.schema([("surface", pa.string()), ("entity", pa.int32()), ("hits", pa.int64())])
DOCUMENTS = pa.schema([("key", pa.uint64()), ("ordinal", pa.int64()), ("deleted", pa.bool_())])
_AT_ONCE = 2 << 20
"""Characters searched in one call of the matcher."""
_ROUND = 128 << 20
"""Bytes of text held before they are sampled and let go."""
_CUT = 1 << 14
"""Rows whose contexts are cut and written at once: few, so that the memory for it is used again and again."""
_SUMMARY = "summary.json"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """A file or a stripe of a large one: a piece of work."""

    number: int
    source: int
    """The number of its file among all, by which a later record replaces an earlier one."""
    file: Path
    stripe: int
    stripes: int
    drop: tuple[int, ...] = ()
    """Records (by ordinal) that another file's record replaces."""

    @property
    def name(self) -> str:
        """The folder of its result; one mined again, with records dropped, has its own."""
        redone = f"-{key_of(repr(self.drop)):016x}" if self.drop else ""
        return f"{self.number:05d}{redone}"


@dataclass(slots=True)
class Summary:
    """What a shard amounted to."""

    documents: int = 0
    characters: int = 0
    hits: int = 0
    excluded: int = 0
    superseded: int = 0
    bad_documents: int = 0
    shown: list[str] = field(default_factory=list)
    bad_file: str = ""

    @classmethod
    def read(cls, folder: Path) -> Summary:
        """Read the summary of a mined shard."""
        return cls(**json.loads((folder / _SUMMARY).read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Mining:
    """What is done to each shard: a job, as `kriss.work` has it."""

    config: MineConfig
    names: Path
    excluded: frozenset[str]
    skip_bad_files: bool

    def open(self) -> Miner:
        """Build the tables of names."""
        return Miner(self, Matcher(Names(self.names, self.config)))


class Miner:
    """Mines one shard after the other, each into a folder of its own.

    What one shard has shown to be beyond the sample is left out of the next ones that the same process mines.
    """

    def __init__(self, job: Mining, matcher: Matcher) -> None:
        self._job = job
        self._config = job.config
        self._matcher = matcher
        self._limits = Limits.none(job.config.per_entity)

    def __call__(self, shard: Shard, folder: Path) -> dict[str, int]:
        """Mine a shard; return what a progress bar shows."""
        folder.mkdir()
        problems, summary = Problems(), Summary()
        versions: list[tuple[int, int, bool]] = []
        try:
            limits = self._write(_wanted(shard, self._job.excluded, problems, summary, versions), folder, summary)
        except InputError as error:
            if not self._job.skip_bad_files:
                raise
            problems, summary = Problems(), Summary(bad_file=str(error))
            versions = []
            limits = self._write(iter(()), folder, summary)
        # Only what is certain to count may rule out hits elsewhere; a record of PubMed may yet be replaced.
        if not summary.bad_file and not detect_format(shard.file).replaces:
            self._limits = limits
        columns = zip(*versions, strict=True) if versions else ([], [], [])
        pq.write_table(pa.table(list(columns), schema=DOCUMENTS), folder / "documents.parquet", compression="zstd")
        summary.bad_documents, summary.shown = problems.count, list(problems.shown)
        (folder / _SUMMARY).write_text(json.dumps(asdict(summary)), encoding="utf-8")
        return {"documents": summary.documents, "characters": summary.characters, "hits": summary.hits}

    def _write(self, documents: Iterator[Document], folder: Path, summary: Summary) -> Limits:
        """Write what is found and kept in the documents; return the limits that they leave."""
        forms, limits = self._matcher.names.forms, self._limits
        counts = np.zeros(0, dtype=np.int64)
        plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with (
            pq.ParquetWriter(folder / "candidates.parquet", CANDIDATES, **plain) as writer,
            pa.OSFile(str(folder / CONTEXTS_FILE), "wb") as sink,
            pa.ipc.new_file(sink, CONTEXTS) as contexts,
        ):
            searched = self._searched(documents, summary)
            for found in map(Searched.joined, _grouped(searched, lambda part: len(part.page.data), _ROUND)):
                more = np.bincount(found.hits.form, minlength=len(forms.surface))
                more[: len(counts)] += counts
                counts = more
                texts = Texts.of(found.ids, found.page, self._config.seed)
                entities = np.array(forms.entity, dtype=np.int32)[found.hits.form]
                kept = keep(found.hits, entities, texts, self._config, limits)
                limits = limits.after(kept)
                writer.write_batch(_candidates(found, kept, entities, texts))
                for batch in self._contexts(found, kept):
                    contexts.write_batch(batch)
        met = np.flatnonzero(counts)
        surfaces = [forms.surface[form] for form in met.tolist()]
        entities = np.array(forms.entity, dtype=np.int32)[met]
        pq.write_table(pa.table([surfaces, entities, counts[met]], FORMS), folder / "forms.parquet", compression="lz4")
        return limits

    def _searched(self, documents: Iterator[Document], summary: Summary) -> Iterator[Searched]:
        for batch in _grouped(documents, lambda document: len(document.text), _AT_ONCE):
            page = Page.of([document.text for document in batch])
            hits = self._matcher.find_in(page)
            summary.documents += len(batch)
            summary.characters += sum(len(document.text) for document in batch)
            summary.hits += len(hits)
            yield Searched([document.id for document in batch], page, hits)

    def _contexts(self, found: Searched, kept: Kept) -> Iterator[pa.RecordBatch]:
        """Yield the contexts of the hits that are kept, which are cut a part at a time."""
        hits, page, index = found.hits, found.page, kept.index
        preferred = np.array(self._matcher.names.forms.preferred, dtype=bool)[hits.form[index]]
        end = hits.end[index]
        edges = page.around(hits.document[index], hits.start[index], end, self._config.context)
        for at in range(0, len(index), _CUT):
            part = slice(at, at + _CUT)
            left, first, last, right = (edge[part] for edge in edges)
            cuts = page.cut(first, last), page.cut(left, first), page.cut(last, right)
            yield pa.record_batch([end[part], cuts[0], preferred[part], *cuts[1:]], schema=CONTEXTS)


def _wanted(
    shard: Shard, excluded: frozenset[str], problems: Problems, summary: Summary, versions: list[tuple[int, int, bool]]
) -> Iterator[Document]:
    """Yield the documents to search; note which PubMed records, and which deletions, the shard holds.

    Only PubMed's files replace each other's records; elsewhere one id in two files is only a name.
    """
    drop = frozenset(shard.drop)
    replaces = detect_format(shard.file).replaces
    records = read_file(shard.file, problems, stripe=shard.stripe, stripes=shard.stripes)
    if replaces:
        held = list(records)
        latest = {record.id: record.ordinal for record in held if isinstance(record, Document)}
        records = iter([r for r in held if isinstance(r, Deleted) or latest[r.id] == r.ordinal])
        summary.superseded = sum(isinstance(record, Document) for record in held) - len(latest)
    for record in records:
        if isinstance(record, Deleted):
            versions.append((key_of(record.id), -1, True))
        elif record.id in excluded:
            summary.excluded += 1
        else:
            if replaces:
                versions.append((key_of(record.id), record.ordinal, False))
            if record.ordinal not in drop:
                yield record


@dataclass(frozen=True, slots=True)
class Searched:
    """Documents and what was found in them."""

    ids: list[str]
    page: Page
    hits: Hits

    @classmethod
    def joined(cls, parts: Sequence[Searched]) -> Searched:
        """Return several as one."""
        return cls(
            [name for part in parts for name in part.ids],
            Page.joined([part.page for part in parts]),
            Hits.joined([part.hits for part in parts], [len(part.ids) for part in parts]),
        )


def _candidates(found: Searched, kept: Kept, entities: NDArray[np.int32], texts: Texts) -> pa.RecordBatch:
    """Return what the merge decides by, for the hits that are kept."""
    index = kept.index
    document = found.hits.document[index]
    ids = pa.array(found.ids, pa.string()).take(pa.array(document))
    columns = [entities[index], kept.split, kept.number, kept.likeness, texts.version[document], ids]
    return pa.record_batch([*columns, found.hits.start[index]], schema=CANDIDATES)


def _grouped(items: Iterable[T], size: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Yield as many items at a time as make up a size."""
    held: list[T] = []
    total = 0
    for item in items:
        held.append(item)
        total += size(item)
        if total >= enough:
            yield held
            held, total = [], 0
    if held:
        yield held
