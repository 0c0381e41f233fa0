"""Recipes: stages in a TOML file, each a command and what it writes, run in order and never twice.

    [[stage]]
    name = "hpo"
    run = "ontology build hpo --out {out}"

    [[stage]]
    name = "links-{corpus}"
    file = "links/{corpus}.jsonl.gz"
    run = "link {linker} {corpus}:test --to predictions --out {out}"
    each = [{corpus = "ncbi-disease"}, {corpus = "bc5cdr-d"}]

`{out}` is what the stage writes, `{data}` the data folder, and `{name}` what another stage wrote, which must stand
before it. `each` repeats a stage with other values, `by` crosses them with more. `copy` names a stage whose folder
is copied first, for commands that change a folder. `script` instead of `run` is a Python file, named from the
recipe's folder. A stage is skipped while its command, the stages it uses and the files of the data folder that it
names are what they were when it last ended well; one that ran again makes those that use it run again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kriss.artifacts import file_digest
from kriss.config import from_mapping, read_toml
from kriss.errors import ConfigError, ExistsError, InputError, KrissError, Place

_NAME = r"[\w./-]+"
_HOLE = re.compile(rf"\{{({_NAME})\}}")
_STAMPS = ".stages"
_PATIENCE = 10.0
"""Seconds that a command has to end by itself."""
Say = Callable[[str], None]


class StageFailedError(KrissError):
    """A command of a recipe ended badly."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One command and the file or folder that it writes."""

    name: str
    run: str = ""
    script: str = ""
    file: str = ""
    """Where it writes, below the output folder; its name if nothing else is said."""
    copy: str = ""
    each: list[dict[str, str]] = field(default_factory=list)
    """The stage once for each of these, with their values filled in."""
    by: list[dict[str, str]] = field(default_factory=list)
    """And for each of those once for each of these."""

    @property
    def target(self) -> str:
        """What it writes, below the output folder."""
        return self.file or self.name

    @property
    def command(self) -> str:
        """What is run, a command of kriss or a script."""
        return self.run or self.script

    def holes(self) -> list[str]:
        """Return the names in braces, each once."""
        return list(dict.fromkeys([*_HOLE.findall(self.command), *([self.copy] if self.copy else [])]))


@dataclass(frozen=True, slots=True)
class Recipe:
    """The stages of a file, in order."""

    path: Path
    stages: tuple[Stage, ...]

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe; a stage that uses what no stage before it makes is an error."""
        found = read_toml(path)
        if unknown := set(found) - {"stage", "title"}:
            raise ConfigError(f"{path}: unknown key '{min(unknown)}'; a recipe has a title and [[stage]] tables")
        listed = found.get("stage", [])
        if not isinstance(listed, list) or not listed:
            raise ConfigError(f"{path} has no [[stage]]: there is nothing to run")
        stages = [stage for number, values in enumerate(listed, 1) for stage in _expanded(values, path, number)]
        known: dict[str, str] = {}
        for stage in stages:
            _check(stage, known, path)
            known[stage.name] = stage.target
        return cls(path, tuple(stages))

    def needed(self, names: Sequence[str]) -> tuple[Stage, ...]:
        """Return these stages and all that they use, in order; all stages if none is named."""
        by_name = {stage.name: stage for stage in self.stages}
        if stranger := next((name for name in names if name not in by_name), None):
            raise ConfigError(f"{self.path} has no stage '{stranger}'; it has {', '.join(by_name)}")
        wanted = set(names or by_name)
        for stage in reversed(self.stages):
            if stage.name in wanted:
                wanted |= set(stage.holes()) & set(by_name)
        return tuple(stage for stage in self.stages if stage.name in wanted)


def run_recipe(
    recipe: Recipe, out: Path, data: Path | None, say: Say, *, only: Sequence[str] = (), again: Sequence[str] = ()
) -> None:
    """Run what has to be run: `only` these stages and what they use, `again` those even if nothing changed."""
    stages = recipe.needed([*only, *again] if only else [])
    recipe.needed(again)
    made: dict[str, int] = {}
    for number, stage in enumerate(stages, 1):
        target, stamp = out / stage.target, out / _STAMPS / f"{quote(stage.name, safe='')}.json"
        label = f"[{number}/{len(stages)}] {stage.name}"
        with _alone(stamp.with_suffix(".lock"), partial(say, f"{label}: waiting for another run")) as lock:
            _restore(target)
            known, fingerprint = _known(stamp), _fingerprint(stage, made, recipe, data)
            if known.get("print") == fingerprint and target.exists() and stage.name not in again:
                say(f"{label}: as it was")
            else:
                say(f"{label}: {stage.command}")
                _begin(stage, target, stamp, known, fingerprint)
                started = time.monotonic()
                try:
                    _run(stage, recipe, out, data, lock)
                except BaseException:
                    _write(stamp, known | {"begun": fingerprint})
                    raise
                taken = round(time.monotonic() - started, 1)
                known = {"print": fingerprint, "target": stage.target, "seconds": taken, "made": time.time_ns()}
                _write(stamp, known)
                say(f"{label}: done in {taken:,.0f} s")
            made[stage.name] = known["made"]


def _begin(stage: Stage, target: Path, stamp: Path, known: dict[str, Any], fingerprint: str) -> None:
    """Write down what is about to be made. What no recipe made is not replaced, nor an old training resumed."""
    if target.exists() and stage.target not in (known.get("target"), known.get("making")):
        raise ExistsError(f"{target} exists and stage '{stage.name}' did not make it; move it, or give another --out")
    if known.get("begun") != fingerprint:
        _remove(_unfinished(target))
    _write(stamp, known | {"begun": fingerprint, "making": stage.target})  # stays if this run is killed


def _write(stamp: Path, content: dict[str, Any]) -> None:
    draft = stamp.with_suffix(".new")
    draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
    draft.replace(stamp)


@contextmanager
def _alone(lock: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Let no other run make the same stage meanwhile; several runs may share an output folder otherwise.

    The command inherits the lock, so one that outlives a killed run is waited for as well.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream.fileno()


def _expanded(values: object, path: Path, number: int) -> list[Stage]:
    where = f"{path}: stage {number}"
    if not isinstance(values, dict):
        raise ConfigError(f"{where} is not a table; write [[stage]]")
    stage = from_mapping(Stage, values, where)
    if not stage.each and not stage.by:
        return [stage]
    plain = {key: value for key, value in values.items() if key not in ("each", "by")}
    return [
        from_mapping(Stage, {key: _filled(_filled(text, other), one) for key, text in plain.items()}, where)
        for one, other in product(stage.each or [{}], stage.by or [{}])
    ]


def _filled(text: Any, values: Mapping[str, str]) -> str:  # noqa: ANN401 - whatever TOML held
    return _HOLE.sub(lambda hole: values.get(hole[1], hole[0]), str(text))


def _check(stage: Stage, known: Mapping[str, str], path: Path) -> None:
    where = f"{path}: stage '{stage.name}'"
    if stage.name in known or stage.name in ("out", "data"):
        raise ConfigError(f"{where}: every stage needs a name of its own, other than out and data")
    if not re.fullmatch(_NAME, stage.name):
        raise ConfigError(f"{path}: a stage is named {stage.name!r}; take letters, digits and any of . _ / -")
    if bool(stage.run) == bool(stage.script):
        raise ConfigError(f"{where} needs either 'run', a command of kriss, or 'script', a Python file")
    target = Path(stage.target)
    if target.is_absolute() or ".." in target.parts:
        raise ConfigError(f"{where} writes to {target}, which is not below the output folder")
    if os.path.normpath(stage.target) in map(os.path.normpath, known.values()):
        raise ConfigError(f"{where} writes to {target}, as an earlier stage does; give it a 'file' of its own")
    try:
        shlex.split(stage.command)
    except ValueError as error:
        raise ConfigError(f"{where}: its command cannot be read ({error}); close the quotes") from None
    if "out" not in stage.holes():
        raise ConfigError(f"{where} does not say where to write; put {{out}} into its command")
    if absent := next((hole for hole in stage.holes() if hole not in {*known, "out", "data"}), None):
        raise ConfigError(f"{where} uses '{absent}', which no stage before it is named")


def _fingerprint(stage: Stage, made: Mapping[str, int], recipe: Recipe, data: Path | None) -> str:
    """Return what changes when the stage would give something else: its command, its script, when inputs were made."""
    parts = [stage.command, stage.target, stage.copy]
    parts += [f"{hole}={made[hole]}" for hole in stage.holes() if hole in made]
    if "data" in stage.holes() and data is None:
        raise ConfigError(f"stage '{stage.name}' reads the data folder; give --data DIR or set KRISS_DATA")
    for word in shlex.split(stage.command):
        if "{data}" in word and data is not None:
            parts.append(_digest(data, word.partition("{data}")[2].lstrip("/")))
    if stage.script:
        parts.append(file_digest(recipe.path.parent / shlex.split(stage.script)[0]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest(data: Path, name: str) -> str:
    """Return names and sizes of a file, a folder or what a pattern fits: that tells large data apart unread."""
    try:
        named = [data / name] if (data / name).exists() else sorted(data.glob(name))
    except (ValueError, NotImplementedError) as error:
        raise ConfigError(f"'{name}' is no pattern for files of the data folder: {error}") from None
    if not named:
        raise InputError("no such file", Place(data / name))
    files = [one for each in named for one in (sorted(each.rglob("*")) if each.is_dir() else [each]) if one.is_file()]
    return " ".join(f"{one.name} {one.stat().st_size}" for one in files)


def _run(stage: Stage, recipe: Recipe, out: Path, data: Path | None, lock: int) -> None:
    """Run a stage; what it wrote before is put back if it fails."""
    places, target = {one.name: str(out / one.target) for one in recipe.stages}, out / stage.target
    target.parent.mkdir(parents=True, exist_ok=True)
    before = target.with_name(f".{target.name}.before")
    if target.exists():
        _remove(before)
        target.rename(before)
    try:
        if stage.copy:
            shutil.copytree(places[stage.copy], target)
        _execute(stage, recipe, places | {"out": str(target), "data": str(data)}, data, lock)
    except BaseException:
        _remove(target)
        if before.exists():
            before.rename(target)
        raise
    if before.exists():  # under a name that nobody would put back, should the run end while it is removed
        gone = target.with_name(f".{target.name}.gone")
        _remove(gone)
        _remove(before.rename(gone))


def _execute(stage: Stage, recipe: Recipe, places: Mapping[str, str], data: Path | None, lock: int) -> None:
    target = Path(places["out"])
    words = [_filled(word, places) for word in shlex.split(stage.command)]
    if stage.script:
        words = [sys.executable, str(recipe.path.parent / words[0]), *words[1:]]
    else:
        words = [sys.executable, "-m", "kriss.cli", *words, *_resumed(words, target)]
    environment = os.environ | ({"KRISS_DATA": str(data)} if data else {})
    ended = _waited_for(subprocess.Popen(words, env=environment, pass_fds=(lock,), start_new_session=True))
    if ended or not target.exists():
        what = f"ended with status {ended}" if ended else f"ended well, but wrote no {target}"
        raise StageFailedError(f"stage '{stage.name}' of {recipe.path} {what}; what it said stands above")


def _waited_for(command: subprocess.Popen[bytes]) -> int:
    """Return how a command ended. If the run is ended first, it is too, with all that it has started."""
    try:
        return command.wait()
    except BaseException:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(command.pid, number)
            with suppress(subprocess.TimeoutExpired):
                command.wait(_PATIENCE)
        raise


def _resumed(words: Sequence[str], target: Path) -> list[str]:
    """Go on with a training that was interrupted, or begin it anew if it had not come to a checkpoint."""
    trains = words[0] == "train" or list(words[:2]) == ["rerank", "train"]
    if not trains or not _unfinished(target).is_dir():
        return []
    return ["--resume"] if any(_unfinished(target).glob("step-*")) else ["--force"]


def _unfinished(target: Path) -> Path:
    """Return where a training keeps its checkpoints until it is done."""
    return target.with_name(f".{target.name}.training")


def _restore(target: Path) -> None:
    """Put back what a run that was killed had moved aside; what it had half written goes."""
    before = target.with_name(f".{target.name}.before")
    if before.exists():
        _remove(target)
        before.rename(target)


def _remove(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _known(stamp: Path) -> dict[str, Any]:
    try:
        found = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
