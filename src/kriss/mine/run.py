"""Mining from end to end: plan, mine the shards, settle duplicates, merge the samples, write the artifact."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from kriss.artifacts import check_target, create
from kriss.config import to_mapping
from kriss.documents.sources import find_files
from kriss.errors import ConfigError, InputError, Place
from kriss.files import BadRows, read_lines
from kriss.mine.config import MineConfig
from kriss.mine.merge import merge_samples, superseded
from kriss.mine.names import write_names
from kriss.mine.plan import SHARD_BYTES, Plan, Shard, fair_share, make_plan
from kriss.mine.pool import Pool
from kriss.mine.shard import Summary, shard_folder
from kriss.ontology import Ontology


class Engine(Protocol):
    """Whatever mines shards: the local pool, or a Ray cluster."""

    def mine(self, shards: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Mine shards and yield events."""


MakeEngine = Callable[[Path], AbstractContextManager[Engine]]
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
    config: MineConfig,
    ontology: Ontology,
    sources: Sequence[Path | str],
    out: Path,
    *,
    exclude: Path | None = None,
    workers: int = 1,
    engine: MakeEngine | None = None,
    skip_bad_files: bool = False,
    force: bool = False,
    shard_bytes: int | None = None,
    progress: Progress = lambda event: None,
) -> MineReport:
    """Find the names of `ontology` in the text of `sources`, and write a sample of the mentions to `out`.

    The result depends on the settings, the ontology and the text alone. A run that was interrupted
    goes on where it stopped when it is started again with the same of these. A file larger than
    `shard_bytes` is cut; unless it is given, as far as it takes to keep the workers busy.
    """
    _check(config, workers)
    check_target(out, "mentions", force=force)
    files = find_files(sources)
    excluded = _read_ids(exclude) if exclude else []
    plan = make_plan(
        config,
        ontology.artifact.digest,
        files,
        exclude,
        skip_bad_files=skip_bad_files,
        shard_bytes=shard_bytes or (SHARD_BYTES if engine else fair_share(files, workers)),
    )
    work = out.parent / f".{out.name}.mining"
    plan = _prepare(work, plan, ontology, excluded)
    make_engine: MakeEngine = engine or (lambda folder: Pool(folder, workers))
    shards = _mine_all(plan, work, make_engine, progress)
    summaries = [
        Summary(**json.loads((shard_folder(work, shard) / "summary.json").read_text(encoding="utf-8")))
        for shard in shards
    ]
    facts = _facts(summaries, sum(len(shard.drop) for shard in shards), len(files))
    inputs = [*plan.inputs, {"name": ontology.artifact.path.name, "sha256": ontology.artifact.digest}]
    with create(out, "mentions", config=to_mapping(config), inputs=inputs, seed=config.seed, force=force) as draft:
        folders = [shard_folder(work, shard) for shard in shards]
        facts |= merge_samples(folders, ontology, config, draft.path, work / "spill")
        draft.facts |= facts
    shutil.rmtree(work)
    bad_files = tuple(dict.fromkeys(summary.bad_file for summary in summaries if summary.bad_file))
    shown = tuple(line for summary in summaries for line in summary.shown)[:10]
    figures = {name: facts[name] for name in ("documents", "characters", "hits", "mentions", "entities", "excluded")}
    return MineReport(
        out,
        **figures,
        superseded=facts["superseded"],
        bad_documents=facts["bad_documents"],
        shown=shown,
        bad_files=bad_files,
    )


def _check(config: MineConfig, workers: int) -> None:
    if workers < 1:
        raise ConfigError(f"--workers must be at least 1, not {workers}")
    for name in ("min_length", "per_entity", "per_document", "context"):
        if getattr(config, name) < 1:
            raise ConfigError(f"'{name}' must be at least 1, not {getattr(config, name)}")
    if config.train < 0 or config.dev < 0 or config.train + config.dev > 1:
        raise ConfigError(
            f"train ({config.train}) and dev ({config.dev}) are shares of the documents: at most 1 in all"
        )


def _read_ids(path: Path) -> list[str]:
    ids = [line.strip() for _, line in read_lines(path, BadRows(skip=False))]
    if not any(ids):
        raise InputError("there is no document id in it", Place(path))
    return [line for line in ids if line]


def _prepare(work: Path, plan: Plan, ontology: Ontology, excluded: list[str]) -> Plan:
    """Make the work folder, or find it as an interrupted run left it, whose cut into shards then holds."""
    stamp = work / "digest"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == plan.digest():
        return Plan.read(work / "plan.json")
    shutil.rmtree(work, ignore_errors=True)
    (work / "names").mkdir(parents=True)
    (work / "shards").mkdir()
    plan.write(work / "plan.json")
    (work / "excluded.txt").write_text("\n".join(excluded), encoding="utf-8")
    write_names(ontology.names_table(), plan.config, work / "names")
    draft = work / f"digest-{os.getpid()}"
    draft.write_text(plan.digest(), encoding="utf-8")
    draft.rename(stamp)  # last: from here on the folder can be taken up again
    return plan


def _mine_all(plan: Plan, work: Path, make_engine: MakeEngine, progress: Progress) -> list[Shard]:
    """Mine what is not mined yet, then again those shards in which a record is replaced by a later one."""
    shards = plan.shards()
    todo = _not_mined(shards, work)
    progress({"event": "plan", "shards": len(shards)})
    progress({"event": "resumed", "shards": len(shards) - len(todo)})
    with ExitStack() as stack:
        engine = stack.enter_context(make_engine(work)) if todo else None
        _run(engine, todo, progress)
        dropped = superseded(
            [shard_folder(work, shard) for shard in shards], [plan.files.index(s.file) for s in shards]
        )
        shards = [replace(shard, drop=tuple(dropped.get(shard.number, ()))) for shard in shards]
        again = _not_mined(shards, work)
        for shard in again:
            (work / f"drop-{shard.number:05d}.json").write_text(json.dumps(shard.drop), encoding="utf-8")
        progress({"event": "again", "shards": len(again)})
        _run(engine or (stack.enter_context(make_engine(work)) if again else None), again, progress)
    return shards


def _not_mined(shards: list[Shard], work: Path) -> list[Shard]:
    """Return the shards without a result: the largest first, so that the workers end together."""
    lacking = [shard for shard in shards if not shard_folder(work, shard).is_dir()]
    return sorted(lacking, key=lambda shard: (-shard.file.stat().st_size // shard.stripes, shard.number))


def _run(engine: Engine | None, shards: list[Shard], progress: Progress) -> None:
    if engine and shards:
        for event in engine.mine([shard.number for shard in shards]):
            progress(event)


def _facts(summaries: list[Summary], replaced: int, files: int) -> dict[str, Any]:
    names = ("documents", "characters", "hits", "excluded", "bad_documents", "superseded")
    facts: dict[str, Any] = {name: sum(getattr(summary, name) for summary in summaries) for name in names}
    return facts | {"files": files, "superseded": facts["superseded"] + replaced}
