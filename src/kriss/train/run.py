"""The training loop."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import Tensor

from kriss.artifacts import check_target, create
from kriss.config import to_mapping
from kriss.encoder.model import Encoder
from kriss.errors import ConfigError, ExistsError, KrissError
from kriss.ontology import Ontology
from kriss.train import checkpoint
from kriss.train.batches import Sampler, TokenizedBatch, prefetched
from kriss.train.config import TrainConfig, check
from kriss.train.curves import draw_curves
from kriss.train.dev import DevScore, DevSet
from kriss.train.examples import TrainingSet
from kriss.train.gradients import backward
from kriss.train.neighbours import by_encoder, by_names

Progress = Callable[[dict[str, Any]], None]
_BEST = "best.safetensors"
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


def train(
    config: TrainConfig,
    ontology: Ontology,
    mentions: Path,
    out: Path,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda event: None,
) -> TrainReport:
    """Train an encoder on mined mentions and write it to `out`.

    Under torchrun every process calls this with the same arguments; the first one writes.
    """
    check(config)
    check_target(out, force=force)
    accelerator = _accelerator(config)
    work = out.parent / f".{out.name}.training"
    begun = _take_up(work, resume=resume, force=force, accelerator=accelerator)
    torch.manual_seed(config.seed + accelerator.process_index)  # dropout differs between processes
    examples = TrainingSet(ontology, mentions, config)
    sampler = Sampler(examples, config)
    if sampler.entities % accelerator.num_processes:
        raise ConfigError(f"{sampler.entities} entities of a batch cannot be shared by {accelerator.num_processes} processes")
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout).to(accelerator.device)
    dev = DevSet(examples, mentions, config)
    run = _Run(config, examples, sampler, encoder, dev, accelerator, work, progress)
    if begun:
        run.go_back(begun)
    try:
        run.go()
    except KrissError:
        raise
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        run.finish(out, ontology, mentions, force=force)
    accelerator.wait_for_everyone()
    return TrainReport(
        out, run.steps, sampler.entities and len(examples.mentions.rows), len(examples.mentions), run.before, run.after,
        run.best_step,
    )  # fmt: skip


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
        progress: Progress,
    ) -> None:
        self.config, self.examples, self.sampler, self.encoder, self.dev = config, examples, sampler, encoder, dev
        self.accelerator, self.work, self.progress = accelerator, work, progress
        self.steps = config.steps or math.ceil(config.epochs * len(examples.mentions) / (2 * sampler.mined))
        self.step, self.best, self.best_step = 0, -1.0, 0
        self.before: DevScore | None = None
        self.after: DevScore | None = None
        self.neighbours: Tensor | None = None
        self.optimizer = torch.optim.AdamW(
            [parameter for parameter in encoder.parameters() if parameter.requires_grad],
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
        )

    def go(self) -> None:
        """Train from the present step to the last."""
        config, accelerator = self.config, self.accelerator
        self.progress({"event": "plan", "steps": self.steps, "step": self.step, "entities": self.sampler.entities})
        if self.step == 0:
            self._look_at_dev()
        self.encoder.train()
        since, seen, losses = time.perf_counter(), 0, []
        for batch in self._batches():
            for group in self.optimizer.param_groups:
                group["lr"] = config.learning_rate * _rate(self.step, self.steps, config.warmup)
            loss = backward(self.encoder, batch, config, accelerator)
            if not math.isfinite(loss):
                raise KrissError(self._diverged(loss))
            torch.nn.utils.clip_grad_norm_(self.encoder.parameters(), config.clip, foreach=True)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.step += 1
            losses.append(loss)
            seen += (len(batch.mentions) + len(batch.references or ())) * accelerator.num_processes
            if self.step % _LOG_EVERY == 0 or self.step == self.steps:
                pace = seen / (time.perf_counter() - since)
                self._log({"step": self.step, "loss": round(float(np.mean(losses)), 6), "sequences_per_second": round(pace, 1)})
                since, seen, losses = time.perf_counter(), 0, []
            if self.step % config.dev_every == 0 or self.step == self.steps:
                pause = time.perf_counter()
                self._look_at_dev()
                since += time.perf_counter() - pause
            if self.step % config.save_every == 0 and self.step < self.steps:
                self._save()

    def _batches(self) -> Iterator[TokenizedBatch]:
        """Yield the batches that remain; hard negatives are looked up between them, never beside them."""
        rank, ranks = self.accelerator.process_index, self.accelerator.num_processes
        every = self.config.hard_every if self.config.hard == "encoder" else self.steps
        while self.step < self.steps:
            if self.config.hard == "names" or (self.config.hard == "encoder" and self.step % every == 0):
                found = by_names(self.examples) if self.config.hard == "names" else by_encoder(self.examples, self.encoder)
                self.neighbours = torch.from_numpy(found)
            if self.neighbours is not None:
                self.sampler.use_neighbours(self.neighbours.numpy())
            until = min(self.steps, (self.step // every + 1) * every)
            steps = range(self.step, until)
            yield from prefetched(self.sampler, self.examples, self.encoder.windows, self.config, steps, rank, ranks)

    def _look_at_dev(self) -> None:
        if not self.dev or not self.accelerator.is_main_process:
            return
        score = self.dev.score(self.encoder, references=self.config.beta > 0)
        if self.step == 0:
            self.before = score
        self._log({"step": self.step, "dev": score.flat(), "mean": score.mean})
        if score.mean > self.best:
            self.best, self.best_step, self.after = score.mean, self.step, score
            draft = self.work / f".{_BEST}"
            checkpoint.write_tensors(draft, self.encoder.state_dict())
            draft.rename(self.work / _BEST)

    def _log(self, entry: dict[str, Any]) -> None:
        if self.accelerator.is_main_process:
            with (self.work / "log.jsonl").open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(entry) + "\n")
            self.progress({"event": "log", **entry})

    def _save(self) -> None:
        state = checkpoint.State(self.step, self.best, self.best_step, to_mapping(self.config))
        random = self.accelerator.gather(torch.get_rng_state().to(self.accelerator.device)[None]).cpu()
        extra = {"random": random}
        if self.accelerator.device.type == "cuda":
            here = torch.cuda.get_rng_state(self.accelerator.device).to(self.accelerator.device)
            extra["random_cuda"] = self.accelerator.gather(here[None]).cpu()
        if self.neighbours is not None:
            extra["neighbours"] = self.neighbours
        if self.accelerator.is_main_process:
            checkpoint.save(self.work, state, self.encoder.state_dict(), self.optimizer, extra)

    def go_back(self, folder: Path) -> None:
        """Put everything where it was when a checkpoint was written."""
        state, weights, rest = checkpoint.read(folder, to_mapping(self.config))
        self.encoder.load_state_dict(weights)
        checkpoint.restore_moments(self.optimizer, rest)
        rank = self.accelerator.process_index
        torch.set_rng_state(rest["random"][rank])
        if "random_cuda" in rest:
            torch.cuda.set_rng_state(rest["random_cuda"][rank], self.accelerator.device)
        self.neighbours = rest.get("neighbours")
        self.step, self.best, self.best_step = state.step, state.best, state.best_step
        if self.accelerator.is_main_process:
            entries = [entry for entry in read_log(self.work / "log.jsonl") if entry["step"] <= self.step]
            text = "".join(json.dumps(entry) + "\n" for entry in entries)
            (self.work / "log.jsonl").write_text(text, encoding="utf-8")
            scores = {entry["step"]: _score_of(entry["dev"]) for entry in entries if "dev" in entry}
            self.before, self.after = scores.get(0), scores.get(self.best_step)

    def _diverged(self, loss: float) -> str:
        last = checkpoint.newest(self.work)
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint was written yet"
        return f"the loss is {loss} at step {self.step + 1}: lower the learning rate; {kept}"

    def finish(self, out: Path, ontology: Ontology, mentions: Path, *, force: bool) -> None:
        """Write the artifact: the weights that were best on dev, or the last if there is no dev set."""
        if (self.work / _BEST).is_file():
            self.encoder.load_state_dict(load_file(self.work / _BEST))
        inputs = [{"name": path.name, "sha256": _digest_of(path)} for path in (ontology.artifact.path, mentions)]
        config = to_mapping(self.config)
        with create(out, "encoder", config=config, inputs=inputs, seed=self.config.seed, force=force) as draft:
            self.encoder.cpu().save(draft.path)
            shutil.copy(self.work / "log.jsonl", draft.path / "log.jsonl")
            draw_curves(read_log(self.work / "log.jsonl"), draft.path / "curves.png")
            draft.facts |= {
                "steps": self.steps,
                "best_step": self.best_step if self.dev else self.steps,
                "entities": len(self.examples.mentions.rows),
                "mentions": len(self.examples.mentions),
                "dev_before": self.before.flat() if self.before else {},
                "dev": self.after.flat() if self.after else {},
            }
        shutil.rmtree(self.work)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the log of a run; a line that a kill cut short is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries


def _rate(step: int, steps: int, warmup: float) -> float:
    """Return the share of the learning rate at a step: up in a straight line, then down to 0."""
    rising = warmup * steps
    return (step + 1) / (rising + 1) if step < rising else (steps - step) / max(steps - rising, 1)


def _score_of(flat: dict[str, float]) -> DevScore:
    at: dict[str, dict[int, float]] = {}
    for key, value in flat.items():
        kind, _, top = key.partition("@")
        at.setdefault(kind, {})[int(top)] = value
    return DevScore(at)


def _digest_of(path: Path) -> str:
    from kriss.artifacts import open_artifact

    return open_artifact(path).digest


def _accelerator(config: TrainConfig) -> Accelerator:
    fast = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    precision = {"fp32": "no", "bf16": "bf16", "auto": "bf16" if fast else "no"}[config.precision]
    return Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())


def _take_up(work: Path, *, resume: bool, force: bool, accelerator: Accelerator) -> Path | None:
    """Return the checkpoint to go on from, or make room for a new run."""
    if resume:
        found = checkpoint.newest(work)
        if found is None:
            raise ConfigError(f"there is no training to resume: {work} holds no checkpoint")
        return found
    if work.exists() and not force:
        raise ExistsError(f"an interrupted training stands in {work}: --resume goes on with it, --force starts anew")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
    accelerator.wait_for_everyone()
    return None
