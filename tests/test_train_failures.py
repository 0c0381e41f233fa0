"""Whatever can go wrong with a training: one sentence, status 1, and what was there before is there still."""

from __future__ import annotations

import errno
import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from safetensors import SafetensorError

from kriss.cli import run
from kriss.encoder.model import Encoder
from kriss.train import checkpoint, gradients
from kriss.train import run as loop
from kriss.train.config import TrainConfig
from tests.conftest import build, contents, write_jsonl
from tests.train_fixtures import arguments, one_thread, tiny_config, weights, work_of, world

__all__ = ["one_thread"]

Fails = Callable[..., str]


@pytest.fixture
def train_fails(capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run a command that must fail with one line, and leave all files beside `out` as they were."""

    def check(words: list[str], *, leaves: bool = False) -> str:
        out = Path(words[words.index("--out") + 1])
        before = contents(out.parent)
        folders = sorted(out.parent.rglob("*"))
        capsys.readouterr()
        status = run(words)
        printed = capsys.readouterr()
        assert status == 1, printed
        assert printed.out == ""
        lines = [line for line in printed.err.splitlines() if not line.startswith("step ")]
        assert len(lines) == 1, printed.err
        assert lines[0].startswith("kriss: error: ")
        if not leaves:
            assert contents(out.parent) == before
            assert sorted(out.parent.rglob("*")) == folders
        return lines[0].removeprefix("kriss: error: ")

    return check


@pytest.fixture
def config(tiny_model: Path) -> TrainConfig:
    return tiny_config(tiny_model, batch=8)


def interrupt(config: TrainConfig, out: Path, monkeypatch: pytest.MonkeyPatch, after: int = 5) -> Path:
    """Interrupt a training after some steps and return the folder that it leaves."""
    calls: list[int] = []

    def backward(*given: Any) -> float:
        calls.append(1)
        return gradients.backward(*given) if len(calls) <= after else float("nan")

    with monkeypatch.context() as patch:
        patch.setattr(loop, "backward", backward)
        assert run(arguments(config, out)) == 1
    assert sorted(path.name for path in work_of(out).glob("step-*")) == ["step-00000002", "step-00000004"]
    return work_of(out)


# --- inputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["no-such/model", "/no/such/folder", "nonsense"])
def test_a_wrong_model(config: TrainConfig, tmp_path: Path, train_fails: Fails, model: str) -> None:
    line = train_fails(arguments(replace(config, model=model), tmp_path / "out"))
    assert line.startswith(f"no usable model '{model}': give 'minilm', a folder, or a name on the hub")


def test_a_failed_start_keeps_what_was_trained_before(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even with --force: a typing error must not cost a night's work."""
    out = tmp_path / "out"
    interrupt(config, out, monkeypatch)
    words = arguments(config, out, "--force", "--model", "no-such/model")
    assert "no usable model" in train_fails(words)
    assert run(arguments(config, out, "--resume")) == 0


def test_mentions_of_another_ontology(config: TrainConfig, tmp_path: Path, train_fails: Fails) -> None:
    other = build(tmp_path / "other", "jsonl", write_jsonl(tmp_path / "o.jsonl", {"id": "Y:1", "name": "gastritis"}))
    words = arguments(config, tmp_path / "out")
    words[1] = str(other.artifact.path)
    line = train_fails(words)
    assert line == f"{world().mentions} was not mined with the ontology {tmp_path / 'other'}; mine it again"


def test_folders_the_wrong_way_round(config: TrainConfig, tmp_path: Path, train_fails: Fails) -> None:
    ontology, mentions = world().ontology.artifact.path, world().mentions
    words = arguments(config, tmp_path / "out")
    swapped = [words[0], words[2], words[1], *words[3:]]
    assert train_fails(swapped) == f"{mentions} holds mentions; this command needs an ontology"
    words[2] = str(ontology)
    assert train_fails(words) == f"{ontology} holds an ontology; this command needs mentions"
    words[2] = str(tmp_path / "nothing")
    assert train_fails(words) == f"{tmp_path / 'nothing'} does not exist"


@pytest.mark.parametrize(
    ("text", "share", "entities"),
    [("nothing of note", "1", 0), ("there was gastremia with it", "1", 1), ("gastrosis, and gastremia", "0", 0)],
    ids=["no mention", "one entity", "no train split"],
)
def test_too_few_mentions(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, text: str, share: str, entities: int
) -> None:
    write_jsonl(tmp_path / "text.jsonl", {"id": "1", "text": text})
    mined = tmp_path / "mined"
    source = [str(world().ontology.artifact.path), str(tmp_path / "text.jsonl")]
    assert run(["mine", *source, "--out", str(mined), "--train", share, "--dev", "0"]) == 0
    line = train_fails(arguments(config, tmp_path / "out", mentions=mined))
    assert line == f"{mined} has training mentions of {entities} entities, and at least 2 are needed: mine more text"


def test_fewer_entities_than_a_batch_wants_is_said(
    config: TrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments(replace(config, batch=512, steps=1, name_only=0.0), tmp_path / "out")) == 0
    assert "only 27 entities to draw from: a batch has 54 mentions, not 512" in capsys.readouterr().err.splitlines()


# --- checkpoints -------------------------------------------------------------------------------------


def test_an_interrupted_training_is_neither_lost_nor_taken_up_unasked(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    nothing = train_fails(arguments(config, out, "--resume"), leaves=True)
    assert nothing == f"there is no training to resume: {work_of(out)} does not exist; leave out --resume"
    work = interrupt(config, out, monkeypatch)
    line = train_fails(arguments(config, out))
    assert line == f"an interrupted training stands in {work}: --resume goes on with it, --force starts anew"
    assert run(arguments(config, out, "--force")) == 0
    assert not work.exists()
    line = train_fails(arguments(config, out))
    assert line == f"{out} exists; give --force to replace it, or another --out"
    assert run(arguments(replace(config, seed=1), out, "--force")) == 0


def test_a_run_killed_before_its_first_checkpoint(config: TrainConfig, tmp_path: Path, train_fails: Fails) -> None:
    out = tmp_path / "out"
    work_of(out).mkdir()
    (work_of(out) / "log.jsonl").write_text("")
    arguments(config, out)
    line = train_fails(arguments(config, out))
    assert line == (f"an interrupted training stands in {work_of(out)}: --resume goes on with it, --force starts anew")
    assert run(arguments(config, out, "--resume")) == 0  # from the first step


def test_damaged_checkpoints(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    work = interrupt(config, out, monkeypatch)
    newest, words = work / "step-00000004", arguments(config, out, "--resume")

    def flip(data: bytes) -> bytes:
        return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]

    def change(data: bytes, key: str, value: object) -> bytes:
        content = json.loads(data)
        content["facts"][key] = value
        return json.dumps(content).encode()

    damages: list[tuple[str, Callable[[bytes], bytes]]] = [
        ("weights.safetensors", flip),
        ("optimizer.safetensors", flip),
        ("weights.safetensors", lambda data: data[:-100]),
        ("manifest.json", lambda data: data[: len(data) // 2]),
        ("manifest.json", lambda data: b""),
        ("manifest.json", lambda data: b"[]"),
        ("manifest.json", lambda data: change(data, "state", 5)),
        ("manifest.json", lambda data: change(data, "inputs", 5)),
        ("manifest.json", lambda data: b"\xff\xfe"),
    ]
    for name, damage in damages:
        whole = (newest / name).read_bytes()
        (newest / name).write_bytes(damage(whole))
        line = train_fails(words)
        assert line.startswith(f"the checkpoint {newest} ")
        assert line.endswith("; remove it to go on from step-00000002")
        (newest / name).write_bytes(whole)
    (newest / "weights.safetensors").unlink()
    assert "remove it to go on from step-00000002" in train_fails(words)
    shutil.rmtree(newest)  # as advised
    older = work / "step-00000002" / "manifest.json"
    whole = older.read_bytes()
    older.write_text("{")
    assert train_fails(words).endswith("; start anew with --force")
    older.write_bytes(whole)
    assert run(words) == 0
    assert run(arguments(config, tmp_path / "unbroken")) == 0
    assert weights(out) == weights(tmp_path / "unbroken")


def test_best_weights_that_are_gone(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    work = interrupt(config, out, monkeypatch)
    manifest = work / "step-00000004" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["facts"]["state"] |= {"best_step": 3, "best": 1.0}
    manifest.write_text(json.dumps(content))
    (work / "best.safetensors").write_bytes(b"half")
    line = train_fails(arguments(config, out, "--resume"), leaves=True)
    assert line.startswith(f"{work / 'best.safetensors'} cannot be read")
    (work / "best.safetensors").unlink()
    assert "best.safetensors is missing" in train_fails(arguments(config, out, "--resume"))


def test_resuming_with_other_settings_or_inputs(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    out = tmp_path / "out"
    work = interrupt(config, out, monkeypatch)
    line = train_fails(arguments(config, out, "--resume", "--tau", "0.5"))
    assert line == (
        f"the training in {work} began with tau = 0.05, not 0.5; give the same settings, or start anew with --force"
    )
    line = train_fails(arguments(config, out, "--resume", mentions=world().no_dev))
    assert line.startswith(f"the training in {work} did not begin with the same mentions")
    start = loop._Run._start

    def as_one_of_two(self: Any, begun: Path | None) -> None:
        self.inputs = {**self.inputs, "number of processes": 2}
        start(self, begun)

    monkeypatch.setattr(loop._Run, "_start", as_one_of_two)
    assert "did not begin with the same number of processes" in train_fails(arguments(config, out, "--resume"))


# --- on the way --------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    wild = replace(config, learning_rate=1e30, normalize=False, warmup=0.0, save_every=100)
    line = train_fails(arguments(wild, out))  # nothing is left where there was nothing
    assert line.endswith(": lower the learning rate; no checkpoint was written yet")
    assert line.startswith(("the loss is nan at step ", "the loss is inf at step ", "the gradient has length "))
    calls: list[int] = []

    def backward(encoder: Encoder, *given: Any) -> float:
        calls.append(1)
        loss = gradients.backward(encoder, *given)
        if len(calls) == 6:  # the loss is finite, its gradient is not
            next(encoder.parameters()).grad.fill_(float("inf"))  # type: ignore[union-attr]
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(loop, "backward", backward)
        line = train_fails(arguments(config, out), leaves=True)
    last = work_of(out) / "step-00000004"
    assert line.startswith("the gradient has length ")
    assert line.endswith(f" at step 6: lower the learning rate; the last good checkpoint is {last}")
    assert run(arguments(config, out, "--resume")) == 0
    assert run(arguments(config, tmp_path / "unbroken")) == 0
    assert weights(out) == weights(tmp_path / "unbroken")


FULL = [
    OSError(errno.ENOSPC, "No space left on device"),
    SafetensorError("I/O error: No space left on device (os error 28)"),
]


@pytest.mark.parametrize(
    ("failing", "error"),
    list(enumerate(FULL * 2, start=1)),
    ids=["best", "weights", "optimizer", "second checkpoint"],
)
def test_a_full_disk(
    config: TrainConfig,
    tmp_path: Path,
    train_fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    failing: int,
) -> None:
    out, calls = tmp_path / "out", list[int]()

    def save_file(tensors: dict[str, Any], path: Path) -> None:
        calls.append(1)
        if len(calls) >= failing:
            path.write_bytes(b"half")
            raise error
        safetensors.torch.save_file(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", save_file)
    line = train_fails(arguments(replace(config, steps=4, dev_every=100), out), leaves=failing == 4)
    assert "cannot be written" in line
    assert line.endswith("; is the disk full?")
    assert "No space left" in line
    assert not out.exists()
    if failing == 4:
        left = sorted(path.name for path in work_of(out).iterdir())
        assert left == ["best.safetensors", "log.jsonl", "step-00000002"]


def test_a_disk_that_is_full_at_the_end(
    config: TrainConfig, tmp_path: Path, train_fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trained is not lost: --resume writes it."""
    out = tmp_path / "out"
    short = replace(config, steps=3, save_every=100)

    def save(self: Encoder, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise FULL[1]

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "save", save)
        line = train_fails(arguments(short, out), leaves=True)
    assert line.startswith(f"{out} cannot be written (")
    assert line.endswith("; is the disk full? --resume writes it without training again")
    assert not out.exists()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "backward", None)  # there is nothing left to train
        assert run(arguments(short, out, "--resume")) == 0
    assert run(arguments(short, tmp_path / "unbroken")) == 0
    assert weights(out) == weights(tmp_path / "unbroken")


@pytest.mark.parametrize(("package", "command"), [("torch", "run"), ("accelerate", "score"), ("matplotlib", "run")])
def test_a_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str, command: str
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == package else real(name, *more))
    out = ["--out", str(tmp_path / "out")] if command == "run" else ["x"]
    assert run(["train", command, "x", "y", *out]) == 1
    line = capsys.readouterr().err
    assert line == f"kriss: error: training needs the package '{package}': pip install 'kriss[train]'\n"


# --- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("draw=very", "kriss train: 'draw' must be one of entities, names, not 'very'"),
        ("chunk=0", "'chunk' must be more than 0, not 0"),
        ("tau=-1", "'tau' must be more than 0, not -1.0"),
        ("p_bare=1.5", "'p_bare' is a number from 0 to 1, not 1.5"),
        ("p_mask=0.9", "'p_mask' and 'p_replace' are at most 1 together"),
        ("batch=7", "'batch' is 2N, an even number of at least 4 mentions, not 7"),
        ("batch=2", "'batch' is 2N, an even number of at least 4 mentions, not 2"),
        ("name_only=1", "'name_only' leaves no entity with mentions; take less than 1"),
        ("epochs=inf", "'epochs' must be a number, not inf"),
        ("seed=-1", "'seed' is a number from 0 to 4294967295, not -1"),
        ("window=3", "a window of 3 tokens has no room for a mention"),
        ("window=1000", "' reads at most 128 tokens, and a sequence may have"),
    ],
    ids=lambda value: value if "=" in value else "",
)
def test_bad_settings(tiny_model: Path, tmp_path: Path, train_fails: Fails, setting: str, message: str) -> None:
    words = arguments(tiny_config(tiny_model), tmp_path / "out", f"--{setting.replace('_', '-')}")
    assert message in train_fails(words)


def test_a_bad_file_of_settings_and_a_bad_preset(tmp_path: Path, train_fails: Fails) -> None:
    file = tmp_path / "settings.toml"
    words = ["train", "x", "y", "--out", str(tmp_path / "out")]
    file.write_text("learning_rat = 1\n")
    line = train_fails([*words, "--config", str(file)])
    assert line == f"{file}: unknown key 'learning_rat'; did you mean 'learning_rate'?"
    file.write_text('tau = "warm"\n')
    assert train_fails([*words, "--config", str(file)]) == f"{file}: 'tau' must be a number, not 'warm'"
    file.write_text("fields = []\n")
    assert "'fields' is empty" in train_fails([*words, "--config", str(file)])
    file.write_text("tau = \n")
    assert train_fails([*words, "--config", str(file)]).startswith(f"{file}: not valid TOML: ")
    assert train_fails([*words, "--config", str(tmp_path / "none")]) == f"{tmp_path / 'none'}: no such file"
    assert train_fails([*words, "--epochs", "0"]) == "'steps' or 'epochs' must be more than 0"
    assert train_fails([*words, "--preset", "large"]) == "--preset is one of mini, paper, not 'large'"


def test_scoring_what_is_no_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ontology, mentions = str(world().ontology.artifact.path), str(world().mentions)
    assert run(["train", "score", ontology, ontology, mentions]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"kriss: error: {ontology} holds an ontology; this command needs an encoder"
