"""Candidates in a new order, by a model that reads the mention and each of them together (section 3.5).

A re-ranker stands in the linker's folder. How many candidates it reads, how much its word counts beside the
linker's, and when the linker is sure enough not to ask it, was chosen on mentions that nobody labeled
(`kriss.rerank.tune`) and is kept with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import Artifact, open_artifact
from kriss.encoder.cross import OnnxCrossEncoder
from kriss.encoder.pairs import Option
from kriss.encoder.session import Precision
from kriss.errors import ArtifactError, DamagedError
from kriss.rank.logistic import Logistic
from kriss.rank.search import Hit
from kriss.records import Excerpt

BLEND = "blend.json"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Blend:
    """How the scores of linker and re-ranker become one."""

    candidates: int
    """K, the candidates that the re-ranker reads."""
    weight: float
    """What the logarithm of its probability counts beside the linker's score."""
    sure: float
    """Where the linker's own answer is at least so likely, nobody is asked; above 1 always."""
    fit: Logistic
    """How likely an answer is right, by its score of Eq. 4 and by the lead of its sum over the second."""
    precision: Precision

    def save(self, folder: Path) -> None:
        """Write what `load` reads."""
        (folder / BLEND).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Blend:
        """Read what was chosen for a re-ranker."""
        try:
            values = json.loads((folder / BLEND).read_text(encoding="utf-8"))
            fit = Logistic(**{name: float(value) for name, value in values["fit"].items()})
            weights = float(values["weight"]), float(values["sure"])
            found = cls(int(values["candidates"]), *weights, fit, values["precision"])
            if found.candidates < 2 or not np.isfinite(weights).all() or found.precision not in ("fp32", "int8"):
                raise ValueError(f"it has {values}")
            return found
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{folder / BLEND} cannot be read ({error}); train the re-ranker again") from None


@dataclass(frozen=True, slots=True)
class Answer:
    """The candidates of a mention in their order, and how likely the first is right; None if nobody was asked."""

    hits: list[Hit]
    probability: float | None


def blended(linker: Floats, cross: Floats, weight: float) -> Floats:
    """Return the sum of the linker's scores and the weighed logarithms of the re-ranker's probabilities.

    >>> blended(np.array([0.5, 0.6]), np.log(np.array([3.0, 1.0])), 0.1).argmax()
    np.int64(0)
    """
    highest = cross.max()
    return np.asarray(linker + weight * (cross - highest - np.log(np.exp(cross - highest).sum())))


def lead(scores: Floats) -> float:
    """Return by how much the best score is ahead of the second."""
    if len(scores) < 2:
        return float(abs(scores[0]))
    second, first = np.partition(scores, -2)[-2:]
    return float(first - second)


class Reranker:
    """Orders the candidates of a linker that it was trained for."""

    def __init__(self, folder: Path, made_for: Mapping[str, str], threads: int = 0) -> None:
        artifact = _opened(folder)
        for what, digest in made_for.items():
            if artifact.facts.get(what) != digest:
                raise ArtifactError(
                    f"{folder} was trained for another {what} than that of {folder.parent}; train one for this linker"
                )
        self.blend = Blend.load(folder)
        self._cross = OnnxCrossEncoder(folder, self.blend.precision, threads)

    def __call__(
        self,
        mentions: Sequence[Excerpt],
        found: Sequence[list[Hit]],
        likely: Sequence[float],
        option: Callable[[Hit], Option],
        *,
        candidates: int | None = None,
        sure: float | None = None,
    ) -> list[Answer]:
        """Return the answers for mentions, of which the linker thinks its own so `likely`.

        `candidates` and `sure` are taken from the blend unless they are given. One whose weight is 0 has no say.
        """
        count = self.blend.candidates if candidates is None else candidates
        limit = self.blend.sure if sure is None else sure
        asked = [number for number, hits in enumerate(found) if len(hits) > 1 and not likely[number] >= limit]
        answers = [Answer(list(hits), None) for hits in found]
        if not asked or not self.blend.weight:
            return answers
        options = [[option(hit) for hit in found[number][:count]] for number in asked]
        scores = self._cross.scores(self._cross.pairs([mentions[number] for number in asked], options))
        bounds = np.cumsum([len(some) for some in options])[:-1]
        for number, own in zip(asked, np.split(scores.astype(np.float64), bounds), strict=True):
            answers[number] = self._answer(found[number], own)
        return answers

    def _answer(self, hits: Sequence[Hit], cross: Floats) -> Answer:
        """Put the first candidates in order. What they gain keeps them before those that were not read."""
        read = hits[: len(cross)]
        scores = blended(np.array([hit.score for hit in read]), cross, self.blend.weight)
        gained = self.blend.weight * (cross - cross.min())
        order = np.argsort(-scores, kind="stable").tolist()
        ordered = [replace(read[place], score=read[place].score + float(gained[place])) for place in order]
        likely = self.blend.fit.probability(np.array(ordered[0].dense), np.array(lead(scores)))
        return Answer([*ordered, *hits[len(cross) :]], float(likely))


def _opened(folder: Path) -> Artifact:
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder.parent} has no re-ranker: train one with 'kriss rerank train' and put it in with "
            "'kriss rerank attach'"
        )
    return open_artifact(folder, "reranker")
