"""Training the encoder: what a run is made of, beside the loop that all training shares."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast
from torch import Tensor

from kriss.artifacts import check_target, create, open_artifact
from kriss.config import to_mapping
from kriss.encoder.model import Encoder
from kriss.errors import ConfigError, ExistsError
from kriss.ontology import Ontology
from kriss.train import checkpoint
from kriss.train.batches import Sampler, TokenizedBatch, prefetched
from kriss.train.config import TrainConfig, check
from kriss.train.dev import DevScore, DevSet
from kriss.train.examples import TrainingSet
from kriss.train.gradients import backward
from kriss.train.log import Progress
from kriss.train.loop import Loop
from kriss.train.neighbours import by_encoder, by_names


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
    check_target(out, "encoder", force=force)
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


class _Run(Loop[DevScore, TokenizedBatch]):
    """Training two encoders, by one process or several."""

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
        steps = config.steps or math.ceil(config.epochs * len(examples.mentions) / (2 * sampler.mined))
        shared = {**given, "number of processes": accelerator.num_processes}
        super().__init__(config, encoder, accelerator.device, steps, work, tell, shared, DevScore)
        self.config, self.examples, self.sampler, self.encoder, self.dev = config, examples, sampler, encoder, dev
        self.accelerator = accelerator
        self.is_first, self.rank = accelerator.is_main_process, accelerator.process_index
        self.neighbours: Tensor | None = None

    def plan(self) -> dict[str, Any]:
        """Tell how many entities a batch has."""
        return {"entities": self.sampler.entities}

    def batches(self) -> Iterator[TokenizedBatch]:
        """Yield the batches that remain; hard negatives are looked up between them, never beside them."""
        ranks = self.accelerator.num_processes
        every = self.config.hard_every if self.config.hard == "encoder" else self.steps
        while self.step < self.steps:
            if self.config.hard == "names":
                self.sampler.use_neighbours(by_names(self.examples))
            elif self.config.hard == "encoder":
                if self.neighbours is None or self.step % every == 0:
                    found = torch.from_numpy(by_encoder(self.examples, self.encoder)).to(self.device)
                    self.neighbours = broadcast(found).cpu()  # the same for all, whatever their rounding
                self.sampler.use_neighbours(self.neighbours.numpy())
            steps = range(self.step, min(self.steps, (self.step // every + 1) * every))
            windows = self.encoder.windows
            yield from prefetched(self.sampler, self.examples, windows, self.config, steps, self.rank, ranks)

    def backward(self, batch: TokenizedBatch) -> tuple[float, int]:
        """Add the gradients of a batch that all processes have a part of."""
        loss = backward(self.encoder, batch, self.config, self.accelerator)
        return loss, (len(batch.mentions) + len(batch.references or ())) * self.accelerator.num_processes

    def judge(self) -> DevScore | None:
        """Link the queries of the dev set."""
        return self.dev.score(self.encoder, references=self.config.beta > 0) if self.dev else None

    def gathered(self, state: Tensor) -> Tensor:
        """Return the state of every process."""
        found: Tensor = self.accelerator.gather(state[None])
        return found.cpu()

    def extra(self) -> dict[str, Tensor]:
        """Keep the neighbours that were looked up last."""
        return {} if self.neighbours is None else {"neighbours": self.neighbours}

    def put_back(self, extra: Mapping[str, Tensor]) -> None:
        """Take back the neighbours."""
        self.neighbours = extra.get("neighbours")

    def start(self, begun: Path | None) -> None:
        """Make room for a new run, or put everything where it was when a checkpoint was written."""
        self.accelerator.wait_for_everyone()  # until all have seen what stands there
        if not begun and self.is_first:
            shutil.rmtree(self.work, ignore_errors=True)
        super().start(begun)

    def finish(self, out: Path, *, force: bool) -> None:
        """Write the artifact: the weights that were best on dev, or the last if there is no dev set."""
        self.take_best()
        sources = (("ontology", self.examples.ontology.artifact.path), ("mentions", self.examples.folder))
        inputs = [{"name": path.name, "sha256": self.given[kind]} for kind, path in sources]
        config, report = to_mapping(self.config), self.report(out)
        with (
            checkpoint.writing(out, "is the disk full? --resume writes it without training again"),
            create(out, "encoder", config=config, inputs=inputs, seed=self.config.seed, force=force) as draft,
        ):
            self.encoder.cpu().save(draft.path)
            history = self.write_history(draft.path)
            draft.facts |= {**history, "entities": report.entities, "mentions": report.mentions}
        shutil.rmtree(self.work, ignore_errors=True)

    def report(self, out: Path) -> TrainReport:
        """Return what came of the run."""
        mentions = self.examples.mentions
        return TrainReport(out, self.steps, len(mentions.rows), len(mentions), self.before, self.after, self.kept)


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
