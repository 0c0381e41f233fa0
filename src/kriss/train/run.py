"""Training the encoder: what a run is made of, beside the loop that all training shares."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kriss.artifacts import check_target, open_artifact
from kriss.config import changed
from kriss.encoder.model import Encoder
from kriss.errors import ConfigError
from kriss.files import Where
from kriss.ontology import Ontology
from kriss.train import checkpoint
from kriss.train.batches import Sampler, TokenizedBatch
from kriss.train.config import MINI, TrainConfig
from kriss.train.dev import DevSet
from kriss.train.examples import TrainingSet
from kriss.train.gradients import backward
from kriss.train.log import Progress, Score
from kriss.train.loop import Loop, join_processes


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What came of a run."""

    path: Path
    steps: int
    entities: int
    mentions: int
    before: Score | None
    after: Score | None
    best_step: int
    """The step whose weights were kept: the last, if there is no dev set."""


def train(
    ontology: Ontology | Where,
    mentions: Where,
    out: Where,
    config: TrainConfig = MINI,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda event: None,
    **settings: Any,  # noqa: ANN401 - the fields of TrainConfig
) -> TrainReport | None:
    """Train an encoder on mined mentions and write it to `out`.

    Under torchrun every process calls this with the same arguments; the first one writes, tells of
    its progress and returns a report, the others return None.
    """
    config = changed(config, settings, "kriss.train")
    ontology, mentions, out = Ontology.load(ontology), Path(mentions), Path(out)
    check_target(out, "encoder", force=force)
    processes, work = join_processes(), checkpoint.folder_of(out)
    is_first = processes.is_main_process
    if not is_first:
        progress = lambda event: None  # noqa: E731
    progress({"event": "prepare"})
    begun = checkpoint.to_resume(work, resume=resume, force=force)
    digests = {"ontology": ontology.artifact.digest, "mentions": open_artifact(mentions, "mentions").digest}
    examples = TrainingSet(ontology, mentions, config)
    sampler = Sampler(examples, config)
    if sampler.entities % processes.num_processes:
        raise ConfigError(
            f"{sampler.entities} entities of a batch cannot be shared equally by {processes.num_processes} "
            "processes; take another 'batch'"
        )
    if sampler.entities < config.batch // 2:
        text = f"only {sampler.entities:,} entities to draw from: a batch has {2 * sampler.entities:,} mentions"
        progress({"event": "note", "text": f"{text}, not {config.batch:,}"})
    torch.manual_seed(config.seed)  # every process starts from the same weights
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout).to(processes.device)
    torch.manual_seed(config.seed + processes.process_index)  # but dropout differs between them
    dev = DevSet(examples, mentions, config)
    inputs = {**digests, "number of processes": processes.num_processes}
    processes.wait_for_everyone()  # until all have seen what stands there
    if is_first and not begun:
        shutil.rmtree(work, ignore_errors=True)
    run = _Run(config, examples, sampler, encoder, dev, work, inputs, progress)
    counts = {"entities": len(examples.mentions.rows), "mentions": len(examples.mentions)}
    with checkpoint.working(work):
        run.run(begun)
        if is_first:
            sources = [
                {"name": path.name, "sha256": digests[kind]}
                for kind, path in (("ontology", ontology.artifact.path), ("mentions", mentions))
            ]
            with run.writing(out, "encoder", sources, force=force) as draft:
                encoder.cpu().save(draft.path)
                draft.facts |= counts
    processes.wait_for_everyone()
    processes.destroy_process_group()
    report = TrainReport(out, run.steps, **counts, before=run.before, after=run.after, best_step=run.kept)
    return report if is_first else None


class _Run(Loop[TokenizedBatch]):
    """Training two encoders, by one process or several."""

    def __init__(
        self,
        config: TrainConfig,
        examples: TrainingSet,
        sampler: Sampler,
        encoder: Encoder,
        dev: DevSet,
        work: Path,
        inputs: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        steps = config.steps or math.ceil(config.epochs * len(examples.mentions) / (2 * sampler.mined))
        super().__init__(config, encoder, steps, work, inputs, progress)
        self.config, self.sampler, self.encoder, self.dev = config, sampler, encoder, dev

    def batches(self) -> Iterator[TokenizedBatch]:
        """Yield this process's part of the batches that remain."""
        rank, ranks = self.processes.process_index, self.processes.num_processes
        yield from self.sampler.batches(self.encoder.windows, range(self.step, self.steps), rank, ranks)

    def backward(self, batch: TokenizedBatch) -> tuple[float, int]:
        """Add the gradients of a batch that all processes have a part of."""
        loss = backward(self.encoder, batch, self.config, self.processes)
        return loss, len(batch) * self.processes.num_processes

    def judge(self) -> Score | None:
        """Link the queries of the dev set."""
        return self.dev.score(self.encoder, references=self.config.beta > 0) if self.dev else None
