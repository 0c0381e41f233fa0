"""The baselines: their losses against oracles, their ties, and that gold is never looked at when linking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.baselines import blink, sapbert
from benchmarks.baselines.blink import link_description
from benchmarks.baselines.encoders import NameEncoder, name_sequences
from benchmarks.baselines.exact import link_as_is, link_exact
from benchmarks.baselines.medlinker import Softmax, link_medlinker
from benchmarks.baselines.queries import MOST, Query, answer, queries
from benchmarks.baselines.run import main
from benchmarks.baselines.sapbert import link_nearest_name
from benchmarks.baselines.sapbert_train import (
    NamePairs,
    SapbertConfig,
    hard_pairs,
    multi_similarity_loss,
    train_sapbert,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kriss.artifacts import verify
from kriss.encoder.config import EncoderConfig
from kriss.encoder.export import export_encoder
from kriss.encoder.model import Encoder
from kriss.encoder.session import OnnxEncoder
from kriss.errors import ConfigError, InputError, KrissError
from kriss.evaluate.gold import GoldMention, gold_mentions
from kriss.evaluate.predictions import Prediction, Scored, read_predictions
from kriss.ontology import Ontology
from kriss.records import Document, Excerpt, Mention, Span
from kriss.train.examples import divide, kept_keys
from tests.conftest import build, write_jsonl
from tests.linker_fixtures import CLINIC
from tests.train_fixtures import one_thread, world

__all__ = ["one_thread"]
TEXT = "Multiple sclerosis (MS) relapsed. MS and Colon Cancer were seen, then aspirin; no dropsy."
PLACES = {"Multiple sclerosis": "D009103", "MS": "D009103", "Colon Cancer": "D003110", "aspirin": "D001241",
          "dropsy": "D004487"}  # fmt: skip


def marked(text: str = TEXT, entities: dict[str, str] | None = None, **more: Any) -> Document:
    """Return a document with the last occurrence of each surface marked."""
    spans = [
        Span(text.rindex(surface), text.rindex(surface) + len(surface), (entity,), "Thing")
        for surface, entity in (PLACES if entities is None else entities).items()
    ]
    return Document(more.pop("id", "1"), text, tuple(spans), **more)


@pytest.fixture(scope="module")
def clinic_ontology(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    """Return five entities, two of which are called "MS"."""
    folder = tmp_path_factory.mktemp("clinic-ontology")
    return build(folder / "out", "jsonl", write_jsonl(folder / "entities.jsonl", *CLINIC))


@pytest.fixture(scope="module")
def tiny(tiny_encoder: Path) -> OnnxEncoder:
    """Return the tiny BERT."""
    return OnnxEncoder.load(tiny_encoder)


@pytest.fixture(scope="module")
def tiny_names(tiny_encoder: Path) -> NameEncoder:
    """Return the tiny BERT as a reader of bare names."""
    return NameEncoder(tiny_encoder)


def answers(predictions: Sequence[Prediction]) -> dict[tuple[int, int], tuple[str, ...]]:
    """Return the answers by place."""
    return {(one.start, one.end): one.entities for one in predictions}


def at(surface: str, offset: int = 0) -> tuple[int, int]:
    """Return where a surface was marked."""
    start = offset + TEXT.rindex(surface)
    return start, start + len(surface)


# --- queries and answers ---------------------------------------------------------------------


def test_there_is_a_query_for_every_mention_of_gold() -> None:
    documents = [marked(), marked(), marked(id="2", offset=100), Document("3", "nothing", (Span(0, 7),))]
    found = queries(iter(documents))
    assert [query.gold for query in found] == gold_mentions(documents)
    assert len(found) == 10
    assert found[5].gold.start == 100 + TEXT.index("Multiple")
    assert all(query.mention.surface == query.gold.surface for query in found)
    assert all(query.excerpt.left + query.excerpt.surface + query.excerpt.right == TEXT for query in found)


def test_abbreviations_are_read_as_their_document_says() -> None:
    surfaces = [query.excerpt.surface for query in queries([marked()], abbreviations=True)]
    assert surfaces == ["Multiple sclerosis", "Multiple sclerosis", "Colon Cancer", "aspirin", "dropsy"]


@given(st.lists(st.integers(0, 3), max_size=90))
def test_an_answer_is_all_that_score_as_the_best(levels: list[int]) -> None:
    query = Query(GoldMention("1", 0, 2, "MS", ("X",)), Mention.at("MS", 0, 2), Excerpt.bare("MS"))
    ranked = [Scored(f"E{n}", level / 3 + n * 1e-9) for n, level in enumerate(sorted(levels, reverse=True))]
    found = answer(query, ranked)
    assert found.entities == tuple(f"E{n}" for n in range(levels.count(max(levels, default=0))))
    assert found.candidates == tuple(ranked[: max(MOST, len(found.entities))])


# --- names -----------------------------------------------------------------------------------


def test_exact_names(clinic_ontology: Ontology) -> None:
    found = list(link_exact(clinic_ontology, [marked()]))
    assert [(one.document, one.start, one.end) for one in found] == [one.key for one in gold_mentions([marked()])]
    assert answers(found) == {
        at("Multiple sclerosis"): ("D009103",),
        at("MS"): ("D009103", "D013058"),
        at("Colon Cancer"): ("D003110",),
        at("aspirin"): ("D001241",),
        at("dropsy"): (),
    }
    assert found[2].candidates == (Scored("D003110", 1.0, "colon cancer"),)
    assert answers(list(link_exact(clinic_ontology, [marked()], abbreviations=True)))[at("MS")] == ("D009103",)


def test_exact_names_of_a_subset(clinic_ontology: Ontology) -> None:
    assert answers(list(link_exact(clinic_ontology.subset("Procedure"), [marked()]))) == {
        at(surface): ("D013058",) if surface == "MS" else () for surface in PLACES
    }


def test_a_mention_as_it_is(clinic_ontology: Ontology) -> None:
    found = list(link_as_is(clinic_ontology, [marked()]))
    assert answers(found) == answers(list(link_exact(clinic_ontology, [marked()])))
    assert [one.name for one in found[2].candidates] == ["Colon Cancer"]
    assert found[4].candidates == ()


# --- encoders --------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["cls", "mean", "mention"])
def test_a_published_model_sees_names_without_markers(tiny_model: Path, tmp_path: Path, pooling: str) -> None:
    import transformers

    settings = {"pooling": pooling, "window": 27, "normalize": True}
    export_encoder(str(tiny_model), tmp_path / "out", int8=True, settings=settings)
    encoder, eight = NameEncoder(tmp_path / "out"), NameEncoder(tmp_path / "out", "int8")
    names = ["heart attack", "Acute renal failure of the kidney", "MS", "heart " * 60]
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(tiny_model)
    model: Any = transformers.AutoModel.from_pretrained(tiny_model)
    model.eval()
    for name, vector, near in zip(names[:3], encoder.vectors(names), eight.vectors(names), strict=False):
        with torch.inference_mode():
            hidden = model(**tokenizer(name, return_tensors="pt", max_length=25, truncation=True)).last_hidden_state[0]
        expected = {"cls": hidden[0], "mean": hidden.mean(dim=0), "mention": hidden[1:-1].mean(dim=0)}[pooling]
        np.testing.assert_allclose(vector, expected / expected.norm(), atol=1e-5)
        np.testing.assert_allclose(near, vector, atol=0.05)
    assert [len(ids) for ids in encoder.sequences([names[3], ""]).ids] == [25, 2]
    assert np.isfinite(encoder.vectors([""])).all()


# --- the nearest name ------------------------------------------------------------------------


def test_the_nearest_names_are_those_of_a_search_by_hand(
    tiny_names: NameEncoder, clinic_ontology: Ontology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sapbert, "_BLOCK", 3)
    names = tiny_names
    found = list(link_nearest_name(clinic_ontology, [marked()], names))
    texts = [(entity.id, name) for entity in clinic_ontology for name in entity.names]
    vectors = names.vectors([name for _, name in texts])
    for query, prediction in zip(queries([marked()]), found, strict=True):
        scores = vectors @ names.vectors([query.excerpt.surface])[0]
        best: dict[str, float] = {}
        for (entity, _), score in zip(texts, scores.tolist(), strict=True):
            best[entity] = max(score, best.get(entity, -1.0))
        assert {one.entity: pytest.approx(one.score, abs=1e-5) for one in prediction.candidates} == best
        assert prediction.entities == tuple(e for e in sorted(best) if best[e] >= max(best.values()) - 1e-6)
        for one in prediction.candidates:
            assert one.name in clinic_ontology[one.entity].names
    assert answers(found)[at("MS")] == ("D009103", "D013058")
    assert answers(found)[at("Colon Cancer")] == ("D003110",)
    assert found[1].candidates[0].name == "MS"
    expanded = answers(list(link_nearest_name(clinic_ontology, [marked()], names, abbreviations=True)))
    assert expanded[at("MS")] == ("D009103",)


def test_many_names_many_owners_and_none(tiny_names: NameEncoder, tmp_path: Path) -> None:
    rows = [{"id": f"X{n:03d}", "name": f"heart {n}", "aliases": ["heart", "Heart"]} for n in range(90)]
    many = build(tmp_path / "many", "jsonl", write_jsonl(tmp_path / "many.jsonl", *rows))
    document = marked("the heart 7 and heart.", {"heart": "X000", "heart 7": "X007"})
    found = answers(list(link_nearest_name(many, [document], tiny_names)))
    assert found[(16, 21)] == tuple(f"X{n:03d}" for n in range(90))
    assert found[(4, 11)] == ("X007",)
    assert list(link_nearest_name(many, [Document("1", "none", ())], tiny_names)) == []


# --- SapBERT ---------------------------------------------------------------------------------


def _triplets(x: NDArray[np.float64], labels: list[int], margin: float) -> tuple[set[Any], set[Any]]:
    positive, negative = set(), set()
    for a in range(len(x)):
        for p in range(len(x)):
            for n in range(len(x)):
                if a != p and labels[a] == labels[p] and labels[a] != labels[n]:
                    far, near = np.linalg.norm(x[a] - x[p]), np.linalg.norm(x[a] - x[n])
                    if near - far <= margin:
                        positive.add((a, p))
                        negative.add((a, n))
    return positive, negative


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.0, 0.2, 1.0]))
def test_hard_pairs_and_loss_are_those_of_the_papers(size: int, kinds: int, seed: int, margin: float) -> None:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(size, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = draw.integers(0, kinds, size).tolist()
    positive, negative = _triplets(x, labels, margin)
    vectors = torch.from_numpy(x).requires_grad_()
    found = hard_pairs(vectors, torch.tensor(labels), margin)
    assert [{(int(a), int(b)) for a, b in mask.nonzero()} for mask in found] == [positive, negative]
    expected = 0.0
    for i in range(size):
        pull = sum(np.exp(-2 * (x[i] @ x[k] - 0.5)) for a, k in positive if a == i)
        push = sum(np.exp(50 * (x[i] @ x[k] - 0.5)) for a, k in negative if a == i)
        expected += (np.log(1 + pull) / 2 + np.log(1 + push) / 50) / size
    loss = multi_similarity_loss(vectors, *found)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    loss.backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()


def test_pairs_of_names(tmp_path: Path) -> None:
    rows = [{"id": "A", "name": "one", "aliases": ["ONE", "two", "three"]}, {"id": "B", "name": "four"},
            {"id": "C", "name": "x0", "aliases": [f"x{n}" for n in range(1, 20)]}]  # fmt: skip
    ontology = build(tmp_path / "o", "jsonl", write_jsonl(tmp_path / "o.jsonl", *rows))
    found = NamePairs.of(ontology, 50, seed=3)
    pairs = [(found.names[a], found.names[b]) for a, b in found.pairs.tolist()]
    assert pairs[:3] == [("one", "two"), ("one", "three"), ("two", "three")]
    assert found.entities.tolist() == [0] * 3 + [2] * 50
    assert len(set(pairs)) == 53
    assert np.array_equal(found.pairs, NamePairs.of(ontology, 50, seed=3).pairs)
    assert not np.array_equal(found.pairs, NamePairs.of(ontology, 50, seed=4).pairs)
    seen = [tuple(sorted(pair)) for names, labels in found.batches(9, 5, seed=0)
            for pair in zip(names[:9], names[9:], strict=True)]  # fmt: skip
    assert len(set(seen)) == 45
    orders = [[names for names, _ in found.batches(9, 2, seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    for names, labels in found.batches(9, 2, seed=0):
        assert [("x" in name) * 2 for name in names] == labels.tolist()
    with pytest.raises(InputError, match="synonyms"):
        NamePairs.of(build(tmp_path / "p", "jsonl", write_jsonl(tmp_path / "p.jsonl", rows[0], rows[1])), 50, 0)


def test_sapbert_learns_and_is_an_encoder(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = SapbertConfig(model=str(tiny_model), batch=24, steps=35, learning_rate=3e-3, dropout=0.0, pooling="mean")
    loss = train_sapbert(config, world().ontology, tmp_path / "one")
    told = [line.split(" of 35: loss ") for line in capsys.readouterr().err.splitlines()]
    assert [step for step, _ in told] == ["step 10", "step 20", "step 30", "step 35"]
    assert loss < 0.98 * float(told[0][1].split(",")[0])
    assert train_sapbert(config, world().ontology, tmp_path / "two") == loss
    first, second = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes() == (tmp_path / "one/references/model.safetensors").read_bytes()
    assert verify(tmp_path / "one").facts["baseline"] == "sapbert"
    pairs = NamePairs.of(world().ontology, 50, 0)
    cosines = []
    shape = EncoderConfig(window=27, pooling="mean", normalize=True)
    for one in (Encoder.from_pretrained(str(tiny_model), shape), Encoder.load(tmp_path / "one")):
        vectors = one.mention.vectors(name_sequences(one.windows, pairs.names, marked=False))
        a, b = vectors[pairs.pairs[:, 0]], vectors[pairs.pairs[:, 1]]
        cosines.append(float((a * b).sum(axis=1).mean() - (a * np.roll(b, 60, axis=0)).sum(axis=1).mean()))
    assert cosines[1] > cosines[0]


def test_a_training_gone_astray(tiny_model: Path, tmp_path: Path) -> None:
    config = SapbertConfig(model=str(tiny_model), batch=8, steps=20, learning_rate=1e30)
    with pytest.raises(KrissError, match="lower the learning rate"):
        train_sapbert(config, world().ontology, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_names_that_kriss_train_holds_out_can_be_held_out_here() -> None:
    ontology = world().ontology
    kept = kept_keys((ontology.name_at(row) for row in ontology.rows()), 0.3, 7)
    unseen = {(row, name) for row in ontology.rows() for name in divide(ontology.names_at(row), 0.3, 7, kept).unseen}
    assert unseen

    def learned(share: float) -> set[tuple[int, str]]:
        pairs = NamePairs.of(ontology, 50, 7, share)
        places = zip(pairs.entities.tolist(), pairs.pairs.tolist(), strict=True)
        return {(entity, pairs.names[place]) for entity, both in places for place in both}

    assert not learned(0.3) & unseen
    assert learned(0.0) >= unseen


# --- BLINK -----------------------------------------------------------------------------------


def test_blink_scores_a_mention_in_context_against_references(tiny: OnnxEncoder, clinic_ontology: Ontology) -> None:
    found = list(link_description(clinic_ontology, [marked()], tiny))
    references = tiny.references(list(clinic_ontology))
    for query, prediction in zip(queries([marked()]), found, strict=True):
        scores = references @ tiny.mentions([query.excerpt])[0]
        order = np.argsort(-scores, kind="stable").tolist()
        ids = [entity.id for entity in clinic_ontology]
        assert [one.entity for one in prediction.candidates] == [ids[place] for place in order]
        assert [one.score for one in prediction.candidates] == pytest.approx(scores[order].tolist(), abs=1e-5)
        assert prediction.entities == (ids[order[0]],)
        assert prediction.candidates[0].name == clinic_ontology[ids[order[0]]].name
    bare = marked("MS", {"MS": "D009103"})
    [other] = link_description(clinic_ontology, [bare], tiny)
    assert other.candidates[0].score != found[1].candidates[0].score  # the context counts


class Reader:
    """A cross-encoder that likes entities in the order of their ids, the last the best."""

    def __init__(self, shown: str) -> None:
        self.pairs: Any = self
        self.config = SimpleNamespace(shown=shown)
        self.read: list[list[str]] = []

    def scores(self, mentions: Any, options: Any) -> Any:
        self.read += [[option.entity.id for option in some] for some in options]
        ids = [one for some in self.read for one in some]
        return np.array([sorted(ids).index(one) for one in ids], dtype=np.float32)


def test_the_cross_encoder_of_blink_orders_the_first(
    tiny: OnnxEncoder, clinic_ontology: Ontology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blink, "_READ", 3)
    documents = [marked("He had MS.", {"MS": "D009103"})]
    reader: Any = Reader("reference")
    [before] = link_description(clinic_ontology, documents, tiny)
    [after] = link_description(clinic_ontology, documents, tiny, cross=reader)
    first = [one.entity for one in before.candidates[:3]]
    assert reader.read == [first]
    assert [one.entity for one in after.candidates[:3]] == sorted(first, reverse=True)
    assert [one.entity for one in after.candidates[3:]] == [one.entity for one in before.candidates[3:]]
    scores = [one.score or 0.0 for one in after.candidates]
    assert scores == sorted(scores, reverse=True)
    both: Any = Reader("both")
    with pytest.raises(ConfigError, match="shown=reference"):
        list(link_description(clinic_ontology, documents, tiny, cross=both))


# --- MedLinker -------------------------------------------------------------------------------


def test_the_classifier_learns_and_is_the_same_again() -> None:
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(4, 8)).astype(np.float32)
    rows = draw.choice([3, 11, 12, 40], 80)
    vectors = centres[np.searchsorted([3, 11, 12, 40], rows)] + 0.1 * draw.normal(size=(80, 8)).astype(np.float32)
    vectors = 100 + 50 * vectors
    found, again = (Softmax(vectors, rows.tolist(), 20, learning_rate=0.01).best(vectors) for _ in range(2))
    assert found == again
    assert [best[0][0] for best in found] == rows.tolist()
    assert all(sum(score for _, score in best) == pytest.approx(1, abs=1e-5) for best in found)


def test_medlinker_joins_classifier_and_dictionary(tiny: OnnxEncoder, clinic_ontology: Ontology) -> None:
    train = [marked(f"the dropsy was {n}", {"dropsy": "MESH:D001241", "was": "D009369", "the": "unknown"}, id=str(n))
             for n in range(4)]  # fmt: skip
    documents = [
        marked("the dropsy was 2", {"dropsy": "D009369"}, id="x"),
        marked("cancer, colon and MS", {"cancer, colon": "D001241", "MS": "D001241"}, id="y"),
    ]
    found = list(link_medlinker(clinic_ontology, documents, train, tiny))
    assert [one.entities for one in found] == [("D001241",), ("D003110",), ("D009103", "D013058")]
    assert len(found[0].candidates) >= 2
    assert list(link_medlinker(clinic_ontology, documents, train, tiny)) == found
    with pytest.raises(InputError, match="do the ids agree"):
        list(link_medlinker(clinic_ontology, documents, [marked("a b", {"b": "Z"})], tiny))


# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def gold_file(tmp_path: Path) -> Path:
    """Return the document as a file."""
    document = marked()
    spans = [{"start": span.start, "end": span.end, "entity": span.entities[0]} for span in document.spans]
    return write_jsonl(tmp_path / "gold.jsonl", {"id": document.id, "text": document.text, "mentions": spans})


def test_all_commands(
    gold_file: Path,
    clinic_ontology: Ontology,
    tiny_model: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ontology, gold, encoder = (str(path) for path in (clinic_ontology.artifact.path, gold_file, tiny_encoder))
    settings = ["--set", f"model={tiny_model}", "--set", "batch=8", "--set", "steps=2"]
    assert main(["sapbert-train", ontology, *settings, "--out", str(tmp_path / "encoder")]) == 0
    assert "trained; loss at last" in capsys.readouterr().out
    out = tmp_path / "p.jsonl.gz"
    for words in (
        ["exact", ontology, gold, "--abbreviations"],
        ["mention", ontology, gold],
        ["sapbert", ontology, gold, "--encoder", encoder, "--precision", "int8"],
        ["blink", ontology, gold, "--encoder", encoder],
        ["medlinker", ontology, gold, "--train", gold, "--encoder", encoder, "--epochs", "2"],
    ):
        assert main([*words, "--out", str(out)]) == 0, capsys.readouterr().err
        assert set(read_predictions(out)) == {one.key for one in gold_mentions([marked()])}
        first = out.read_bytes()
        assert main([*words, "--out", str(out)]) == 1
        assert "exists" in capsys.readouterr().err
        assert main([*words, "--out", str(out), "--force"]) == 0
        assert out.read_bytes() == first
        out.unlink()


def test_bad_requests_are_one_sentence(
    gold_file: Path, clinic_ontology: Ontology, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ontology, gold, out = str(clinic_ontology.artifact.path), str(gold_file), str(tmp_path / "out")
    for words, said in (
        (["sapbert-train", ontology, "--set", "bach=3"], "did you mean 'batch'"),
        (["sapbert-train", ontology, "--set", f"model={tmp_path}/none"], "no usable model"),
        (["exact", ontology, str(tmp_path / "none.jsonl")], "none.jsonl"),
        (["sapbert", ontology, gold, "--encoder", ontology], "holds an ontology"),
    ):
        assert main([*words, "--out", out]) == 1, words
        [line] = capsys.readouterr().err.splitlines()
        assert said in line
        assert not Path(out).exists()
