"""Training a re-ranker and making it ready to link: what a run is made of, beside the loop of all training."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kriss.artifacts import check_target, open_artifact
from kriss.encoder.session import OnnxCrossEncoder
from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.rank.rerank import made_for
from kriss.rank.tune import Case, tune, usable
from kriss.records import Excerpt
from kriss.rerank.config import RerankConfig
from kriss.rerank.examples import Example, ExampleMaker, digest_of, read_cases, shuffled
from kriss.rerank.export import export_reranker
from kriss.rerank.model import CrossEncoder, rerank_loss
from kriss.train import checkpoint
from kriss.train.log import Progress, Score
from kriss.train.loop import Loop, join_processes

_AT_ONCE = 64
"""Examples that are scored at a time, and on whose candidates a graph is compared with torch."""


@dataclass(frozen=True, slots=True)
class RerankReport:
    """What came of a run."""

    path: Path
    steps: int
    examples: int
    skipped: int
    """Mentions for whose entity nothing speaks but their own document and spelling."""
    before: Score | None
    after: Score | None
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
    check_target(out, "reranker", force=force)
    work = checkpoint.folder_of(out)
    begun = checkpoint.to_resume(work, resume=resume, force=force)
    progress({"event": "prepare"})
    digests = {"linker": linker.artifact.digest, "mentions": open_artifact(mentions, "mentions").digest}
    inputs = {**digests, **made_for(linker.artifact), "gold": digest_of(gold)}
    linker.link([Excerpt.bare(linker.ontology.name_at(0))], top=1)  # refuses an encoder that is not the linker's own
    splits = _Splits.read(config, linker, mentions, gold)
    torch.manual_seed(config.seed)
    model = CrossEncoder.from_pretrained(config.model, config.pair(), dropout=config.dropout)
    model.to(join_processes().device)
    examples = ExampleMaker(linker, config, training=True)(splits.train, progress)
    if not examples:
        raise InputError(f"{mentions} has no training mentions whose entities have other prototypes: mine more text")
    dev = ExampleMaker(linker, config, training=False)(splits.dev)
    if not begun:
        shutil.rmtree(work, ignore_errors=True)
    run = _Run(config, linker, examples, dev, model, work, inputs, progress)
    skipped = len(splits.train) - len(examples)
    with checkpoint.working(work):
        run.run(begun)
        sources: list[dict[str, Any]] = [
            {"name": path.name, "sha256": digests[kind]}
            for kind, path in (("linker", linker.artifact.path), ("mentions", mentions))
        ]
        if gold:
            sources.append({"name": "gold", "mentions": len(gold), "sha256": inputs["gold"]})
        with run.writing(out, "reranker", sources, force=force) as draft:
            model.cpu().save(draft.path)
            ready = make_usable(model, linker, splits.judges, dev or examples, config, draft.path)
            draft.facts |= {**made_for(linker.artifact), "examples": len(examples), "skipped": skipped, **ready}
    return RerankReport(out, run.steps, len(examples), skipped, run.before, run.after, run.kept, ready["tuning"])


@dataclass(frozen=True, slots=True)
class _Splits:
    """Mentions by what they are for."""

    train: list[Case]
    dev: list[Case]
    judges: list[Case]
    """Those that choose the weight in the linker: dev mentions, or without them such as are not trained on."""

    @classmethod
    def read(cls, config: RerankConfig, linker: Linker, mentions: Path, gold: Sequence[Case]) -> _Splits:
        """Read as many mentions as will be seen; without any to choose by there is an error, before training."""
        train, dev = (
            read_cases(mentions, linker.ontology, split, config.mentions_per_entity, config.seed)
            for split in ("train", "dev")
        )
        count = config.steps * config.batch or len(train)
        judges = usable(linker.prototypes, (dev or train[count:] or train)[: config.dev_queries])
        if not judges:
            raise InputError(
                f"{mentions}: no entity of the dev mentions has another name to be found by, so nothing could tell "
                "how well a re-ranker does; mine more text, or take an ontology with synonyms"
            )
        by_hand = shuffled(gold, config.seed)[: count // 2]
        return cls((by_hand + train)[:count], dev[: config.dev_queries], judges)


class _Run(Loop[list[int]]):
    """Training a re-ranker; a batch are the places of its examples."""

    def __init__(
        self,
        config: RerankConfig,
        linker: Linker,
        examples: Sequence[Example],
        dev: Sequence[Example],
        model: CrossEncoder,
        work: Path,
        inputs: Mapping[str, str],
        progress: Progress,
    ) -> None:
        self.batch = min(config.batch, len(examples))
        steps = config.steps or math.ceil(config.epochs * len(examples) / self.batch)
        super().__init__(config, model, steps, work, inputs, progress)
        self.config, self.linker, self.examples, self.dev = config, linker, examples, dev
        self.cross = model

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
            some = [self.examples[place] for place in batch[first : first + self.config.chunk]]
            options = [example.options(self.linker) for example in some]
            sequences = self.cross.pairs([example.mention for example in some], options)
            [(order, read)] = sequences.batches(len(sequences))
            scores = self.cross.run(read).float()[torch.from_numpy(np.argsort(order)).to(self.device)]
            loss = rerank_loss(scores, [len(part) for part in options], [one.gold for one in some]) / len(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            pairs += len(sequences)
        return total, pairs

    def judge(self) -> Score | None:
        """Re-rank the candidates of the dev mentions."""
        return score(self.cross, self.linker, self.dev, self.config.candidates) if self.dev else None


def score(model: CrossEncoder, linker: Linker, examples: Sequence[Example], candidates: int) -> Score:
    """Return the shares of dev mentions whose entity is first: after re-ranking, of the masked ones, and before it.

    One whose entity is not among the candidates is wrong, and so is a tie: no order can do better than `recall`.
    """
    right: list[bool] = []
    for first in range(0, len(examples), _AT_ONCE):
        some = examples[first : first + _AT_ONCE]
        options = [example.options(linker) for example in some]
        scores = model.scores(model.pairs([example.mention for example in some], options))
        bounds = np.cumsum([len(part) for part in options])[:-1]
        for example, own in zip(some, np.split(scores, bounds), strict=True):
            others = np.delete(own, example.gold) if example.gold >= 0 else own
            right.append(example.gold >= 0 and bool((own[example.gold] > others).all()))
    masked = [good for good, example in zip(right, examples, strict=True) if example.mention.masked]
    figures = {
        "reranked@1": right,
        **({"masked@1": masked} if masked else {}),
        "linker@1": [example.gold == 0 for example in examples],
        f"recall@{candidates}": [example.gold >= 0 for example in examples],
    }
    shares = {name: float(np.mean(found)) for name, found in figures.items()}
    return Score(shares["reranked@1"], shares)


def make_usable(
    model: CrossEncoder,
    linker: Linker,
    cases: Sequence[Case],
    examples: Sequence[Example],
    config: RerankConfig,
    folder: Path,
) -> dict[str, Any]:
    """Write graphs and weights beside a saved re-ranker, and return what the manifest says of them."""
    some = examples[:: max(len(examples) // _AT_ONCE, 1)]
    options = [example.options(linker) for example in some]
    pairs = model.pairs([example.mention for example in some], options)
    graphs = export_reranker(model, folder, pairs, [len(part) for part in options])
    cross = OnnxCrossEncoder(folder, graphs["precision"], config.candidates)
    before = tune(linker.ranking, linker.encoder, cases, names=())
    after = tune(replace(linker.ranking, reranker=cross), linker.encoder, cases, names=("cross",))
    after.save(folder)
    tuning = {"weight": after.weights["cross"], "linker": dict(before.accuracy), "reranked": dict(after.accuracy)}
    return {"onnx": graphs, "tuning": {**tuning, "mentions": len(cases)}}
