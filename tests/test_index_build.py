"""Building a linker: which prototypes, which vectors, what is left behind when it fails."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from kriss.artifacts import open_artifact, verify
from kriss.cli import run
from kriss.encoder.session import OnnxEncoder
from kriss.index import encode
from kriss.link.build import build_linker
from kriss.index.config import IndexConfig
from kriss.index.encode import Block
from kriss.index.prototypes import Prototypes
from kriss.index.vectors import Index
from kriss.link.linker import Linker
from kriss.names import name_key
from kriss.rank.calibrate import (
    WEIGHTS,
    Calibration,
    Fit,
    Question,
    _as_good_as_the_best,
    calibrate,
    dev_questions,
    name_questions,
    usable,
)
from kriss.rank.logistic import Logistic
from kriss.rank.ngrams import NgramIndex
from kriss.rank.query import Remembering
from kriss.rank.spelling import Spelling
from kriss.rank.weights import REFERENCES
from kriss.records import Excerpt
from tests.conftest import contents
from tests.train_fixtures import BARE, MINED, one_thread, world  # noqa: F401 - fixtures

QUERIES = [
    Excerpt("the heart of this ", "gastrosis", " was acute pain."),
    Excerpt("", "shared alias", ""),
    Excerpt("who had kidney ", "neuritis", ""),
    Excerpt("", "unheard", " of"),
]


def build(encoder: Path, out: Path, **options: Any) -> Path:
    """Build a linker of the miniature world."""
    here = world()
    build_linker(IndexConfig(**options), here.ontology, here.mentions, encoder, out, threads=1)
    return out


# --- the equation -------------------------------------------------------------------------------


@pytest.mark.parametrize("references", [1.0, 0.0, 0.25])
def test_a_search_scores_the_papers_equation(tiny_encoder: Path, tmp_path: Path, references: float) -> None:
    folder = build(tiny_encoder, tmp_path / "l", references=references)
    linker = Linker.load(folder, context=1.0, abbreviations=False, ngrams=0.0, ties=False)
    encoder, ontology = OnnxEncoder.load(tiny_encoder, threads=1), world().ontology
    table = Prototypes(tmp_path / "l" / "prototypes.arrow")
    c_p, r_e = encoder.mentions(table.mentions(0, len(table))), encoder.references([*ontology])
    for query, link in zip(encoder.mentions(QUERIES), linker.link(QUERIES, top=10), strict=True):
        scores = {
            ontology.id_at(row): max(
                float(query @ (c_p[p] + references * r_e[row])) for p in np.flatnonzero(table.entity == row)
            )
            for row in ontology.rows()
        }
        best = sorted(scores, key=lambda entity: -scores[entity])[:10]
        assert [candidate.entity for candidate in link.candidates] == best
        np.testing.assert_allclose([c.score for c in link.candidates], [scores[entity] for entity in best], atol=1e-5)
        assert (link.entity, link.score) == (link.candidates[0].entity, link.candidates[0].score)


# --- which prototypes ---------------------------------------------------------------------------


def test_every_entity_can_be_reached(built: Path) -> None:
    facts = open_artifact(built, "linker").facts
    assert facts["entities"] == facts["reachable"] == MINED + BARE
    table = Prototypes(built / "prototypes.arrow")
    assert len(table) == len(Index.open(built / "vectors"))
    for row in world().ontology.rows():
        own = [table.evidence(at) for at in np.flatnonzero(table.entity == row).tolist()]
        assert [e.surface for e in own if e.kind == "name"] == world().ontology.names_at(row)
        assert len([e for e in own if e.kind == "mined"]) <= 16


def test_evidence_stands_where_it_says(built: Path) -> None:
    import json

    texts = {}
    with (world().folder / "text.jsonl").open() as lines:
        for line in lines:
            record = json.loads(line)
            texts[record["id"]] = record["text"]
    table = Prototypes(built / "prototypes.arrow")
    mined = [e for e in map(table.evidence, range(len(table))) if e.kind == "mined"]
    assert mined
    for evidence in mined:
        text = texts[evidence.document]
        assert text[evidence.start : evidence.end] == evidence.surface
        assert text[: evidence.start].endswith(evidence.left)
        assert text[evidence.end :].startswith(evidence.right)


def test_names_for_those_without_mentions_alone(tiny_encoder: Path, tmp_path: Path) -> None:
    table = Prototypes(build(tiny_encoder, tmp_path / "l", names="missing", per_entity=3) / "prototypes.arrow")
    for row in world().ontology.rows():
        kinds = [table.evidence(at).kind for at in np.flatnonzero(table.entity == row).tolist()]
        assert set(kinds) in ({"mined"}, {"name"})
        assert kinds.count("mined") <= 3
    assert open_artifact(tmp_path / "l").facts["reachable"] == MINED + BARE


def test_train_mentions_fill_up(tiny_encoder: Path, tmp_path: Path) -> None:
    out = build(tiny_encoder, tmp_path / "l", splits=("prototypes", "train"), names="none", per_entity=5)
    table, ontology = Prototypes(out / "prototypes.arrow"), world().ontology
    mined = pq.read_table(world().mentions / "mentions.parquet").to_pylist()
    for row in ontology.rows():
        places = [
            (m["document"], m["start"])
            for split in ("prototypes", "train")
            for m in mined
            if m["entity"] == ontology.id_at(row) and m["split"] == split
        ]
        own = [table.evidence(at) for at in np.flatnonzero(table.entity == row).tolist()]
        assert [(e.document, e.start) for e in own] == places[:5]


def test_a_build_repeats_to_the_byte(tiny_encoder: Path, built: Path, tmp_path: Path) -> None:
    assert contents(build(tiny_encoder, tmp_path / "again")) == contents(built)
    verify(built)


# --- interrupted, moved, on a cluster -----------------------------------------------------------


def test_it_goes_on_where_it_stopped(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "BLOCK", 32)
    whole = contents(build(tiny_encoder, tmp_path / "whole"))
    done: list[Block] = []
    real = encode.Encoding.run

    def counted(self: encode.Encoding, block: Block) -> None:
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(block)
        real(self, block)

    monkeypatch.setattr(encode.Encoding, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        build(tiny_encoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    again: list[Block] = []

    def noted(self: encode.Encoding, block: Block) -> None:
        again.append(block)
        real(self, block)

    monkeypatch.setattr(encode.Encoding, "run", noted)
    assert contents(build(tiny_encoder, tmp_path / "out")) == whole
    assert len(done) == 5
    assert not set(done) & set(again)
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_block_is_made_anew(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = encode.Encoding.run

    def spoiled(self: encode.Encoding, block: Block) -> None:
        real(self, block)
        block.file(self.work).write_bytes(b"\x93NUMPY")

    monkeypatch.setattr(encode.Encoding, "run", spoiled)
    with pytest.raises(Exception, match="is damaged and was removed; run the command again"):
        build(tiny_encoder, tmp_path / "out")
    monkeypatch.setattr(encode.Encoding, "run", real)
    for _ in range(2):  # one damaged block a run
        try:
            build(tiny_encoder, tmp_path / "out")
        except Exception as error:  # noqa: BLE001 - the second block
            assert "run the command again" in str(error)  # noqa: PT017
    verify(tmp_path / "out")


def test_ray_gives_the_same(tiny_encoder: Path, built: Path, tmp_path: Path) -> None:
    here = world()
    folders = [str(here.ontology.artifact.path), str(here.mentions), str(tiny_encoder)]
    assert run(["index", *folders, "--out", str(tmp_path / "ray"), "--engine", "ray"]) == 0
    assert contents(tmp_path / "ray") == contents(built)


def test_the_folder_stands_alone(built: Path, tmp_path: Path) -> None:
    before = Linker.load(built, threads=1).link(QUERIES)
    moved = shutil.copytree(built, tmp_path / "elsewhere")
    assert Linker.load(moved, threads=1).link(QUERIES) == before


# --- calibration --------------------------------------------------------------------------------


def test_the_fit_finds_what_made_the_data() -> None:
    draw = np.random.default_rng(1)
    score, margin = draw.normal(1, 0.3, 20_000), draw.exponential(0.2, 20_000)
    true = Logistic(-4.0, 2.0, 9.0)
    right = draw.random(20_000) < true.probability(score, margin)
    found = Logistic.fitted(score, margin, right)
    assert np.abs(found.probability(score, margin) - true.probability(score, margin)).max() < 0.05


def test_the_context_counts_as_much_as_costs_nothing() -> None:
    def fits(*unseen: float) -> list[Fit]:
        return [Fit(0, 0, 0, weight, share, 1.0) for weight, share in zip(WEIGHTS, unseen, strict=True)]

    # 100 questions, 0.5 right: a standard error of 0.05
    assert _as_good_as_the_best(fits(0.5, 0.49, 0.48, 0.46, 0.44), 100) == [0, 1, 2, 3]
    assert _as_good_as_the_best(fits(0.5, 0.49, 0.48, 0.46, 0.44), 10_000) == [0]
    assert _as_good_as_the_best(fits(0.1, 0.2, 0.3, 0.4, 0.5), 100) == [4]
    assert _as_good_as_the_best(fits(1.0, 1.0, 0.99, 0.9, 0.9), 100) == [0, 1]


class Told:
    """A likeness in spelling that knows the answers, or their contrary."""

    def __init__(self, questions: list[Question], *, helpful: bool) -> None:
        self._gold = [question.entity for question in questions]
        self._helpful = helpful

    def of(self, question: int, entities: NDArray[np.int64], *, without: bool) -> NDArray[np.float32]:
        return np.asarray((entities == self._gold[question]) == self._helpful, dtype=np.float32)


def test_spelling_has_a_weight_where_it_helps(built: Path) -> None:
    linker = Linker.load(built, threads=1)
    questions = usable(linker.prototypes, name_questions(linker.prototypes, 200, 0))
    index = Index.open(built / "vectors")

    def chosen(spelling: Told | None) -> Calibration:
        return calibrate(linker.encoder, index, linker.prototypes, questions, (0.0, 1.0), cast(Any, spelling))

    without = chosen(None)
    assert without.ngrams == 0.0
    helped, misled = (chosen(Told(questions, helpful=helpful)) for helpful in (True, False))
    assert helped.ngrams > 0
    assert helped.fit(0.0).unseen > without.fit(0.0).unseen
    assert misled == without


def test_spelling_leaves_out_the_names_of_a_question(built: Path) -> None:
    linker = Linker.load(built, threads=1)
    ngrams = NgramIndex.open(built / "ngrams")
    row = next(row for row in linker.ontology.rows() if len(linker.ontology.names_at(row)) > 1)
    first, *others = linker.ontology.names_at(row)
    others = [name for name in others if name_key(name) != name_key(first)]
    spelling = Spelling(ngrams, linker.ontology, [first])
    entities = np.array([row, row + 1])
    [whole, stranger] = spelling.of(0, entities, without=False)
    [left, same] = spelling.of(0, entities, without=True)
    assert whole == pytest.approx(1.0)
    assert left == pytest.approx(max((ngrams.similarity(first).to(name) for name in others), default=0.0))
    assert left < 1.0
    assert same == stranger


@pytest.mark.parametrize("right", [True, False])
def test_the_fit_stays_finite_when_all_are_alike(right: bool) -> None:
    found = Logistic.fitted(np.ones(10), np.zeros(10), np.full(10, right))
    assert np.isfinite([found.intercept, found.score, found.margin]).all()
    probability = float(found.probability(np.array(1.0), np.array(0.0)))
    assert probability > 0.8 if right else probability < 0.2


def test_it_is_calibrated_on_dev_mentions(built: Path) -> None:
    calibration = Calibration.load(built)
    assert calibration.queries > 0
    assert calibration.context in {fit.context for fit in calibration.fits}
    for fit in calibration.fits:
        assert fit.known >= fit.unseen


# --- wrong input --------------------------------------------------------------------------------


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `kriss index`: it must fail with one line and write nothing."""

    def check(*arguments: object) -> str:
        capsys.readouterr()
        assert run(["index", *map(str, arguments), "--out", str(tmp_path / "out")]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob(".out*"))
        return line.removeprefix("kriss: error: ")

    return check


def test_wrong_input_is_one_sentence(tiny_encoder: Path, mesh: Any, tmp_path: Path, refused: Any) -> None:
    here = world()
    ontology, mentions = here.ontology.artifact.path, here.mentions
    assert "holds mentions; this command needs an ontology" in refused(mentions, mentions, tiny_encoder)
    assert "holds an ontology; this command needs mentions" in refused(ontology, ontology, tiny_encoder)
    assert "holds mentions; this command needs an encoder" in refused(ontology, mentions, mentions)
    assert "was not mined with the ontology" in refused(mesh.artifact.path, mentions, tiny_encoder)
    good = (ontology, mentions, tiny_encoder)
    assert "is not one of auto, flat" in refused(*good, "--index", "best")
    assert "no split 'test'" in refused(*good, "--splits", "test")
    assert "calibrate the linker" in refused(*good, "--splits", "dev")
    assert "nothing would be in the index" in refused(*good, "--per-entity", 0, "--names", "none")
    assert "take '--backend onnx' for int8" in refused(*good, "--backend", "torch", "--precision", "int8")
    assert "--engine is local or ray" in refused(*good, "--engine", "spark")


def test_what_was_learned_is_not_thrown_away(
    tiny_encoder: Path, taught: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Linker.load(taught).add(("the cold of", 4, 8), "X:001")
    here = world()
    folders = [str(here.ontology.artifact.path), str(here.mentions), str(tiny_encoder)]
    assert run(["index", *folders, "--out", str(taught), "--force"]) == 1
    assert "has learned examples, which a new index would lose" in capsys.readouterr().err
    assert len(Linker.load(taught).examples()) == 1


# --- what is chosen -----------------------------------------------------------------------------


def test_the_weight_of_references_is_the_best_by_brute_force(tiny_encoder: Path, built: Path) -> None:
    encoder, ontology = OnnxEncoder.load(tiny_encoder, threads=1), world().ontology
    table = Prototypes(built / "prototypes.arrow")
    with pq.ParquetFile(world().mentions / "mentions.parquet") as mined:
        questions = usable(table, dev_questions(mined, ontology, 1000, 0))
    questions = questions[:: max(1, len(questions) // 400)]
    c_p, r_e = encoder.mentions(table.mentions(0, len(table))), encoder.references([*ontology])[table.entity]
    keys = np.array([name_key(table.surface(row)) for row in range(len(table))])
    right = dict.fromkeys(REFERENCES, 0.0)
    for weight in REFERENCES:
        for share in WEIGHTS:
            hits = 0
            for question in questions:
                bare, context = encoder.mentions([Excerpt.bare(question.mention.surface), question.mention])
                scores = (c_p + np.float32(weight) * r_e) @ ((1 - share) * bare + share * context)
                hits += table.entity[scores.argmax()] == question.entity
                scores[keys == name_key(question.mention.surface)] = -np.inf
                hits += table.entity[scores.argmax()] == question.entity
            right[weight] = max(right[weight], hits)
    assert right[open_artifact(built).facts["references"]] == max(right.values())
    assert len(set(right.values())) > 1  # else any weight would do


def test_remembered_names_have_the_encoders_vectors(tiny_encoder: Path) -> None:
    encoder = OnnxEncoder.load(tiny_encoder, threads=1)
    asked: list[Excerpt] = []

    class Counting:
        def mentions(self, mentions: Sequence[Excerpt], /) -> NDArray[np.float32]:
            asked.extend(mentions)
            return encoder.mentions(mentions)

    in_context = [query for query in dict.fromkeys(QUERIES) if query.left or query.right]
    remembering = Remembering(Counting(), most=2, most_in_context=len(in_context))
    names = [Excerpt.bare(name) for name in ("cold", "fever", "pain", "cold")]
    for mentions in (names, [*names, *QUERIES], names[:1] * 3, []):
        found, expected = remembering.mentions(mentions), encoder.mentions(mentions)
        np.testing.assert_array_equal(found, expected)
    asked.clear()
    remembering.mentions(names[:1])  # the last that was met
    assert not asked
    long = Excerpt("x" * 5000, "cold", "")
    for mentions in ([*QUERIES, long], [long]):
        np.testing.assert_array_equal(remembering.mentions(mentions), encoder.mentions(mentions))
    assert asked == [long, long]  # in context too, but for what stands in a long text
    asked.clear()
    remembering.mentions([Excerpt("one more ", "cold", "")])
    remembering.mentions([*in_context, *names[:1]])
    assert asked == [Excerpt("one more ", "cold", ""), in_context[0]]  # so many are kept, and beside them the names
