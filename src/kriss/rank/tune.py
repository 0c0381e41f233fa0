"""Choosing all weights, by asking the ranking itself on mentions that nobody labeled.

A mined mention's name is in the index, so linking it as it is would be no test. So each dev mention is linked once for
each slice that it belongs to:

    known    as it is: its name is the name of one entity
    hidden   without the prototypes and names that are spelled as it is: only others can lead to the entity

and a weight is judged by the mean of its accuracy over the slices. The features are gone through in their order; of
the weights of one that are within a standard error of the best, the smallest is taken, or the largest where the
mentions are unfair to a feature: mined names are unambiguous, so that on them the context can only be seen to cost
something, never what it is for; and where all names of a mention's spelling are hidden, those that are nearly spelled
so belong to other entities, while a text that misspells a name leaves that name in its place. Nor do they show what an
exact match is worth, beyond that it is right. Where there are no dev mentions, names stand in for them, and the context
is not tried.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kriss.errors import DamagedError
from kriss.index.prototypes import Prototypes
from kriss.mine.store import mentions_of
from kriss.ontology import Ontology
from kriss.rank import features
from kriss.rank.candidates import Candidates
from kriss.rank.decide import Ranked, Ranking
from kriss.rank.features import Asked, Feature
from kriss.rank.probability import Logistic
from kriss.rank.queries import EncodesMentions, Hidden, Queries, key_of
from kriss.records import Excerpt

FILE = "weights.json"
Slice = Literal["known", "hidden"]
SLICES: tuple[Slice, ...] = ("known", "hidden")
_DEFAULT = {"context": 0.5, "references": 1.0}
"""Weights where nothing can be asked: both views, and Eq. 4."""
_LABELS = 0.96
"""The share of mined labels that are right, of 200 read by hand: an answer like its label is right by so much."""
_OF_ONE = 4
"""Dev mentions of one entity, at most."""
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Weights:
    """How a linker combines its features, and what that is worth on dev mentions."""

    weights: Mapping[str, float]
    chance: Logistic
    queries: int = 0
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """The share that is right, by slice."""

    def save(self, folder: Path) -> None:
        """Write what `load` reads."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Weights:
        """Read the weights of a linker or of a re-ranker."""
        try:
            values = json.loads((folder / FILE).read_text(encoding="utf-8"))
            weights, accuracy = (
                {str(name): float(value) for name, value in values[part].items()} for part in ("weights", "accuracy")
            )
            slopes = tuple(float(slope) for slope in values["chance"]["slopes"])
            chance = Logistic(float(values["chance"]["intercept"]), slopes)
            figures = [*weights.values(), *slopes, chance.intercept]
            if len(slopes) != 3 or not all(map(math.isfinite, figures)):
                raise ValueError(f"it has {values}")
            return cls(weights, chance, int(values["queries"]), accuracy)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedError(f"{folder / FILE} cannot be read ({error}); build it again") from None


@dataclass(frozen=True, slots=True)
class Case:
    """A mention whose entity is known."""

    excerpt: Excerpt
    entity: int
    document: str = ""

    def hidden(self, slice: Slice) -> Hidden:
        """Return what may not speak for it in a slice."""
        return Hidden(frozenset({key_of(self.excerpt.surface)} if slice == "hidden" else ()), self.document)


def dev_cases(file: pq.ParquetFile, ontology: Ontology, count: int, seed: int) -> list[Case]:
    """Draw mentions of the dev split, a few of an entity at most."""
    taken: Counter[str] = Counter()
    kept: list[tuple[str, str, Excerpt]] = []
    for table in mentions_of(file, ["dev"], ["entity", "document", "left", "surface", "right"]):
        for entity, document, *text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            taken[entity] += 1
            if taken[entity] <= _OF_ONE:
                kept.append((entity, document, Excerpt(*text)))
    draw = np.sort(np.random.default_rng(seed).permutation(len(kept))[:count])
    rows = [(ontology.row_of(kept[place][0]), *kept[place][1:]) for place in draw.tolist()]
    return [Case(excerpt, row, document) for row, document, excerpt in rows if row is not None]


def name_cases(prototypes: Prototypes, count: int, seed: int) -> list[Case]:
    """Draw names as they stand in the index, for an ontology without dev mentions."""
    draw = np.sort(np.random.default_rng(seed).permutation(len(prototypes))[:count])
    return [Case(Excerpt.bare(prototypes.surface(row)), int(prototypes.entity[row])) for row in draw.tolist()]


def usable(prototypes: Prototypes, cases: Sequence[Case]) -> list[Case]:
    """Return the cases that have an answer also where their spelling is hidden."""

    def has_another(case: Case) -> bool:
        first, last = np.searchsorted(prototypes.entity, [case.entity, case.entity + 1]).tolist()
        hidden = case.hidden("hidden")
        return any(not hidden.hides(prototypes.surface(row), prototypes.document(row)) for row in range(first, last))

    return [case for case in cases if has_another(case)]


def tune(
    ranking: Ranking, encoder: EncodesMentions, cases: Sequence[Case], names: Sequence[str] | None = None
) -> Weights:
    """Choose the weights of the named features, or of all, and fit the probability; other weights stay as they are.

    The ranking brings the weights to begin with, and the parts that are asked.
    """
    chosen = {feature.name: feature.trials[0] for feature in features.FEATURES} | dict(ranking.weights)
    if not cases:
        return Weights(_DEFAULT | {"learned": chosen["learned"]}, Logistic(0.0, (0.0, 0.0, 0.0)))
    asked = _Dev(ranking, encoder, cases)
    for feature in features.FEATURES:
        if len(feature.trials) > 1 and (names is None or feature.name in names):
            chosen[feature.name] = asked.best(feature, chosen)
    answers = asked.answers(chosen)
    right = {slice: asked.right(found) for slice, found in answers.items()}
    facts = np.array(
        [one.evidence if len(one.evidence) else np.zeros(3) for found in answers.values() for one in found]
    )
    chance = Logistic.fitted(facts, np.concatenate(list(right.values())), _LABELS)
    accuracy = {str(slice): round(float(found.mean()), 4) for slice, found in right.items()}
    return Weights({name: weight for name, weight in chosen.items() if name != "bare"}, chance, len(cases), accuracy)


class _Dev:
    """Dev mentions, and what was found for them: candidates once for each weight of the context."""

    def __init__(self, ranking: Ranking, encoder: EncodesMentions, cases: Sequence[Case]) -> None:
        self._ranking = ranking
        self._cases = cases
        self._gold = np.array([case.entity for case in cases])
        excerpts = [case.excerpt for case in cases]
        self._in_context = any(one.left or one.right for one in excerpts)
        self._queries = Queries.of(encoder, excerpts, context=self._in_context)
        self._gathered: dict[tuple[float, Slice], list[tuple[Asked, Candidates]]] = {}

    def best(self, feature: Feature, weights: Mapping[str, float]) -> float:
        """Return the weight of a feature that is best with the others as they are."""
        trials = feature.trials
        if feature.name == "context" and not self._in_context:
            trials = (0.0,)
        shares = [self._accuracy({**weights, feature.name: trial}) for trial in trials]
        best = max(shares, key=sum)
        error = math.sqrt(sum(share * (1 - share) for share in best) / len(self._cases))
        good = [trial for trial, share in zip(trials, shares, strict=True) if sum(share) >= sum(best) - error]
        return max(good) if feature.prefer == "largest" else min(good)

    def answers(self, weights: Mapping[str, float]) -> dict[Slice, list[Ranked]]:
        """Link all mentions with some weights, in each slice."""
        found: dict[Slice, list[Ranked]] = {}
        for slice in SLICES:
            ranking = replace(self._ranking, weights=weights)
            found[slice] = [
                ranked for batch in self._batches(ranking, slice) for ranked in ranking.decided(*batch, weights)
            ]
        return found

    def right(self, answers: Sequence[Ranked]) -> NDArray[np.bool_]:
        """Tell which answers have the correct entity first."""
        first = [int(ranked.entities[0]) if len(ranked.entities) else -1 for ranked in answers]
        return np.asarray(np.array(first) == self._gold)

    def _accuracy(self, weights: Mapping[str, float]) -> list[float]:
        return [float(self.right(found).mean()) for found in self.answers(weights).values()]

    def _batches(self, ranking: Ranking, slice: Slice) -> list[tuple[Asked, Candidates]]:
        """Return the candidates of all mentions; the weight of the context alone decides which they are."""
        key = ranking.context, slice
        if key not in self._gathered:
            self._gathered = {known: found for known, found in self._gathered.items() if known[0] == key[0]}
            self._gathered[key] = [ranking.gathered(batch) for batch in self._split(slice)]
        return self._gathered[key]

    def _split(self, slice: Slice) -> Iterator[Queries]:
        whole = self._queries
        hidden = [case.hidden(slice) for case in self._cases]
        for first in range(0, len(whole), _BATCH):
            own = np.s_[first : first + _BATCH]
            yield Queries(whole.excerpts[own], whole.bare[own], whole.context[own], (), hidden[own])
