"""Names of chemicals that an installed package carries: as a text would have them, and symbols of elements."""

import json
from pathlib import Path

import pytest
from benchmarks import chemical_names
from benchmarks.chemical_names import CATIONS, SUBSTANCES, elements, main, substances, tidied

from kriss.errors import InputError


def row(registry: str, formula: str, systematic: str, *names: str) -> str:
    return "\t".join(["7", registry, formula, "1.0", "smiles", "inchi", "key", systematic, *names])


def package(folder: Path, *rows: str, again: str = "", cations: tuple[str, ...] = ()) -> Path:
    for file in SUBSTANCES:
        (folder / file).write_text("", encoding="utf-8")
    (folder / SUBSTANCES[0]).write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / SUBSTANCES[1]).write_text(again, encoding="utf-8")
    (folder / CATIONS).write_text("".join(f"{line}\n" for line in cations), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("5.alpha.-dihydrotestosterone", "5alpha-dihydrotestosterone"),
        ("valproic acid [usan:inn]", "valproic acid"),
        ("adenine (9ci)", "adenine"),
        ("atra", "ATRA"),  # an acronym
        ("nh4+", "nh4+"),
        ("gtn", "GTN"),
        ("50-78-2", ""),  # a CAS number
        ("nsc 123456", ""),  # a catalogue's
        ("mk-801", "mk-801"),
        ("adenine, 9-ethyl-", ""),
        ("na", ""),
        ("x" * 61, ""),
        (" ", ""),
    ],
)
def test_names_are_as_a_text_would_have_them(written: str, read: str) -> None:
    assert tidied(written) == read


def test_a_substance_is_called_by_its_usual_name_and_read_once(tmp_path: Path) -> None:
    lines = [
        row("1-11-1", "C8H12", "3-propylpentanoic acid", "valproate", "vpa", "99-66-1"),
        row("2-22-2", "H2", "", "12345"),
    ]
    folder = package(tmp_path, *lines, again=row("1-11-1", "C8H12", "", "another name") + "\n")
    assert list(substances(folder)) == [
        {"id": "CAS:1-11-1", "name": "valproate", "aliases": ["VPA", "3-propylpentanoic acid"]}
    ]


def test_elements_have_symbols_and_ions_but_not_the_formula_of_something_else(tmp_path: Path) -> None:
    ions = tuple(row("3", formula, "") for formula in ("Ca+2", "Na+", "H2O2Th+2"))
    folder = package(tmp_path, row("1", "NO", "nitric oxide"), row("2", "K", "potassium"), cations=ions)
    symbols = [("Ca", "Calcium"), ("Na", "Sodium"), ("No", "Nobelium"), ("K", "Potassium")]
    assert [record["aliases"] for record in elements(folder, symbols)] == [
        ["Ca", "Ca2+", "Ca(2+)"],
        ["Na", "Na+", "Na(+)"],
        [],
        ["K"],
    ]


@pytest.mark.parametrize("content", [b"one\ttwo\n", b"\xff\xfe\n"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    package(tmp_path)
    (tmp_path / SUBSTANCES[2]).write_bytes(content)
    (tmp_path / SUBSTANCES[0]).write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"pubchem large\.tsv.*install constraints\.txt's version"):
        list(substances(tmp_path))
    (tmp_path / SUBSTANCES[2]).unlink()
    with pytest.raises(InputError, match="cannot be read"):
        list(substances(tmp_path))


def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chemical_names, "PACKAGE", "no_such_package")
    assert main(["--out", str(tmp_path / "out.jsonl")]) == 1
    assert "'pip install no_such_package' adds it" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_the_installed_package_knows_symbols_and_short_names(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path / "out.jsonl")]) == 0
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    by_id = {record["id"]: record for record in records}
    assert by_id["ELEMENT:Na"]["aliases"][:2] == ["Na", "Na+"]
    assert len([one for one in by_id if one.startswith("ELEMENT:")]) == 118
    [valproate] = [record for record in records if record["id"] == "CAS:99-66-1"]
    assert "VPA" in valproate["aliases"]
