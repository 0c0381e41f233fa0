"""A training run, whatever is trained: its steps, its looks at dev, its checkpoints and its log.

A subclass says what a batch is, how its gradients come about, and how the model does on dev.
"""

from __future__ import annotations

import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather
from torch import Tensor

from kriss.artifacts import Draft, create
from kriss.config import to_mapping
from kriss.errors import DamagedError, KrissError
from kriss.train import checkpoint
from kriss.train.checkpoint import State
from kriss.train.config import LoopSettings
from kriss.train.log import LOG, Log, Progress, Score, draw_curves

LOG_EVERY = 10
"""Steps whose losses make one entry of the log."""
BatchT = TypeVar("BatchT")


def join_processes() -> PartialState:
    """Return which of how many processes this is, and its device."""
    return PartialState(cpu=not torch.cuda.is_available())


class Loop(ABC, Generic[BatchT]):
    """The state of a training run, and its loop; of several processes the first writes, tells and looks at dev."""

    def __init__(
        self,
        settings: LoopSettings,
        model: torch.nn.Module,
        steps: int,
        work: Path,
        inputs: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        self.processes = join_processes()
        self.is_first, self.device = self.processes.is_main_process, self.processes.device
        self.settings, self.model, self.steps = settings, model, steps
        self.work, self.inputs, self.progress = work, inputs, progress
        self.step, self.best, self.best_step = 0, -1.0, 0
        self.before: Score | None = None
        self.after: Score | None = None
        self.log: Log | None = None
        self.optimizer = torch.optim.AdamW(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    # --- what a subclass says -----------------------------------------------------------------------

    @abstractmethod
    def batches(self) -> Iterator[BatchT]:
        """Yield the batches from the present step to the last."""

    @abstractmethod
    def backward(self, batch: BatchT) -> tuple[float, int]:
        """Add the gradients of a batch; return its loss, and how many sequences were read."""

    @abstractmethod
    def judge(self) -> Score | None:
        """Return how the model does on dev; None if there is no dev set."""

    # --- the loop -------------------------------------------------------------------------------------

    def run(self, begun: Path | None) -> None:
        """Train to the last step: from the first, or from a checkpoint."""
        settings = self.settings
        self._start(begun)
        self.progress({"event": "plan", "steps": self.steps, "step": self.step})
        if self.step == 0:
            self._look_at_dev()
        self.model.train()
        since, seen, losses = time.perf_counter(), 0, []
        for batch in self.batches():
            for group in self.optimizer.param_groups:
                group["lr"] = settings.learning_rate * rate(self.step, self.steps, settings.warmup)
            loss, sequences = self.backward(batch)
            length = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip, foreach=True))
            if not math.isfinite(loss) or not math.isfinite(length):
                raise KrissError(self._diverged(loss, length))
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.step += 1
            losses.append(loss)
            seen += sequences
            if self.step % LOG_EVERY == 0 or self.step == self.steps:
                pace = seen / (time.perf_counter() - since)
                self._write({"loss": round(float(np.mean(losses)), 6), "sequences_per_second": round(pace, 1)})
                since, seen, losses = time.perf_counter(), 0, []
            pause = time.perf_counter()
            if self.step % settings.dev_every == 0 or self.step == self.steps:
                self._look_at_dev()
            if self.step % settings.save_every == 0 or self.step == self.steps:  # the last, should writing it fail
                self._save()
            since += time.perf_counter() - pause

    def _look_at_dev(self) -> None:
        if not self.is_first or (score := self.judge()) is None:
            return
        if self.step == 0:
            self.before = score
        self._write({"dev": dict(score.figures), "mean": score.mean})
        if score.mean > self.best:
            self.best, self.best_step, self.after = score.mean, self.step, score
            checkpoint.keep_best(self.work, self.model.state_dict())

    def _write(self, entry: dict[str, Any]) -> None:
        if self.log:
            self.log.write({"step": self.step, **entry})

    def _diverged(self, loss: float, length: float) -> str:
        what = f"the gradient has length {length}" if math.isfinite(loss) else f"the loss is {loss}"
        last = checkpoint.newest(self.work)
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint was written yet"
        return f"{what} at step {self.step + 1}: lower the learning rate; {kept}"

    # --- to go on from ----------------------------------------------------------------------------------

    def _start(self, begun: Path | None) -> None:
        if begun:
            self._go_back(begun)
        if self.is_first:
            self.work.mkdir(parents=True, exist_ok=True)
            self.log = Log(self.work, self.progress, self.step)
            self.before, self.after = self.log.score_at(0), self.log.score_at(self.best_step)

    def _save(self) -> None:
        rest = checkpoint.moments(self.optimizer) | {"random": self._gathered(torch.get_rng_state())}
        if self.device.type == "cuda":
            rest["random_cuda"] = self._gathered(torch.cuda.get_rng_state(self.device))
        if self.is_first:
            state = State(self.step, self.best, self.best_step)
            config, weights = to_mapping(self.settings), self.model.state_dict()
            checkpoint.save(self.work, state, config, self.inputs, weights, rest)

    def _gathered(self, state: Tensor) -> Tensor:
        """Return a tensor of every process in a row of its own."""
        found: Tensor = gather(state.to(self.device)[None])
        return found.cpu()

    def _go_back(self, folder: Path) -> None:
        state, weights, rest = checkpoint.read(folder, to_mapping(self.settings), self.inputs)
        try:
            self.model.load_state_dict(weights)
        except RuntimeError:  # torch's message has a line for each tensor
            raise DamagedError(f"'{self.settings.model}' is not the model that {folder} was trained from") from None
        checkpoint.restore_moments(self.optimizer, rest)
        torch.set_rng_state(rest["random"][self.processes.process_index])
        if self.device.type == "cuda" and "random_cuda" in rest:
            torch.cuda.set_rng_state(rest["random_cuda"][self.processes.process_index], self.device)
        self.step, self.best, self.best_step = state.step, state.best, state.best_step

    # --- the end ----------------------------------------------------------------------------------------

    @property
    def kept(self) -> int:
        """The step whose weights are kept: the best on dev, or the last if there is no dev set."""
        return self.best_step if self.after else self.steps

    @contextmanager
    def writing(self, out: Path, kind: str, inputs: list[dict[str, Any]], *, force: bool) -> Iterator[Draft]:
        """Write an artifact, the model having the weights that are kept; then remove what only the training needed."""
        if self.after:
            self.model.load_state_dict(checkpoint.read_best(self.work))
        settings, advice = self.settings, "is the disk full? --resume writes it without training again"
        with (
            checkpoint.writing(out, advice),
            create(out, kind, config=to_mapping(settings), inputs=inputs, seed=settings.seed, force=force) as draft,
        ):
            yield draft
            shutil.copy(self.work / LOG, draft.path / LOG)
            draw_curves(self.log.entries if self.log else [], draft.path / "curves.png")
            before, after = (dict(score.figures) if score else {} for score in (self.before, self.after))
            draft.facts |= {"steps": self.steps, "best_step": self.kept, "dev_before": before, "dev": after}
        shutil.rmtree(self.work, ignore_errors=True)


def rate(step: int, steps: int, warmup: float) -> float:
    """Return the share of the learning rate at a step: up in a straight line, then down to 0."""
    rising = warmup * steps
    return (step + 1) / (rising + 1) if step < rising else (steps - step) / max(steps - rising, 1)
