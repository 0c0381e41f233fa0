"""The scorer: figures by hand, intervals by brute force, and nothing passed over in silence."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.artifacts import open_artifact, verify
from kriss.cli import run
from kriss.documents.table import shown_evidence
from kriss.errors import ConfigError, ExistsError, InputError
from kriss.evaluate.gold import GoldMention, gold_mentions
from kriss.evaluate.kinds import KINDS, kind_of
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.metrics import (
    Bin,
    calibration_error,
    difference,
    expected,
    intervals,
    percent,
    rank,
    recall_at,
    reliability,
    strict,
)
from kriss.evaluate.predictions import Prediction, Scored, read_predictions, write_predictions
from kriss.evaluate.score import Evaluation, compare, evaluate
from kriss.names import folded
from kriss.ontology import Ontology
from kriss.records import Document, Evidence, Span
from tests.conftest import build, write_jsonl

TEXT = "Patients with multiple sclerosis (MS) or colon cancer. MS and cold were seen."


@pytest.fixture(scope="module")
def ontology(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    folder = tmp_path_factory.mktemp("ontology")
    source = write_jsonl(
        folder / "terms.jsonl",
        {"id": "D1", "name": "Sclerosis"},
        {"id": "D2", "name": "Multiple Sclerosis", "aliases": ["MS"], "parents": ["D1"], "retired": ["OLD2"]},
        {"id": "D3", "name": "Mitral Stenosis", "aliases": ["ms"]},
        {"id": "D4", "name": "Colonic Neoplasms", "aliases": ["Colon cancer"]},
        {"id": "D5", "name": "Lateral sclerosis", "parents": ["D1"]},
        {"id": "D6", "name": "Common cold"},
    )
    return build(folder / "built", "jsonl", source)


def mention(start: int, end: int, *entities: str, document: str = "1") -> GoldMention:
    return GoldMention(document, start, end, TEXT[start:end], entities)


def said(start: int, end: int, *entities: str, document: str = "1", ranked: str = "", name: str = "") -> Prediction:
    candidates = tuple(Scored(one, None, name) for one in (ranked.split() or entities))
    return Prediction(document, start, end, entities, candidates, line=1)


def scored(gold: list[GoldMention], predictions: list[Prediction], knowledge: Knowledge | None = None) -> Evaluation:
    return evaluate(gold, {one.key: one for one in predictions}, knowledge or Knowledge())


# --- one mention ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "gold", "right", "at_random"),
    [
        (["A"], {"A"}, 1, 1),
        (["A"], {"A", "B"}, 1, 1),
        (["C"], {"A", "B"}, 0, 0),
        ([], {"A"}, 0, 0),
        (["A", "B"], {"A"}, 0, 0.5),
        (["A", "B", "C", "D"], {"A", "C", "D"}, 0, 0.75),
    ],
)
def test_right_or_wrong(answer: list[str], gold: set[str], right: float, at_random: float) -> None:
    assert strict(answer, gold) == right
    assert expected(answer, gold) == at_random


def test_ranks_count_entities_not_names() -> None:
    assert rank(["A", "A", "B"], {"B"}) == 2
    assert rank(["A", "B"], {"C"}) == 0
    assert rank([], {"C"}) == 0
    assert recall_at([1, 0, 3, 2], 1) == 0.25
    assert recall_at([1, 0, 3, 2], 2) == 0.5
    assert recall_at([1, 0, 3, 2], 64) == 0.75
    assert recall_at([], 1) == 0.0


@given(st.lists(st.sampled_from("ABCDE"), max_size=5, unique=True), st.sets(st.sampled_from("ABCDE"), min_size=1))
def test_breaking_ties_at_random_is_the_mean_over_all_choices(answer: list[str], gold: set[str]) -> None:
    choices = [strict([one], gold) for one in answer]
    assert expected(answer, gold) == pytest.approx(sum(choices) / len(choices) if choices else 0.0)
    assert strict(answer, gold) <= expected(answer, gold)


# --- many mentions -------------------------------------------------------------------------------


def test_an_interval_is_that_of_drawing_documents_anew() -> None:
    """Two documents: the mean can only be that of one, of the other or of both, with chances 1/4, 1/4, 1/2."""
    values = np.array([[1.0], [1.0], [0.0]])
    [(low, high)] = intervals(values, ["a", "a", "b"])
    assert (low, high) == (0.0, 1.0)
    [(low, high)] = intervals(values, ["a", "a", "a"])
    assert np.isnan([low, high]).all()  # one document says nothing of others


def test_an_interval_agrees_with_all_possible_draws() -> None:
    values, groups = np.array([1.0, 0, 1, 1, 0, 1, 0, 0, 1]), list("aabbccdde")
    of_group = [[v for v, g in zip(values, groups, strict=True) if g == name] for name in "abcde"]
    means = sorted(
        sum(map(sum, drawn)) / sum(map(len, drawn)) for drawn in product(of_group, repeat=5)
    )  # all 3,125 equally likely draws
    exact = np.percentile(means, [2.5, 97.5])
    assert intervals(values[:, None], groups, resamples=20_000)[0] == pytest.approx(exact, abs=0.02)


def test_a_slice_is_counted_by_its_own_mentions() -> None:
    values = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]])
    found = intervals(values, ["a", "b", "c"])
    assert found[1].tolist() == [1.0, 1.0]
    assert found[0][0] < 2 / 3 < found[0][1]
    assert np.isnan(intervals(np.full((2, 1), np.nan), ["a", "b"])).all()


def test_a_difference_is_tested_by_swapping_documents() -> None:
    same = difference([1, 0, 1], [1, 0, 1], ["a", "b", "c"])
    assert (same.mean, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    better = difference([1.0] * 12, [0.0] * 12, [str(n) for n in range(12)])
    assert (better.mean, better.low, better.high) == (1.0, 1.0, 1.0)
    assert better.p == pytest.approx(2 / 2**12, abs=5e-4)  # only all signs alike are as far apart
    grouped = difference([1.0] * 12, [0.0] * 12, ["one document"] * 12)
    assert grouped.p == 1.0  # one document proves nothing
    mixed = difference([1, 1, 0, 1], [0, 0, 1, 1], list("abcd"))
    assert mixed.mean == 0.25
    assert mixed.p == 1.0  # |+-1 +-1 +-1| is never below 1
    turned = difference([0, 0, 1, 1], [1, 1, 0, 1], list("abcd"))
    assert (turned.mean, turned.low, turned.high) == (-0.25, -mixed.high, -mixed.low)


# --- the whole -----------------------------------------------------------------------------------


def test_all_mentions_stand_in_the_denominator(ontology: Ontology) -> None:
    gold = [mention(14, 32, "D2"), mention(34, 36, "OLD2"), mention(41, 53, "MESH:D4"), mention(55, 57, "X9")]
    found = scored(gold, [said(14, 32, "D2"), said(34, 36, "D3", ranked="D3 D2")], Knowledge(ontology))
    assert found.overall.mentions == 4
    assert found.overall.strict == 0.25
    assert found.overall.recall == (0.25, 0.5, 0.5, 0.5)
    assert found.missing == (("1", 41, 53), ("1", 55, 57))
    assert found.mapped == 2
    rows = {row.name: row for row in found.rows}
    assert rows["not in the ontology"].mentions == 1
    assert rows["not in the ontology"].strict == 0
    assert (rows["unambiguous"].mentions, rows["several owners"].mentions) == (2, 2)
    assert rows["ambiguous"].mentions == 2
    assert [share for k, share in found.curve if k in (1, 2)] == [0.25, 0.5]


def test_lenient_counts_every_owner_of_the_name_and_strict_does_not(ontology: Ontology) -> None:
    gold = [mention(34, 36, "D2")]
    found = scored(gold, [said(34, 36, "D3", name="MS")], Knowledge(ontology))
    assert (found.overall.strict, found.overall.lenient) == (0.0, 1.0)
    tied = scored(gold, [said(34, 36, "D2", "D3", name="MS")], Knowledge(ontology))
    assert (tied.overall.strict, tied.overall.expected, tied.overall.lenient) == (0.0, 0.5, 1.0)
    nowhere = scored(gold, [said(34, 36, "D3", name="mitral stenosis")], Knowledge(ontology))
    assert nowhere.overall.lenient == 0.0
    no_link = Prediction("1", 34, 36, (), (Scored("D3", None, "MS"),))
    assert scored(gold, [no_link], Knowledge(ontology)).overall.lenient == 0.0


def test_a_retired_or_prefixed_id_is_the_entity(ontology: Ontology) -> None:
    found = scored([mention(14, 32, "MESH:OLD2")], [said(14, 32, "D2")], Knowledge(ontology))
    assert found.overall.strict == 1.0
    assert scored([mention(14, 32, "MESH:OLD2")], [said(14, 32, "D2")]).overall.strict == 0.0  # nothing to map by


def test_slices_by_training_and_prototypes(ontology: Ontology) -> None:
    plain = Knowledge(ontology)
    seen = plain.shown_by([GoldMention("9", 0, 18, "Multiple  sclerosis", ("D2",))])
    knowledge = Knowledge(ontology, seen, {"D2": 16, "D4": 2})
    gold = [mention(14, 32, "D2"), mention(34, 36, "D2"), mention(41, 53, "D4", "D6")]
    rows = {row.name: row.mentions for row in scored(gold, [], knowledge).rows}
    assert rows["seen"] == rows["seen, new surface"] == rows["unseen"] == rows["composite"] == 1
    assert rows["16 or more prototypes"] == 2
    assert rows["1 to 2 prototypes"] == 1
    assert "no prototypes" not in rows  # a slice that holds nothing is not shown


def test_kinds_of_error(ontology: Ontology) -> None:
    knowledge = Knowledge(ontology)

    def kind(gold: GoldMention, *predictions: Prediction) -> str | None:
        [outcome] = scored([gold], list(predictions), knowledge).outcomes
        return kind_of(outcome, knowledge)

    ms = mention(34, 36, "D2")
    assert kind(ms, said(34, 36, "D2")) is None
    assert kind(ms) == "no prediction"
    assert kind(mention(34, 36, "X"), said(34, 36, "D2")) == "not in the ontology"
    assert kind(ms, said(34, 36)) == "no link"
    assert kind(ms, said(34, 36, "D2", "D3")) == "tie"
    assert kind(ms, said(34, 36, "D3", name="MS")) == "shared name"
    assert kind(ms, said(34, 36, "D1")) == "too general"
    assert kind(mention(34, 36, "D1"), said(34, 36, "D2")) == "too specific"
    assert kind(ms, said(34, 36, "D5")) == "sibling"
    assert kind(ms, said(34, 36, "D4")) == "not found"
    assert kind(ms, said(34, 36, "D4", ranked="D4 D2")) == "misranked"
    assert kind(mention(34, 36, "D2", "D6"), said(34, 36, "D4", ranked="D4 D2")) == "composite"
    short = GoldMention("1", 34, 36, "MS", ("D2",), abbreviation=True)
    assert kind(short, said(34, 36, "D4")) == "abbreviation"
    assert set(KINDS) >= {"no prediction", "tie", "misranked"}


def test_gold_mentions_of_documents() -> None:
    spans = (Span(14, 32, ("D2",)), Span(34, 36, ("D2",)), Span(67, 71), Span(55, 57, ("D2",), "Disease"))
    document = Document("7", TEXT, spans)
    found = gold_mentions([document, document])  # twice in a corpus, once in the count
    assert [one.surface for one in found] == ["multiple sclerosis", "MS", "MS"]
    assert [one.abbreviation for one in found] == [False, True, True]
    assert found[0].left == "Patients with "
    [moved] = gold_mentions([Document("7", "MS", (Span(0, 2, ("D2",)),), offset=100)])
    assert moved.key == ("7", 100, 102)
    cut = Document("7", TEXT[:40], (Span(34, 36, ("D2",)),))  # as 'kriss learn export' keeps what is near
    assert {one.key for one in gold_mentions([document, cut])} == {one.key for one in gold_mentions([document])}
    with pytest.raises(InputError, match="two documents have the id '7' and different texts"):
        gold_mentions([document, Document("7", "other", ())])


def test_a_mention_that_is_marked_twice_is_one_and_means_both() -> None:
    one, other = Span(14, 32, ("D2",), "Disease"), Span(14, 32, ("D5", "D2"), "Finding")
    [found] = gold_mentions([Document("1", TEXT, (one, other)), Document("1", TEXT, (one,))])
    assert (found.entities, found.type) == (("D2", "D5"), "Disease")


def test_two_systems_are_compared_on_the_same_mentions(ontology: Ontology) -> None:
    gold = [mention(14, 32, "D2", document=str(n)) for n in range(8)]
    right = scored(gold, [said(14, 32, "D2", document=str(n)) for n in range(8)])
    wrong = scored(gold, [said(14, 32, "D1", document=str(n)) for n in range(8)])
    found = compare(right, wrong)
    assert (found.mean, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.p < 0.05
    with pytest.raises(InputError, match="different mentions"):
        compare(right, scored(gold[:3], []))


def test_names_are_compared_without_case() -> None:
    assert folded("Straße  A ") == folded("STRASSE a")


# --- probabilities -------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_calibration_error_is_the_mean_gap_of_ten_bins(answers: list[tuple[float, bool]]) -> None:
    """Sum over bins of |B|/n |accuracy(B) - confidence(B)|, written out; bin i has i/10 <= p < (i + 1)/10."""
    error = 0.0
    for number in range(10):
        held = [(p, right) for p, right in answers if min(int(p * 10), 9) == number]
        if held:
            confidence, accuracy = (sum(column) / len(held) for column in zip(*held, strict=True))
            error += len(held) / len(answers) * abs(accuracy - confidence)
    assert calibration_error(reliability(answers)) == pytest.approx(error)


def test_calibration_is_of_the_first_candidate_where_a_probability_is_shown() -> None:
    gold = [mention(14, 32, "D2"), mention(34, 36, "D2"), mention(41, 53, "D4"), mention(67, 69, "D6")]
    predictions = [
        replace(said(14, 32, "D2"), probability=0.9),
        replace(said(34, 36, ranked="D2 D3"), probability=0.25),  # too unlikely to be the answer, and right
        replace(said(41, 53, "D1"), probability=0.95),
        said(67, 69, "D6"),
    ]
    found = scored(gold, predictions).reliability
    assert found == [Bin(1, 0.25, 1.0), Bin(2, (0.9 + 0.95) / 2, 0.5)]
    assert calibration_error(found) == pytest.approx((0.75 + 2 * 0.425) / 3)
    assert scored(gold, []).reliability == []


# --- files ---------------------------------------------------------------------------------------


def test_predictions_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = [
        Prediction("d", 0, 2, ("A",), (Scored("A", 0.5, "a name", "its evidence"), Scored("B"))),
        Prediction("d", 3, 5, ("A", "B"), (Scored("A"), Scored("B")), probability=0.25),
        Prediction("e", 3, 5, ()),
    ]
    for name in ("p.jsonl", "p.jsonl.gz"):
        assert write_predictions(tmp_path / name, written) == 3
        found = list(read_predictions(tmp_path / name).values())
        assert [replace(one, line=0) for one in found] == written
    first = (tmp_path / "p.jsonl.gz").read_bytes()
    write_predictions(tmp_path / "p.jsonl.gz", written, force=True)
    assert (tmp_path / "p.jsonl.gz").read_bytes() == first
    assert gzip.decompress(first).decode() == (tmp_path / "p.jsonl").read_text()
    with pytest.raises(ExistsError):
        write_predictions(tmp_path / "p.jsonl", written)


def test_what_kriss_link_writes_is_read(tmp_path: Path) -> None:
    evidence = {"kind": "mined", "surface": "MS", "left": "had ", "right": " once", "document": "12"}
    candidate = {"entity": "D2", "name": "Multiple Sclerosis", "score": 0.9, "evidence": evidence}
    mention = {"start": 0, "end": 2, "entity": "D2", "candidates": [candidate]}
    row = {"id": "7", "offset": 10, "text": "x", "mentions": [mention]}
    (tmp_path / "p.jsonl").write_text(json.dumps(row))
    [found] = read_predictions(tmp_path / "p.jsonl").values()
    assert found.key == ("7", 10, 12)
    assert found.candidates[0].name == "MS"
    assert found.candidates[0].evidence == "had [[MS]] once (mined, 12)"
    long = Evidence("mined", "MS", "one two " * 20, " three four" * 20, "12")
    assert shown_evidence(long).startswith("…one two one")
    assert shown_evidence(long).endswith("three four… (mined, 12)")


GOOD = '{"document": "1", "start": 14, "end": 32, "entity": "D2"}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "a prediction is an object"),
        ('{"start": 0, "end": 2, "entity": "A"}', "does not say of which 'document'"),
        ('{"document": "1", "end": 2, "entity": "A"}', "no 'start'"),
        ('{"document": "1", "start": 0, "end": 2}', "no 'entity'; null says no link"),
        ('{"document": "1", "start": 0.5, "end": 2, "entity": "A"}', "not a whole number"),
        ('{"document": "1", "start": 0, "end": 2, "entity": ""}', 'an entity is "", not an id'),
        ('{"document": "1", "start": 0, "end": 2, "entity": {"a": 1}}', "not an id"),
        ('{"document": "1", "start": 0, "end": 2, "entity": "A", "candidates": "B"}', "'candidates' is not a list"),
        ('{"document": "1", "start": 0, "end": 2, "entity": "A", "candidates": [{"score": 1}]}', "null, not an id"),
        (
            '{"document": "1", "start": 0, "end": 2, "entity": "A", "candidates": [{"entity": "A", "score": "x"}]}',
            "no number",
        ),
        ('{"id": "1", "mentions": {}}', "'mentions' is not a list"),
        ('{"document": "1", "start": 0, "end": 2, "entity": "A\\ud800"}', "remove it"),
        ('{"document": "1\\u0000", "start": 0, "end": 2, "entity": "A"}', "NUL"),
        (GOOD.replace("}", ', "candidates": [{"entity": "D2", "name": "a\\u0000"}]}'), "NUL"),
        (
            '{"document": "1", "start": 0, "end": 2, "entity": "A", "entity": "B"}',
            "'entity' stands twice in one object",
        ),
        ('{"document": "1", "start": 14, "end": 32, "entity": "D3"}', "another entity in line 1"),
        (GOOD.replace("}", ', "candidates": ["D2", "D3"]}'), "other candidates in line 1"),
        (GOOD.replace("}", ', "probability": 0.5}'), "another probability in line 1"),
        (GOOD.replace("}", ', "probability": 1.5}'), "not a number from 0 to 1"),
        (GOOD.replace("32", "9" * 5000), "not valid JSON"),
        (GOOD.replace("}", f', "candidates": [{{"entity": "A", "score": 1{"0" * 400}}}]}}'), "too large"),
        (
            '{"document": "1", "start": 1, "end": 2, "entity": "D3"}\n'
            '{"document": "1", "start": 1, "end": 3, "entity": null}',
            "gold has no mention of '1' from 1 to 2, nor 1 others",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f"{GOOD}\n{line}\n")
    mentions = [{"start": 14, "end": 32, "entity": "D2"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    assert run(["evaluate", str(path), "--gold", str(gold), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert f"{path}:2" in error or f"{path}, line 2" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_answer_that_is_no_candidate_comes_before_them(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(GOOD.replace("}", ', "candidates": ["D3", "D4"]}'))
    [found] = read_predictions(tmp_path / "p.jsonl").values()
    assert [one.entity for one in found.candidates] == ["D2", "D3", "D4"]
    overall = scored([mention(14, 32, "D2")], [found]).overall
    assert (overall.strict, overall.recall[0]) == (1.0, 1.0)


def test_an_empty_file_is_no_set_of_predictions(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(InputError, match="has no predictions"):
        read_predictions(tmp_path / "p.jsonl")


def test_the_command_writes_every_form(tmp_path: Path, ontology: Ontology, capsys: pytest.CaptureFixture[str]) -> None:
    mentions = [{"start": 14, "end": 32, "entity": "D2"}, {"start": 34, "end": 36, "entity": "D2"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    for name, answer in (("ours", "D3"), ("theirs", "D2")):
        write_predictions(
            tmp_path / f"{name}.jsonl",
            [replace(said(14, 32, "D2"), probability=0.75), said(34, 36, answer), said(0, 1, "D1", document="2")],
        )
    arguments = ["evaluate", str(tmp_path / "ours.jsonl"), "--gold", str(gold), "--train", str(gold)]
    arguments += ["--ontology", str(ontology.artifact.path), "--out", str(tmp_path / "out"), "--skip-surplus"]
    arguments += ["--against", str(tmp_path / "theirs.jsonl"), "--name", "kriss <b>"]
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert "50.0" in shown.out
    assert "expected calibration error: 0.250" in shown.out
    assert "kriss <b> against theirs: -50.0 points" in shown.out
    assert "1 predictions of mentions that gold lacks were passed over" in shown.err
    verify(tmp_path / "out")
    found = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert found["slices"][0]["strict"] == 0.5
    assert found["calibration_error"] == 0.25
    assert found["reliability"] == [{"mentions": 1, "probability": 0.75, "accuracy": 1.0}]
    assert found["slices"][0]["recall"]["64"] == 0.5
    assert found["errors"] == {"shared name": 1} or found["errors"] == {"abbreviation": 1}
    assert found["against"][0]["mean"] == -0.5
    assert found["surplus_count"] == 1
    with (tmp_path / "out" / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["slice"] for row in rows] == [row["name"] for row in found["slices"]]
    assert float(rows[0]["strict"]) == 0.5
    page = (tmp_path / "out" / "table.md").read_text()
    assert "| all | 2 | 50.0 |" in page
    html = (tmp_path / "out" / "report.html").read_text()
    assert "kriss &lt;b&gt; on" in html
    assert "kriss <b>" not in html
    assert run(arguments) == 1  # what exists is not replaced
    assert run([*arguments, "--force"]) == 0


def test_what_a_compared_system_lacks_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mentions = [{"start": 14, "end": 32, "entity": "D2"}, {"start": 34, "end": 36, "entity": "D2"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    for folder, answers in (("a", [said(14, 32, "D2"), said(34, 36, "D2")]), ("b", [said(34, 36, "D2")])):
        (tmp_path / folder).mkdir()
        write_predictions(tmp_path / folder / "links.jsonl", answers)
    arguments = ["evaluate", str(tmp_path / "a/links.jsonl"), "--against", str(tmp_path / "b/links.jsonl")]
    assert run([*arguments, "--gold", str(gold), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    names = [tmp_path / folder / "links.jsonl" for folder in "ab"]  # files of one name are told apart
    assert f"{names[0]} against {names[1]}: +50.0 points" in shown.out
    assert f"{names[1]}: 1 mentions have no prediction and count as wrong" in shown.err
    found = json.loads((tmp_path / "out/scores.json").read_text())
    assert (found["missing_count"], found["against"][0]["missing_count"]) == (0, 1)
    assert (found["slices"][0]["low"], found["slices"][0]["lenient"], found["against"][0]["low"]) == (None,) * 3
    assert "| all | 2 | 100.0 | – | – | 100.0 |" in (tmp_path / "out/table.md").read_text()


def test_a_report_replaces_neither_another_artifact_nor_what_it_scores(
    tmp_path: Path, ontology: Ontology, capsys: pytest.CaptureFixture[str]
) -> None:
    mentions = [{"start": 14, "end": 32, "entity": "D2"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    write_predictions(tmp_path / "links.jsonl", [said(14, 32, "D2")])
    copied = shutil.copytree(ontology.artifact.path, tmp_path / "built")
    arguments = ["evaluate", "--gold", str(gold), "--force"]
    assert run([*arguments, str(tmp_path / "links.jsonl"), "--out", str(copied)]) == 1
    assert "is of kind 'ontology', so --force will not replace it by a new 'evaluation'" in capsys.readouterr().err
    verify(copied)
    assert run([*arguments, str(tmp_path / "links.jsonl"), "--out", str(tmp_path / "report")]) == 0
    inside = shutil.copy(tmp_path / "links.jsonl", tmp_path / "report/links.jsonl")
    assert run([*arguments, str(inside), "--out", str(tmp_path / "report")]) == 1
    assert "lies in" in capsys.readouterr().err
    assert Path(inside).is_file()
    again = shutil.copy(gold, tmp_path / "report/gold.jsonl")
    arguments = ["evaluate", str(tmp_path / "links.jsonl"), "--gold", str(again), "--force"]
    assert run([*arguments, "--out", str(tmp_path / "report")]) == 1
    assert Path(again).is_file()


def test_predictions_come_through_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mentions = [{"start": 14, "end": 32, "entity": "D2"}, {"start": 34, "end": 36, "entity": "D2"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    lines = [f"{GOOD:<9000}", GOOD.replace("14", "34").replace("32", "36")]
    for name, content in (("plain", "\n".join(lines).encode()), ("packed", gzip.compress("\n".join(lines).encode()))):
        pipe = tmp_path / name
        os.mkfifo(pipe)
        with ThreadPoolExecutor(1) as writer:
            writer.submit(pipe.write_bytes, content)
            assert run(["evaluate", str(pipe), "--gold", str(gold), "--out", str(tmp_path / f"report-{name}")]) == 0
        assert open_artifact(tmp_path / f"report-{name}").inputs == ()  # what came through a pipe cannot be named
        assert "100.0" in capsys.readouterr().out


def test_a_linker_of_another_ontology_is_refused(ward: Path, tmp_path: Path, ontology: Ontology) -> None:
    assert Knowledge.load(ward / "ontology", ward).prototypes == Knowledge.load(None, ward).prototypes
    with pytest.raises(ConfigError, match="built on another ontology than"):
        Knowledge.load(ontology.artifact.path, ward)


def test_a_number_of_another_vocabulary_is_not_omims(tmp_path: Path) -> None:
    rows = [{"id": "114480", "name": "Breast cancer"}, {"id": "D001943", "name": "Breast Neoplasms"}]
    mixed = build(tmp_path / "mixed", "jsonl", write_jsonl(tmp_path / "mixed.jsonl", *rows))
    found = [
        mixed.find(entity) for entity in ("OMIM:114480", "MIM:114480", "114480", "NCBIGene:114480", "MESH:D001943")
    ]
    assert found == ["114480", "114480", "114480", None, "D001943"]
    genes = build(tmp_path / "genes", "jsonl", write_jsonl(tmp_path / "g.jsonl", {"id": "7157", "name": "TP53"}))
    assert genes.find("NCBIGene:7157") == "7157"  # all ids are numbers: there is nothing to mistake


def test_a_mention_without_an_entity_may_be_linked_and_is_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mentions = [{"start": 14, "end": 32, "entity": "D2"}, {"start": 67, "end": 71}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    write_predictions(tmp_path / "p.jsonl.gz", [said(14, 32, "D2"), said(67, 71, "D6")])
    assert run(["evaluate", str(tmp_path / "p.jsonl.gz"), "--gold", str(gold)]) == 0
    shown = capsys.readouterr()
    assert "100.0" in shown.out
    assert "1 mentions have no gold id and are not scored" in shown.err


def test_a_missing_prediction_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mentions = [{"start": 14, "end": 32, "entity": "D2"}, {"start": 34, "end": 36, "entity": "D2"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    (tmp_path / "p.jsonl").write_text(GOOD)
    assert run(["evaluate", str(tmp_path / "p.jsonl"), "--gold", str(gold)]) == 0
    shown = capsys.readouterr().err
    assert "1 mentions have no prediction and count as wrong" in shown
    assert "no prediction: the mention of '1' from 34 to 36" in shown


def test_gold_without_an_entity_is_nothing_to_score() -> None:
    with pytest.raises(InputError, match="nothing to score"):
        evaluate([], {}, Knowledge())


def test_percent() -> None:
    assert percent(0.83249) == "83.2"
