"""A state of training to go on from: whole or absent, checked when read, and never a pickle.

best.safetensors           the weights that were best on dev so far
step-00000250/
  weights.safetensors      both encoders
  optimizer.safetensors    the moments of AdamW, random states, neighbours
  state.json               step, best score, settings, digests of the two files and of the inputs
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
_WEIGHTS, _OPTIMIZER, _STATE, _BEST = "weights.safetensors", "optimizer.safetensors", "state.json", "best.safetensors"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)


@dataclass(frozen=True, slots=True)
class State:
    """What a checkpoint says beside tensors."""

    step: int
    best: float
    best_step: int
    config: Mapping[str, Any]
    given: Mapping[str, Any]
    """What the weights depend on beside the settings: digests of the inputs, the number of processes."""


def save(
    work: Path,
    state: State,
    weights: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    extra: Mapping[str, Tensor],
) -> Path:
    """Write a checkpoint, then remove all but the newest two."""
    target = work / f"step-{state.step:08d}"
    draft = work / f".{target.name}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with writing(target):
            draft.mkdir(parents=True)
            _write_tensors(draft / _WEIGHTS, weights)
            _write_tensors(draft / _OPTIMIZER, {**_moments(optimizer), **extra})
            content = {
                "step": state.step,
                "best": state.best,
                "best_step": state.best_step,
                "config": dict(state.config),
                "given": dict(state.given),
                "sha256": {name: file_digest(draft / name) for name in (_WEIGHTS, _OPTIMIZER)},
            }
            (draft / _STATE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            _sync(draft / _STATE)
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for old in _all(work)[:-_KEPT]:
        shutil.rmtree(old)
    return target


def newest(work: Path) -> Path | None:
    """Return the last checkpoint of an interrupted run."""
    found = _all(work)
    return found[-1] if found else None


def read(
    folder: Path, config: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[State, dict[str, Tensor], dict[str, Tensor]]:
    """Read a checkpoint: its state, the weights, and the tensors of the optimizer with what was added to them."""
    earlier = [other.name for other in _all(folder.parent) if other.name < folder.name]
    advice = f"remove it to go on from {earlier[-1]}" if earlier else "start anew with --force"
    try:
        content = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        state = State(
            int(content["step"]),
            float(content["best"]),
            int(content["best_step"]),
            dict(content["config"]),
            dict(content.get("given", {})),
        )
        for name in (_WEIGHTS, _OPTIMIZER):
            if file_digest(folder / name) != content["sha256"][name]:
                raise DamagedError(f"the checkpoint {folder} is damaged ({name} is not what was written); {advice}")
        weights, rest = load_file(folder / _WEIGHTS), load_file(folder / _OPTIMIZER)
    except _UNREADABLE as error:
        raise DamagedError(f"the checkpoint {folder} cannot be read ({error}); {advice}") from None
    for key, value in config.items():
        if state.config.get(key) != value:
            raise ConfigError(
                f"the training in {folder.parent} began with {key} = {state.config.get(key)!r}, not {value!r}; "
                "give the same settings, or start anew with --force"
            )
    for key, value in given.items():
        if state.given.get(key, value) != value:
            raise ConfigError(
                f"the training in {folder.parent} did not begin with the same {key}; "
                "give what it began with, or start anew with --force"
            )
    if state.best_step and not (folder.parent / _BEST).is_file():
        raise DamagedError(f"{folder.parent / _BEST} is missing, the best weights so far; start anew with --force")
    return state, weights, rest


def keep_best(work: Path, weights: Mapping[str, Tensor]) -> None:
    """Write the weights that are best on dev; those before stay until the new ones are whole."""
    draft = work / f".{_BEST}"
    try:
        with writing(work / _BEST):
            _write_tensors(draft, weights)
            draft.rename(work / _BEST)
    finally:
        draft.unlink(missing_ok=True)


def read_best(work: Path) -> dict[str, Tensor] | None:
    """Return the weights that were best on dev, if there was a dev set."""
    file = work / _BEST
    if not file.is_file():
        return None
    try:
        return load_file(file)
    except _UNREADABLE as error:
        raise DamagedError(f"{file} cannot be read ({error}); start anew with --force") from None


@contextmanager
def writing(path: Path, advice: str = "is the disk full?") -> Iterator[None]:
    """Say in one sentence that something cannot be written: a full disk, most often."""
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise KrissError(f"{path} cannot be written ({error}); {advice}") from None


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the optimizer where it was."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, tensor in tensors.items():
        kind, _, rest = key.partition("/")
        if kind == "moments":
            number, _, name = rest.partition("/")
            parameter = parameters[int(number)]
            # also `step`: a fused optimizer counts on the device
            optimizer.state[parameter][name] = tensor.to(parameter.device)


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {
        f"moments/{number}/{key}": tensor
        for number, parameter in enumerate(parameters)
        for key, tensor in optimizer.state.get(parameter, {}).items()
    }


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, path)
    _sync(path)


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _all(work: Path) -> list[Path]:
    return sorted(work.glob("step-*"))
