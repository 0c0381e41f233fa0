"""Mining one shard: read, match, sample, and write the result as a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kriss.errors import InputError
from kriss.mine.config import MineConfig
from kriss.mine.documents import Deleted, Document, Problems
from kriss.mine.matcher import Hits, Matcher
from kriss.mine.plan import Shard
from kriss.mine.readers import read_documents
from kriss.mine.sample import Limits, Texts, keep
from kriss.mine.sources import Format, detect_format
from kriss.ontology.arrowfile import key_of

CANDIDATES = pa.schema(
    [
        ("entity", pa.int32()),
        ("split", pa.int8()),
        ("number", pa.uint64()),
        ("likeness", pa.uint64()),
        ("version", pa.uint32()),
        ("document", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("surface", pa.string()),
        ("preferred", pa.bool_()),
        ("left", pa.string()),
        ("right", pa.string()),
    ]
)
FORMS = pa.schema([("surface", pa.string()), ("entity", pa.int32()), ("hits", pa.int64())])
DOCUMENTS = pa.schema([("key", pa.uint64()), ("ordinal", pa.int64()), ("deleted", pa.bool_())])
_AT_ONCE = 1 << 20
"""Characters searched in one call of the matcher."""
_ROUND = 64 << 20
"""Characters held before they are sampled and let go."""


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


Beat = Callable[[int, int, int], None]
"""Called now and then with how many more documents, characters and hits there are."""


def shard_folder(work: Path, shard: Shard) -> Path:
    """Return where the result of a shard stands; one mined again, with records dropped, has its own."""
    redone = f"-{key_of(repr(shard.drop)):016x}" if shard.drop else ""
    return work / "shards" / f"{shard.number:05d}{redone}"


def mine_shard(
    shard: Shard,
    matcher: Matcher,
    config: MineConfig,
    excluded: frozenset[str],
    work: Path,
    beat: Beat,
    *,
    skip_bad_files: bool,
    limits: Limits | None = None,
) -> Summary:
    """Mine a shard into its folder, which appears whole or not at all.

    `limits` are what a worker knows from the shards before this one, and are brought up to date.
    """
    target = shard_folder(work, shard)
    draft = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    known = limits.copy() if limits else Limits(config.per_entity)
    try:
        summary = _mine(shard, matcher, config, excluded, draft, beat, known)
    except InputError as error:
        if not skip_bad_files:
            raise
        summary = Summary(bad_file=str(error))
        for name, schema in (("candidates", CANDIDATES), ("forms", FORMS), ("documents", DOCUMENTS)):
            pq.write_table(schema.empty_table(), draft / f"{name}.parquet")
    (draft / "summary.json").write_text(json.dumps(asdict(summary)), encoding="utf-8")
    if target.exists():  # another worker, of a run that was thought dead, was as quick
        shutil.rmtree(draft)
    else:
        draft.rename(target)
    # Only what is certain to count may rule out hits elsewhere; a record of PubMed may yet be replaced.
    if limits and not summary.bad_file and detect_format(shard.file) is not Format.PUBMED:
        limits.become(known)
    return summary


def _mine(
    shard: Shard,
    matcher: Matcher,
    config: MineConfig,
    excluded: frozenset[str],
    draft: Path,
    beat: Beat,
    limits: Limits,
) -> Summary:
    problems, summary = Problems(), Summary()
    counts: Counter[int] = Counter()
    keys: list[tuple[int, int, bool]] = []
    plain = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(draft / "candidates.parquet", CANDIDATES, **plain) as writer:
        for documents in _rounds(_wanted(shard, excluded, problems, summary, keys)):
            hits = _find(documents, matcher, beat)
            summary.documents += len(documents)
            summary.characters += sum(len(document.text) for document in documents)
            summary.hits += len(hits)
            numbers, totals = np.unique(hits.form, return_counts=True)
            counts.update(dict(zip(numbers.tolist(), totals.tolist(), strict=True)))
            writer.write_table(_sample(hits, documents, matcher, config, limits))
    summary.bad_documents, summary.shown = problems.count, list(problems.shown)
    forms = matcher.names.forms
    rows = sorted((forms.surface[form].decode(), forms.entity[form], total) for form, total in counts.items())
    pq.write_table(_table(rows, FORMS), draft / "forms.parquet", compression="zstd")
    pq.write_table(_table(keys, DOCUMENTS), draft / "documents.parquet", compression="zstd")
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


def _rounds(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Yield as many documents at a time as memory should hold."""
    held: list[Document] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= _ROUND:
            yield held
            held, size = [], 0
    if held:
        yield held


def _find(documents: list[Document], matcher: Matcher, beat: Beat) -> Hits:
    parts, sizes, start = [], [], 0
    while start < len(documents):
        stop, size = start, 0
        while stop < len(documents) and size < _AT_ONCE:
            size += len(documents[stop].text)
            stop += 1
        parts.append(matcher.find([document.text for document in documents[start:stop]]))
        sizes.append(stop - start)
        beat(stop - start, size, len(parts[-1]))
        start = stop
    return Hits.joined(parts, sizes)


def _sample(hits: Hits, documents: list[Document], matcher: Matcher, config: MineConfig, limits: Limits) -> pa.Table:
    """Return the rows of the hits that are kept, each with its context."""
    forms = matcher.names.forms
    texts = Texts.of([(document.id, document.text) for document in documents], config.seed)
    entities = np.array(forms.entity, dtype=np.int32)[hits.form]
    kept = keep(hits, entities, texts, config, limits)
    limits.add(kept)
    index, start, end = kept.index, hits.start[kept.index], hits.end[kept.index]
    document = hits.document[index].tolist()
    spans = list(zip([texts.text[number] for number in document], start.tolist(), end.tolist(), strict=True))
    context = config.context
    columns = (
        entities[index],
        kept.split,
        kept.number,
        kept.likeness,
        texts.version[hits.document[index]],
        [documents[number].id for number in document],
        start,
        end,
        [text[first:last] for text, first, last in spans],
        np.array(forms.preferred, dtype=bool)[hits.form[index]],
        [text[max(first - context, 0) : first] for text, first, _ in spans],
        [text[last : last + context] for text, _, last in spans],
    )
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, CANDIDATES, strict=True)], schema=CANDIDATES
    )


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
