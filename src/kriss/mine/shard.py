"""Mining one shard: read, match, sample, and write the result as a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kriss.documents.problems import Deleted, Problems
from kriss.documents.readers import read_documents
from kriss.documents.sources import Format, detect_format
from kriss.errors import InputError
from kriss.mine.config import MineConfig
from kriss.mine.matcher import Hits, Matcher
from kriss.mine.merge import CONTEXTS, CONTEXTS_FILE
from kriss.mine.names import Names
from kriss.mine.pages import Page
from kriss.mine.sample import Limits, Texts, keep
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
"""What decides which candidates remain; the rest of their rows is in `contexts`."""
FORMS = pa.schema([("surface", pa.string()), ("entity", pa.int32()), ("hits", pa.int64())])
DOCUMENTS = pa.schema([("key", pa.uint64()), ("ordinal", pa.int64()), ("deleted", pa.bool_())])
_AT_ONCE = 2 << 20
"""Characters searched in one call of the matcher."""
_ROUND = 128 << 20
"""Bytes of text held before they are sampled and let go."""
_CUT = 1 << 14
"""Rows whose contexts are cut and written at once: few, so that the memory for it is used again and again."""
_SUMMARY = "summary.json"


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

    def open(self) -> Callable[[Shard, Path], dict[str, int]]:
        """Build the tables of names; return what mines a shard into a folder.

        What one shard has shown to be beyond the sample is left out of the next ones in the same process.
        """
        miner = Miner(self.config, Matcher(Names(self.names, self.config)), self.excluded)
        limits = Limits(self.config.per_entity)

        def mine_shard(shard: Shard, folder: Path) -> dict[str, int]:
            folder.mkdir()
            known = limits.copy()
            try:
                summary = miner.mine(shard, folder, known)
            except InputError as error:
                if not self.skip_bad_files:
                    raise
                summary = _nothing(folder, str(error))
            (folder / _SUMMARY).write_text(json.dumps(asdict(summary)), encoding="utf-8")
            # Only what is certain to count may rule out hits elsewhere; a record of PubMed may yet be replaced.
            if not summary.bad_file and detect_format(shard.file) is not Format.PUBMED:
                limits.become(known)
            return {"documents": summary.documents, "characters": summary.characters, "hits": summary.hits}

        return mine_shard


def _nothing(folder: Path, bad_file: str) -> Summary:
    """Write the result of a file that cannot be read."""
    for name, schema in (("candidates", CANDIDATES), ("forms", FORMS), ("documents", DOCUMENTS)):
        pq.write_table(schema.empty_table(), folder / f"{name}.parquet")
    with pa.ipc.new_file(folder / CONTEXTS_FILE, CONTEXTS):
        pass
    return Summary(bad_file=bad_file)


@dataclass(frozen=True, slots=True)
class Miner:
    """Reads, matches, samples and writes."""

    config: MineConfig
    matcher: Matcher
    excluded: frozenset[str]

    def mine(self, shard: Shard, folder: Path, limits: Limits) -> Summary:
        """Mine a shard into a folder; bring the limits up to date."""
        problems, summary = Problems(), Summary()
        counts = np.zeros(0, dtype=np.int64)
        keys: list[tuple[int, int, bool]] = []
        forms = self.matcher.names.forms
        plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with (
            pq.ParquetWriter(folder / "candidates.parquet", CANDIDATES, **plain) as writer,
            pa.OSFile(str(folder / CONTEXTS_FILE), "wb") as sink,
            pa.ipc.new_file(sink, CONTEXTS) as contexts,
        ):
            for found in _rounds(_wanted(shard, self.excluded, problems, summary, keys), self.matcher, summary):
                more = np.bincount(found.hits.form, minlength=len(forms.surface))
                more[: len(counts)] += counts
                counts = more
                candidates, batches = _sample(found, self.matcher, self.config, limits)
                writer.write_batch(candidates)
                for batch in batches:
                    contexts.write_batch(batch)
        summary.bad_documents, summary.shown = problems.count, list(problems.shown)
        met = np.flatnonzero(counts)
        surfaces = [forms.surface[form] for form in met.tolist()]
        entities = np.array(forms.entity, dtype=np.int32)[met]
        pq.write_table(pa.table([surfaces, entities, counts[met]], FORMS), folder / "forms.parquet", compression="lz4")
        pq.write_table(_table(keys, DOCUMENTS), folder / "documents.parquet", compression="zstd")
        return summary


def _wanted(
    shard: Shard, excluded: frozenset[str], problems: Problems, summary: Summary, keys: list[tuple[int, int, bool]]
) -> Iterator[Document]:
    """Yield the documents to search; note which PubMed records, and which deletions, the shard holds.

    Only PubMed's files replace each other's records; elsewhere one id in two files is only a name.
    """
    drop = frozenset(shard.drop)
    is_pubmed = detect_format(shard.file) is Format.PUBMED
    records = read_documents(shard.file, problems, stripe=shard.stripe, stripes=shard.stripes)
    if is_pubmed:
        held = list(records)
        latest = {record.id: record.ordinal for record in held if isinstance(record, Document)}
        records = iter([r for r in held if isinstance(r, Deleted) or latest[r.id] == r.ordinal])
        summary.superseded = sum(isinstance(record, Document) for record in held) - len(latest)
    for record in records:
        if isinstance(record, Deleted):
            keys.append((key_of(record.id), -1, True))
        elif record.id in excluded:
            summary.excluded += 1
        else:
            if is_pubmed:
                keys.append((key_of(record.id), record.ordinal, False))
            if record.ordinal not in drop:
                yield record


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in as much text as is sampled at once."""

    ids: list[str]
    page: Page
    hits: Hits

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """Return several as one."""
        return cls(
            [name for part in parts for name in part.ids],
            Page.joined([part.page for part in parts]),
            Hits.joined([part.hits for part in parts], [len(part.ids) for part in parts]),
        )


def _rounds(documents: Iterator[Document], matcher: Matcher, summary: Summary) -> Iterator[Found]:
    """Search the documents; yield what was found in as many of them as memory should hold."""
    held: list[Found] = []
    for batch in _batches(documents):
        page = Page.of([document.text for document in batch])
        hits = matcher.find_in(page)
        held.append(Found([document.id for document in batch], page, hits))
        size = sum(len(document.text) for document in batch)
        summary.documents += len(batch)
        summary.characters += size
        summary.hits += len(hits)
        if sum(len(found.page.data) for found in held) >= _ROUND:
            yield Found.joined(held)
            held = []
    if held:
        yield Found.joined(held)


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Yield as many documents at a time as are searched at once."""
    held: list[Document] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= _AT_ONCE:
            yield held
            held, size = [], 0
    if held:
        yield held


def _sample(
    found: Found, matcher: Matcher, config: MineConfig, limits: Limits
) -> tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]:
    """Return the rows of the hits that are kept, and their contexts, which are cut a part at a time."""
    forms, hits, page = matcher.names.forms, found.hits, found.page
    texts = Texts.of(found.ids, page, config.seed)
    entities = np.array(forms.entity, dtype=np.int32)[hits.form]
    kept = keep(hits, entities, texts, config, limits)
    limits.add(kept)
    index = kept.index
    document, start, end = hits.document[index], hits.start[index], hits.end[index]
    ids = pa.array(found.ids, pa.string()).take(pa.array(document))
    version = texts.version[document]
    candidates = (entities[index], kept.split, kept.number, kept.likeness, version, ids, start)
    preferred = np.array(forms.preferred, dtype=bool)[hits.form[index]]
    edges = page.around(document, start, end, config.context)

    def contexts() -> Iterator[pa.RecordBatch]:
        for at in range(0, len(index), _CUT):
            part = slice(at, at + _CUT)
            left, first, last, right = (edge[part] for edge in edges)
            cuts = page.cut(first, last), page.cut(left, first), page.cut(last, right)
            yield _batch((end[part], cuts[0], preferred[part], *cuts[1:]), CONTEXTS)

    return _batch(candidates, CANDIDATES), contexts()


def _batch(columns: Sequence[object], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
