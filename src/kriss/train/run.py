"""The training loop."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast
from torch import Tensor

from kriss.artifacts import check_target, create, open_artifact
from kriss.config import to_mapping
from kriss.encoder.model import Encoder
from kriss.errors import ConfigError, DamagedError, ExistsError, KrissError
from kriss.ontology import Ontology
from kriss.train import checkpoint
from kriss.train.batches import Sampler, TokenizedBatch, prefetched
from kriss.train.config import TrainConfig, check
from kriss.train.curves import draw_curves
from kriss.train.dev import DevScore, DevSet
from kriss.train.examples import TrainingSet
from kriss.train.gradients import backward
from kriss.train.log import BOARD, LOG, Log, Progress
from kriss.train.neighbours import by_encoder, by_names

_LOG_EVERY = 10


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What came of a run."""

    path: Path
    steps: int
    entities: int
    mentions: int
    before: DevScore | None
    after: DevScore | None
    best_step: int
    """The step whose weights were kept: the last, if there is no dev set."""


def train(
    config: TrainConfig,
    ontology: Ontology,
    mentions: Path,
    out: Path,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda event: None,
) -> TrainReport | None:
    """Train an encoder on mined mentions and write it to `out`.

    Under torchrun every process calls this with the same arguments; the first one writes, tells of
    its progress and returns a report, the others return None.
    """
    check(config)
    check_target(out, force=force)
    accelerator = _accelerator(config)
    first = accelerator.is_main_process
    tell: Progress = progress if first else lambda event: None
    tell({"event": "prepare"})
    work = out.parent / f".{out.name}.training"
    begun = _begun(work, resume=resume, force=force)
    given = {"ontology": ontology.artifact.digest, "mentions": open_artifact(mentions, "mentions").digest}
    examples = TrainingSet(ontology, mentions, config)
    sampler = Sampler(examples, config)
    if sampler.entities % accelerator.num_processes:
        raise ConfigError(
            f"{sampler.entities} entities of a batch cannot be shared equally by {accelerator.num_processes} "
            "processes; take another 'batch'"
        )
    if sampler.entities < config.batch // 2:
        text = f"only {sampler.entities:,} entities to draw from: a batch has {2 * sampler.entities:,} mentions"
        tell({"event": "note", "text": f"{text}, not {config.batch:,}"})
    torch.manual_seed(config.seed)  # every process starts from the same weights
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout).to(accelerator.device)
    torch.manual_seed(config.seed + accelerator.process_index)  # but dropout differs between them
    run = _Run(config, examples, sampler, encoder, DevSet(examples, mentions, config), accelerator, work, tell, given)
    try:
        run.start(begun)
        run.go()
        if first:
            run.finish(out, force=force)
    except BaseException:
        if first and checkpoint.newest(work) is None:  # nothing to go on from
            shutil.rmtree(work, ignore_errors=True)
        raise
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return run.report(out) if first else None


class _Run:
    """The state of a training run, and its loop."""

    def __init__(
        self,
        config: TrainConfig,
        examples: TrainingSet,
        sampler: Sampler,
        encoder: Encoder,
        dev: DevSet,
        accelerator: Accelerator,
        work: Path,
        tell: Progress,
        given: Mapping[str, str],
    ) -> None:
        self.config, self.examples, self.sampler, self.encoder, self.dev = config, examples, sampler, encoder, dev
        self.accelerator, self.work, self.tell, self.given = accelerator, work, tell, given
        self.steps = config.steps or math.ceil(config.epochs * len(examples.mentions) / (2 * sampler.mined))
        self.step, self.best, self.best_step = 0, -1.0, 0
        self.before: DevScore | None = None
        self.after: DevScore | None = None
        self.neighbours: Tensor | None = None
        self.log: Log | None = None
        self.optimizer = torch.optim.AdamW(
            [parameter for parameter in encoder.parameters() if parameter.requires_grad],
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
        )

    def go(self) -> None:
        """Train from the present step to the last."""
        config, accelerator = self.config, self.accelerator
        self.tell({"event": "plan", "steps": self.steps, "step": self.step, "entities": self.sampler.entities})
        if self.step == 0:
            self._look_at_dev()
        self.encoder.train()
        since, seen, losses = time.perf_counter(), 0, []
        for batch in self._batches():
            for group in self.optimizer.param_groups:
                group["lr"] = config.learning_rate * rate(self.step, self.steps, config.warmup)
            loss = backward(self.encoder, batch, config, accelerator)
            length = float(torch.nn.utils.clip_grad_norm_(self.encoder.parameters(), config.clip, foreach=True))
            if not math.isfinite(loss) or not math.isfinite(length):
                raise KrissError(self._diverged(loss, length))
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.step += 1
            losses.append(loss)
            seen += (len(batch.mentions) + len(batch.references or ())) * accelerator.num_processes
            if self.step % _LOG_EVERY == 0 or self.step == self.steps:
                pace = seen / (time.perf_counter() - since)
                self._write({"loss": round(float(np.mean(losses)), 6), "sequences_per_second": round(pace, 1)})
                since, seen, losses = time.perf_counter(), 0, []
            pause = time.perf_counter()
            if self.step % config.dev_every == 0 or self.step == self.steps:
                self._look_at_dev()
            if self.step % config.save_every == 0 or self.step == self.steps:  # the last, should `finish` fail
                self._save()
            since += time.perf_counter() - pause

    def _batches(self) -> Iterator[TokenizedBatch]:
        """Yield the batches that remain; hard negatives are looked up between them, never beside them."""
        rank, ranks = self.accelerator.process_index, self.accelerator.num_processes
        every = self.config.hard_every if self.config.hard == "encoder" else self.steps
        while self.step < self.steps:
            if self.config.hard == "names":
                self.sampler.use_neighbours(by_names(self.examples))
            elif self.config.hard == "encoder":
                if self.neighbours is None or self.step % every == 0:
                    found = torch.from_numpy(by_encoder(self.examples, self.encoder)).to(self.accelerator.device)
                    self.neighbours = broadcast(found).cpu()  # the same for all, whatever their rounding
                self.sampler.use_neighbours(self.neighbours.numpy())
            steps = range(self.step, min(self.steps, (self.step // every + 1) * every))
            yield from prefetched(self.sampler, self.examples, self.encoder.windows, self.config, steps, rank, ranks)

    def _look_at_dev(self) -> None:
        if not self.dev or not self.accelerator.is_main_process:
            return
        score = self.dev.score(self.encoder, references=self.config.beta > 0)
        if self.step == 0:
            self.before = score
        self._write({"dev": score.flat(), "mean": score.mean})
        if score.mean > self.best:
            self.best, self.best_step, self.after = score.mean, self.step, score
            checkpoint.keep_best(self.work, self.encoder.state_dict())

    def _write(self, entry: dict[str, Any]) -> None:
        if self.log:
            self.log.write({"step": self.step, **entry})

    def _save(self) -> None:
        device = self.accelerator.device
        extra = {"random": self.accelerator.gather(torch.get_rng_state().to(device)[None]).cpu()}
        if device.type == "cuda":
            extra["random_cuda"] = self.accelerator.gather(torch.cuda.get_rng_state(device).to(device)[None]).cpu()
        if self.neighbours is not None:
            extra["neighbours"] = self.neighbours
        if self.accelerator.is_main_process:
            state = checkpoint.State(self.step, self.best, self.best_step, to_mapping(self.config), self._given())
            checkpoint.save(self.work, state, self.encoder.state_dict(), self.optimizer, extra)

    def start(self, begun: Path | None) -> None:
        """Make room for a new run, or put everything where it was when a checkpoint was written."""
        self.accelerator.wait_for_everyone()  # until all have seen what stands there
        if begun:
            self._go_back(begun)
        elif self.accelerator.is_main_process:
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(parents=True)
        if self.accelerator.is_main_process:
            self.log = Log(self.work, self.tell, self.step)
            scores = {entry["step"]: DevScore.of(entry["dev"]) for entry in self.log.entries if "dev" in entry}
            self.before, self.after = scores.get(0), scores.get(self.best_step)

    def _go_back(self, folder: Path) -> None:
        state, weights, rest = checkpoint.read(folder, to_mapping(self.config), self._given())
        device, rank = self.accelerator.device, self.accelerator.process_index
        try:
            self.encoder.load_state_dict(weights)
        except RuntimeError:  # torch's message has a line for each tensor
            raise DamagedError(f"'{self.config.model}' is not the model that {folder} was trained from") from None
        checkpoint.restore_moments(self.optimizer, rest)
        torch.set_rng_state(rest["random"][rank])
        if device.type == "cuda" and "random_cuda" in rest:
            torch.cuda.set_rng_state(rest["random_cuda"][rank], device)
        self.neighbours = rest.get("neighbours")
        self.step, self.best, self.best_step = state.step, state.best, state.best_step

    def _given(self) -> dict[str, Any]:
        return {**self.given, "number of processes": self.accelerator.num_processes}

    def _diverged(self, loss: float, length: float) -> str:
        what = f"the gradient has length {length}" if math.isfinite(loss) else f"the loss is {loss}"
        last = checkpoint.newest(self.work)
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint was written yet"
        return f"{what} at step {self.step + 1}: lower the learning rate; {kept}"

    def finish(self, out: Path, *, force: bool) -> None:
        """Write the artifact: the weights that were best on dev, or the last if there is no dev set."""
        if self.log:
            self.log.close()
        if self.dev and (best := checkpoint.read_best(self.work)):
            self.encoder.load_state_dict(best)
        sources = (("ontology", self.examples.ontology.artifact.path), ("mentions", self.examples.folder))
        inputs = [{"name": path.name, "sha256": self.given[kind]} for kind, path in sources]
        config, report = to_mapping(self.config), self.report(out)
        with (
            checkpoint.writing(out, "is the disk full? --resume writes it without training again"),
            create(out, "encoder", config=config, inputs=inputs, seed=self.config.seed, force=force) as draft,
        ):
            self.encoder.cpu().save(draft.path)
            shutil.copy(self.work / LOG, draft.path / LOG)
            draw_curves(self.log.entries if self.log else [], draft.path / "curves.png")
            if (self.work / BOARD).is_dir():
                shutil.copytree(self.work / BOARD, draft.path / BOARD)
            draft.facts |= {
                "steps": report.steps,
                "best_step": report.best_step,
                "entities": report.entities,
                "mentions": report.mentions,
                "dev_before": self.before.flat() if self.before else {},
                "dev": self.after.flat() if self.after else {},
            }
        shutil.rmtree(self.work, ignore_errors=True)

    def report(self, out: Path) -> TrainReport:
        """Return what came of the run."""
        kept = self.best_step if self.dev else self.steps
        mentions = self.examples.mentions
        return TrainReport(out, self.steps, len(mentions.rows), len(mentions), self.before, self.after, kept)


def rate(step: int, steps: int, warmup: float) -> float:
    """Return the share of the learning rate at a step: up in a straight line, then down to 0."""
    rising = warmup * steps
    return (step + 1) / (rising + 1) if step < rising else (steps - step) / max(steps - rising, 1)


def _accelerator(config: TrainConfig) -> Accelerator:
    fast = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    precision = {"fp32": "no", "bf16": "bf16", "auto": "bf16" if fast else "no"}[config.precision]
    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run may have had another precision
    return Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())


def _begun(work: Path, *, resume: bool, force: bool) -> Path | None:
    """Return the checkpoint to go on from; nothing is removed before the inputs of a new run are known to be good."""
    found = checkpoint.newest(work)
    if resume:
        if found is None:
            advice = "start anew with --force" if work.exists() else "leave out --resume"
            raise ConfigError(f"there is no training to resume: {work} holds no checkpoint; {advice}")
        return found
    if work.exists() and not force:
        advice = (
            "--resume goes on with it, --force starts anew" if found else "it has no checkpoint, --force starts anew"
        )
        raise ExistsError(f"an interrupted training stands in {work}: {advice}")
    return None
