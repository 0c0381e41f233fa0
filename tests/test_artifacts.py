"""Folders that stages write: never half-visible, checked when opened, replaced only on request."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kriss.artifacts import LAYOUTS, MANIFEST, create, describe_inputs, file_digest, open_artifact, verify
from kriss.errors import (
    ArtifactError,
    DamagedError,
    ExistsError,
    KrissError,
    NotAnArtifactError,
    VersionError,
    WrongKindError,
)
from tests.conftest import contents


def make(path: Path, text: str = "content", *, force: bool = False) -> Path:
    with create(path, "ontology", config={"format": "tsv"}, inputs=[{"name": "a.tsv"}], force=force) as draft:
        for name in LAYOUTS["ontology"].files:
            (draft.path / name).write_text(f"{text} of {name}")
        draft.facts["entities"] = 3
    return path


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def edit_manifest(path: Path, **changes: object) -> None:
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps(manifest | changes))


def test_what_is_written_is_what_is_opened(tmp_path: Path) -> None:
    path = make(tmp_path / "deep" / "down" / "out")
    artifact = open_artifact(path, "ontology")
    assert artifact.path == path
    assert artifact.kind == "ontology"
    assert artifact.config == {"format": "tsv"}
    assert artifact.facts == {"entities": 3}
    assert artifact.inputs == ({"name": "a.tsv"},)
    assert set(artifact.files) == set(LAYOUTS["ontology"].files)
    assert artifact.digest == file_digest(path / MANIFEST)
    assert verify(path) == artifact == open_artifact(path)
    assert listing(path.parent) == ["out"]


def test_manifest_has_no_dates_and_no_absolute_paths(tmp_path: Path) -> None:
    text = (make(tmp_path / "out") / MANIFEST).read_text()
    assert str(tmp_path) not in text
    assert socket.gethostname() not in text
    assert not re.search(r"\b20\d\d-\d\d", text)
    assert (make(tmp_path / "other") / MANIFEST).read_text() == text


def test_describe_inputs_gives_names_sizes_and_digests_in_order(tmp_path: Path) -> None:
    for name in "ba":
        (tmp_path / name).write_text(name * 3)
    found = describe_inputs([tmp_path / "b", tmp_path / "a"])
    assert [item["name"] for item in found] == ["a", "b"]
    assert [item["bytes"] for item in found] == [3, 3]
    assert found[0]["sha256"] == file_digest(tmp_path / "a")


def test_a_draft_that_lacks_a_file_is_not_put_in_place(tmp_path: Path) -> None:
    refused = pytest.raises(ArtifactError, match=r"did not write .*names\.arrow")
    with refused, create(tmp_path / "out", "ontology", config={}):
        pass
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_visible_before_the_end(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), create(tmp_path / "out", "ontology", config={}) as draft:  # noqa: PT012
        (draft.path / "names.arrow").write_text("half")
        assert not (tmp_path / "out").exists()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_and_folder_without_manifest(tmp_path: Path) -> None:
    with pytest.raises(NotAnArtifactError, match="does not exist"):
        open_artifact(tmp_path / "nowhere")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "names.arrow").write_text("x")
    with pytest.raises(NotAnArtifactError, match=r"half .*manifest\.json"):
        open_artifact(tmp_path / "half")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotAnArtifactError, match="file"):
        open_artifact(tmp_path / "file")


def test_wrong_kind(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    with pytest.raises(WrongKindError, match=r"holds an ontology; this command needs a linker"):
        open_artifact(path, "linker")


def test_newer_and_older_version_and_unknown_kind(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    edit_manifest(path, version=LAYOUTS["ontology"].version + 1)
    with pytest.raises(VersionError, match="upgrade kriss"):
        open_artifact(path, "ontology")
    edit_manifest(path, version=0)
    with pytest.raises(VersionError, match="build it again"):
        open_artifact(path, "ontology")
    edit_manifest(path, version=1, kind="hologram")
    with pytest.raises(VersionError, match="hologram"):
        open_artifact(path)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b"{}",
        b"\xff\xfe",
        b"\0" * 10,
        b'{"kind": "ontology", "version": "one"}',
        b'{"kind": "ontology", "version": 1, "files": [], "config": {}, "facts": {}, "inputs": []}',
        b'{"kind": "ontology", "version": 1, "files": {"a": 3}, "config": {}, "facts": {}, "inputs": []}',
        b'{"kind": "ontology", "version": 1, "files": {}, "config": {}, "facts": {}, "inputs": []}',
        b'{"kind": "ontology", "version": 1, "files": {}, "config": {}, "facts": {}, "inputs": 5}',
        b'{"kind": ["ontology"], "version": 1, "files": {}, "config": {}, "facts": {}, "inputs": []}',
        b'{"kind": "ontology", "version": 1e999, "files": {}, "config": {}, "facts": {}, "inputs": []}',
        b"[" * 100_000,
    ],
    ids=lambda raw: repr(raw[:60]),
)
def test_garbage_manifest_is_damage_not_a_traceback(tmp_path: Path, garbage: bytes) -> None:
    path = make(tmp_path / "out")
    (path / MANIFEST).write_bytes(garbage)
    with pytest.raises(KrissError, match=re.escape(str(path))):
        open_artifact(path, None)


def test_damaged_size_is_seen_at_once(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    with (path / "names.arrow").open("a") as stream:
        stream.write("!")
    with pytest.raises(DamagedError, match=r"names\.arrow has \d+ bytes where \d+ were written"):
        open_artifact(path)


def test_damaged_content_is_seen_by_verify_only(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    size = (path / "names.arrow").stat().st_size
    (path / "names.arrow").write_bytes(b"?" * size)
    assert open_artifact(path).facts == {"entities": 3}
    with pytest.raises(DamagedError, match=r"names\.arrow is not what was written"):
        verify(path)


def test_missing_file(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    (path / "id_index.arrow").unlink()
    with pytest.raises(DamagedError, match=r"id_index\.arrow is missing"):
        open_artifact(path)


def test_manifest_that_forgets_a_file(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    files: dict[str, Any] = json.loads((path / MANIFEST).read_text())["files"]
    edit_manifest(path, files={name: entry for name, entry in files.items() if name != "names.arrow"})
    with pytest.raises(DamagedError, match=r"does not list names\.arrow"):
        open_artifact(path)


def test_existing_target_needs_force(tmp_path: Path) -> None:
    path = make(tmp_path / "out", "old")
    before = contents(path)
    with pytest.raises(ExistsError, match="--force"):
        make(path, "new")
    assert contents(path) == before
    make(path, "new", force=True)
    assert (path / "names.arrow").read_text() == "new of names.arrow"
    assert listing(tmp_path) == ["out"]


def test_force_does_not_replace_another_kind(tmp_path: Path) -> None:
    path = make(tmp_path / "out", "old")
    before = contents(path)
    with pytest.raises(ExistsError, match="is of kind 'ontology'"), create(path, "encoder", config={}, force=True):
        pass
    assert contents(path) == before


def test_force_works_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert verify(make(tmp_path / "out", force=True))
    assert verify(make(tmp_path / "empty", force=True))


def test_force_replaces_a_damaged_artifact(tmp_path: Path) -> None:
    path = make(tmp_path / "out")
    (path / "names.arrow").unlink()
    assert verify(make(path, force=True))


def test_old_folder_survives_a_failing_build(tmp_path: Path) -> None:
    path = make(tmp_path / "out", "old")
    before = contents(path)
    with pytest.raises(RuntimeError), create(path, "ontology", config={}, force=True) as draft:  # noqa: PT012
        (draft.path / "names.arrow").write_text("new")
        raise RuntimeError
    with pytest.raises(ArtifactError), create(path, "ontology", config={}, force=True):
        pass
    assert contents(path) == before
    assert listing(tmp_path) == ["out"]


def test_old_folder_survives_a_failing_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "out", "old")
    before = contents(path)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if ".building-" in self.name:
            raise OSError("no space")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no space"):
        make(path, "new", force=True)
    assert contents(path) == before
    assert listing(tmp_path) == ["out"]


def test_a_replacement_killed_between_its_renames_is_explained(tmp_path: Path) -> None:
    make(tmp_path / "out").rename(tmp_path / ".out.replaced")
    with pytest.raises(NotAnArtifactError, match=r"\.out\.replaced"):
        open_artifact(tmp_path / "out")


def test_drafts_of_killed_processes_are_cleared_and_others_kept(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = socket.gethostname()
    killed = tmp_path / f".out.building-{host}-{dead.pid}"
    alive = tmp_path / f".out.building-{host}-{os.getppid()}"
    elsewhere = tmp_path / f".out.building-another-host-{dead.pid}"
    other = tmp_path / f".output.building-{host}-{dead.pid}"
    for folder in (killed, alive, elsewhere, other):
        folder.mkdir()
        (folder / "big.arrow").write_text("x")
    make(tmp_path / "out")
    assert not killed.exists()
    assert alive.exists()
    assert elsewhere.exists()
    assert other.exists()


def test_a_target_name_with_glob_characters(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    killed = tmp_path / f".o[u]t*.building-{socket.gethostname()}-{dead.pid}"
    spared = tmp_path / f".out1.building-{socket.gethostname()}-{dead.pid}"
    killed.mkdir()
    spared.mkdir()
    assert verify(make(tmp_path / "o[u]t*"))
    assert not killed.exists()
    assert spared.exists()


def test_force_refuses_what_kriss_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(make(tmp_path / "real"))
    before = contents(tmp_path)
    for name in ("thesis", "file", "link"):
        with pytest.raises(ExistsError, match="not a folder that kriss wrote"):
            make(tmp_path / name, force=True)
    assert contents(tmp_path) == before


def test_force_refuses_a_folder_with_another_programs_manifest(tmp_path: Path) -> None:
    # Web extensions and web apps keep a manifest.json too.
    site = tmp_path / "site"
    site.mkdir()
    (site / MANIFEST).write_text('{"name": "My web app", "start_url": "/"}')
    (site / "app.js").write_text("precious")
    with pytest.raises(ExistsError):
        make(site, force=True)
    assert (site / "app.js").read_text() == "precious"


def test_target_that_appears_during_the_build_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(ExistsError), create(path, "ontology", config={}) as draft:  # noqa: PT012
        for name in LAYOUTS["ontology"].files:
            (draft.path / name).write_text("mine")
        path.mkdir()
        (path / "theirs").write_text("theirs")
    assert contents(tmp_path) == {"out/theirs": b"theirs"}
