"""A state of training to go on from: whole or absent, checked when read, and never a pickle.

    step-000250/
      weights.safetensors      both encoders
      optimizer.safetensors    the moments of AdamW, random states, neighbours
      state.json               step, best score, settings, digests of the two files
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from kriss.artifacts import file_digest
from kriss.errors import ConfigError, DamagedError, KrissError

_KEPT = 2
_WEIGHTS, _OPTIMIZER, _STATE = "weights.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """What a checkpoint says beside tensors."""

    step: int
    best: float
    best_step: int
    config: Mapping[str, Any]


def save(
    work: Path, state: State, weights: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, extra: Mapping[str, Tensor]
) -> Path:
    """Write a checkpoint, then remove all but the newest two."""
    target = work / f"step-{state.step:08d}"
    draft = work / f".{target.name}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    write_tensors(draft / _WEIGHTS, weights)
    write_tensors(draft / _OPTIMIZER, {**_moments(optimizer), **extra})
    content = {
        "step": state.step,
        "best": state.best,
        "best_step": state.best_step,
        "config": dict(state.config),
        "sha256": {name: file_digest(draft / name) for name in (_WEIGHTS, _OPTIMIZER)},
    }
    (draft / _STATE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for name in (_WEIGHTS, _OPTIMIZER, _STATE):
        with (draft / name).open("rb") as stream:
            os.fsync(stream.fileno())
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)
    for old in _all(work)[:-_KEPT]:
        shutil.rmtree(old)
    return target


def newest(work: Path) -> Path | None:
    """Return the last checkpoint of an interrupted run."""
    found = _all(work)
    return found[-1] if found else None


def read(folder: Path, config: Mapping[str, Any]) -> tuple[State, dict[str, Tensor], dict[str, Tensor]]:
    """Read a checkpoint: its state, the weights, and the tensors of the optimizer with what was added to them."""
    earlier = [other.name for other in _all(folder.parent) if other.name < folder.name]
    advice = f"remove it to go on from {earlier[-1]}" if earlier else "start anew with --force"
    try:
        content = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        state = State(int(content["step"]), float(content["best"]), int(content["best_step"]), content["config"])
        for name, digest in content["sha256"].items():
            if file_digest(folder / name) != digest:
                raise DamagedError(f"the checkpoint {folder} is damaged ({name} is not what was written); {advice}")
        weights, rest = load_file(folder / _WEIGHTS), load_file(folder / _OPTIMIZER)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise DamagedError(f"the checkpoint {folder} cannot be read ({error}); {advice}") from None
    for key, value in config.items():
        if state.config.get(key) != value:
            raise ConfigError(
                f"the training in {folder.parent} began with {key} = {state.config.get(key)!r}, not {value!r}; "
                "give the same settings, or start anew with --force"
            )
    return state, weights, rest


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file; a full disk is an error of one sentence."""
    try:
        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, path)
    except (SafetensorError, OSError) as error:
        raise KrissError(f"{path} cannot be written ({error}); is the disk full?") from None


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the optimizer where it was."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        found = {
            key.split("/")[2]: tensor for key, tensor in tensors.items() if key.startswith(f"moments/{number}/")
        }
        if found:
            optimizer.state[parameter] = {
                key: tensor if key == "step" else tensor.to(parameter.device) for key, tensor in found.items()
            }


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {
        f"moments/{number}/{key}": tensor
        for number, parameter in enumerate(parameters)
        for key, tensor in optimizer.state.get(parameter, {}).items()
    }


def _all(work: Path) -> list[Path]:
    return sorted(work.glob("step-*"))
