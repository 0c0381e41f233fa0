"""Gradients: the same with and without a cache, in chunks of any size, on one process and on two."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import PartialState
from safetensors.torch import load_file

from kriss.cli import run
from kriss.encoder.model import Encoder
from kriss.train import run as loop
from kriss.train.batches import Sampler
from kriss.train.config import TrainConfig
from kriss.train.examples import TrainingSet
from kriss.train.gradients import backward
from tests.train_fixtures import arguments, one_thread, tiny_config, work_of, world

__all__ = ["one_thread"]


def gradients(config: TrainConfig) -> tuple[float, dict[str, torch.Tensor], torch.Tensor]:
    """Return the loss of the first batch, all gradients, and the random state after it."""
    here = world()
    examples = TrainingSet(here.ontology, here.mentions, config)
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout)
    encoder.train()
    torch.manual_seed(3)
    batch = Sampler(examples, config).batch(encoder.windows, 0)
    lengths = [len(ids) for ids in batch.mentions.ids]
    assert lengths != sorted(lengths, reverse=True)  # so that batches by length are not in the order of the batch
    loss = backward(encoder, batch, config, PartialState(cpu=True))
    found = {name: parameter.grad for name, parameter in encoder.named_parameters() if parameter.grad is not None}
    return loss, found, torch.get_rng_state()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dropout": 0.3},
        {"normalize": False, "pooling": "cls", "tau": 1.0, "pi": 1.0},
        {"beta": 0.0},
        {"alpha": 0.0},
    ],
    ids=str,
)
def test_caching_changes_no_gradient(tiny_model: Path, settings: dict[str, Any]) -> None:
    for chunk in (1, 3, 1000):  # dropout draws by chunk, so chunks must be alike to compare
        config = tiny_config(tiny_model, cache=False, chunk=chunk, **settings)
        expected_loss, expected, expected_state = gradients(config)
        loss, found, state = gradients(tiny_config(tiny_model, cache=True, chunk=chunk, **settings))
        assert loss == pytest.approx(expected_loss, rel=1e-6)
        assert found.keys() == expected.keys()
        assert any(name.startswith("reference") for name in found) == (settings.get("beta") != 0)
        assert sum(float(grad.abs().sum()) for grad in found.values()) > 0
        for name, grad in found.items():
            torch.testing.assert_close(grad, expected[name], rtol=1e-4, atol=1e-6, msg=name)
        assert torch.equal(state, expected_state)


def test_the_size_of_chunks_changes_no_gradient(tiny_model: Path) -> None:
    _, expected, _ = gradients(tiny_config(tiny_model, cache=False, chunk=1000))
    for chunk in (1, 3):
        _, found, _ = gradients(tiny_config(tiny_model, cache=True, chunk=chunk))
        for name, grad in found.items():
            torch.testing.assert_close(grad, expected[name], rtol=1e-4, atol=1e-6, msg=name)


def test_two_processes_train_as_one_does(tiny_model: Path, tmp_path: Path) -> None:
    settings = {"steps": 4, "save_every": 3, "cache": True}
    config, no_dev = tiny_config(tiny_model, **settings), world().no_dev
    assert run(arguments(config, tmp_path / "one", mentions=no_dev)) == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("kriss")), *arguments(config, tmp_path / "two", mentions=no_dev)]
    processes = []
    for rank in ("0", "1"):  # what torchrun sets, without the time it takes to start
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **place, **where}
        processes.append(subprocess.Popen(command, env=environment, stdout=PIPE, stderr=PIPE, text=True))
    (said, errors), (other_said, other_errors) = (process.communicate(timeout=300) for process in processes)
    assert [process.returncode for process in processes] == [0, 0], errors + other_errors
    assert "trained 4 steps" in said
    assert other_said == ""  # only one of the two speaks, and writes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "one.toml", "two", "two.toml"]
    assert run(["verify", str(tmp_path / "two")]) == 0
    start = load_file(tiny_model / "model.safetensors")
    for name in ("model.safetensors", "references/model.safetensors"):
        one, two = load_file(tmp_path / "one" / name), load_file(tmp_path / "two" / name)
        assert one.keys() == two.keys()
        for key, tensor in one.items():
            if key.endswith("key.bias"):  # softmax does not see it: its gradient is rounding, which Adam makes large
                continue
            torch.testing.assert_close(two[key], tensor, rtol=0, atol=1e-5, msg=key)
        assert any(not torch.equal(start[key], one[key]) for key in start if key in one and one[key].ndim == 1)


def test_a_batch_that_cannot_be_shared_is_one_sentence(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    several = SimpleNamespace(num_processes=3, process_index=0, is_main_process=True)
    monkeypatch.setattr(loop, "join_processes", lambda: several)
    assert run(arguments(tiny_config(tiny_model), tmp_path / "out")) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == ("kriss: error: 8 entities of a batch cannot be shared equally by 3 processes; take another 'batch'")
    assert not work_of(tmp_path / "out").exists()


def test_two_runs_in_one_process_may_differ_in_precision(tiny_model: Path, tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        config = tiny_config(tiny_model, precision=precision, steps=1, cache=precision == "bf16")
        assert run(arguments(config, tmp_path / precision)) == 0
