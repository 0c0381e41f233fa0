"""A re-ranker in use: its graphs, how much it counts, and what it does to a linker's candidates."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from kriss import Linker
from kriss.artifacts import open_artifact, verify
from kriss.cli import run
from kriss.encoder.config import PairConfig
from kriss.encoder.export import trace as graph_of
from kriss.encoder.pairs import Option
from kriss.encoder.quantize import quantize
from kriss.encoder.session import OnnxCrossEncoder, cross_file
from kriss.errors import ArtifactError, DamagedError, DriftError, ExistsError
from kriss.rank.features import FEATURES
from kriss.rank.rerank import attach
from kriss.rank.tune import Weights
from kriss.records import Entity, Excerpt
from kriss.rerank import export
from kriss.rerank.config import RerankConfig
from kriss.rerank.examples import read_cases
from kriss.rerank.export import export_reranker
from kriss.rerank.model import CrossEncoder
from kriss.rerank.run import train_reranker
from tests.train_fixtures import one_thread, world

__all__ = ["one_thread"]

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


def dev_mentions(linker: Linker, count: int = 40) -> list[Excerpt]:
    """Return dev mentions in other words than the names of their entities: an exact match is not read."""
    cases = read_cases(world().mentions, linker.ontology, "dev", 3, seed=0)[:count]
    return [replace(case.excerpt, surface=f"{case.excerpt.surface}x") for case in cases]


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
    found = cross.scores(mentions, [options] * 6)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert [float(cross.scores([m], [[o]])[0]) for m in mentions for o in options] == found.tolist()


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


# --- in a linker --------------------------------------------------------------------------------


def test_candidates_are_ordered_as_the_equation_says(trained: tuple[Path, Path]) -> None:
    """The linker's sum and the weighed logarithm of the re-ranker's share among the first, by numpy and torch."""
    folder, reranker = trained
    plain = Linker.load(folder, threads=1, shared_names=False)
    linker = plain.with_options(rerank=True, weights={"cross": 0.16})
    tuned = Weights.load(reranker)
    count, precision = 6, open_artifact(reranker).facts["onnx"]["precision"]
    model, moved = CrossEncoder.load(reranker), 0
    asked = dev_mentions(plain, 12)
    for before, after in zip(plain.link(asked, top=12), linker.link(asked, top=12), strict=True):
        options = []
        for candidate in before.candidates[:count]:
            shown = candidate.evidence
            row = plain.ontology.row_of(candidate.entity)
            assert row is not None
            options.append(Option(plain.ontology.at(row), Excerpt(shown.left, shown.surface, shown.right)))
        cross = model.scores(model.pairs([before.mention.excerpt()], [options])).astype(np.float64)
        shares = cross - cross.max() - np.log(np.exp(cross - cross.max()).sum())
        scores = np.array([one.score for one in before.candidates[:count]]) + 0.16 * shares
        ranked = np.argsort(-scores, kind="stable")
        if precision == "fp32":
            assert [one.entity for one in after.candidates[:count]] == [before.candidates[at].entity for at in ranked]
        assert {one.entity for one in after.candidates[:count]} == {one.entity for one in before.candidates[:count]}
        assert [one.entity for one in after.candidates[count:]] == [one.entity for one in before.candidates[count:]]
        assert [one.score for one in after.candidates] == sorted((one.score for one in after.candidates), reverse=True)
        assert 0 <= after.probability <= 1
        moved += [one.entity for one in after.candidates] != [one.entity for one in before.candidates]
    assert moved
    assert {**plain.weights, "cross": tuned.weights["cross"]} == tuned.weights


def test_accuracy_does_not_fall_on_dev(trained: tuple[Path, Path]) -> None:
    facts = open_artifact(trained[1], "reranker").facts["tuning"]
    assert facts["weight"] in next(feature.trials for feature in FEATURES if feature.name == "cross")
    assert sum(facts["reranked"].values()) >= sum(facts["linker"].values())


def test_an_answer_does_not_depend_on_its_company(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=2, rerank=True, weights={"cross": 0.16})
    asked = dev_mentions(linker, 10)
    together = linker.link(asked)
    assert [linker.link([mention])[0] for mention in asked] == together
    assert linker.link(asked[::-1]) == together[::-1]
    assert pickle.loads(pickle.dumps(linker)).link(asked) == together


def test_exact_matches_and_what_a_person_said_are_not_read(trained: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(trained[0], tmp_path / "linker")
    linker = Linker.load(folder, threads=1, rerank=True, weights={"cross": 5.0})
    new = Excerpt("an ", "unheard ailment", " of our own")
    known = [Excerpt("some ", f"odd thing {n}", " there") for n in range(8)]
    linker.add(new, "NEW:1", name="unheard ailment")
    for n, mention in enumerate(known):
        linker.add(mention, linker.ontology.id_at(n))
    assert linker.link([new])[0].entity == "NEW:1"
    assert [link.entity for link in linker.link(known)] == [linker.ontology.id_at(n) for n in range(8)]
    [exact] = linker.link([Excerpt("an ", linker.ontology.name_at(3), " here")])
    assert exact.candidates[0].features.get("cross", 0.0) == 0.0
    asked = dev_mentions(linker, 12)
    plain = linker.with_options(rerank=False, weights={}).link(asked)
    assert [one.entity for one in linker.link(asked)] != [one.entity for one in plain]  # it has its say elsewhere


def test_a_re_ranker_that_counts_for_nothing_changes_nothing(trained: tuple[Path, Path]) -> None:
    linker = Linker.load(trained[0], threads=1)
    asked = dev_mentions(linker, 12)
    same = linker.with_options(rerank=True, weights={"cross": 0.0}).link(asked)
    assert [one.candidates for one in same] == [one.candidates for one in linker.link(asked)]


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
    assert run(["link", str(folder), str(text), "--rerank"]) == 0
    [answer] = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer
    assert run(["rerank", "attach", str(folder), str(reranker)]) == 1
    assert "--force" in capsys.readouterr().err
    assert run(["rerank", "attach", str(folder), str(reranker), "--force"]) == 0
    assert "--rerank" in capsys.readouterr().out
