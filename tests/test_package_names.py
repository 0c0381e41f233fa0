"""Names that installed packages carry: read without running anything, merged by what things are called."""

import bz2
import json
import os
import pickle
from pathlib import Path

import pytest
from benchmarks.package_names import PACKAGES, carried, entities, main, variants

from kriss.errors import InputError
from kriss.ontology import Ontology, OntologyConfig, build_ontology


def dictionary(path: Path, content: object) -> Path:
    path.write_bytes(bz2.compress(pickle.dumps(content)))
    return path


def test_names_of_one_thing_are_its_aliases(tmp_path: Path) -> None:
    meant = {"rubex": ["doxorubicin"], "doxorubicin": ["doxorubicin"], "adria": ["a", "b"], "dox": ["doxorubicin"]}
    read = variants(dictionary(tmp_path / "d.pkl.bz2", {"key": meant}), "key")
    # "adria" stands for two things, and "dox" is too short to be told from a word
    assert list(entities(read)) == [{"id": "NAMED:doxorubicin", "name": "doxorubicin", "aliases": ["rubex"]}]


class Dangerous:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, ("touch pwned",))


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = dictionary(tmp_path / "d.pkl.bz2", {"key": Dangerous()})
    with pytest.raises(InputError, match=r"d\.pkl\.bz2 is not the dictionary that this reads \(it asks for posix"):
        variants(file, "key")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("content", [b"", b"no bzip2", bz2.compress(b"no pickle"), bz2.compress(pickle.dumps([1]))])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "d.pkl.bz2"
    file.write_bytes(content)
    with pytest.raises(InputError, match="is not the dictionary"):
        variants(file, "key")


def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PACKAGES, "drugs", ("no_such_package", "x", "y"))
    assert main(["drugs", "--out", str(tmp_path / "out.jsonl")]) == 1
    assert "'pip install no-such-package' adds it" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_the_installed_packages_lend_their_names_to_mesh(tmp_path: Path) -> None:
    for kind, record in (
        ("drugs", {"id": "D004317", "name": "Doxorubicin"}),
        ("diseases", {"id": "D012640", "name": "Seizures"}),
    ):
        assert carried(kind).is_file()
        assert main([kind, "--out", str(tmp_path / f"{kind}.jsonl")]) == 0
        (tmp_path / "ours.jsonl").write_text(json.dumps(record), encoding="utf-8")
        build_ontology(OntologyConfig(format="jsonl"), (tmp_path / f"{kind}.jsonl",), tmp_path / kind)
        config = OntologyConfig(format="jsonl", merge_on=("NAME",))
        build_ontology(config, (tmp_path / "ours.jsonl",), tmp_path / f"{kind}-ours", merge_with=(tmp_path / kind,))
        names = Ontology.load(tmp_path / f"{kind}-ours")[record["id"]].names
        assert {"drugs": "adriamycin", "diseases": "convulsions"}[kind] in names
        assert names[0] == record["name"]
