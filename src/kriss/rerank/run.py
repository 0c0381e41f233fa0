"""The training loop of a re-ranker."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kriss.artifacts import check_target, create, open_artifact
from kriss.config import to_mapping
from kriss.errors import ConfigError, DamagedError, ExistsError, InputError, KrissError
from kriss.link.linker import Linker
from kriss.mine.store import open_mentions
from kriss.records import Mention
from kriss.rerank.config import RerankConfig, check
from kriss.rerank.dev import RerankScore, score
from kriss.rerank.examples import ExampleMaker, Examples, Labeled, build_examples, chosen, digest_of, read_labeled
from kriss.rerank.losses import rerank_loss
from kriss.rerank.model import CrossEncoder
from kriss.rerank.prepare import check_usable, make_usable
from kriss.train import checkpoint
from kriss.train.curves import draw_curves
from kriss.train.log import BOARD, LOG, Log, Progress
from kriss.train.run import rate

_LOG_EVERY = 10
_EXAMPLES = "examples"
_SHAPING = ("candidates", "mentions_per_entity", "batch", "steps", "p_mask", "p_replace", "p_same_prototype",
            "p_same_name", "dev_queries", "seed")  # fmt: skip
"""Settings that examples depend on."""


@dataclass(frozen=True, slots=True)
class RerankReport:
    """What came of a run."""

    path: Path
    steps: int
    examples: int
    skipped: int
    """Mentions for whose entity nothing speaks but their own document and spelling."""
    before: RerankScore | None
    after: RerankScore | None
    best_step: int
    """The step whose weights were kept: the last, if there is no dev set."""
    tuning: Mapping[str, Any]
    """How to use it, and what that is worth on dev (`kriss.rerank.tune.Tuning`)."""


def train_reranker(
    config: RerankConfig,
    linker: Linker,
    mentions: Path,
    out: Path,
    *,
    gold: Sequence[Labeled] = (),
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda event: None,
) -> RerankReport:
    """Train a re-ranker on mined mentions with the linker's candidates, and write it to `out`.

    `gold` are mentions that a person labeled: they are at most half of what is learned from.
    """
    check(config)
    check_target(out, force=force)
    progress({"event": "prepare"})
    given = {
        "linker": linker.artifact.digest,
        "mentions": open_artifact(mentions, "mentions").digest,
        **linker.made_for(),
        "gold": digest_of(gold),
    }
    open_mentions(mentions, linker.ontology).close()
    linker.link([Mention.bare(linker.ontology.name_at(0))], top=1)  # refuses an encoder that is not the linker's own
    judges = _judges(config, linker, mentions)
    check_usable(linker, judges.labeled, mentions)
    work = out.parent / f".{out.name}.training"
    begun = _begun(work, resume=resume, force=force)
    torch.manual_seed(config.seed)
    model = CrossEncoder.from_pretrained(config.model, config.pair(), dropout=config.dropout)
    if not resume:
        shutil.rmtree(work, ignore_errors=True)
    try:
        examples, dev, skipped = _examples(config, linker, mentions, work / _EXAMPLES, given, progress, gold)
        run = _Run(config, examples, dev, skipped, model, work, progress, given)
        run.start(begun)
        run.go()
        run.finish(out, linker, mentions, judges, len(gold), force=force)
    except BaseException:
        if checkpoint.newest(work) is None and not any(work.rglob("block-*")):  # nothing to go on from
            shutil.rmtree(work, ignore_errors=True)
        raise
    return run.report(out)


def _examples(
    config: RerankConfig,
    linker: Linker,
    mentions: Path,
    folder: Path,
    given: Mapping[str, str],
    progress: Progress,
    gold: Sequence[Labeled] = (),
) -> tuple[Examples, Examples, int]:
    """Return the examples of the train split, those of the dev split, and how many of the former there could not be."""
    file = open_mentions(mentions, linker.ontology)
    stamp = {**{key: to_mapping(config)[key] for key in _SHAPING}, **given}
    wanted = {"train": config.steps * config.batch, "dev": config.dev_queries}  # no more than will be seen
    made, missing = {}, {}
    for split, count in wanted.items():
        labeled = chosen(read_labeled(file, linker.ontology, split, config.mentions_per_entity), count, config.seed)
        if split == "train" and gold:
            labeled = (chosen(gold, count // 2, config.seed) + labeled)[: count or None]
        maker = ExampleMaker(linker, config, split, training=split == "train")
        made[split] = build_examples(folder / split, labeled, maker, linker, stamp, progress)
        missing[split] = len(labeled) - len(made[split])
    if not len(made["train"]):
        raise InputError(f"{mentions} has no training mentions whose entities have other prototypes: mine more text")
    return made["train"], made["dev"], missing["train"]


@dataclass(frozen=True, slots=True)
class _Judges:
    """Mentions to choose by how the re-ranker is used."""

    split: str
    labeled: list[Labeled]


def _judges(config: RerankConfig, linker: Linker, mentions: Path) -> _Judges:
    """Return mentions of the dev split; without one, those of the train split that are not learned from, if any."""
    file = open_mentions(mentions, linker.ontology)
    for split in ("dev", "train"):
        labeled = chosen(read_labeled(file, linker.ontology, split, config.mentions_per_entity), 0, config.seed)
        if split == "dev" and labeled:
            return _Judges(split, labeled[: config.dev_queries])
    seen = config.steps * config.batch or len(labeled)
    fresh = labeled[seen:][: config.dev_queries]
    return _Judges("train, unseen", fresh) if fresh else _Judges("train", labeled[: config.dev_queries])


class _Run:
    """The state of a training run, and its loop."""

    def __init__(
        self,
        config: RerankConfig,
        examples: Examples,
        dev: Examples,
        skipped: int,
        model: CrossEncoder,
        work: Path,
        tell: Progress,
        given: Mapping[str, str],
    ) -> None:
        self.config, self.examples, self.dev, self.skipped = config, examples, dev, skipped
        self.model = model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        self.work, self.tell, self.given = work, tell, given
        self.batch = min(config.batch, len(examples))
        self.steps = config.steps or math.ceil(config.epochs * len(examples) / self.batch)
        self.step, self.best, self.best_step = 0, -1.0, 0
        self.before: RerankScore | None = None
        self.after: RerankScore | None = None
        self.log: Log | None = None
        self.tuning: Mapping[str, Any] = {}
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )

    def go(self) -> None:
        """Train from the present step to the last."""
        config = self.config
        self.tell({"event": "plan", "steps": self.steps, "step": self.step})
        if self.step == 0:
            self._look_at_dev()
        self.model.train()
        since, seen, losses = time.perf_counter(), 0, []
        while self.step < self.steps:
            for group in self.optimizer.param_groups:
                group["lr"] = config.learning_rate * rate(self.step, self.steps, config.warmup)
            loss, pairs = self._backward()
            length = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip, foreach=True))
            if not math.isfinite(loss) or not math.isfinite(length):
                raise KrissError(self._diverged(loss, length))
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.step += 1
            losses.append(loss)
            seen += pairs
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

    def places_at(self, step: int) -> list[int]:
        """Return the examples of a batch: a walk through all, in a new order each time round."""
        number, at = divmod(step, len(self.examples) // self.batch)
        order = np.random.default_rng((self.config.seed, number)).permutation(len(self.examples))
        return [int(place) for place in order[at * self.batch : (at + 1) * self.batch]]

    def _backward(self) -> tuple[float, int]:
        """Add the gradients of a batch; return its loss, and how many pairs were read."""
        places = self.places_at(self.step)
        total, pairs = 0.0, 0
        for first in range(0, len(places), self.config.chunk):
            some = [self.examples.get(place) for place in places[first : first + self.config.chunk]]
            options = [self.examples.options(example) for example in some]
            sequences = self.model.pairs([example.mention for example in some], options)
            [(order, batch)] = sequences.batches(len(sequences))
            flat = self.model.run(batch).float()[torch.from_numpy(np.argsort(order)).to(self.model.device)]
            gold = torch.tensor([example.gold for example in some], device=flat.device)
            loss = rerank_loss(*in_rows(flat, [len(part) for part in options]), gold) / len(places)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            pairs += len(sequences)
        return total, pairs

    def _look_at_dev(self) -> None:
        if not len(self.dev):
            return
        found = score(self.model, self.dev, self.config.candidates)
        if self.step == 0:
            self.before = found
        self._write({"dev": found.flat()})
        if found.reranked > self.best:
            self.best, self.best_step, self.after = found.reranked, self.step, found
            checkpoint.keep_best(self.work, self.model.state_dict())

    def _write(self, entry: dict[str, Any]) -> None:
        if self.log:
            self.log.write({"step": self.step, **entry})

    def _save(self) -> None:
        extra = {"random": torch.get_rng_state()}
        if self.model.device.type == "cuda":
            extra["random_cuda"] = torch.cuda.get_rng_state(self.model.device)
        state = checkpoint.State(self.step, self.best, self.best_step, to_mapping(self.config), self.given)
        checkpoint.save(self.work, state, self.model.state_dict(), self.optimizer, extra)

    def start(self, begun: Path | None) -> None:
        """Open the log, and put everything where it was when a checkpoint was written."""
        if begun:
            self._go_back(begun)
        self.log = Log(self.work, self.tell, self.step)
        scores = {entry["step"]: RerankScore.of(entry["dev"]) for entry in self.log.entries if "dev" in entry}
        self.before, self.after = scores.get(0), scores.get(self.best_step)

    def _go_back(self, folder: Path) -> None:
        state, weights, rest = checkpoint.read(folder, to_mapping(self.config), self.given)
        try:
            self.model.load_state_dict(weights)
        except RuntimeError:  # torch's message has a line for each tensor
            raise DamagedError(f"'{self.config.model}' is not the model that {folder} was trained from") from None
        checkpoint.restore_moments(self.optimizer, rest)
        torch.set_rng_state(rest["random"])
        if self.model.device.type == "cuda" and "random_cuda" in rest:
            torch.cuda.set_rng_state(rest["random_cuda"], self.model.device)
        self.step, self.best, self.best_step = state.step, state.best, state.best_step

    def _diverged(self, loss: float, length: float) -> str:
        what = f"the gradient has length {length}" if math.isfinite(loss) else f"the loss is {loss}"
        last = checkpoint.newest(self.work)
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint was written yet"
        return f"{what} at step {self.step + 1}: lower the learning rate; {kept}"

    def finish(self, out: Path, linker: Linker, mentions: Path, judges: _Judges, gold: int, *, force: bool) -> None:
        """Write the artifact: the weights that were best on dev, or the last if there is no dev set."""
        if self.log:
            self.log.close()
        if len(self.dev) and (best := checkpoint.read_best(self.work)):
            self.model.load_state_dict(best)
        sources = (("linker", linker.artifact.path), ("mentions", mentions))
        inputs: list[dict[str, Any]] = [{"name": path.name, "sha256": self.given[kind]} for kind, path in sources]
        if gold:
            inputs.append({"name": "gold", "mentions": gold, "sha256": self.given["gold"]})
        report = self.report(out)
        config, seed = to_mapping(self.config), self.config.seed
        with (
            checkpoint.writing(out, "is the disk full? --resume writes it without training again"),
            create(out, "reranker", config=config, inputs=inputs, seed=seed, force=force) as draft,
        ):
            self.model.cpu().save(draft.path)
            usable = make_usable(self.model, linker, judges.labeled, draft.path)
            shutil.copy(self.work / LOG, draft.path / LOG)
            draw_curves(self.log.entries if self.log else [], draft.path / "curves.png")
            if (self.work / BOARD).is_dir():
                shutil.copytree(self.work / BOARD, draft.path / BOARD)
            draft.facts |= {
                **linker.made_for(),
                "steps": report.steps,
                "best_step": report.best_step,
                "examples": report.examples,
                "skipped": report.skipped,
                "dev_before": self.before.flat() if self.before else {},
                "dev": self.after.flat() if self.after else {},
                **usable,
                "tuned_on": judges.split,
            }
            self.tuning = usable["tuning"]
        shutil.rmtree(self.work, ignore_errors=True)

    def report(self, out: Path) -> RerankReport:
        """Return what came of the run."""
        kept = self.best_step if len(self.dev) else self.steps
        return RerankReport(
            out, self.steps, len(self.examples), self.skipped, self.before, self.after, kept, self.tuning
        )


def in_rows(flat: Tensor, counts: list[int]) -> tuple[Tensor, Tensor]:
    """Return scores in a row for each mention, and where in it a candidate is: lists may differ in length."""
    places = torch.arange(max(counts), device=flat.device)
    real = places < torch.tensor(counts, device=flat.device)[:, None]
    return flat.new_zeros(real.shape).masked_scatter(real, flat), real


def _begun(work: Path, *, resume: bool, force: bool) -> Path | None:
    """Return the checkpoint to go on from; a run that was cut short before its first has examples alone."""
    if resume and not work.exists():
        raise ConfigError(f"there is no training to resume: {work} does not exist; leave out --resume")
    if not resume and work.exists() and not force:
        raise ExistsError(f"an interrupted training stands in {work}: --resume goes on with it, --force starts anew")
    return checkpoint.newest(work) if resume else None
