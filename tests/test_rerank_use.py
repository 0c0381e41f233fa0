"""A re-ranker in use: its graphs, how it is used, and what it does to a linker's candidates."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kriss import Linker
from kriss.artifacts import open_artifact, verify
from kriss.cli import run
from kriss.encoder.cross import OnnxCrossEncoder, cross_file
from kriss.encoder.export import trace as graph_of
from kriss.encoder.pairs import Option, PairConfig, Pairs
from kriss.encoder.quantize import quantize
from kriss.encoder.windows import Sequences
from kriss.errors import ArtifactError, ConfigError, DamagedError, DriftError, ExistsError
from kriss.mine.store import open_mentions
from kriss.rank.logistic import Logistic
from kriss.rank.rerank import Blend, Reranker, blended, lead
from kriss.rank.search import Hit
from kriss.records import Entity, Excerpt
from kriss.rerank import export
from kriss.rerank.attach import attach
from kriss.rerank.config import RerankConfig
from kriss.rerank.examples import Labeled, read_labeled
from kriss.rerank.export import export_reranker
from kriss.rerank.model import CrossEncoder
from kriss.rerank.run import train_reranker
from kriss.rerank.tune import CANDIDATES, WEIGHTS, Case, dev_cases, tune
from tests.train_fixtures import one_thread, world

__all__ = ["one_thread"]

FIT = Logistic(0.0, 1.0, 1.0)
MENTION = Excerpt("had a ", "cold", " for days")


@pytest.fixture(scope="module")
def trained(built: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a linker with a re-ranker in it, and that re-ranker as it was trained."""
    folder = tmp_path_factory.mktemp("rerank")
    linker, reranker = folder / "linker", folder / "reranker"
    shutil.copytree(built, linker)
    settings = RerankConfig(
        model=str(tiny_model), window=24, reference_window=24, prototype_window=16, candidates=6, batch=16, chunk=16,
        steps=40, learning_rate=3e-3, dropout=0.0, dev_queries=60, dev_every=40, mentions_per_entity=9,
        p_same_prototype=0.5, p_mask=0.0,
    )  # fmt: skip
    train_reranker(settings, Linker.load(linker, threads=1), world().mentions, reranker)
    attach(linker, reranker)
    return linker, reranker


def dev_mentions(linker: Linker, count: int = 40) -> list[Labeled]:
    return read_labeled(open_mentions(world().mentions, linker.ontology), linker.ontology, "dev", 3)[:count]


# --- two scores become one --------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-30, 30)), min_size=1, max_size=8),
    st.floats(0, 2),
)
def test_the_blend_is_the_linkers_score_and_a_weighed_log_probability(
    scores: list[tuple[float, float]], weight: float
) -> None:
    linker, cross = np.array(scores).T
    shares = [math.exp(value - cross.max()) for value in cross]
    expected = [own + weight * math.log(share / sum(shares)) for own, share in zip(linker, shares, strict=True)]
    np.testing.assert_allclose(blended(linker, cross, weight), expected, atol=1e-9)
    ordered = sorted(expected, reverse=True)
    assert lead(np.array(expected)) == pytest.approx(ordered[0] - ordered[1] if len(ordered) > 1 else abs(ordered[0]))


def test_a_blend_is_kept(tmp_path: Path) -> None:
    blend = Blend(8, 0.04, 0.93, Logistic(-1.5, 2.0, 3.25), "int8")
    blend.save(tmp_path)
    assert Blend.load(tmp_path) == blend
    whole = json.loads((tmp_path / "blend.json").read_text())
    changed = [{"candidates": 0}, {"weight": float("nan")}, {"precision": "fp64"}, {"fit": []}]
    damaged = [json.dumps(whole | one) for one in changed]
    for damage in ("", "{}", "[1]", '{"candidates": 8}', json.dumps({"candidates": "many"}), *damaged):
        (tmp_path / "blend.json").write_text(damage)
        with pytest.raises(DamagedError, match="train the re-ranker again"):
            Blend.load(tmp_path)


# --- the graph ----------------------------------------------------------------------------------


def test_graphs_give_the_scores_of_torch_in_any_company(tiny_model: Path, tmp_path: Path) -> None:
    model = CrossEncoder.from_pretrained(str(tiny_model), PairConfig(24, 24, 16))
    model.save(tmp_path)
    options = [
        Option(Entity(f"E{n}", "name " * n, definition="of a kind"), Excerpt("an ", "old " * n, " one"))
        for n in range(1, 9)
    ]
    mentions = [replace(MENTION, left="so " * n) for n in range(6)]
    pairs = model.pairs(mentions, [options] * 6)
    facts = export_reranker(model, tmp_path, pairs, [8] * 6)
    expected = model.scores(pairs)
    assert facts["fp32"]["most_off"] < 1e-4
    assert cross_file(tmp_path, "int8").exists() == (facts["precision"] == "int8")
    cross = OnnxCrossEncoder(tmp_path, "fp32", threads=2)
    assert cross.pairs(mentions, [options] * 6).ids == pairs.ids
    np.testing.assert_allclose(cross.scores(pairs), expected, atol=1e-4)
    alone = [float(cross.scores(cross.pairs([m], [[o]]))[0]) for m in mentions for o in options]
    assert alone == cross.scores(pairs).tolist()


def test_a_graph_that_is_not_there_or_is_none(tiny_model: Path, tmp_path: Path) -> None:
    CrossEncoder.from_pretrained(str(tiny_model), PairConfig(24, 24, 16)).save(tmp_path)
    with pytest.raises(DamagedError, match=r"there is no .*pairs.onnx; train the re-ranker again"):
        OnnxCrossEncoder(tmp_path, "fp32")
    (tmp_path / "onnx").mkdir()
    cross_file(tmp_path, "fp32").write_bytes(b"no graph")
    with pytest.raises(DamagedError, match="train the re-ranker again"):
        OnnxCrossEncoder(tmp_path, "fp32")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DamagedError, match="is no tokenizer"):
        OnnxCrossEncoder(tmp_path, "fp32")


# --- how it is used -----------------------------------------------------------------------------


class Fixed:
    """Gives the scores that it was given."""

    def __init__(self, *scores: float) -> None:
        self._scores = scores

    def pairs(self, mentions: Any, options: Any) -> Sequences:
        return Sequences([[0] for some in options for _ in some], [], 0)

    def scores(self, pairs: Sequences) -> Any:
        assert len(pairs) == len(self._scores)
        return np.array(self._scores, dtype=np.float32)


def case(scores: list[float], gold: int, likely: float, *, known: bool = False) -> tuple[Labeled, Case]:
    option = Option(Entity("E", "x"), Excerpt.bare("x"))
    figures = np.array(scores)
    return Labeled(0, "d", MENTION), Case([option] * len(scores), figures, figures, gold, likely, known)


def tuned(cases: list[tuple[Labeled, Case]], *scores: float) -> Any:
    fixed = Fixed(*scores)
    pairs: Pairs = fixed.pairs  # type: ignore[assignment]
    return tune(pairs, fixed.scores, cases, "fp32")


def test_what_helps_is_chosen_and_the_sure_ones_are_spared() -> None:
    # the linker is right where it is sure; elsewhere the re-ranker knows
    cases = [case([0.9, 0.3], 0, 0.99, known=True)] * 5 + [case([0.5, 0.45], 1, 0.4)] * 5
    found = tuned(cases, *([1.0, 0.0] * 5), *([0.0, 4.0] * 5))
    assert (found.linker, found.reranked, found.always, found.recall) == (0.5, 1.0, 1.0, 1.0)
    assert found.unseen == (0.0, 1.0)
    assert found.blend.candidates == CANDIDATES[0]
    # the scores are 0.325 apart in the median; the least share of it that suffices: 4 times that makes up for 0.05
    assert found.blend.weight == pytest.approx(0.04 * 0.325)
    assert found.blend.sure == 0.99
    assert found.spared == 0.5


def test_noise_counts_for_nothing() -> None:
    cases = [case([0.9, 0.3, 0.2], 0, 0.9)] * 4
    found = tuned(cases, *([0.0, 9.0, 9.0] * 4))
    assert (found.blend.weight, found.linker, found.reranked, found.alone) == (0.0, 1.0, 1.0, 0.0)
    assert found.spared == 1.0


def test_nobody_is_spared_if_that_would_cost() -> None:
    found = tuned([case([0.5, 0.4], 1, 0.7)] * 4, *([0.0, 30.0] * 4))
    assert (found.blend.sure, found.spared, found.reranked) == (2.0, 0.0, 1.0)


@given(st.integers(0, 2**32 - 1))
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 17, 12)
    cases = [case(np.sort(draw.random(n))[::-1].tolist(), int(draw.integers(-1, n)), draw.random()) for n in sizes]
    flat = (draw.random(int(sizes.sum())) * 8).astype(np.float32)
    found = tuned(cases, *flat.tolist())
    parts = np.split(flat.astype(np.float64), np.cumsum(sizes)[:-1])

    def accuracy(count: int, weight: float) -> float:
        right = [
            int((one.scores[:count] + weight * own[:count]).argmax()) == one.gold  # a shift changes no order
            for (_, one), own in zip(cases, parts, strict=True)
        ]
        return float(np.mean(right))

    spread = float(np.median([one.scores[0] - one.scores[min(7, len(one.scores) - 1)] for _, one in cases])) or 1.0
    best = max(accuracy(count, weight * spread) for count in CANDIDATES for weight in WEIGHTS)
    assert found.always == pytest.approx(best, abs=1e-4)
    assert accuracy(found.blend.candidates, found.blend.weight) == pytest.approx(best)
    assert found.reranked >= found.always - 0.002 - 1e-9


def test_dev_mentions_are_asked_with_and_without_their_spelling(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=1)
    cases = dev_cases(linker, dev_mentions(linker))
    halves = {known: [(one, c) for one, c in cases if c.known is known] for known in (False, True)}
    assert len(halves[False]) == len(halves[True]) > 10
    for one, found in halves[False]:
        assert all(one.mention.surface.casefold() != option.prototype.surface.casefold() for option in found.options)
    for known, half in halves.items():
        for one, found in half:
            assert len(found.options) <= max(CANDIDATES)
            assert (np.diff(found.scores) <= 0).all()
            assert 0 <= found.likely <= 1
            if found.gold >= 0:
                assert found.options[found.gold].entity.id == linker.ontology.id_at(one.entity)
            assert not known or found.gold >= 0  # its own name is there
    assert sum(c.gold == 0 for _, c in halves[True]) > sum(c.gold == 0 for _, c in halves[False])


# --- in a linker --------------------------------------------------------------------------------


def test_candidates_are_ordered_as_the_equation_says(trained: tuple[Path, Path]) -> None:
    folder, reranker = trained
    plain = Linker.load(folder, threads=1, ties=False)
    blend = Blend.load(reranker)
    asked = [one.mention for one in dev_mentions(plain, 12)]
    linker = plain.with_options(rerank=True, rerank_top=4, rerank_sure=2.0)
    model = CrossEncoder.load(reranker)
    moved = 0
    for before, after in zip(plain.link(asked, top=8), linker.link(asked, top=8), strict=True):
        options = []
        for candidate in before.candidates[:4]:
            shown = candidate.evidence
            row = plain.ontology.row_of(candidate.entity)
            assert row is not None
            options.append(Option(plain.ontology.at(row), Excerpt(shown.left, shown.surface, shown.right)))
        cross = model.scores(model.pairs([before.mention.excerpt()], [options])).astype(np.float64)
        scores = blended(np.array([one.score for one in before.candidates[:4]]), cross, blend.weight)
        ranked = np.argsort(-scores, kind="stable")
        if blend.precision == "fp32":
            assert [one.entity for one in after.candidates[:4]] == [before.candidates[at].entity for at in ranked]
        assert {one.entity for one in after.candidates[:4]} == {one.entity for one in before.candidates[:4]}
        assert [one.entity for one in after.candidates[4:]] == [one.entity for one in before.candidates[4:]]
        assert [one.score for one in after.candidates] == sorted((one.score for one in after.candidates), reverse=True)
        assert after.entity == after.candidates[0].entity
        assert 0 <= after.probability <= 1
        moved += [one.entity for one in after.candidates] != [one.entity for one in before.candidates]
    assert blend.weight == 0 or moved


def test_accuracy_rises_on_dev(trained: tuple[Path, Path]) -> None:
    facts = open_artifact(trained[1], "reranker").facts["tuning"]
    assert facts["linker"] < facts["always"] <= facts["recall"]
    assert facts["reranked"] >= facts["always"] - 0.002
    assert facts["unseen"]["reranked"] > facts["unseen"]["linker"]


def test_an_answer_does_not_depend_on_its_company(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=2, rerank=True, rerank_sure=2.0)
    asked = [one.mention for one in dev_mentions(linker, 10)]
    together = linker.link(asked)
    assert [linker.link([mention])[0] for mention in asked] == together
    assert linker.link(asked[::-1]) == together[::-1]
    assert pickle.loads(pickle.dumps(linker)).link(asked) == together


def test_whoever_is_sure_is_not_asked_about(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=1)
    asked = [one.mention for one in dev_mentions(linker, 10)]
    assert linker.with_options(rerank=True, rerank_sure=0.0).link(asked) == linker.link(asked)


def weighing(linker: Path, **changes: Any) -> None:
    """Let the re-ranker of a linker count otherwise."""
    blend = Blend.load(linker / "reranker")
    replace(blend, **changes).save(linker / "reranker")
    manifest = json.loads((linker / "reranker" / "manifest.json").read_text())
    manifest["files"]["blend.json"]["bytes"] = (linker / "reranker" / "blend.json").stat().st_size
    (linker / "reranker" / "manifest.json").write_text(json.dumps(manifest))


def test_what_a_person_said_stays_first(trained: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(trained[0], tmp_path / "linker")
    weighing(folder, weight=5.0, candidates=8)
    linker = Linker.load(folder, threads=1, rerank=True, rerank_sure=2.0)
    new = Excerpt("an ", "unheard ailment", " of our own")
    known = [Excerpt("some ", f"odd thing {n}", " there") for n in range(8)]
    linker.add(new, "NEW:1", name="unheard ailment")
    for n, mention in enumerate(known):
        linker.add(mention, linker.ontology.id_at(n))
    assert linker.link([new])[0].entity == "NEW:1"
    assert [link.entity for link in linker.link(known)] == [linker.ontology.id_at(n) for n in range(8)]
    asked = [one.mention for one in dev_mentions(linker, 12)]
    moved = [
        a.entity != b.entity
        for a, b in zip(linker.link(asked), linker.with_options(rerank=False).link(asked), strict=True)
    ]
    assert any(moved)  # it has its say elsewhere


def test_a_re_ranker_that_counts_for_nothing_changes_nothing(trained: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(trained[0], tmp_path / "linker")
    weighing(folder, weight=0.0)
    linker = Linker.load(folder, threads=1)
    asked = [one.mention for one in dev_mentions(linker, 12)]
    assert linker.with_options(rerank=True, rerank_sure=2.0).link(asked) == linker.link(asked)


def test_how_likely_an_answer_is_hardly_depends_on_how_many_are_read(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=1, rerank=True, rerank_sure=2.0)
    asked = [one.mention for one in dev_mentions(linker, 30)]
    means = [np.mean([link.probability for link in linker.with_options(rerank_top=top).link(asked)]) for top in (4, 16)]
    assert abs(means[0] - means[1]) < 0.2


def test_a_graph_that_orders_otherwise_is_not_used(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CrossEncoder.from_pretrained(str(tiny_model), PairConfig(24, 24, 16))
    model.save(tmp_path)
    options = [Option(Entity(f"E{n}", "name " * n), Excerpt.bare("old " * n)) for n in range(1, 9)]
    pairs = model.pairs([MENTION] * 4, [options] * 4)
    real, trace = quantize, graph_of

    def bad(source: Path, target: Path, sequences: Any) -> None:
        real(source, target, sequences)
        graph = onnx.load(target)
        for tensor in graph.graph.initializer:  # turn every matrix round
            if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.raw_data) > 64:
                tensor.raw_data = tensor.raw_data[::-1]
        onnx.save(graph, target)

    monkeypatch.setattr(export, "quantize", bad)
    facts = export_reranker(model, tmp_path, pairs, [8] * 4)
    assert facts["precision"] == "fp32"
    assert not cross_file(tmp_path, "int8").exists()
    other = CrossEncoder.from_pretrained(str(tiny_model), PairConfig(24, 24, 16))
    torch.nn.init.normal_(other.classifier.classifier.weight, std=3.0)
    monkeypatch.setattr(export, "trace", lambda graph, *rest: trace(export._Graph(other), *rest))
    with pytest.raises(DriftError, match="is off by"):
        export_reranker(model, tmp_path, pairs, [8] * 4)


def test_what_is_refused(trained: tuple[Path, Path], clinic: Path, built: Path, tmp_path: Path) -> None:
    folder, reranker = trained
    with pytest.raises(ArtifactError, match="has no re-ranker: train one with 'kriss rerank train'"):
        Linker.load(built, threads=1, rerank=True)
    with pytest.raises(ArtifactError, match="was trained for another ontology than that of"):
        attach(clinic, reranker)
    assert not (clinic / "reranker").exists()
    with pytest.raises(ExistsError):
        attach(folder, reranker)
    attach(folder, reranker, force=True)
    for options, said in (({"rerank_top": 1}, "at least 2"), ({"rerank_sure": -0.5}, "is a probability")):
        with pytest.raises(ConfigError, match=said):
            Linker.load(folder, threads=1, rerank=True, **options)
    stranger = shutil.copytree(folder, tmp_path / "stranger")
    shutil.rmtree(stranger / "reranker")
    copied = shutil.copytree(reranker, tmp_path / "other")
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["facts"]["encoder"] = "0" * 64
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="was trained for another encoder"):
        attach(stranger, copied)
    shutil.copytree(copied, stranger / "reranker")
    with pytest.raises(ArtifactError, match="was trained for another encoder"):
        Linker.load(stranger, threads=1, rerank=True)
    assert verify(folder / "reranker").kind == "reranker"


def test_the_commands(trained: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, reranker = trained
    text = tmp_path / "text.txt"
    name = Linker.load(folder, threads=1).ontology.name_at(3)
    text.write_text(f"He had [[{name}]] for days.\n")
    assert run(["link", str(folder), str(text), "--rerank", "--rerank-top", "3", "--rerank-sure", "2"]) == 0
    [answer] = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer
    assert run(["link", str(folder), str(text), "--rerank-top", "3"]) == 1
    assert "give --rerank as well" in capsys.readouterr().err
    assert run(["rerank", "attach", str(folder), str(reranker)]) == 1
    assert "--force" in capsys.readouterr().err
    assert run(["rerank", "attach", str(folder), str(reranker), "--force"]) == 0
    assert "--rerank" in capsys.readouterr().out


def test_one_candidate_leaves_nothing_to_order(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=1)
    reranker = Reranker(trained[0] / "reranker", linker.made_for(), 1)
    hits = [[Hit(0, 0, 1.0, 1.0)], []]

    def never(hit: Hit) -> Option:
        raise AssertionError(hit)

    answers = reranker([MENTION, MENTION], hits, [0.0, 0.0], never)
    assert [answer.hits for answer in answers] == hits
    assert [answer.probability for answer in answers] == [None, None]
