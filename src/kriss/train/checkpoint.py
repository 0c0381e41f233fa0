"""A state of training to go on from: whole or absent, checked when it is read, and never a pickle.

best.safetensors           the weights that were best on dev so far
step-00000250/             an artifact of kriss
  weights.safetensors      what is trained
  optimizer.safetensors    the moments of AdamW, and random states
  manifest.json            step, best score, settings, digests of the two files and of the inputs
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from kriss.artifacts import create, verify
from kriss.config import from_mapping
from kriss.errors import ConfigError, DamagedError, ExistsError, KrissError

_KEPT = 2
_WEIGHTS, _OPTIMIZER, _BEST = "weights.safetensors", "optimizer.safetensors", "best.safetensors"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)


@dataclass(frozen=True, slots=True)
class State:
    """Where a training is."""

    step: int = 0
    best: float = -1.0
    """The best score on dev so far."""
    best_step: int = 0


def folder_of(out: Path) -> Path:
    """Return where a training keeps its checkpoints until `out` is written."""
    return out.parent / f".{out.name}.training"


def to_resume(work: Path, *, resume: bool, force: bool) -> Path | None:
    """Return the checkpoint to go on from, if there is one; nothing is removed before a new run's inputs are read."""
    if resume and not work.exists():
        raise ConfigError(f"there is no training to resume: {work} does not exist; leave out --resume")
    if not resume and work.exists() and not force:
        raise ExistsError(f"an interrupted training stands in {work}: --resume goes on with it, --force starts anew")
    return newest(work) if resume else None


@contextmanager
def working(work: Path) -> Iterator[None]:
    """Remove what a run that fails leaves behind, unless there is something in it to go on from."""
    try:
        yield
    except BaseException:
        if not any(path.is_file() and path.parent != work for path in work.rglob("*")):
            shutil.rmtree(work, ignore_errors=True)
        raise


def save(
    work: Path,
    state: State,
    config: Mapping[str, Any],
    inputs: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    rest: Mapping[str, Tensor],
) -> None:
    """Write a checkpoint, then remove all but the newest two; `inputs` are what the weights depend on beside settings.

    `rest` is what `moments` gives, and whatever else is needed to go on.
    """
    target = work / f"step-{state.step:08d}"
    with writing(target), create(target, "checkpoint", config=config, force=True) as draft:
        _write_tensors(draft.path / _WEIGHTS, weights)
        _write_tensors(draft.path / _OPTIMIZER, rest)
        draft.facts |= {"state": asdict(state), "inputs": dict(inputs)}
    for old in _all(work)[:-_KEPT]:
        shutil.rmtree(old)


def newest(work: Path) -> Path | None:
    """Return the last checkpoint of an interrupted run."""
    found = _all(work)
    return found[-1] if found else None


def read(
    folder: Path, config: Mapping[str, Any], inputs: Mapping[str, Any]
) -> tuple[State, dict[str, Tensor], dict[str, Tensor]]:
    """Read a checkpoint: its state, the weights, and the other tensors."""
    earlier = [other.name for other in _all(folder.parent) if other.name < folder.name]
    advice = f"remove it to go on from {earlier[-1]}" if earlier else "start anew with --force"
    try:
        artifact = verify(folder)
        state = from_mapping(State, artifact.facts["state"], str(folder))
        weights, rest = load_file(folder / _WEIGHTS), load_file(folder / _OPTIMIZER)
        began = dict(artifact.config), dict(artifact.facts["inputs"])
    except (KrissError, *_UNREADABLE) as error:
        raise DamagedError(f"the checkpoint {folder} cannot be read ({error}); {advice}") from None
    for key, value in config.items():
        if began[0].get(key) != value:
            raise ConfigError(
                f"the training in {folder.parent} began with {key} = {began[0].get(key)!r}, not {value!r}; "
                "give the same settings, or start anew with --force"
            )
    for key, value in inputs.items():
        if began[1].get(key) != value:
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
            with draft.open("rb") as stream:
                os.fsync(stream.fileno())
            draft.rename(work / _BEST)
    finally:
        draft.unlink(missing_ok=True)


def read_best(work: Path) -> dict[str, Tensor]:
    """Return the weights that were best on dev."""
    try:
        return load_file(work / _BEST)
    except _UNREADABLE as error:
        raise DamagedError(f"{work / _BEST} cannot be read ({error}); start anew with --force") from None


@contextmanager
def writing(path: Path, advice: str = "is the disk full?") -> Iterator[None]:
    """Say in one sentence that something cannot be written: a full disk, most often."""
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise KrissError(f"{path} cannot be written ({error}); {advice}") from None


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return what the optimizer remembers, under a name for each tensor."""
    return {
        f"moments/{number}/{key}": tensor
        for number, parameter in enumerate(_parameters(optimizer))
        for key, tensor in optimizer.state.get(parameter, {}).items()
    }


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the optimizer where it was."""
    parameters = _parameters(optimizer)
    for key, tensor in tensors.items():
        kind, _, rest = key.partition("/")
        if kind == "moments":
            number, _, name = rest.partition("/")
            parameter = parameters[int(number)]
            # also `step`: a fused optimizer counts on the device
            optimizer.state[parameter][name] = tensor.to(parameter.device)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, path)


def _all(work: Path) -> list[Path]:
    return sorted(work.glob("step-*"))
