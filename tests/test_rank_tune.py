"""Choosing weights: accuracy as by brute force, the rule that picks one, probabilities, and what is remembered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from kriss.encoder.session import OnnxEncoder
from kriss.errors import DamagedError
from kriss.link.linker import Linker
from kriss.rank import tune
from kriss.rank.decide import Ranking
from kriss.rank.features import FEATURES, Feature
from kriss.rank.probability import Logistic
from kriss.rank.queries import Hidden, Remembering
from kriss.rank.tune import Case, Weights, dev_cases, name_cases, usable
from kriss.records import Excerpt
from tests.test_rank_decide import brute
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

QUERIES = [Excerpt("heart attack and ", "cold", " of the lung"), Excerpt("", "cold", " pain")]


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    return Linker.load(built, threads=1)


def cases_of(linker: Linker) -> list[Case]:
    with pq.ParquetFile(world().mentions / "mentions.parquet") as mined:
        return usable(linker.prototypes, dev_cases(mined, linker.ontology, 60, 0))


def test_accuracy_is_that_of_brute_force(linker: Linker) -> None:
    cases = cases_of(linker)
    assert len(cases) > 20
    weights = {"context": 0.5, "references": 0.25, "spelling": 0.2, "match": 0.1}
    found = tune.tune(Ranking(linker.parts, weights), linker.encoder, cases, names=())
    for slice in tune.SLICES:
        right = []
        for case in cases:
            scores = brute(linker, case.excerpt, case.hidden(slice), weights)
            right.append(max(scores, key=lambda entity: (round(scores[entity], 6), -entity)) == case.entity)
        assert found.accuracy[slice] == pytest.approx(np.mean(right), abs=1.5 / len(cases))
    assert found.accuracy["hidden"] < found.accuracy["known"]


def test_what_hides(linker: Linker) -> None:
    for case in cases_of(linker):
        assert case.hidden("known") == Hidden(document=case.document)
        hidden = case.hidden("hidden")
        assert hidden.hides(case.excerpt.surface.upper() + " ", "")
        assert hidden.hides("other", case.document)
        assert not hidden.hides("other", "")
    assert not Hidden()


def test_of_weights_that_are_as_good_the_smallest_or_the_largest_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(prefer: Any, count: int, *shares: float) -> float:
        dev: Any = object.__new__(tune._Dev)
        dev._cases, dev._in_context = [None] * count, True
        trials = tuple(map(float, range(len(shares))))
        monkeypatch.setattr(tune._Dev, "_accuracy", lambda self, weights: [shares[int(weights["x"])], 1.0])
        return tune._Dev.best(dev, Feature("x", FEATURES[0].column, trials, prefer), {})

    # 100 mentions, half of them right: a standard error of 0.05
    assert chosen("largest", 100, 0.5, 0.49, 0.48, 0.46, 0.44) == 3
    assert chosen("largest", 10_000, 0.5, 0.49, 0.48, 0.46, 0.44) == 0
    assert chosen("smallest", 100, 0.1, 0.2, 0.46, 0.49, 0.5) == 2
    assert chosen("smallest", 100, 0.1, 0.2, 0.3, 0.4, 0.5) == 4


def test_every_weight_is_one_that_was_tried(built: Path, linker: Linker) -> None:
    tuned = Weights.load(built)
    assert tuned.queries > 0
    assert set(tuned.weights) == {feature.name for feature in FEATURES} - {"bare"}
    for feature in FEATURES[1:]:
        assert tuned.weights[feature.name] in feature.trials
    assert dict(linker.weights) == dict(tuned.weights)


def test_names_stand_in_for_mentions_without_a_context(linker: Linker) -> None:
    cases = usable(linker.prototypes, name_cases(linker.prototypes, 80, 0))
    tuned = tune.tune(Ranking(linker.parts, {}), linker.encoder, cases)
    assert tuned.weights["context"] == 0
    assert tuned.queries == len(cases) > 0


def test_with_nothing_to_go_by_it_is_the_papers_equation(linker: Linker) -> None:
    tuned = tune.tune(Ranking(linker.parts, {}), linker.encoder, [])
    assert (tuned.weights["references"], tuned.queries) == (1.0, 0)
    assert float(tuned.chance.probability(np.array([0.3, 0.1, 1.0]))) == 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {"context": float("nan")}},
        {"weights": []},
        {"chance": {"intercept": 0.0, "slopes": [1.0]}},
        {"chance": {"intercept": float("inf"), "slopes": [1.0, 1.0, 1.0]}},
        {"accuracy": None},
        {"queries": "many"},
    ],
)
def test_damaged_weights_are_one_sentence(built: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    values = json.loads((built / tune.FILE).read_text())
    (tmp_path / tune.FILE).write_text(json.dumps(values | change))
    with pytest.raises(DamagedError, match=r"weights.json cannot be read .*; build it again"):
        Weights.load(tmp_path)


# --- probabilities -------------------------------------------------------------------------------------


def test_the_fit_finds_what_made_the_data() -> None:
    draw = np.random.default_rng(1)
    figures = np.column_stack([draw.normal(1, 0.3, 20_000), draw.exponential(0.2, 20_000), draw.random(20_000) < 0.5])
    true = Logistic(-4.0, (2.0, 9.0, 1.0))
    right = draw.random(20_000) < true.probability(figures)
    found = Logistic.fitted(figures, right)
    assert np.abs(found.probability(figures) - true.probability(figures)).max() < 0.06


def test_an_answer_like_its_label_is_as_sure_as_the_labels() -> None:
    figures = np.zeros((1000, 3))
    assert float(Logistic.fitted(figures, np.full(1000, True), 0.96).probability(np.zeros(3))) == pytest.approx(
        0.96, abs=0.002
    )


@pytest.mark.parametrize("right", [True, False])
def test_the_fit_stays_finite_when_all_are_alike(right: bool) -> None:
    found = Logistic.fitted(np.ones((10, 3)), np.full(10, right))
    assert np.isfinite([found.intercept, *found.slopes]).all()
    probability = float(found.probability(np.ones(3)))
    assert probability > 0.8 if right else probability < 0.2


# --- remembering ---------------------------------------------------------------------------------------


def test_remembered_names_have_the_encoders_vectors(tiny_encoder: Path) -> None:
    encoder = OnnxEncoder.load(tiny_encoder, threads=1)
    asked: list[Excerpt] = []

    class Counting:
        def mentions(self, mentions: Sequence[Excerpt], /) -> NDArray[np.float32]:
            asked.extend(mentions)
            return encoder.mentions(mentions)

    remembering = Remembering(Counting(), most=2)
    names = [Excerpt.bare(name) for name in ("cold", "fever", "pain", "cold")]
    for mentions in (names, [*names, *QUERIES], names[:1] * 3, []):
        found, expected = remembering.mentions(mentions), encoder.mentions(mentions)
        np.testing.assert_array_equal(found, expected)
    asked.clear()
    remembering.mentions(names[:1])  # the last that was met
    assert not asked
