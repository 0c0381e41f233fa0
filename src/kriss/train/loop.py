"""A training run, whatever is trained: its steps, its looks at dev, its checkpoints and its log.

A subclass says what a batch is, how its gradients come about, and how the model does on dev.
"""

from __future__ import annotations

import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from kriss.config import to_mapping
from kriss.errors import DamagedError, KrissError
from kriss.train import checkpoint
from kriss.train.curves import draw_curves
from kriss.train.log import BOARD, LOG, Log, Progress
from kriss.train.settings import LoopSettings

LOG_EVERY = 10
"""Steps whose losses make one entry of the log."""


class Score(Protocol):
    """How a model does on dev."""

    @property
    def mean(self) -> float:
        """What the best step is chosen by."""

    def flat(self) -> dict[str, float]:
        """Return the figures as a log has them."""

    @classmethod
    def of(cls, flat: Mapping[str, Any], /) -> Self:
        """Return what `flat` gave."""


ScoreT = TypeVar("ScoreT", bound=Score)
BatchT = TypeVar("BatchT")


class Loop(ABC, Generic[ScoreT, BatchT]):
    """The state of a training run, and its loop. One process; a subclass may share the work with others."""

    is_first = True
    """Whether this process writes, tells and looks at dev."""
    rank = 0

    def __init__(
        self,
        settings: LoopSettings,
        model: torch.nn.Module,
        device: torch.device,
        steps: int,
        work: Path,
        tell: Progress,
        given: Mapping[str, Any],
        score: type[ScoreT],
    ) -> None:
        self.settings, self.model, self.device, self.steps = settings, model, device, steps
        self.work, self.tell, self.given = work, tell, given
        self._score = score
        self.step, self.best, self.best_step = 0, -1.0, 0
        self.before: ScoreT | None = None
        self.after: ScoreT | None = None
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
    def judge(self) -> ScoreT | None:
        """Return how the model does on dev; None if there is no dev set."""

    def plan(self) -> dict[str, Any]:
        """Return what else is told when the loop begins."""
        return {}

    def gathered(self, state: Tensor) -> Tensor:
        """Return a tensor of every process in a row of its own."""
        return state[None].cpu()

    def extra(self) -> dict[str, Tensor]:
        """Return what else a checkpoint must keep."""
        return {}

    def put_back(self, extra: Mapping[str, Tensor]) -> None:
        """Take back what `extra` gave."""

    # --- the loop -------------------------------------------------------------------------------------

    def go(self) -> None:
        """Train from the present step to the last."""
        settings = self.settings
        self.tell({"event": "plan", "steps": self.steps, "step": self.step, **self.plan()})
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
        self._write({"dev": score.flat(), "mean": score.mean})
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

    def start(self, begun: Path | None) -> None:
        """Open the log, and put everything where it was when a checkpoint was written."""
        if begun:
            self._go_back(begun)
        if self.is_first:
            self.work.mkdir(parents=True, exist_ok=True)
            self.log = Log(self.work, self.tell, self.step)
            scores = {entry["step"]: self._score.of(entry["dev"]) for entry in self.log.entries if "dev" in entry}
            self.before, self.after = scores.get(0), scores.get(self.best_step)

    def _save(self) -> None:
        extra = {"random": self.gathered(torch.get_rng_state().to(self.device)), **self.extra()}
        if self.device.type == "cuda":
            extra["random_cuda"] = self.gathered(torch.cuda.get_rng_state(self.device).to(self.device))
        if self.is_first:
            state = checkpoint.State(self.step, self.best, self.best_step, to_mapping(self.settings), self.given)
            checkpoint.save(self.work, state, self.model.state_dict(), self.optimizer, extra)

    def _go_back(self, folder: Path) -> None:
        state, weights, rest = checkpoint.read(folder, to_mapping(self.settings), self.given)
        try:
            self.model.load_state_dict(weights)
        except RuntimeError:  # torch's message has a line for each tensor
            raise DamagedError(f"'{self.settings.model}' is not the model that {folder} was trained from") from None
        checkpoint.restore_moments(self.optimizer, rest)
        torch.set_rng_state(rest["random"][self.rank])
        if self.device.type == "cuda" and "random_cuda" in rest:
            torch.cuda.set_rng_state(rest["random_cuda"][self.rank], self.device)
        self.put_back(rest)
        self.step, self.best, self.best_step = state.step, state.best, state.best_step

    # --- the end ----------------------------------------------------------------------------------------

    @property
    def kept(self) -> int:
        """The step whose weights are kept: the last, if there is no dev set."""
        return self.best_step if self.after else self.steps

    def take_best(self) -> None:
        """Close the log, and go back to the weights that were best on dev."""
        if self.log:
            self.log.close()
        if self.after and (best := checkpoint.read_best(self.work)):
            self.model.load_state_dict(best)

    def write_history(self, folder: Path) -> dict[str, Any]:
        """Write the log and its curves; return what the manifest says of the run."""
        shutil.copy(self.work / LOG, folder / LOG)
        draw_curves(self.log.entries if self.log else [], folder / "curves.png")
        if (self.work / BOARD).is_dir():
            shutil.copytree(self.work / BOARD, folder / BOARD)
        return {
            "steps": self.steps,
            "best_step": self.kept,
            "dev_before": self.before.flat() if self.before else {},
            "dev": self.after.flat() if self.after else {},
        }


def rate(step: int, steps: int, warmup: float) -> float:
    """Return the share of the learning rate at a step: up in a straight line, then down to 0."""
    rising = warmup * steps
    return (step + 1) / (rising + 1) if step < rising else (steps - step) / max(steps - rising, 1)
