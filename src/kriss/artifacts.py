"""Folders that stages write: each with a `manifest.json`, and never half-visible.

A stage writes into a temporary folder beside its target; only when everything is there is the
folder renamed into place. A folder that already stands there is replaced only with `force`, and
survives if the new build fails. The manifest has no date and no absolute path, so the same
input gives the same bytes.

    with create(Path("out/hpo"), "ontology", config={...}) as draft:
        write_something(draft.path / "entities.arrow")
        draft.facts["entities"] = 19034
    artifact = open_artifact(Path("out/hpo"), "ontology")     # sizes checked
    verify(Path("out/hpo"))                                   # digests checked
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from kriss.errors import (
    ArtifactError,
    DamagedError,
    ExistsError,
    NotAnArtifactError,
    VersionError,
    WrongKindError,
)

MANIFEST = "manifest.json"


class Layout(NamedTuple):
    """What a kind of artifact consists of: its format version and the files it must hold."""

    version: int
    files: tuple[str, ...]
    libraries: tuple[str, ...] = ()


def _layout(version: int, *, files: str, libraries: str) -> Layout:
    return Layout(version, tuple(files.split()), tuple(libraries.split()))


LAYOUTS: Mapping[str, Layout] = {
    "ontology": _layout(
        1, files="entities.arrow names.arrow retired.arrow id_index.arrow name_index.arrow", libraries="pyarrow duckdb"
    ),
    "mentions": _layout(1, files="mentions.parquet forms.parquet", libraries="pyarrow duckdb numpy"),
    "encoder": _layout(
        1,
        files="""
            encoder.json config.json model.safetensors tokenizer.json references/config.json
            references/model.safetensors
            """,
        libraries="torch transformers tokenizers",
    ),
    "checkpoint": _layout(1, files="weights.safetensors optimizer.safetensors", libraries="torch accelerate"),
    "linker": _layout(
        1,
        files="""
            weights.json prototypes.arrow references.npy short_forms.json vectors/vectors.npy
            vectors/index.json ontology/manifest.json encoder/encoder.json encoder/tokenizer.json
            """,
        libraries="faiss-cpu onnxruntime tokenizers pyarrow",
    ),
    "reranker": _layout(
        1, files="reranker.json tokenizer.json weights.json", libraries="torch transformers tokenizers onnxruntime"
    ),
    "evaluation": _layout(1, files="table.md table.csv scores.json report.html", libraries="numpy"),
}


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact on disk whose manifest and file sizes have been checked."""

    path: Path
    kind: str
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    files: Mapping[str, Mapping[str, Any]]
    digest: str
    """SHA-256 of the manifest: it names the whole content, and later stages record it."""


@dataclass(slots=True)
class Draft:
    """The folder a stage is writing: fill `path`, put figures worth keeping into `facts`."""

    path: Path
    facts: dict[str, Any] = field(default_factory=dict)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe_inputs(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Name, size and digest of source files: what a manifest says about where it came from."""
    return [{"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)} for path in sorted(paths)]


def check_target(path: Path, kind: str, *, force: bool) -> None:
    """Refuse a target that must not be replaced, before hours of work rather than after."""
    if not path.exists() and not path.is_symlink():
        return
    if not force:
        raise ExistsError(f"{path} exists; give --force to replace it, or another --out")
    if path.is_symlink() or not path.is_dir() or (any(path.iterdir()) and not _kind_of(path)):
        raise ExistsError(f"{path} is not a folder that kriss wrote, so --force will not replace it")
    if (found := _kind_of(path)) and found != kind:
        raise ExistsError(f"{path} is of kind '{found}', so --force will not replace it by a new '{kind}'")


def _kind_of(path: Path) -> str | None:
    """Return the kind of artifact that a folder is, by a manifest that only kriss can have written."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        ours = manifest["kind"] in LAYOUTS and "made_with" in manifest and isinstance(manifest["files"], dict)
        return str(manifest["kind"]) if ours else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


@contextmanager
def create(
    path: Path,
    kind: str,
    *,
    config: Mapping[str, Any],
    inputs: Iterable[Mapping[str, Any]] = (),
    seed: int | None = None,
    force: bool = False,
) -> Iterator[Draft]:
    """Write an artifact: yield a draft folder, and put it in place when the block ends well."""
    check_target(path, kind, force=force)
    new_folders = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    draft = Draft(path.parent / f"{_draft_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}")
    draft.path.mkdir()
    try:
        yield draft
        _write_manifest(draft, kind, config, list(inputs), seed)
        check_target(path, kind, force=force)
        _put_in_place(draft.path, path)
    finally:
        shutil.rmtree(draft.path, ignore_errors=True)
        for folder in new_folders:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def open_artifact(path: Path, kind: str | None = None) -> Artifact:
    """Read the manifest and check kind, format version, and every file's presence and size."""
    if not path.exists():
        left = path.parent / f".{path.name}.replaced"
        hint = f"; an interrupted replacement left it at {left}, rename that back" if left.is_dir() else ""
        raise NotAnArtifactError(f"{path} does not exist{hint}")
    try:
        raw = (path / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotAnArtifactError(f"{path} is not a folder written by kriss: it has no {MANIFEST}") from None
    try:
        manifest = json.loads(raw)
        found, format_version, files = str(manifest["kind"]), int(manifest["version"]), manifest["files"]
        artifact = Artifact(
            path=path,
            kind=found,
            config=manifest["config"],
            facts=manifest["facts"],
            inputs=tuple(manifest["inputs"]),
            files={name: {"bytes": int(f["bytes"]), "sha256": str(f["sha256"])} for name, f in files.items()},
            digest=hashlib.sha256(raw).hexdigest(),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedError(
            f"{path / MANIFEST} cannot be read ({type(error).__name__}: {error}); build it again"
        ) from None
    if kind is not None and found != kind:
        raise WrongKindError(f"{path} holds {_a(found)}; this command needs {_a(kind)}")
    layout = LAYOUTS.get(found)
    written = f"{path} is {_a(found)} of format {format_version}"
    if layout is None or format_version > layout.version:
        raise VersionError(f"{written}, newer than this kriss: upgrade kriss")
    if format_version < layout.version:
        raise VersionError(f"{written}; this kriss reads {layout.version}: build it again")
    absent = [name for name in layout.files if name not in artifact.files]
    if absent:
        raise DamagedError(f"{path / MANIFEST} does not list {absent[0]}; build {path} again")
    for name, expected in artifact.files.items():
        if not (path / name).is_file():
            raise DamagedError(f"{path / name} is missing; build {path} again")
        size, right = (path / name).stat().st_size, expected["bytes"]
        if size != right:
            raise DamagedError(f"{path / name} has {size} bytes where {right} were written; build {path} again")
    return artifact


def verify(path: Path) -> Artifact:
    """Open an artifact and compare the digest of every file with the manifest."""
    artifact = open_artifact(path)
    for name, expected in artifact.files.items():
        if file_digest(path / name) != expected["sha256"]:
            raise DamagedError(f"{path / name} is not what was written (digest differs); build {path} again")
    return artifact


def _a(kind: object) -> str:
    return str(kind) if str(kind).endswith("s") else f"{'an' if str(kind)[:1] in 'aeiou' else 'a'} {kind}"


def _write_manifest(
    draft: Draft, kind: str, config: Mapping[str, Any], inputs: list[Mapping[str, Any]], seed: int | None
) -> None:
    layout = LAYOUTS[kind]
    written = sorted(file.relative_to(draft.path).as_posix() for file in draft.path.rglob("*") if file.is_file())
    lacking = sorted(set(layout.files) - set(written))
    if lacking:
        raise ArtifactError(f"the {kind} stage did not write {', '.join(lacking)}")  # our bug, caught early
    manifest = {
        "kind": kind,
        "version": layout.version,
        "config": dict(config),
        "seed": seed,
        "facts": draft.facts,
        "inputs": inputs,
        "files": {
            name: {"bytes": (draft.path / name).stat().st_size, "sha256": file_digest(draft.path / name)}
            for name in written
        },
        "made_with": {"python": platform.python_version()}
        | {package: _version(package) for package in ("kriss", *layout.libraries)},
    }
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    (draft.path / MANIFEST).write_text(text, encoding="utf-8")
    for name in (*written, MANIFEST):
        sync(draft.path / name)
    sync(draft.path)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _put_in_place(draft: Path, target: Path) -> None:
    """Rename the draft to its target; an old folder is moved aside first and back if that fails."""
    aside = target.parent / f".{target.name}.replaced"
    replacing = target.exists()
    if replacing:
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
    try:
        draft.rename(target)
    except OSError:
        if replacing:
            aside.rename(target)
        raise
    sync(target.parent)
    if replacing:
        shutil.rmtree(aside, ignore_errors=True)


def _remove_abandoned(target: Path) -> None:
    """Clear drafts of this target left behind on this host by processes that were killed."""
    prefix = _draft_prefix(target)
    for folder in target.parent.iterdir():
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if folder.name.startswith(prefix) and pid.isdigit():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)
            except PermissionError:  # another user's, and running
                continue


def _draft_prefix(target: Path) -> str:
    return f".{target.name}.building-{socket.gethostname()}-"


def sync(path: Path) -> None:
    """Flush a file or folder to disk, so that a rename never outlives its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
