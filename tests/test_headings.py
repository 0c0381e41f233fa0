"""What documents are filed under: counted as by brute force, and asked where names do not say it."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.cli import run
from kriss.errors import ArtifactError, ConfigError, DamagedError, InputError
from kriss.index.build import build_linker
from kriss.index.calibrate import HEADINGS, Calibration, Question, calibrate, name_questions, usable
from kriss.index.config import IndexConfig
from kriss.index.headings import Headings
from kriss.index.vectors import Index
from kriss.link.linker import Linker
from kriss.link.search import Hit
from kriss.mine.documents import Deleted, Document, Problems
from kriss.mine.headings import FILE, HeadingsConfig, mine_headings
from kriss.mine.phrases import LONGEST, phrase_of, phrases
from kriss.mine.readers import read_documents
from kriss.mine.sample import document_number, split_of
from kriss.ontology import Ontology
from kriss.records import Filed, Mention

NO_DEV = HeadingsConfig(least=2, train=0.0, dev=0.0)


def ontology_of(clinic: Path) -> Ontology:
    return Ontology.load(clinic.parent / "ontology")


def write_documents(path: Path, documents: Iterable[tuple[str, str, list[str]]]) -> Path:
    rows = ({"id": number, "text": text, "headings": headings} for number, text, headings in documents)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def counted(folder: Path) -> dict[tuple[str, str], tuple[int, int]]:
    rows = pa.ipc.open_file(str(folder / FILE)).read_all().to_pylist()
    return {(row["phrase"], row["entity"]): (row["both"], row["documents"]) for row in rows}


# --- phrases ----------------------------------------------------------------------------------------


def test_phrases_do_not_go_on_behind_a_full_stop_nor_begin_with_an_article() -> None:
    found = phrases("The loss of hearing. Drug-induced (rare) Parkinson's")
    assert {"loss of hearing", "drug induced", "rare", "parkinson"} <= found
    assert not {"the loss", "hearing drug", "loss of", "induced rare", "of hearing"} & found
    assert phrases("") == phrases("of the (a) 7") == set()


@given(st.lists(st.sampled_from(["of", "the", "renal", "loss", "x1", "δ", "é", "שלום"]), max_size=12))
def test_phrases_of_one_stretch_are_all_runs_of_words(words: list[str]) -> None:
    inner = {"of", "the"}
    runs = {
        " ".join(words[first:last])
        for first in range(len(words))
        for last in range(first + 1, min(len(words), first + LONGEST) + 1)
        if words[first] not in inner and words[last - 1] not in inner
    }
    assert phrases(" ".join(words)) == {run for run in runs if len(run) > 1}


def test_a_mention_is_looked_up_as_the_phrase_it_was_counted_as() -> None:
    for surface in ("Drug-induced  Dyskinesias", "L-DOPA", "ISCHAEMIC\nheart", "β-thalassaemia"):
        one = re.sub(r"\s+", " ", surface)
        assert phrase_of(surface) in phrases(f"Cases of {one}, and others")


# --- reading ----------------------------------------------------------------------------------------

_RECORD = """<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article>
<ArticleTitle>{title}</ArticleTitle></Article>
<ChemicalList><Chemical><NameOfSubstance UI="D001241">Aspirin</NameOfSubstance></Chemical></ChemicalList>
<SupplMeshList><SupplMeshName Type="Disease" UI="C535425">x</SupplMeshName></SupplMeshList>
<MeshHeadingList><MeshHeading><DescriptorName UI="{ui}" MajorTopicYN="N">x</DescriptorName><QualifierName UI="Q000401"
MajorTopicYN="Y">x</QualifierName></MeshHeading></MeshHeadingList></MedlineCitation></PubmedArticle>"""


def pubmed(path: Path, *records: str) -> Path:
    path.write_text(f"<?xml version='1.0'?><PubmedArticleSet>{''.join(records)}</PubmedArticleSet>", encoding="utf-8")
    return path


@pytest.mark.parametrize("title", ["Plain", "With <sup>2</sup> &#946; <mml:math>x</mml:math>"])
def test_pubmed_headings_and_substances_are_read(tmp_path: Path, title: str) -> None:
    path = pubmed(tmp_path / "a.xml", _RECORD.format(pmid=1, title=title.replace("mml:", ""), ui="D009369"))
    [document] = read_documents(path, Problems())
    assert isinstance(document, Document)
    assert document.headings == ("D001241", "C535425", "D009369")


def test_json_lines_may_have_headings(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": 1, "text": "a", "headings": ["D1", 7]}\n{"id": 2, "text": "b", "headings": "Methods"}\n'
    )
    assert [
        one.headings for one in read_documents(tmp_path / "a.jsonl", Problems()) if not isinstance(one, Deleted)
    ] == [
        ("D1",),
        (),
    ]


# --- counting ---------------------------------------------------------------------------------------


def brute(
    documents: list[tuple[str, str, list[str]]], config: HeadingsConfig
) -> dict[tuple[str, str], tuple[int, int]]:
    used: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for _, text, headings in documents:
        for phrase in phrases(text):
            used[phrase] += 1
            both.update((phrase, heading) for heading in set(headings) if heading.startswith("D0"))
    return {
        pair: (count, used[pair[0]])
        for pair, count in both.items()
        if used[pair[0]] >= config.least and count > 1 and count >= config.share * (used[pair[0]] + 3)
    }


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_brute_force(clinic: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(30)]
    known = ["D001241", "D003110", "D009103", "D009369", "E000000"]
    documents = [
        (str(number), " ".join(draw.choices(words, k=12)), draw.sample(known, draw.randint(1, 3)))
        for number in range(80)
    ]
    config = HeadingsConfig(least=3, share=0.2, train=0.0, dev=0.0)
    half = [write_documents(tmp_path / f"{n}.jsonl", documents[n::2]) for n in (0, 1)]
    mine_headings(config, ontology_of(clinic), half, tmp_path / "out")
    found = counted(tmp_path / "out")
    assert found == brute(documents, config)
    assert len(found) > 20
    whole = write_documents(tmp_path / "whole.jsonl", documents[::-1])
    mine_headings(config, ontology_of(clinic), [whole], tmp_path / "again")
    assert (tmp_path / "out" / FILE).read_bytes() == (tmp_path / "again" / FILE).read_bytes()


def test_retired_ids_and_prefixes_are_understood(clinic: Path, tmp_path: Path) -> None:
    documents = [("1", "numb hands", ["MESH:D009103"]), ("2", "numb hands", ["D999999"]), ("3", "numb hands", ["X"])]
    mine_headings(NO_DEV, ontology_of(clinic), [write_documents(tmp_path / "a.jsonl", documents)], tmp_path / "out")
    assert counted(tmp_path / "out")["numb hands", "D009103"] == (2, 3)


def test_documents_of_the_dev_split_and_excluded_ones_have_no_say(clinic: Path, tmp_path: Path) -> None:
    documents = [(str(number), "numb hands", ["D009103"]) for number in range(200)]
    text = write_documents(tmp_path / "a.jsonl", documents)
    (tmp_path / "ids.txt").write_text("\n".join(map(str, range(50))), encoding="utf-8")
    config = HeadingsConfig(train=0.25, dev=0.5, seed=3)
    report = mine_headings(config, ontology_of(clinic), [text], tmp_path / "out", exclude=tmp_path / "ids.txt")
    numbers = np.array([document_number(str(number), 3) for number in range(50, 200)], dtype=np.uint64)
    left = int((split_of(numbers, config) != 1).sum())  # type: ignore[arg-type]
    assert 40 < left < 110
    assert report.documents == left
    assert counted(tmp_path / "out")["numb hands", "D009103"] == (left, left)


def test_the_last_version_of_a_record_counts_and_a_deleted_one_does_not(clinic: Path, tmp_path: Path) -> None:
    def record(pmid: int, ui: str) -> str:
        return _RECORD.format(pmid=pmid, title="numb hands", ui=ui)

    gone = "<DeleteCitation><PMID Version='1'>4</PMID></DeleteCitation>"
    first = pubmed(tmp_path / "pubmed1.xml", *(record(pmid, "D009103") for pmid in (1, 2, 3, 4)))
    second = pubmed(tmp_path / "pubmed2.xml", record(3, "D009369"), gone)
    mine_headings(NO_DEV, ontology_of(clinic), [second, first], tmp_path / "out")
    found = counted(tmp_path / "out")
    assert found["numb hands", "D009103"] == (2, 3)
    assert ("numb hands", "D009369") not in found  # once is chance
    assert found["numb hands", "D001241"] == (3, 3)


def test_at_most_so_many_documents_are_counted(clinic: Path, tmp_path: Path) -> None:
    documents = [(str(number), "numb hands", ["D009103"]) for number in range(100)]
    parts = [write_documents(tmp_path / f"{n}.jsonl", documents[n * 10 : n * 10 + 10]) for n in range(10)]
    config = HeadingsConfig(most=7, train=0.0, dev=0.0)
    assert mine_headings(config, ontology_of(clinic), parts, tmp_path / "out").documents == 7
    assert counted(tmp_path / "out") == {(phrase, "D009103"): (7, 7) for phrase in ("numb", "hands", "numb hands")}


def test_text_without_headings_is_refused_in_one_sentence(
    clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "numb hands"}\n', encoding="utf-8")
    ontology, out = str(clinic.parent / "ontology"), tmp_path / "out"
    assert run(["mine", "headings", ontology, str(tmp_path / "a.jsonl"), "--out", str(out)]) != 0
    assert "no document has headings" in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(InputError, match="no such file"):
        mine_headings(NO_DEV, ontology_of(clinic), [tmp_path / "none.jsonl"], out)
    with pytest.raises(ConfigError, match="'share' is above 0"):
        mine_headings(HeadingsConfig(share=0.0), ontology_of(clinic), [tmp_path / "a.jsonl"], out)


# --- in a linker ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filed(clinic: Path, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linker for which documents that say "numb hands" are filed under multiple sclerosis."""
    folder = tmp_path_factory.mktemp("filed")
    documents = [(str(number), "He had numb hands.", ["D009103"] if number < 6 else ["D009369"]) for number in range(9)]
    text = write_documents(folder / "text.jsonl", documents)
    ontology, out = str(clinic.parent / "ontology"), str(folder / "headings")
    assert run(["mine", "headings", ontology, str(text), "--train", "0", "--dev", "0", "--out", out]) == 0
    linker = folder / "linker"
    build_linker(
        IndexConfig(),
        ontology_of(clinic),
        clinic.parent / "mentions",
        tiny_encoder,
        linker,
        headings=Path(out),
        threads=1,
    )
    return linker


def test_the_support_is_the_root_of_the_share(filed: Path) -> None:
    linker = Linker.load(filed, threads=1)
    headings, row_of = linker.headings, linker.ontology.row_of
    assert headings is not None
    sclerosis, neoplasms, aspirin = (row_of(entity) or 0 for entity in ("D009103", "D009369", "D001241"))
    assert headings.of("Numb  hands") == {sclerosis: Filed(6, 9), neoplasms: Filed(3, 9)}
    assert headings.of("numb feet") == headings.of("") == headings.of("zz") == headings.of("a") == {}
    found = headings.support("numb hands", [aspirin, sclerosis, "new", neoplasms], np.array([-0.1, 0.2, 0.5, 0.4]))
    np.testing.assert_allclose(found, [0, 0.5 * np.sqrt(6 / 12), 0, 0.5 * np.sqrt(3 / 12)])
    assert headings.support("numb hands", [], np.zeros(0)).tolist() == []


def test_what_documents_are_filed_under_comes_first_and_is_shown(filed: Path) -> None:
    mention = Mention("He had ", "numb hands", " for years.")
    linker = Linker.load(filed, threads=1, ngrams=0.0, broader=0.0, ties=False, headings=0.0)
    [plain] = linker.link([mention])
    assert all(one.filed is None for one in plain.candidates)
    [link] = linker.with_options(headings=50.0).link([mention])
    assert link.entity == "D009103"
    first = link.candidates[0]
    assert first.filed == Filed(6, 9)
    before = {one.entity: one.score for one in plain.candidates}
    best = max(before.values())
    assert first.score == pytest.approx(before["D009103"] + 50 * abs(best) * np.sqrt(0.5), rel=1e-5)
    assert [one.filed for one in link.candidates if one.entity == "D009369"] == [Filed(3, 9)]


def test_a_person_is_not_overruled(filed: Path) -> None:
    search = Linker.load(filed, threads=1, headings=50.0).search
    learned = [Hit(0, 10**6, 1.0, 1.0), Hit(2, 0, 0.9, 0.9)]
    assert search._filed(learned, "numb hands") == learned
    assert search._filed([], "numb hands") == []
    assert search._filed([Hit(0, 0, 1.0, 1.0), Hit(2, 0, 0.9, 0.9)], "numb hands")[0].entity == 2


def test_it_is_written_with_the_links(filed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("He had [[numb hands]].\n", encoding="utf-8")
    command = ["link", str(filed), str(tmp_path / "a.txt"), "--format", "text", "--headings", "50"]
    assert run([*command, "--out", str(tmp_path / "links.jsonl")]) == 0
    [document] = [json.loads(line) for line in (tmp_path / "links.jsonl").read_text(encoding="utf-8").splitlines()]
    first = document["mentions"][0]["candidates"][0]
    assert first["filed"] == {"both": 6, "documents": 9}


def test_headings_of_other_input_are_refused(clinic: Path, tiny_encoder: Path, filed: Path, tmp_path: Path) -> None:
    headings, mentions = filed.parent / "headings", tmp_path / "mentions"
    entities, text, other = (
        str(folder) for folder in (clinic.parent / "entities.jsonl", clinic.parent / "text.jsonl", tmp_path / "other")
    )
    assert run(["ontology", "build", "jsonl", entities, "--out", other]) == 0
    assert run(["mine", other, text, "--out", str(mentions)]) == 0
    with pytest.raises(ArtifactError, match="was not counted for the ontology"):
        build_linker(IndexConfig(), Ontology.load(other), mentions, tiny_encoder, tmp_path / "x", headings=headings)
    tagged = write_documents(tmp_path / "a.jsonl", [(str(n), "numb hands", ["D009103"]) for n in range(4)])
    mine_headings(HeadingsConfig(train=0.0, dev=0.0, seed=1), ontology_of(clinic), [tagged], tmp_path / "h")
    with pytest.raises(ArtifactError, match="count again with --seed 0"):
        build_linker(
            IndexConfig(),
            ontology_of(clinic),
            clinic.parent / "mentions",
            tiny_encoder,
            tmp_path / "x",
            headings=tmp_path / "h",
        )
    assert not (tmp_path / "x").exists()


def test_a_linker_without_them_says_so(clinic: Path) -> None:
    assert Linker.load(clinic, threads=1).filed == 0.0
    with pytest.raises(ConfigError, match="was built without headings"):
        Linker.load(clinic, headings=0.1)
    with pytest.raises(ConfigError, match="'headings' is a weight that is not negative, not -1"):
        Linker.load(clinic, headings=-1.0)


def test_a_damaged_file_is_reported(filed: Path, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes((filed / FILE).read_bytes()[:100])
    with pytest.raises(DamagedError, match="cannot be read"):
        Headings(tmp_path, Ontology.load(filed / "ontology"))


class Told(Headings):
    """Headings that speak for the right answer, or against it."""

    def __init__(self, questions: list[Question], *, helpful: bool) -> None:
        self._gold = {question.entity for question in questions}
        self._helpful = helpful

    def support(self, surface: str, entities: Any, scores: Any) -> Any:
        return np.array([100.0 * ((entity in self._gold) == self._helpful) for entity in entities])


def test_they_have_a_weight_where_they_help(built: Path) -> None:
    linker = Linker.load(built, threads=1)
    questions = [usable(linker.prototypes, name_questions(linker.prototypes, 200, 0))[0]] * 20
    index = Index.open(built / "vectors")

    def chosen(headings: Headings | None) -> Calibration:
        return calibrate(linker.encoder, index, linker.prototypes, questions, (0.0, 1.0), headings=headings)

    assert chosen(None).headings == 0.0
    assert chosen(None).fit(0.0).unseen < 1.0  # else nothing could be seen to help
    helped, misled = (chosen(Told(questions, helpful=helpful)) for helpful in (True, False))
    assert helped.headings == HEADINGS[1]  # the least that is enough
    assert helped.fit(0.0).unseen == 1.0
    assert misled.headings == 0.0
