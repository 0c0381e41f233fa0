"""Training a re-ranker as a whole: it learns, can be repeated, and goes on as if nothing had been."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kriss.artifacts import open_artifact, verify
from kriss.cli import run
from kriss.encoder.pairs import Option
from kriss.encoder.windows import Sequences
from kriss.errors import ConfigError, DamagedError, ExistsError, InputError, KrissError, WrongKindError
from kriss.link.linker import Linker
from kriss.rank.rerank import made_for
from kriss.rank.tune import Case
from kriss.records import Document, Excerpt, Span
from kriss.rerank import run as loop
from kriss.rerank.config import RerankConfig
from kriss.rerank.examples import Example, ExampleMaker, digest_of, labeled_by_hand
from kriss.rerank.model import CrossEncoder
from kriss.rerank.run import score, train_reranker
from kriss.train.log import Score, read_log
from tests.train_fixtures import one_thread, work_of, world

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    return Linker.load(built, threads=1)


def quick(
    model: CrossEncoder, linker: Linker, cases: list[Case], dev: list[Example], config: RerankConfig, folder: Path
) -> dict[str, Any]:
    """Stand in for what makes trained weights usable, for tracing takes seconds; tests/test_rerank_use.py has that."""
    assert cases
    (folder / "weights.json").write_text("{}")
    return {"tuning": {"mentions": len(cases)}}


def state_of(settings: RerankConfig, linker: Linker, work: Path, gold: Sequence[Case] = ()) -> loop._Run:
    """Return a run before its first step."""
    splits = loop._Splits.read(settings, linker, world().mentions, gold)
    examples, dev = (ExampleMaker(linker, settings, training=split is splits.train)(split)
                     for split in (splits.train, splits.dev))  # fmt: skip
    torch.manual_seed(0)
    model = CrossEncoder.from_pretrained(settings.model, settings.pair(), dropout=settings.dropout)
    return loop._Run(settings, linker, examples, dev, model, work, {}, lambda event: None)


def config(model: Path, **settings: Any) -> RerankConfig:
    """Return settings for runs of a second."""
    small = RerankConfig(
        model=str(model), window=24, reference_window=24, prototype_window=16, candidates=4, batch=6, chunk=2, steps=7,
        learning_rate=1e-3, dropout=0.1, dev_queries=30, dev_every=3, save_every=2,
    )  # fmt: skip
    return replace(small, **settings)


def interrupted_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next run end with Ctrl-C after so many steps."""
    calls = []
    backward = loop._Run.backward

    def stopping(self: Any, batch: list[int]) -> tuple[float, int]:
        calls.append(1)
        if len(calls) > step:
            raise KeyboardInterrupt
        return backward(self, batch)

    monkeypatch.setattr(loop._Run, "backward", stopping)


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def test_a_run_goes_on_from_any_step_to_the_same_bytes(
    tiny_model: Path, linker: Linker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, settings = world(), config(tiny_model)
    monkeypatch.setattr(loop, "make_usable", quick)
    whole = {
        folder: train_reranker(settings, linker, folder, tmp_path / folder.name)
        for folder in (here.mentions, here.no_dev)
    }
    for step, mentions in [(step, here.no_dev) for step in (1, 3, 6)] + [(3, here.mentions)]:
        out, unbroken = tmp_path / f"{mentions.name}-{step}", whole[mentions]
        with monkeypatch.context() as patch:
            interrupted_at(step, patch)
            with pytest.raises(KeyboardInterrupt):
                train_reranker(settings, linker, mentions, out)
        assert not out.exists()
        if step == 1:  # no checkpoint yet, so nothing stays behind
            assert not work_of(out).exists()
            continue
        resumed = train_reranker(settings, linker, mentions, out, resume=True)
        assert weights(out) == weights(unbroken.path)
        assert resumed == replace(unbroken, path=out)
        assert open_artifact(out).facts == open_artifact(unbroken.path).facts
        assert not work_of(out).exists()
    assert whole[here.no_dev].best_step == 7
    scores = [entry for entry in read_log(tmp_path / "mentions-3" / "log.jsonl") if "dev" in entry]
    assert [entry["step"] for entry in scores] == [0, 3, 6, 7]


def test_a_seed_decides_the_weights(
    tiny_model: Path, linker: Linker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "make_usable", quick)
    no_dev, settings = no_dev_of(linker), config(tiny_model, steps=2)
    for name, seed in (("once", 0), ("again", 0), ("other", 1)):
        report = train_reranker(replace(settings, seed=seed), linker, no_dev, tmp_path / name)
        assert (report.before is None) == (report.after is None)
    assert weights(tmp_path / "once") == weights(tmp_path / "again") != weights(tmp_path / "other")


def no_dev_of(linker: Linker) -> Path:
    """Return mentions without a dev split: the linker takes them, for they are of its ontology."""
    assert linker.ontology.artifact.digest == world().ontology.artifact.digest
    return world().no_dev


def test_a_trained_model_beats_the_untrained_one(
    tiny_model: Path, linker: Linker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "make_usable", quick)
    settings = config(
        tiny_model, steps=50, batch=16, chunk=16, learning_rate=3e-3, dropout=0.0, dev_every=25, dev_queries=60,
        mentions_per_entity=9, shown="reference", p_same_prototype=1.0, p_same_name=1.0, p_mask=0.0,
    )  # fmt: skip
    report = train_reranker(settings, linker, world().mentions, tmp_path / "out")
    assert report.before
    assert report.after
    before, after = report.before.figures, report.after.figures
    assert after["reranked@1"] > before["reranked@1"] + 0.2
    assert after["reranked@1"] <= after["recall@4"] == before["recall@4"]
    artifact = verify(tmp_path / "out")
    assert artifact.kind == "reranker"
    assert artifact.facts["ontology"] == linker.ontology.artifact.digest == made_for(linker.artifact)["ontology"]
    assert artifact.facts["dev"] == after
    assert artifact.inputs[0]["sha256"] == linker.artifact.digest
    losses = [entry["loss"] for entry in read_log(tmp_path / "out" / "log.jsonl") if "loss" in entry]
    assert losses[-1] < losses[0] <= np.log(4) + 0.5
    assert (tmp_path / "out" / "curves.png").stat().st_size > 1000
    assert CrossEncoder.load(tmp_path / "out").pairs.config == settings.pair()


def test_the_loss_and_gradients_do_not_depend_on_the_chunk(tiny_model: Path, linker: Linker, tmp_path: Path) -> None:
    """By hand, too: the mean of the losses of single mentions."""
    found = []
    for chunk in (1, 4, 6):
        settings = config(tiny_model, chunk=chunk, dropout=0.0, candidates=5)
        state = state_of(settings, linker, tmp_path)
        model = state.cross
        places = next(state.batches())
        losses = []
        for example in (state.examples[place] for place in places):
            scores = model.scores(model.pairs([example.mention], [example.options(linker)])).astype(np.float64)
            losses.append(np.log(np.exp(scores).sum()) - scores[example.gold])
        loss, pairs = state.backward(places)
        assert loss == pytest.approx(np.mean(losses), abs=1e-5)
        assert (len(places), pairs) == (6, 30)
        found.append({name: one.grad for name, one in model.named_parameters() if one.grad is not None})
    for other in found[1:]:
        for name, tensor in found[0].items():
            torch.testing.assert_close(other[name], tensor, atol=1e-5, rtol=1e-4)


def test_every_example_comes_once_a_round(tiny_model: Path, linker: Linker, tmp_path: Path) -> None:
    settings = config(tiny_model, steps=0, epochs=2.0, batch=7)
    state = state_of(settings, linker, tmp_path)
    count = len(state.examples)
    whole = count // 7
    assert state.steps == int(np.ceil(2 * count / 7))
    drawn: list[list[int]] = []
    for places in state.batches():
        drawn.append(places)
        state.step += 1
    rounds = [[place for places in drawn[n * whole : (n + 1) * whole] for place in places] for n in (0, 1)]
    assert len(set(rounds[0])) == len(set(rounds[1])) == 7 * whole
    assert rounds[0] != rounds[1]


class Fixed:
    """A model that gives the scores it was given."""

    def __init__(self, *scores: float) -> None:
        self._scores = scores

    def pairs(self, mentions: list[Excerpt], options: list[list[Option]]) -> Sequences:
        return Sequences([[0] for some in options for _ in some], [], 0)

    def scores(self, pairs: Sequences) -> Any:
        assert len(pairs) == len(self._scores)
        return np.array(self._scores, dtype=np.float32)


def test_dev_scores_by_hand(linker: Linker) -> None:
    seen = tuple((int(linker.prototypes.entity[row]), row) for row in (0, 60, 120))
    assert len({entity for entity, _ in seen}) == 3
    mention = Excerpt("left ", "name", " right")
    examples = [
        Example(replace(mention, masked=masked), seen[:count], gold)
        for masked, count, gold in ((False, 3, 0), (True, 2, 1), (True, 3, 2), (False, 2, -1), (False, 2, 0))
    ]
    scores = [0.3, 0.2, 0.1, *(0.0, 0.5), *(0.4, 0.1, 0.4), *(1.0, 0.0), *(float("nan"), 0.0)]
    found = score(Fixed(*scores), linker, examples, 3)  # type: ignore[arg-type]
    assert found == Score(0.4, {"reranked@1": 0.4, "masked@1": 0.5, "linker@1": 0.4, "recall@3": 0.8})


def test_what_is_refused(
    tiny_model: Path, linker: Linker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clinic: Path
) -> None:
    here, out, settings = world(), tmp_path / "out", config(tiny_model)
    monkeypatch.setattr(loop, "make_usable", quick)
    with pytest.raises(ConfigError, match="no training to resume"):
        train_reranker(settings, linker, here.mentions, out, resume=True)
    with pytest.raises(WrongKindError):
        train_reranker(settings, linker, here.ontology.artifact.path, out)
    with pytest.raises(KrissError, match="was not mined with the ontology"):
        train_reranker(settings, Linker.load(clinic, threads=1), here.mentions, out)
    with pytest.raises(InputError, match="has another name to be found by"):
        train_reranker(settings, Linker.load(clinic, threads=1), clinic.parent / "mentions", out)
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        interrupted_at(3, patch)
        with pytest.raises(KeyboardInterrupt):
            train_reranker(settings, linker, here.mentions, out)
    with pytest.raises(ExistsError, match="--resume goes on with it"):
        train_reranker(settings, linker, here.mentions, out)
    for changed, said in (({"candidates": 3}, "candidates = 4, not 3"), ({"clip": 2.0}, "clip = 1.0, not 2.0")):
        with pytest.raises(ConfigError, match=said):
            train_reranker(replace(settings, **changed), linker, here.mentions, out, resume=True)
    with pytest.raises(ConfigError, match="mentions"):
        train_reranker(settings, linker, here.no_dev, out, resume=True)
    [checkpoint] = work_of(out).glob("step-*")
    (checkpoint / "weights.safetensors").write_bytes(b"")
    with pytest.raises(DamagedError, match="cannot be read"):
        train_reranker(settings, linker, here.mentions, out, resume=True)
    assert train_reranker(settings, linker, here.mentions, out, force=True).path == out
    with pytest.raises(KrissError, match="lower the learning rate"):
        train_reranker(replace(settings, learning_rate=1e30), linker, here.mentions, out, force=True)
    assert verify(out)


def test_the_command(tiny_model: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["rerank", "train", str(built), str(world().mentions), "--out", str(out), "--model", str(tiny_model)]
    small = ["--window=24", "--candidates=3", "--batch=4", "--dev-queries=10", "--shown=prototype"]
    assert run([*words, *small, "--steps", "2", "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert f"{out}: trained 2 steps on 8 mentions" in printed
    assert "dev before reranked@1 " in printed
    assert "recall@3" in printed
    assert f"kriss rerank attach {built} {out}" in printed
    assert open_artifact(out, "reranker").config["shown"] == "prototype"
    assert run([*words, "--candidates", "1"]) == 1
    assert "'candidates' must be at least 2, not 1" in capsys.readouterr().err
    assert run([*words, *small]) == 1
    assert "--force" in capsys.readouterr().err


def test_labeled_mentions_come_first(tiny_model: Path, linker: Linker, tmp_path: Path) -> None:
    names = [linker.ontology.name_at(row) for row in range(6)]
    text = " and ".join(names)
    places = [(text.index(name), text.index(name) + len(name)) for name in names]
    ids: list[tuple[str, ...]] = [(linker.ontology.id_at(row),) for row in range(6)]
    ids[4], ids[5] = ("X:404",), (*ids[5], *ids[0])  # one that nobody knows, and one of two
    spans = tuple(Span(start, end, some) for (start, end), some in zip(places, ids, strict=True))
    gold = labeled_by_hand([Document("paper", text, spans)], linker)
    assert [(one.entity, one.document, one.excerpt.surface) for one in gold] == [
        (row, "paper", names[row]) for row in range(4)
    ]
    splits = loop._Splits.read(config(tiny_model, steps=2, batch=6), linker, world().mentions, gold)
    assert sorted(one.entity for one in splits.train[:4]) == [0, 1, 2, 3]
    assert [one.document for one in splits.train].count("paper") == 4
    assert len(splits.train) == 12
    assert digest_of(gold) != digest_of(gold[:3])


def test_labels_are_asked_for_by_the_command(
    tiny_model: Path, built: Path, linker: Linker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gold.jsonl"
    words = ["rerank", "train", str(built), str(world().mentions), "--out", str(tmp_path / "out")]
    words += ["--model", str(tiny_model), "--threads", "1", "--gold", str(file)]
    row = {"id": "1", "text": "some text", "mentions": [{"start": 0, "end": 4, "entity": "X:404"}]}
    file.write_text(json.dumps(row) + "\n")
    assert run(words) == 1
    assert "no mention of an entity that" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
