"""The command line: help everywhere, the essential facts in every output, errors on one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from kriss import __version__
from kriss.cli import app, run
from kriss.cli.reference import reference
from kriss.ontology import Ontology
from tests.conftest import FIXTURES, build, contents, write_jsonl


def commands(command: object, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Walk the command and all below it."""
    yield name, command
    for key, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*name, key))


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_every_command_and_option_has_help(name: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command = ALL[name]
    assert getattr(command, "help", None), f"kriss {' '.join(name)} has no help"
    for parameter in getattr(command, "params", ()):
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"kriss {' '.join(name)}: no help for {parameter.name}"
    for flag in ("--help", "-h"):
        assert run([*name, flag]) == 0
        assert "Usage:" in capsys.readouterr().out


def test_the_page_of_commands_says_what_help_says() -> None:
    page = reference()
    assert page == (Path(__file__).parent.parent / "docs/reference/commands.md").read_text(encoding="utf-8"), (
        "make the page again: python -m kriss.cli.reference > docs/reference/commands.md"
    )
    for command in ALL.values():
        for parameter in getattr(command, "params", ()):
            assert parameter.name == "help" or parameter.opts[0] in page or parameter.metavar in page


def test_version_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"kriss {__version__}\n"
    assert run(["ontology", "build", "tsv"]) == 2  # no --out
    assert "--out" in capsys.readouterr().err
    assert run(["nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_build_with_every_sort_of_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "umls"
    options = ["--language", "ENG", "--language", "FRE", "--sab", "MSH", "--sab", "MSHFRE", "--keep-suppressed"]
    arguments = ["ontology", "build", "umls", str(FIXTURES / "META"), "--out", str(out), *options, "--keep-obsolete"]
    assert run([*arguments, "--type", "T047", "--type", "A2.2"]) == 0
    printed = capsys.readouterr()
    assert f"{out}: 3 entities, 5 names, 0 retired ids" in printed.out
    assert [entity.id for entity in Ontology.load(out)] == ["C0026269", "C0026769", "C0030193"]
    table = str(FIXTURES / "table.csv")
    columns = ["--column", "id=code", "--column", "name=label", "--column", "aliases=other names"]
    arguments = [
        "ontology",
        "build",
        "tsv",
        table,
        "--out",
        str(tmp_path / "csv"),
        *columns,
        "--separator",
        "aliases=;",
    ]
    assert run([*arguments, "--default-type", "Part", "--delimiter", ","]) == 0
    assert Ontology.load(tmp_path / "csv")["11"].aliases == ("bicuspid valve", '"left" valve')
    assert Ontology.load(tmp_path / "csv")["11"].types == ("Part",)
    assert (
        run(["ontology", "build", "obo", str(FIXTURES / "mini.obo"), "--out", str(tmp_path / "o"), "--scope", "narrow"])
        == 0
    )
    assert Ontology.load(tmp_path / "o")["MI:0000004"].aliases == ("Fit",)
    capsys.readouterr()


def test_build_merge_and_retired(tmp_path: Path, capsys: pytest.CaptureFixture[str], obo: Ontology) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", {"id": "D012640", "name": "Seizures"})
    (tmp_path / "r.tsv").write_text("D1\tD012640\n")
    arguments = [
        "ontology",
        "build",
        "jsonl",
        str(source),
        "--out",
        str(tmp_path / "out"),
        "--merge",
        str(obo.artifact.path),
    ]
    assert run([*arguments, "--on", "MESH", "--retired", str(tmp_path / "r.tsv")]) == 0
    printed = capsys.readouterr()
    assert "1 entities, 3 names, 1 retired ids" in printed.out
    assert "merged 1 entities" in printed.err
    assert Ontology.load(tmp_path / "out")["D1"].names == ("Seizures", "Seizure", "Epileptic seizure")


def test_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ontology", "build", "tsv", str(FIXTURES / "table.tsv"), "--out", str(tmp_path / "out")]
    assert run(arguments) == 0
    before = contents(tmp_path)
    assert run(arguments) == 1
    assert "exists; give --force" in capsys.readouterr().err
    assert run([*arguments, "--force"]) == 0
    assert contents(tmp_path) == before


def test_info(umls: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ontology", "info", str(umls.artifact.path)]) == 0
    text = capsys.readouterr().out
    for label, value in {
        "built from": "umls",
        "entities": "5",
        "names": "10",
        "names of several entities": "1",
        "entities with a definition": "2",
        "distinct tree numbers": "4",
        "retired ids": "2",
        "Neoplastic Process": "2",
        "Organic Chemical": "1",
    }.items():
        assert re.search(rf"{label}\W+{value}\b|{label}\W+{value}", text), f"{label}: {value} is not in\n{text}"
    assert re.search(r"types\W+4\b", text)


def test_show(umls: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ontology", "show", str(umls.artifact.path), "C0006826"]) == 0
    printed = capsys.readouterr()
    for fact in (
        "C0006826",
        "Malignant Neoplasm",
        "Cancer",
        "Neoplastic Process",
        "B2.2.1.2.1.2",
        "Neoplasms > Malignant Neoplasm",
        "C0027651",
        "A tumour that invades.",
    ):
        assert fact in printed.out
    assert printed.err == ""


def test_show_a_retired_id(umls: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ontology", "show", str(umls.artifact.path), "C0999001"]) == 0
    printed = capsys.readouterr()
    assert "C0999001 is retired; its successor is C0004057" in printed.err
    assert "Aspirin" in printed.out


def test_show_an_unknown_id(umls: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ontology", "show", str(umls.artifact.path), "C0000404"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert line.startswith("kriss: error: no entity 'C0000404' in ")


def test_search(umls: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ontology", "search", str(umls.artifact.path), "MS"]) == 0
    text = capsys.readouterr().out
    for fact in ("C0026269", "C0026769", "Disease or Syndrome"):
        assert fact in text
    assert run(["ontology", "search", str(umls.artifact.path), "sclerosis", "--limit", "1"]) == 0
    assert "C0026769" in capsys.readouterr().out


def test_search_without_a_match(umls: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("xyzzy", "", "(", "[/x]"):
        assert run(["ontology", "search", str(umls.artifact.path), text]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        [line] = printed.err.splitlines()
        assert "matches" in line


def test_ids_are_whole_in_narrow_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long_id = "http://purl.example.org/obo/ontology/of/long/names/MONDO_0000001"
    name = "a disease with a name that goes on and on, of the heart and the great vessels and all of the lungs"
    source = write_jsonl(
        tmp_path / "a.jsonl", {"id": long_id, "name": name, "types": ["Some long type of disease name"]}
    )
    build(tmp_path / "out", "jsonl", source)
    assert run(["ontology", "search", str(tmp_path / "out"), "disease"]) == 0
    assert long_id in capsys.readouterr().out  # what is piped into grep or cut must not be wrapped


def test_square_brackets_are_not_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "Enzyme [ec] [/red] [bold]x"
    source = write_jsonl(tmp_path / "a.jsonl", {"id": "1", "name": "[red]b[/red] [x]", "types": [kind]})
    out = tmp_path / "out [bold][" / "x]"
    assert run(["ontology", "build", "jsonl", str(source), "--out", str(out)]) == 0
    assert run(["ontology", "search", str(out), "b"]) == 0
    assert "[red]b[/red] [x]" in capsys.readouterr().out
    assert run(["ontology", "show", str(out), "1"]) == 0
    assert "[red]b[/red] [x]" in capsys.readouterr().out
    assert run(["ontology", "info", str(out)]) == 0
    assert kind in capsys.readouterr().out


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path / "a", "tsv", FIXTURES / "table.tsv")
    build(tmp_path / "b", "tsv", FIXTURES / "table.tsv")
    assert run(["verify", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    text = capsys.readouterr().out
    assert f"{tmp_path / 'a'}: ontology, 5 files" in text
    assert len(text.splitlines()) == 2
    names = tmp_path / "a" / "names.arrow"
    raw = bytearray(names.read_bytes())
    raw[len(raw) // 2] ^= 1
    names.write_bytes(raw)
    assert run(["ontology", "info", str(tmp_path / "a")]) == 0
    capsys.readouterr()
    assert run(["verify", str(tmp_path / "a")]) == 1
    assert "digest differs" in capsys.readouterr().err
    assert run(["verify", str(tmp_path / "nowhere")]) == 1


@pytest.mark.parametrize("command", [("info",), ("search", "x"), ("show", "x")], ids=str)
def test_commands_on_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("folder", "file", "nowhere"):
        verb, *rest = command
        assert run(["ontology", verb, str(tmp_path / name), *rest]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"kriss: error: {tmp_path / name}")


def test_a_broken_pipe_is_no_traceback(tmp_path: Path) -> None:
    aliases = [f"alias number {index} with some text to fill the pipe" for index in range(20_000)]
    build(tmp_path / "out", "jsonl", write_jsonl(tmp_path / "a.jsonl", {"id": "1", "name": "x", "aliases": aliases}))
    for arguments in (
        ["show", str(tmp_path / "out"), "1"],
        ["search", str(tmp_path / "out"), "x"],
        ["info", str(tmp_path / "out")],
    ):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run(
                [sys.executable, "-c", "from kriss.cli import main; main()", "ontology", *arguments],
                stdout=writer,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        finally:
            os.close(writer)
        assert done.stderr == ""


def kriss(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a program of its own."""
    code = "from kriss.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("verb", ["search", "show"])
def test_an_argument_that_is_not_utf8(umls: Ontology, verb: str) -> None:
    done = kriss("ontology", verb, str(umls.artifact.path), "\udcff")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_as_a_program(tmp_path: Path) -> None:
    built = kriss("ontology", "build", "tsv", str(FIXTURES / "table.tsv"), "--out", str(tmp_path / "out"))
    assert (built.returncode, built.stderr) == (0, "")
    again = kriss("ontology", "build", "tsv", str(FIXTURES / "table.tsv"), "--out", str(tmp_path / "out"))
    assert again.returncode == 1
    assert again.stderr.startswith("kriss: error: ")
    assert len(again.stderr.splitlines()) == 1
