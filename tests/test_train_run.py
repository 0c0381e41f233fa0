"""Runs as a whole: they learn, can be repeated, and go on after a kill as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from kriss.artifacts import open_artifact
from kriss.cli import run
from kriss.config import changed
from kriss.encoder.model import Encoder
from kriss.records import Excerpt
from kriss.train import gradients
from kriss.train import log as logs
from kriss.train import run as loop
from kriss.train.config import MINI, PAPER, TrainConfig
from kriss.train.dev import DevSet
from kriss.train.log import Score
from kriss.train.loop import rate
from kriss.train.run import train
from tests.train_fixtures import arguments, one_thread, tiny_config, weights, work_of, world

__all__ = ["one_thread"]

ROUGH: dict[str, Any] = {"steps": 16, "batch": 8, "save_every": 4, "dropout": 0.2, "draw": "names", "cache": True,
                         "chunk": 3}  # fmt: skip


def trained(config: TrainConfig, out: Path, *more: str) -> tuple[bytes, bytes]:
    """Train without a dev set, so that the last weights are what is written."""
    assert run(arguments(config, out, *more, mentions=world().no_dev)) == 0
    return weights(out)


# --- repeated and interrupted ----------------------------------------------------------------------


def test_a_killed_run_goes_on_to_the_same_weights(tiny_model: Path, tmp_path: Path) -> None:
    config = tiny_config(tiny_model, **ROUGH)
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "kriss.cli", *arguments(config, out, mentions=world().no_dev)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 300
        while not (work_of(out) / "step-00000004").exists() and time.monotonic() < until:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    assert trained(config, out, "--resume") == trained(config, tmp_path / "unbroken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "killed.toml", "unbroken", "unbroken.toml"]


def test_a_seed_decides_the_weights(tiny_model: Path, tmp_path: Path) -> None:
    config = tiny_config(tiny_model, dropout=0.1, steps=3)
    once, again = trained(config, tmp_path / "once"), trained(config, tmp_path / "again")
    other = trained(replace(config, seed=1), tmp_path / "other")
    assert once == again
    assert once[0] != other[0]
    assert once[1] != other[1]
    assert once[0] != once[1]


def interrupted_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next run end with Ctrl-C after so many steps."""
    calls = []

    def backward(*given: Any) -> float:
        calls.append(1)
        if len(calls) > step:
            raise KeyboardInterrupt
        return gradients.backward(*given)

    monkeypatch.setattr(loop, "backward", backward)


def test_a_run_may_be_interrupted_at_any_step(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world()
    settings = {**ROUGH, "steps": 7, "save_every": 2, "dev_every": 3}
    config = tiny_config(tiny_model, **settings)
    whole = {
        folder: train(here.ontology, folder, tmp_path / folder.name, config) for folder in (here.mentions, here.no_dev)
    }
    cases = [(step, here.no_dev) for step in (1, 3, 4, 6)] + [(3, here.mentions)]
    for step, mentions in cases:
        out = tmp_path / f"{mentions.name}-{step}"
        with monkeypatch.context() as patch:
            interrupted_at(step, patch)
            with pytest.raises(KeyboardInterrupt):
                train(here.ontology, mentions, out, config)
        if step == 1:  # no checkpoint yet, so nothing stays behind
            assert not work_of(out).exists()
            continue
        with (work_of(out) / "log.jsonl").open("a") as lines:
            lines.write('{"step": 4, "dev": {"mas')  # a line that a kill cut short
        resumed, unbroken = train(here.ontology, mentions, out, config, resume=True), whole[mentions]
        assert weights(out) == weights(tmp_path / mentions.name)
        assert unbroken
        assert resumed == replace(unbroken, path=out)
        assert open_artifact(out).facts == open_artifact(tmp_path / mentions.name).facts
        if mentions == here.mentions:
            scores = [[e for e in logs.read_log(folder / "log.jsonl") if "dev" in e] for folder in (out, unbroken.path)]
            assert scores[0] == scores[1]
            assert [entry["step"] for entry in scores[0]] == [0, 3, 6, 7]


def test_the_best_weights_on_dev_are_kept(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, seen = [0.1, 0.5, 0.4, 0.5], []

    def score(self: DevSet, encoder: Encoder, *, references: bool) -> Score:
        seen.append({name: tensor.clone() for name, tensor in encoder.state_dict().items()})
        return Score(scores[len(seen) - 1], {"masked@1": scores[len(seen) - 1]})

    monkeypatch.setattr(DevSet, "score", score)
    here = world()
    report = train(here.ontology, here.mentions, tmp_path / "out", tiny_config(tiny_model, dev_every=2))
    assert len(seen) == 4
    assert report
    assert report.best_step == 2  # the first of two that are equal
    assert report.before == Score(0.1, {"masked@1": 0.1})
    assert report.after == Score(0.5, {"masked@1": 0.5})
    kept = load_file(tmp_path / "out" / "model.safetensors")
    for name, tensor in kept.items():
        assert torch.equal(tensor, seen[1][f"mention.backbone.{name}"])
    assert any(not torch.equal(tensor, seen[3][f"mention.backbone.{name}"]) for name, tensor in kept.items())
    assert open_artifact(tmp_path / "out").facts["best_step"] == 2


def test_without_dev_mentions_the_last_weights_are_kept(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tiny_config(tiny_model), tmp_path / "out")
    printed = capsys.readouterr()
    assert "no dev mentions: the last weights are kept" in printed.out
    facts = open_artifact(tmp_path / "out").facts
    assert (facts["steps"], facts["best_step"], facts["dev"]) == (6, 6, {})


# --- from end to end -------------------------------------------------------------------------------


def test_training_raises_the_dev_score(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"batch": 40, "steps": 50, "learning_rate": 3e-3, "mentions_per_entity": 8, "p_bare": 0.1}
    config = tiny_config(tiny_model, **settings, dev_every=25, save_every=25, chunk=40, name_only=0.1)
    out = tmp_path / "out"
    assert run(arguments(config, out)) == 0
    printed = capsys.readouterr()
    assert "dev before" in printed.out
    assert printed.err.count("dev masked@1") == 3
    facts = open_artifact(out, "encoder").facts
    before, after = facts["dev_before"], facts["dev"]
    assert after["masked@1"] + after["swapped@1"] > 2 * (before["masked@1"] + before["swapped@1"])
    assert after["masked@5"] > before["masked@5"] + 0.2
    assert facts["best_step"] > 0
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}
    assert list(losses) == [10, 20, 30, 40, 50]
    assert losses[50] < losses[10] - 0.5
    assert all(entry["sequences_per_second"] > 0 for entry in entries if "loss" in entry)
    assert_is_png(out / "curves.png")
    assert not work_of(out).exists()
    capsys.readouterr()
    folders = [str(world().ontology.artifact.path), str(world().mentions)]
    assert run(["train", "score", str(out), *folders, "--queries", "40", "--entities", "60"]) == 0
    scored = capsys.readouterr().out
    for kind in ("masked", "swapped"):
        line = next(line for line in scored.splitlines() if kind in line)
        assert f"top-1 {after[f'{kind}@1']:.3f}  top-5 {after[f'{kind}@5']:.3f}" in line
    assert run(["train", "score", str(out), *folders, "--queries", "40", "--entities", "60", "--untrained"]) == 0
    assert f"top-1 {before['masked@1']:.3f}" in capsys.readouterr().out
    assert run(["verify", str(out)]) == 0
    assert Encoder.load(out).mentions([Excerpt("a ", "gastritis", " of")]).shape == (1, 32)


def assert_is_png(path: Path) -> None:
    from matplotlib.image import imread

    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(path)
    assert pixels.shape[0] > 300
    assert pixels.shape[1] > 800
    assert pixels.std() > 0


# --- settings --------------------------------------------------------------------------------------


def test_the_paper_preset_is_section_4_2() -> None:
    """A window of 64 tokens, three mentions an entity, PubMedBERT, Adam, batch 512, and so on."""
    config = TrainConfig.presets["paper"]
    assert config == PAPER == TrainConfig()
    assert "BiomedBERT-base-uncased-abstract" in config.model  # PubMedBERT's present name
    assert (config.window, config.mentions_per_entity, config.batch) == (64, 3, 512)
    assert (config.learning_rate, config.dropout, config.weight_decay) == (1e-5, 0.1, 0.0)  # AdamW of decay 0 is Adam
    assert (config.p_mask, config.p_replace) == (0.2, 0.2)
    assert (config.tau, config.pi, config.alpha, config.beta) == (1.0, 1.0, 0.5, 0.5)
    assert (config.pooling, config.normalize, config.draw) == ("cls", False, "entities")
    assert config.fields == ("tree", "type", "names", "definition")
    assert (config.p_bare, config.name_only) == (0.0, 0.0)  # not in the paper


def test_epochs_are_what_they_say(tiny_model: Path, tmp_path: Path) -> None:
    assert changed(MINI, {"epochs": 2}, "test").steps == 0  # and not the steps of the preset
    assert changed(MINI, {"epochs": 2, "steps": 9}, "test").steps == 9
    here = world()
    config = tiny_config(tiny_model, steps=0, epochs=1.5, name_only=0.25)
    report = train(here.ontology, here.mentions, tmp_path / "out", config)
    assert report
    per_step = 2 * (config.batch // 2 - round(config.batch // 2 * 0.25))
    assert (report.steps - 1) * per_step < 1.5 * report.mentions <= report.steps * per_step


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0.1), (15, 0.1), (7, 0.0), (9, 1.0), (1, 0.5), (100, 0.33)])
def test_the_learning_rate_rises_then_falls(steps: int, warmup: float) -> None:
    rates = [rate(step, steps, warmup) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    top = rates.index(max(rates))
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert top <= warmup * steps + 1
    if not warmup:
        assert rates[0] == 1
