"""Accuracy on dev: how often the linker's first candidate is right, and how often the re-ranker's is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kriss.rerank.examples import Examples
from kriss.rerank.model import CrossEncoder

_SIZE = 64
"""Examples scored at a time."""


@dataclass(frozen=True, slots=True)
class RerankScore:
    """Shares of the dev mentions."""

    reranked: float
    """With the correct entity above all other candidates of the re-ranker; one that ties is not."""
    masked: float | None
    """The same of those that are masked, if any are."""
    linker: float
    """With the correct entity first before re-ranking."""
    recall: float
    """With the correct entity among the candidates: no order of them can do better."""
    candidates: int

    @property
    def mean(self) -> float:
        """What the best checkpoint is chosen by."""
        return self.reranked

    def flat(self) -> dict[str, float]:
        """Return the figures as a log has them."""
        masked = {} if self.masked is None else {"masked@1": self.masked}
        return {
            "reranked@1": self.reranked,
            **masked,
            "linker@1": self.linker,
            f"recall@{self.candidates}": self.recall,
        }

    @classmethod
    def of(cls, flat: Mapping[str, Any]) -> Self:
        """Return what `flat` gave."""
        [recall] = [key for key in flat if key.startswith("recall@")]
        masked = float(flat["masked@1"]) if "masked@1" in flat else None
        reranked, linker = float(flat["reranked@1"]), float(flat["linker@1"])
        return cls(reranked, masked, linker, float(flat[recall]), int(recall.removeprefix("recall@")))


def score(model: CrossEncoder, examples: Examples, candidates: int) -> RerankScore:
    """Ask for every dev mention; one whose entity is not among the candidates is wrong."""
    found = [examples.get(place) for place in range(len(examples))]
    right: list[bool] = []
    for first in range(0, len(found), _SIZE):
        some = found[first : first + _SIZE]
        options = [examples.options(example) for example in some]
        scores = model.scores(model.pairs([example.mention for example in some], options))
        bounds = np.cumsum([len(part) for part in options])[:-1]
        for example, own in zip(some, np.split(scores, bounds), strict=True):
            others = np.delete(own, example.gold) if example.gold >= 0 else own
            right.append(example.gold >= 0 and bool((own[example.gold] > others).all()))
    masked = [good for good, example in zip(right, found, strict=True) if example.mention.masked]
    return RerankScore(
        reranked=_share(right),
        masked=_share(masked) if masked else None,
        linker=_share([example.gold == 0 for example in found]),
        recall=_share([example.gold >= 0 for example in found]),
        candidates=candidates,
    )


def _share(right: list[bool]) -> float:
    return float(np.mean(right)) if right else 0.0
