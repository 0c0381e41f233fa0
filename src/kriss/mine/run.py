"""Mining from end to end: cut the files into shards, mine those, settle duplicates, merge the samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kriss.artifacts import check_target, create, describe_inputs
from kriss.config import changed, to_mapping
from kriss.documents.registry import detect_format
from kriss.documents.sources import find_files
from kriss.errors import InputError, Place
from kriss.files import BadRows, Where, read_lines
from kriss.mine.config import MineConfig
from kriss.mine.merge import merge_samples, superseded
from kriss.mine.names import write_names
from kriss.mine.shard import Mining, Shard, Summary
from kriss.ontology import Ontology
from kriss.work import Engine, Local, Work

SHARD_BYTES = 32 << 20
"""A file that is larger, as it is on disk, may be cut into stripes for several workers."""
_MOST_BYTES = 256 << 20
"""A file that is larger is cut even for one, so that an interrupted run has not all of it to do again."""
_COUNTED = ("documents", "characters", "hits", "excluded", "superseded", "bad_documents")
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class MineReport:
    """What a run found, and what it could not read."""

    path: Path
    documents: int
    characters: int
    hits: int
    mentions: int
    entities: int
    excluded: int
    superseded: int
    bad_documents: int
    shown: tuple[str, ...]
    bad_files: tuple[str, ...]


def mine(
    ontology: Ontology | Where,
    text: Where | Sequence[Where],
    out: Where,
    config: MineConfig | None = None,
    *,
    exclude: Where | None = None,
    workers: int = 1,
    engine: Engine | None = None,
    skip_bad_files: bool = False,
    force: bool = False,
    shard_bytes: int | None = None,
    progress: Progress = lambda event: None,
    **settings: Any,  # noqa: ANN401 - the fields of MineConfig
) -> MineReport:
    """Find the names of an ontology in text, and write a sample of the mentions to the folder `out`.

    The result depends on the settings, the ontology and the text alone. A run that was interrupted
    goes on where it stopped when it is started again with the same of these. A file larger than
    `shard_bytes` is cut; unless it is given, as far as it takes to keep the workers busy.
    """
    config = changed(config or MineConfig(), settings, "kriss.mine")
    ontology, out, exclude = Ontology.load(ontology), Path(out), Path(exclude) if exclude else None
    engine = engine or Local(workers)
    check_target(out, "mentions", force=force)
    files = find_files(text)
    inputs = describe_inputs([*files, *([exclude] if exclude else [])])
    job_inputs = {
        "config": to_mapping(config),
        "ontology": ontology.artifact.digest,
        "files": [str(file.resolve()) for file in files],
        "inputs": inputs,
        "skip_bad_files": skip_bad_files,
    }
    excluded = frozenset(_read_ids(exclude)) if exclude else frozenset[str]()
    work = Work.open(out.parent / f".{out.name}.mining", job_inputs)
    names = work.once("names", partial(write_names, ontology.names_table(), config))
    job = Mining(config, names, excluded, skip_bad_files)
    shards = _mined(_shards(work, files, shard_bytes or fair_share(files, engine)), job, work, engine, progress)
    folders = [work.folder / shard.name for shard in shards]
    summaries = [Summary.read(folder) for folder in folders]
    facts: dict[str, Any] = {name: sum(getattr(summary, name) for summary in summaries) for name in _COUNTED}
    facts |= {"files": len(files), "superseded": facts["superseded"] + sum(len(shard.drop) for shard in shards)}
    manifest_inputs = [*inputs, {"name": ontology.artifact.path.name, "sha256": ontology.artifact.digest}]
    with create(
        out, "mentions", config=to_mapping(config), inputs=manifest_inputs, seed=config.seed, force=force
    ) as draft:
        facts |= merge_samples(folders, ontology, config, draft.path, work.folder / "spill")
        draft.facts |= facts
    work.remove()
    return MineReport(
        out,
        **{name: facts[name] for name in (*_COUNTED, "mentions", "entities")},
        shown=tuple(line for summary in summaries for line in summary.shown)[:10],
        bad_files=tuple(dict.fromkeys(summary.bad_file for summary in summaries if summary.bad_file)),
    )


def fair_share(files: Sequence[Path], engine: Engine) -> int:
    """Return into how large pieces to cut files: no more than keeps the workers busy.

    Each stripe of a zipped file unzips all of it, so that one worker had better take it whole.
    """
    if not isinstance(engine, Local):
        return SHARD_BYTES
    total = sum(file.stat().st_size for file in files)
    return min(max(total // engine.workers, SHARD_BYTES), _MOST_BYTES)


def _read_ids(path: Path) -> list[str]:
    ids = [line.strip() for _, line in read_lines(path, BadRows(skip=False))]
    if not any(ids):
        raise InputError("there is no document id in it", Place(path))
    return [line for line in ids if line]


def _shards(work: Work, files: Sequence[Path], most_bytes: int) -> list[Shard]:
    """Cut the files into shards, or take the cut of an interrupted run; it has no influence on what is mined."""
    cut = work.once("cut.json", lambda path: path.write_text(json.dumps(most_bytes), encoding="utf-8"))
    most_bytes = json.loads(cut.read_text(encoding="utf-8"))
    pieces = []
    for number, file in enumerate(files):
        stripes = max(1, -(-file.stat().st_size // most_bytes))
        if stripes > 1 and detect_format(file).replaces:
            stripes = 1  # records of one file may replace each other, and NLM's files are small
        pieces += [(number, file.resolve(), stripe, stripes) for stripe in range(stripes)]
    return [Shard(number, *piece) for number, piece in enumerate(pieces)]


def _mined(shards: list[Shard], job: Mining, work: Work, engine: Engine, progress: Progress) -> list[Shard]:
    """Mine what is not mined yet, then again those shards in which a record is replaced by a later one."""
    progress({"event": "plan", "shards": len(shards)})
    progress({"event": "resumed", "shards": len(shards) - len(work.missing(shards))})
    with work.made_by(engine, job.open) as make:
        for _, figures in make(_largest_first(shards)):
            progress({"event": "done", **figures})
        dropped = superseded([work.folder / shard.name for shard in shards], [shard.source for shard in shards])
        shards = [replace(shard, drop=tuple(dropped.get(shard.number, ()))) for shard in shards]
        progress({"event": "again", "shards": len(work.missing(shards))})
        for _, figures in make(_largest_first(shards)):
            progress({"event": "done", **figures})
    return shards


def _largest_first(shards: list[Shard]) -> list[Shard]:
    """Return the shards in an order in which the workers end together."""
    return sorted(shards, key=lambda shard: (-shard.file.stat().st_size // shard.stripes, shard.number))
