"""`kriss learn`: from gold files in every format, one by one, back out to a file, and into another linker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kriss.cli import run
from kriss.documents.read import read
from kriss.errors import InputError
from kriss.link.learn import exported, learn
from kriss.link.linker import Linker
from kriss.rank.snapshot import Example
from kriss.records import Document, Span
from tests.train_fixtures import one_thread  # noqa: F401 - fixture

TEXT = "Patients with MS relapsed.\nAspirin for colon cancer."
# (start, end, what the file says): a prefix, a retired id, one to pass over, one of two
MARKED = [
    (14, 16, "MESH:D009103"),
    (27, 34, "D001241"),
    (39, 44, "-1"),
    (39, 51, "MESH:D003110|D009369"),
    (45, 51, "D999999"),
]
LEARNED = [
    ("D009103", "MS", 14, 16),
    ("D001241", "Aspirin", 27, 34),
    ("D009369", "colon cancer", 39, 51),
    ("D003110", "colon cancer", 39, 51),
    ("D009103", "cancer", 45, 51),
]


def pubtator(folder: Path) -> Path:
    title, body = TEXT.split("\n")
    rows = "".join(f"7\t{a}\t{b}\t{TEXT[a:b]}\tThing\t{entity}\n" for a, b, entity in MARKED)
    (folder / "gold.pubtator").write_text(f"7|t|{title}\n7|a|{body}\n{rows}\n")
    return folder / "gold.pubtator"


def jsonl(folder: Path) -> Path:
    mentions = [{"start": a, "end": b, "entities": entity.split("|")} for a, b, entity in MARKED]
    (folder / "gold.jsonl").write_text(json.dumps({"id": "7", "text": TEXT, "mentions": mentions}))
    return folder / "gold.jsonl"


def bioc(folder: Path) -> Path:
    marked = [
        {
            "id": "1",
            "infons": {"identifier": entity},
            "text": TEXT[a:b],
            "locations": [{"offset": a, "length": b - a}],
        }
        for a, b, entity in MARKED
    ]
    passage = {"offset": 0, "infons": {}, "text": TEXT, "annotations": marked}
    (folder / "gold.json").write_text(json.dumps({"documents": [{"id": "7", "passages": [passage]}]}))
    return folder / "gold.json"


def told(example: Example) -> tuple[str, str, int, int]:
    return example.entity, example.evidence.surface, example.evidence.start, example.evidence.end


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `kriss learn`, which must fail with one line."""

    def check(*words: object) -> str:
        capsys.readouterr()
        assert run(["learn", *map(str, words)]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        [line] = printed.err.splitlines()
        return line.removeprefix("kriss: error: ")

    return check


# --- gold files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [pubtator, jsonl, bioc])
def test_gold_files_are_learned(
    ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Callable[[Path], Path]
) -> None:
    assert run(["learn", str(ward), str(write(tmp_path))]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{ward}: learned 5 examples from 1 documents\n"
    assert printed.err == (
        "note: 1 mentions link to nothing and were passed over\n"
        "note: 1 mentions link to several entities and are examples of each\n"
    )
    examples = Linker.load(ward).examples()
    assert [told(example) for example in examples] == LEARNED
    assert {example.evidence.document for example in examples} == {"7"}
    [link] = Linker.load(ward, mode="supervised").link([(TEXT, 14, 16)])
    assert (link.entity, link.candidates[0].evidence.document) == ("D009103", "7")


def test_unknown_ids_are_refused_or_passed_over(
    ward: Path, tmp_path: Path, fails: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    mentions = [{"start": a, "end": b, "entity": e} for a, b, e in ((0, 8, "D001241"), (14, 16, "Q1"), (27, 34, "Q1"))]
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps({"id": "7", "text": TEXT, "mentions": mentions}))
    assert fails(ward, gold) == (
        f"1 of the ids are unknown to {ward}, the first being 'Q1' in document '7'; nothing was learned; give "
        "--skip-unknown to pass over their mentions"
    )
    assert not (ward / "learned").exists()
    assert run(["learn", str(ward), str(gold), "--skip-unknown"]) == 0
    assert "note: 2 mentions of 1 unknown entities were passed over: Q1 (2)\n" in capsys.readouterr().err
    assert [told(example)[0] for example in Linker.load(ward).examples()] == ["D001241"]


@pytest.mark.parametrize("skip", [True, False])
def test_nothing_is_learned_of_a_file_that_is_bad_at_its_end(
    ward: Path, tmp_path: Path, fails: Callable[..., str], skip: bool
) -> None:
    line = json.dumps({"text": TEXT, "start": 14, "end": 16, "entity": "D009103"})
    (tmp_path / "gold.jsonl").write_text(f'{line}\n{line}\n{{"text": "MS", "start": 0, "end": 9}}\n')
    assert "gold.jsonl:3: " in fails(ward, tmp_path / "gold.jsonl", *(["--skip-unknown"] if skip else []))
    assert not (ward / "learned").exists()


def test_a_file_is_one_change(ward: Path) -> None:
    documents = [Document(str(n), TEXT, (Span(14, 16, ("D009103",)),)) for n in range(10)]
    seen: list[int] = []
    linker = Linker.load(ward)
    report = learn(linker, iter(documents), who="ann", progress=seen.append)
    assert (report.examples, report.documents, seen) == (10, 10, [10])
    assert [example.evidence.document for example in linker.examples()] == [str(n) for n in range(10)]
    [change] = linker.history()
    assert (len(change.examples), change.who) == (10, "ann")


def test_a_data_set_is_learned_and_linked_by_its_name(
    ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KRISS_DATA", raising=False)
    corpus = tmp_path / "data" / "gold" / "ncbi-disease"
    corpus.mkdir(parents=True)
    pubtator(tmp_path).rename(corpus / "NCBItrainset_corpus.txt")
    data = ["--data", str(tmp_path / "data")]
    assert run(["learn", str(ward), "ncbi-disease:train", *data]) == 0
    assert "learned 5 examples from 1 documents" in capsys.readouterr().out
    assert run(["link", str(ward), "ncbi-disease:train", "--to", "predictions", *data]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["document"], row["start"], row["end"]) for row in rows] == [("7", a, b) for a, b, _ in MARKED]
    assert run(["link", str(ward), "ncbi-disease:train"]) == 1
    assert "give --data DIR or set KRISS_DATA" in capsys.readouterr().err


def test_a_mention_of_several_entities_is_an_example_of_each(ward: Path) -> None:
    both = Document("7", "Breast and colon cancer.", (Span(0, 23, ("D009369", "D003110")),))
    linker = Linker.load(ward)
    report = learn(linker, [both])
    assert (report.examples, report.composite) == (2, 1)
    [link] = linker.link([("Breast and colon cancer.", 0, 23)])
    assert link.entity == "D009369"  # the first that gold names
    assert {one.entity for one in link.candidates if one.evidence.kind == "gold"} == {"D009369", "D003110"}


def test_what_is_given_last_is_learned_last(ward: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "data" / "gold" / "ncbi-disease"
    corpus.mkdir(parents=True)
    pubtator(tmp_path).rename(corpus / "NCBItrainset_corpus.txt")
    corrected = {"id": "7", "text": TEXT, "mentions": [{"start": 14, "end": 16, "entity": "D009369"}]}
    (tmp_path / "mine.jsonl").write_text(json.dumps(corrected))
    order = ["ncbi-disease:train", str(tmp_path / "mine.jsonl")]
    assert run(["learn", str(ward), *order, "--data", str(tmp_path / "data")]) == 0
    [link] = Linker.load(ward).link([(TEXT, 14, 16)])
    assert link.entity == "D009369"


def test_one_example_may_name_its_entity_as_a_corpus_does(ward: Path) -> None:
    assert run(["learn", "add", str(ward), "The [[MS]] relapsed.", "MESH:D009103"]) == 0
    assert [example.entity for example in Linker.load(ward).examples()] == ["D009103"]


def test_two_ids_of_one_entity_are_one_example(ward: Path) -> None:
    spans = (Span(0, 2, ("D999999", "D009103")),)  # the first is a retired id of the second
    report = learn(linker := Linker.load(ward), [Document("7", "MS.", spans)])
    assert (report.examples, [example.entity for example in linker.examples()]) == (1, ["D009103"])


def test_an_unknown_id_among_several_is_refused_or_passed_over(ward: Path) -> None:
    document = Document("7", "MS.", (Span(0, 2, ("Q1", "D009103"), name="a name of one of them"),))
    linker = Linker.load(ward)
    with pytest.raises(InputError, match="the first being 'Q1'"):
        learn(linker, [document])
    report = learn(linker, [document], skip_unknown=True)
    assert (report.examples, dict(report.unknown), report.added) == (1, {"Q1": 1}, set())


def test_few_examples_of_each_entity(ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [
        Document(
            str(n), "MS or aspirin.", (Span(0, 2, ("D009103" if n % 2 else "D999999",)), Span(6, 13, ("D001241",)))
        )
        for n in range(9)
    ]  # D999999 is a retired id of D009103: both are one entity

    def drawn(seed: int, most: int) -> set[tuple[str, str]]:
        linker = Linker.load(shutil.copytree(ward, tmp_path / f"{seed}-{most}"))
        report = learn(linker, documents, per_entity=most, seed=seed)
        assert (report.examples, report.left_out) == (2 * most, 18 - 2 * most)
        return {(example.entity, example.evidence.document) for example in linker.examples()}

    assert len(drawn(0, 9)) == 18
    assert drawn(0, 1) < drawn(0, 3)  # more examples are more beside the same
    assert len({frozenset(drawn(seed, 2)) for seed in range(1, 5)}) > 1
    assert {entity for entity, _ in drawn(0, 2)} == {"D009103", "D001241"}
    gold = jsonl(tmp_path)
    assert run(["learn", str(ward), str(gold), "--per-entity", "1"]) == 0
    shown = capsys.readouterr()
    assert "learned 4 examples" in shown.out
    assert "1 mentions were left out, for there were examples enough" in shown.err


def test_few_examples_of_each_spelling_in_a_document(
    ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = (Span(0, 2, ("D009103",)), Span(3, 5, ("D999999",)), Span(6, 8, ("D001241",)), Span(9, 27, ("D009103",)))
    documents = [Document(str(n), "MS Ms MS multiple sclerosis", spans) for n in range(3)]

    def learned(name: str, in_document: int | None, most: int | None = None) -> list[tuple[str, int]]:
        linker = Linker.load(shutil.copytree(ward, tmp_path / name))
        report = learn(linker, documents, per_document=in_document, per_entity=most)
        assert report.examples + report.left_out == 12
        return [(one.entity, one.evidence.start) for one in linker.examples() if one.evidence.document == "1"]

    assert learned("two", 2) == learned("all", None)
    one = learned("one", 1)  # the first of each spelling and entity, in any case and under any id
    assert one == [("D009103", 0), ("D001241", 6), ("D009103", 9)]
    assert set(learned("both", 1, 1)) <= set(one)
    mentions = [{"start": start, "end": start + 2, "entity": "D009103"} for start in (0, 3, 6)]
    row = {"id": "1", "text": "MS Ms MS", "mentions": mentions}
    (tmp_path / "again.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert run(["learn", str(ward), str(tmp_path / "again.jsonl"), "--per-document", "1"]) == 0
    shown = capsys.readouterr()
    assert "learned 1 examples" in shown.out
    assert "2 mentions were left out" in shown.err


def test_entities_that_bring_a_name_are_added(ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"text": TEXT, "start": 14, "end": 16, "entity": "Q1"},  # the name comes later
        {"text": TEXT, "start": 27, "end": 34, "entity": "Q1", "name": "first thing"},
        {"text": TEXT, "start": 14, "end": 16, "entity": "Q1", "name": "second name"},
        {"text": TEXT, "start": 14, "end": 16, "entity": "D009103", "name": "another name"},
    ]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["learn", str(ward), str(tmp_path / "gold.jsonl")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{ward}: learned 4 examples from 4 documents\n"
    assert printed.err == "note: 1 entities that the linker did not have were added by name\n"
    linker = Linker.load(ward)
    assert linker.added_name("Q1") == "first thing"
    assert linker.added_name("D009103") == ""
    assert [(e.entity, e.evidence.kind) for e in linker.examples()] == [
        ("Q1", "name"),
        ("Q1", "gold"),
        ("Q1", "gold"),
        ("Q1", "gold"),
        ("D009103", "gold"),
    ]


def test_wrong_input_is_one_line(ward: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    (tmp_path / "a.txt").write_text("no mentions")
    assert "no such file" in fails(ward, tmp_path / "absent").lower()
    assert "there is no format 'word' to read" in fails(ward, tmp_path / "a.txt", "--format", "word")
    assert "does not exist" in fails(tmp_path / "absent", tmp_path / "a.txt")
    assert fails("add", ward, "no mention", "D009103").startswith("the text marks 0 mentions where one is needed")
    assert fails("add", ward, "[[a]] [[b]]", "D009103").startswith("the text marks 2 mentions where one is needed")
    assert fails("add", ward, "[[a]]", "Q1") == f"no entity 'Q1' in {ward}; give it a name to add it"
    assert fails("remove", ward, "g1") == f"there is no example 'g1' in {ward}; see 'kriss learn list'"
    assert "does not exist" in fails("list", tmp_path / "absent")
    assert not (ward / "learned").exists()


# --- one by one ----------------------------------------------------------------------------------


def test_add_list_remove(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(*words: str) -> str:
        capsys.readouterr()
        assert run(["learn", words[0], str(ward), *words[1:]]) == 0
        return capsys.readouterr().out

    assert say("add", "a [[cold]] of", "D009103", "--document", "note [5]") == f"{ward}: learned g1\n"
    assert say("add", "the [[thing]]", "Q1", "--name", "new [thing]") == f"{ward}: learned g3\n"
    listed = say("list")
    for shown in ("a [[cold]] of", "D009103", "note [5]", "[[new [thing]]]", "the [[thing]]", "g1", "g2", "g3"):
        assert shown in listed
    assert say("remove", "g1", "g3") == f"{ward}: forgot g1, g3\n"
    assert [example.id for example in Linker.load(ward).examples()] == ["g2"]
    say("remove", "g2", "--who", "ann")
    assert "g2" not in say("list")
    shown = say("history")
    for part in ("add", "g2, g3", "remove", "g1, g3", "ann"):
        assert part in shown
    assert say("undo") == f"{ward}: took back change 4 (remove g2)\n"
    assert say("undo", "3") == f"{ward}: took back change 3 (remove g1, g3)\n"
    assert "g3" in say("list")
    assert "undo 3" in say("history")
    assert run(["learn", "undo", str(ward), "3"]) == 1
    assert "there is no change 3 to undo in" in capsys.readouterr().err


# --- out and in again ----------------------------------------------------------------------------


def same(first: list[Example], second: list[Example]) -> bool:
    """Compare examples without their ids, which every linker gives out itself."""

    def bare(example: Example) -> Example:
        return Example("", example.entity, replace(example.evidence, example=""))

    return sorted(map(repr, map(bare, first))) == sorted(map(repr, map(bare, second)))


def test_what_is_exported_is_learned_again(
    ward: Path, clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linker = Linker.load(ward)
    long = f"{'pain ' * 200}\u2028\U0001f600 cold{' fever' * 200}"
    where = long.index("cold")
    linker.add((long, where, where + 4), "D009103", document="long", offset=70)
    linker.add(("a thing\nof", 2, 7), "Q1", name="new thing", document="q")
    linker.add(("ألم حاد", 0, 3), "Q1", document="rtl")
    gone = linker.add(("lost thing", 0, 4), "Q2", name="kept by its name", document="q2")
    linker.remove(gone)
    out = tmp_path / "examples.jsonl"
    assert run(["learn", "export", str(ward), "--out", str(out)]) == 0
    assert run(["learn", "export", str(ward), "--out", str(out)]) == 1
    assert "exists; give --force" in capsys.readouterr().err
    assert run(["learn", "export", str(ward)]) == 0
    assert capsys.readouterr().out == out.read_text()
    records = [json.loads(line) for line in out.read_text().strip().split("\n")]
    assert records == list(exported(linker))
    assert [record.get("name") for record in records] == [None, "new thing", "new thing", "kept by its name"]

    fresh = shutil.copytree(clinic, tmp_path / "fresh")
    assert run(["learn", str(fresh), str(out)]) == 0
    again = Linker.load(fresh)
    own = [example for example in linker.examples() if example.entity != "Q2"]
    assert same([example for example in again.examples() if example.entity != "Q2"], own)
    assert [again.added_name(entity) for entity in ("Q1", "Q2")] == ["new thing", "kept by its name"]
    [evidence] = [example.evidence for example in again.examples() if example.entity == "D009103"]
    assert (evidence.start, evidence.end) == (70 + where, 74 + where)
    ask = [("a thing of", 2, 7), ("kept by its name", 0, 16)]
    options = {"mode": "supervised"}
    for one, other in zip(
        again.with_options(**options).link(ask), linker.with_options(**options).link(ask), strict=True
    ):
        assert one.entity == other.entity
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_links_are_learned_with_the_place_of_their_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "offset": 40, "text": "MS", "start": 0, "end": 2, "name": 7}\n')
    [document] = read([tmp_path / "a.jsonl"])
    assert document == Document("1", "MS", (Span(0, 2, name="7"),), 40)
    for bad in ('"offset": "x"', '"offset": 1.5', '"name": {}', '"name": true'):
        (tmp_path / "a.jsonl").write_text(f'{{"id": "1", {bad}, "text": "MS", "start": 0, "end": 2}}\n')
        with pytest.raises(InputError, match=r"a\.jsonl:1: "):
            list(read([tmp_path / "a.jsonl"]))
