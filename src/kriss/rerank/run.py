"""Training a re-ranker: what a run is made of, beside the loop that all training shares."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kriss.artifacts import check_target, create, open_artifact
from kriss.config import to_mapping
from kriss.errors import ConfigError, ExistsError, InputError
from kriss.link.linker import Linker
from kriss.mine.store import open_mentions
from kriss.rank.tune import Case
from kriss.records import Excerpt
from kriss.rerank.config import RerankConfig, check
from kriss.rerank.dev import RerankScore, score
from kriss.rerank.examples import ExampleMaker, Examples, build_examples, chosen, digest_of, read_cases
from kriss.rerank.losses import rerank_loss
from kriss.rerank.model import CrossEncoder
from kriss.rerank.prepare import check_usable, make_usable
from kriss.train import checkpoint
from kriss.train.log import Progress
from kriss.train.loop import Loop

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
    """How much it counts, and what that is worth on dev mentions."""


def train_reranker(
    config: RerankConfig,
    linker: Linker,
    mentions: Path,
    out: Path,
    *,
    gold: Sequence[Case] = (),
    resume: bool = False,
    force: bool = False,
    progress: Progress = lambda event: None,
) -> RerankReport:
    """Train a re-ranker on mined mentions with the linker's candidates, and write it to `out`.

    `gold` are mentions that a person labeled: they are at most half of what is learned from.
    """
    check(config)
    check_target(out, "reranker", force=force)
    progress({"event": "prepare"})
    given = {
        "linker": linker.artifact.digest,
        "mentions": open_artifact(mentions, "mentions").digest,
        **linker.made_for(),
        "gold": digest_of(gold),
    }
    open_mentions(mentions, linker.ontology).close()
    linker.link([Excerpt.bare(linker.ontology.name_at(0))], top=1)  # refuses an encoder that is not the linker's own
    judges = _judges(config, linker, mentions)
    cases = check_usable(linker, judges.cases, mentions)
    judges = _Judges(judges.split, cases)
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
    gold: Sequence[Case] = (),
) -> tuple[Examples, Examples, int]:
    """Return the examples of the train split, those of the dev split, and how many of the former there could not be."""
    file = open_mentions(mentions, linker.ontology)
    stamp = {**{key: to_mapping(config)[key] for key in _SHAPING}, **given}
    wanted = {"train": config.steps * config.batch, "dev": config.dev_queries}  # no more than will be seen
    made, missing = {}, {}
    for split, count in wanted.items():
        labeled = chosen(read_cases(file, linker.ontology, split, config.mentions_per_entity), count, config.seed)
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
    cases: list[Case]


def _judges(config: RerankConfig, linker: Linker, mentions: Path) -> _Judges:
    """Return mentions of the dev split; without one, those of the train split that are not learned from, if any."""
    file = open_mentions(mentions, linker.ontology)
    for split in ("dev", "train"):
        labeled = chosen(read_cases(file, linker.ontology, split, config.mentions_per_entity), 0, config.seed)
        if split == "dev" and labeled:
            return _Judges(split, labeled[: config.dev_queries])
    seen = config.steps * config.batch or len(labeled)
    fresh = labeled[seen:][: config.dev_queries]
    return _Judges("train, unseen", fresh) if fresh else _Judges("train", labeled[: config.dev_queries])


class _Run(Loop[RerankScore, list[int]]):
    """Training a re-ranker; a batch are the places of its examples."""

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
        self.batch = min(config.batch, len(examples))
        steps = config.steps or math.ceil(config.epochs * len(examples) / self.batch)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        super().__init__(config, model.to(device), device, steps, work, tell, given, RerankScore)
        self.config, self.examples, self.dev, self.skipped, self.cross = config, examples, dev, skipped, model
        self.tuning: Mapping[str, Any] = {}

    def batches(self) -> Iterator[list[int]]:
        """Yield the batches that remain: a walk through all examples, in a new order each time round."""
        while self.step < self.steps:
            number, at = divmod(self.step, len(self.examples) // self.batch)
            order = np.random.default_rng((self.config.seed, number)).permutation(len(self.examples))
            yield [int(place) for place in order[at * self.batch : (at + 1) * self.batch]]

    def backward(self, batch: list[int]) -> tuple[float, int]:
        """Add the gradients of a batch, a few mentions at a time."""
        total, pairs = 0.0, 0
        for first in range(0, len(batch), self.config.chunk):
            some = [self.examples.get(place) for place in batch[first : first + self.config.chunk]]
            options = [self.examples.options(example) for example in some]
            sequences = self.cross.pairs([example.mention for example in some], options)
            [(order, read)] = sequences.batches(len(sequences))
            flat = self.cross.run(read).float()[torch.from_numpy(np.argsort(order)).to(self.device)]
            gold = torch.tensor([example.gold for example in some], device=flat.device)
            loss = rerank_loss(*in_rows(flat, [len(part) for part in options]), gold) / len(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            pairs += len(sequences)
        return total, pairs

    def judge(self) -> RerankScore | None:
        """Re-rank the candidates of the dev mentions."""
        return score(self.cross, self.dev, self.config.candidates) if len(self.dev) else None

    def finish(self, out: Path, linker: Linker, mentions: Path, judges: _Judges, gold: int, *, force: bool) -> None:
        """Write the artifact: the weights that were best on dev, or the last if there is no dev set."""
        self.take_best()
        sources = (("linker", linker.artifact.path), ("mentions", mentions))
        inputs: list[dict[str, Any]] = [{"name": path.name, "sha256": self.given[kind]} for kind, path in sources]
        if gold:
            inputs.append({"name": "gold", "mentions": gold, "sha256": self.given["gold"]})
        config, seed = to_mapping(self.config), self.config.seed
        with (
            checkpoint.writing(out, "is the disk full? --resume writes it without training again"),
            create(out, "reranker", config=config, inputs=inputs, seed=seed, force=force) as draft,
        ):
            self.cross.cpu().save(draft.path)
            usable = make_usable(
                self.cross, linker, judges.cases, self.dev or self.examples, self.config.candidates, draft.path
            )
            draft.facts |= {
                **linker.made_for(),
                **self.write_history(draft.path),
                "examples": len(self.examples),
                "skipped": self.skipped,
                **usable,
                "tuned_on": judges.split,
            }
            self.tuning = usable["tuning"]
        shutil.rmtree(self.work, ignore_errors=True)

    def report(self, out: Path) -> RerankReport:
        """Return what came of the run."""
        done = self.before, self.after, self.kept, self.tuning
        return RerankReport(out, self.steps, len(self.examples), self.skipped, *done)


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
