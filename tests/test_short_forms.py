"""Short forms that mined text explains, and mentions of them in documents that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kriss import Linker, Ontology
from kriss.cli import run
from kriss.errors import DamagedError
from kriss.index.config import IndexConfig
from kriss.link.build import build_linker
from kriss.rank.short_forms import FILE, explained, looks_like_one, short_forms
from kriss.records import Excerpt

ENTITIES = [
    {"id": "1", "name": "overactive bladder", "aliases": ["bladder pain"]},
    {"id": "2", "name": "dizocilpine"},
    {"id": "3", "name": "optic atrophy", "aliases": ["OA"]},
    {"id": "4", "name": "renal failure"},
    {"id": "5", "name": "rheumatic fever"},
    {"id": "6", "name": "chest pain"},
]
TEXTS = [
    "Women with overactive bladder (OAB) relapsed.",
    "They had MK-801 (dizocilpine) daily.",
    "A dose of dizocilpine (MK-801, Sigma) was given.",
    "In optic atrophy (OA) the left side is worse.",
    "Of renal failure (RF) nothing was seen.",
    "No rheumatic fever (RF) was seen.",
    "Chest pain (ZX9) was said once.",
    "Chest pain (n=5), chest pain (IV), chest pain (Monday).",
    "Overactive bladder [UK2] and overactive bladder (UK2), in one document.",
]


def mined(folder: Path, texts: list[str], *options: str) -> tuple[Ontology, Path]:
    (folder / "entities.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ENTITIES), encoding="utf-8")
    lines = [json.dumps({"id": f"pm{n}", "text": text}) + "\n" for n, text in enumerate(texts)]
    (folder / "text.jsonl").write_text("".join(lines), encoding="utf-8")
    ontology, mentions = folder / "ontology", folder / "mentions"
    assert run(["ontology", "build", "jsonl", str(folder / "entities.jsonl"), "--out", str(ontology)]) == 0
    chosen = options or ("--train", "0", "--dev", "0")
    assert run(["mine", str(ontology), str(folder / "text.jsonl"), *chosen, "--out", str(mentions)]) == 0
    return Ontology.load(ontology), mentions


def test_what_is_believed(tmp_path: Path) -> None:
    ontology, mentions = mined(tmp_path, TEXTS)
    found = short_forms(mentions, ontology)
    assert list(found) == ["MK-801", "OAB"]
    assert (found["OAB"].long, found["OAB"].entity, found["OAB"].document) == ("overactive bladder", "1", "pm0")
    assert (found["MK-801"].entity, found["MK-801"].documents) == ("2", 2)


def test_the_meaning_of_most_mentions_counts(tmp_path: Path) -> None:
    """Of each entity few mentions are kept, however often it is found: what they say is weighed by that."""
    words = [first + second for first in "abcdefgh" for second in "mnopq"]
    often = [f"The {word} had renal failure and {word * 3} too." for word in words]
    ontology, mentions = mined(tmp_path, [*TEXTS, *often], "--train", "0", "--dev", "0", "--per-entity", "50")
    assert "RF" not in short_forms(mentions, ontology)  # one word of 41 mentions, one of one: each counts for one
    (tmp_path / "few").mkdir()
    explaining = [f"The {word} had renal failure (RF) and {word * 3} too." for word in words]
    ontology, mentions = mined(
        tmp_path / "few", [*TEXTS, *explaining], "--train", "0", "--dev", "0", "--per-entity", "2"
    )
    assert short_forms(mentions, ontology)["RF"].entity == "4"  # two mentions that stand for 41


def test_dev_mentions_have_no_say(tmp_path: Path) -> None:
    ontology, mentions = mined(tmp_path, TEXTS, "--train", "0", "--dev", "1")
    assert short_forms(mentions, ontology) == {}


@pytest.mark.parametrize(
    ("left", "surface", "right", "expected"),
    [
        ("", "overactive bladder", "(OAB)", [("OAB", True)]),
        ("", "overactive bladder", " [OAB; see below]", [("OAB", True)]),
        ("OAB (", "overactive bladder", ") is", [("OAB", True)]),
        ("the FK506 (", "tacrolimus", ")", [("FK506", False)]),
        ("the FK506 (", "tacrolimus", " is better)", []),
        ("", "tacrolimus", " (FK506", []),  # who knows where it ends
        ("", "tacrolimus", ", or FK506", []),
        ("", "HGF", " (PeproTech)", []),
        ("", "tacrolimus", " (USA)", [("USA", False)]),  # two documents would have to say so
        ("", "tacrolimus", " (" + "A" * 13 + ")", []),
        ("", "tacrolimus", "", []),
        ("paroxysmal nocturnal ", "hemoglobinuria", " (PNH)", []),  # the letters are of a longer name
    ],
)
def test_what_stands_beside_a_name(left: str, surface: str, right: str, expected: list[tuple[str, bool]]) -> None:
    assert explained(Excerpt(left, surface, right)) == expected


@pytest.mark.parametrize("text", ["", "a", "A", "XI", "B6", "5%", "p=0.05A", "-AB", "Sigma", "mg", "\x00A"])
def test_what_is_no_short_form(text: str) -> None:
    assert not looks_like_one(text)


@pytest.fixture(scope="module")
def linker(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    ontology, mentions = mined(folder, TEXTS)
    report = build_linker(ontology, mentions, tiny_encoder, folder / "linker", IndexConfig(), threads=1)
    assert report.facts["short_forms"] == 2
    return folder / "linker"


def test_a_linker_reads_them_where_the_document_does_not_say(linker: Path) -> None:
    one = Linker.load(linker, threads=1)
    [link] = one.link([Excerpt("Symptoms of ", "OAB", " are fever.")])
    assert (link.expanded, link.mention.surface) == ("overactive bladder", "OAB")
    assert link.candidates[0].entity == "1"
    [plain] = one.with_options(short_forms=False).link([Excerpt("Symptoms of ", "OAB", " are fever.")])
    assert plain.expanded == ""
    [defined] = one.link([Excerpt("Some obvious artery bleeding (OAB) and ", "OAB", ".")])
    assert defined.expanded == "obvious artery bleeding"  # the document has its own
    without = one.with_options(abbreviations=False)
    [defined, not_defined] = without.link([defined.mention, link.mention])
    assert (defined.expanded, not_defined.expanded) == ("", "overactive bladder")
    [other_case] = one.link([Excerpt.bare("oab")])
    assert other_case.expanded == ""


def test_what_a_person_taught_goes_first(linker: Path, tmp_path: Path) -> None:
    import shutil

    one = Linker.load(shutil.copytree(linker, tmp_path / "linker"), threads=1)
    one.add(Excerpt("Signs of ", "OAB", "."), "5")
    [link] = one.link([Excerpt("Signs of ", "OAB", ".")])
    assert (link.entity, link.expanded) == ("5", "")
    for options in ({"mode": "self-supervised"}, {"ids": ("1", "2")}):  # where that does not count
        [link] = one.with_options(**options).link([Excerpt("Signs of ", "OAB", ".")])
        assert (link.entity, link.expanded) == ("1", "overactive bladder")


def test_from_the_command_line(linker: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Symptoms of [[OAB]] are fever.\n", encoding="utf-8")
    for option, expanded in ((), "overactive bladder"), (("--no-short-forms",), None):
        assert run(["link", str(linker), str(text), "--format", "text", *option]) == 0
        [line] = capsys.readouterr().out.splitlines()
        assert json.loads(line)["mentions"][0].get("expanded") == expanded


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"OAB": 1}',
        '{"OAB": {"long": "x"}}',
        '{"OAB": {"long": 5, "entity": "1", "document": "", "documents": 1}}',
        "[" * 100_000,
        "\x00",
    ],
)
def test_a_damaged_file_is_refused(linker: Path, tmp_path: Path, content: str) -> None:
    import shutil

    from kriss.rank.short_forms import read_short_forms

    folder = shutil.copytree(linker, tmp_path / "linker")
    (folder / FILE).write_text(content, encoding="utf-8")
    with pytest.raises(DamagedError, match=f"{FILE} cannot be read"):
        read_short_forms(folder)
