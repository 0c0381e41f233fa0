"""How far to trust a score, and how much to listen to the context: learned from mentions nobody labeled.

A mined mention's name is in the index, so linking it would be no test. So half of the queries are asked
without the prototypes that are spelled as they are, and only other names and other mentions can lead to the
entity; the other half is asked as it is. In the corpora that we know, too, about half of the mentions
are spelled as some name. Where there are no dev mentions, names stand in for them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kriss.errors import DamagedError
from kriss.index.prototypes import Prototypes
from kriss.index.vectors import Index
from kriss.mine.store import mentions_of
from kriss.names import name_key
from kriss.ontology import Ontology
from kriss.rank.hierarchy import LOOKED_AT, Hierarchy
from kriss.rank.logistic import Logistic
from kriss.rank.query import EncodesMentions, query_vectors
from kriss.rank.spelling import Spelling
from kriss.records import Excerpt

FILE = "calibration.json"
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of the context that are tried."""
NGRAMS = (0.0, 0.1, 0.2, 0.4)
"""Weights of likeness in spelling that are tried."""
BROADER = (0.0, 0.02, 0.04, 0.06)
"""Weights of what narrower candidates say for broader ones that are tried."""
_OF_ONE = 4
"""Of one entity, at most."""
_DEFAULT = 0.5
_DEPTH = 256
"""Prototypes looked at: an entity rarely has so many that its equals crowd out the second."""
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Ranked = tuple[Rows, Floats]
"""Entities and their scores, the best first."""


@dataclass(frozen=True, slots=True)
class Fit(Logistic):
    """With one weight of the context: how often the first entity is right, and how likely by its scores."""

    context: float
    unseen: float
    """Accuracy where the index has no prototype of that spelling."""
    known: float

    def likely(self, dense: Floats, first: int) -> float:
        """Return how likely a candidate is right, by its dense score and its lead over the best of the others."""
        others = np.delete(dense, first)
        margin = dense[first] - others.max() if len(others) else abs(dense[first])
        return float(self.probability(np.array(dense[first]), np.array(margin)))

    @property
    def right(self) -> float:
        """Accuracy over both halves, twice."""
        return self.unseen + self.known


@dataclass(frozen=True, slots=True)
class Calibration:
    """One fit for each weight of the context, and the weight that did best."""

    context: float
    fits: tuple[Fit, ...]
    queries: int
    ngrams: float = 0.0
    """The weight of likeness in spelling that did best."""
    broader: float = 0.0
    """The weight of what narrower candidates say for broader ones that did best."""

    def fit(self, context: float) -> Fit:
        """Return the fit of the nearest weight."""
        return min(self.fits, key=lambda fit: abs(fit.context - context))

    def save(self, folder: Path) -> None:
        """Write what `load` reads."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Calibration:
        """Read the calibration of a linker."""
        try:
            values = json.loads((folder / FILE).read_text(encoding="utf-8"))
            fits = tuple(Fit(**{name: float(value) for name, value in fit.items()}) for fit in values["fits"])
            if not fits:
                raise ValueError("it has no fits")
            ngrams, broader = float(values["ngrams"]), float(values["broader"])
            return cls(float(values["context"]), fits, int(values["queries"]), ngrams, broader)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{folder / FILE} cannot be read ({error}); build the linker again") from None


@dataclass(frozen=True, slots=True)
class Question:
    """A mention whose entity is known."""

    mention: Excerpt
    entity: int


def dev_questions(file: pq.ParquetFile, ontology: Ontology, count: int, seed: int) -> list[Question]:
    """Draw mentions of the dev split, a few of an entity at most."""
    taken: Counter[str] = Counter()
    kept: list[tuple[str, Excerpt]] = []
    for table in mentions_of(file, ["dev"], ["entity", "left", "surface", "right"]):
        for entity, *text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            taken[entity] += 1
            if taken[entity] <= _OF_ONE:
                kept.append((entity, Excerpt(*text)))
    draw = np.sort(np.random.default_rng(seed).permutation(len(kept))[:count])
    rows = [(ontology.row_of(kept[place][0]), kept[place][1]) for place in draw.tolist()]
    return [Question(mention, row) for row, mention in rows if row is not None]


def name_questions(prototypes: Prototypes, count: int, seed: int) -> list[Question]:
    """Draw names as they stand in the index, for an ontology without dev mentions."""
    draw = np.sort(np.random.default_rng(seed).permutation(len(prototypes))[:count])
    return [Question(Excerpt.bare(prototypes.surface(row)), int(prototypes.entity[row])) for row in draw.tolist()]


def usable(prototypes: Prototypes, questions: Sequence[Question]) -> list[Question]:
    """Return the questions that have an answer also when the prototypes of their spelling are left out."""
    return [question for question in questions if _has_other_names(prototypes, question)]


def calibrate(
    encoder: EncodesMentions,
    index: Index,
    prototypes: Prototypes,
    questions: Sequence[Question],
    weights: Sequence[float],
    spelling: Spelling | None = None,
    hierarchy: Hierarchy | None = None,
) -> Calibration:
    """Choose the weights by the accuracy over both halves, that of the context first, and fit the probability.

    `spelling` is the likeness of the questions' surfaces to names, `hierarchy` what speaks for broader entities;
    without them, they have no weight.
    """
    if not questions:
        return Calibration(_DEFAULT, (Fit(0.0, 0.0, 0.0, _DEFAULT, 0.0, 0.0),), 0)
    answers = _Answers(questions, spelling, hierarchy)
    for weight in weights:
        mentions = [question.mention for question in questions]
        found = index.search(query_vectors(encoder, mentions, weight), min(_DEPTH, len(index)))
        answers.see(weight, *found, prototypes)
    heard = [answers.fit(weight) for weight in weights]
    context = max(heard[place].context for place in _as_good_as_the_best(heard, len(questions)))
    trials = NGRAMS if spelling else (0.0,)
    spelled = [answers.fit(context, trial) for trial in trials]
    ngrams = max(trials[place] for place in _as_good_as_the_best(spelled, len(questions)))
    trials = BROADER if hierarchy else (0.0,)
    raised = [answers.fit(context, ngrams, trial) for trial in trials]
    broader = min(trials[place] for place in _as_good_as_the_best(raised, len(questions)))
    fits = tuple(answers.fit(weight, ngrams, broader) for weight in weights)
    return Calibration(context if len(fits) > 1 else _DEFAULT, fits, len(questions), ngrams, broader)


class _Answers:
    """The candidates for each question, in both halves, and which of them is first with which weights."""

    def __init__(self, questions: Sequence[Question], spelling: Spelling | None, hierarchy: Hierarchy | None) -> None:
        self._surfaces = [question.mention.surface for question in questions]
        self._keys = [name_key(surface) for surface in self._surfaces]
        self._gold = np.array([question.entity for question in questions])
        self._spelling = spelling
        self._hierarchy = hierarchy
        self._halves: dict[float, list[list[Ranked]]] = {}
        self._alike: dict[float, list[list[Floats]]] = {}

    def see(self, context: float, scores: NDArray[np.float32], rows: Rows, prototypes: Prototypes) -> None:
        """Keep the candidates that were found with a weight of the context."""
        hidden = (self._keys, None)
        halves = [list(_candidates(scores, rows, prototypes, dropped)) for dropped in hidden]
        self._halves[context] = halves
        if self._spelling:
            self._alike[context] = _alike(halves, self._spelling)

    def fit(self, context: float, ngrams: float = 0.0, broader: float = 0.0) -> Fit:
        """Answer all questions with these weights, and fit how likely an answer is right."""
        outcomes = []
        for half, ranked in enumerate(self._halves[context]):
            best = np.array(
                [
                    _lead(one, self._sums(one, context, half, number, ngrams, broader))
                    for number, one in enumerate(ranked)
                ]
            )
            outcomes.append((best[:, 0] == self._gold, best[:, 1], best[:, 2]))
        (unseen, _, _), (known, _, _) = outcomes
        right, score, margin = (np.concatenate(parts) for parts in zip(*outcomes, strict=True))
        chance = Logistic.fitted(score, margin, right)
        return Fit(chance.intercept, chance.score, chance.margin, context, float(unseen.mean()), float(known.mean()))

    def _sums(self, ranked: Ranked, context: float, half: int, number: int, ngrams: float, broader: float) -> Floats:
        """Return the scores of the first candidates with all that is added to them."""
        entities, dense = ranked[0][:LOOKED_AT], ranked[1][:LOOKED_AT]
        sums = dense + ngrams * self._alike[context][half][number] if ngrams else dense
        if not broader or not self._hierarchy or not len(sums):
            return sums
        if half and self._hierarchy.is_named(int(entities[np.argmax(sums)]), self._surfaces[number]):
            return sums  # in the other half that name is hidden
        return np.asarray(sums + broader * self._hierarchy.support(entities.tolist(), sums))


def _as_good_as_the_best(fits: Sequence[Fit], questions: int) -> list[int]:
    """Return the places of those that are within a standard error of the best.

    Of these the largest weight of context and of spelling is taken, for the questions are unfair to both. Mined names
    are unambiguous: on them the context can only be seen to cost something, never what it is for. And where all names
    of a mention's spelling are left out, those that are nearly spelled so belong to other entities, while a text that
    misspells a name leaves that name in its place. Of what narrower candidates say for broader ones the smallest is
    taken: it overrules the scores, so no more of it than it takes.
    """
    best = max(fits, key=lambda fit: fit.right)
    error = np.sqrt((best.unseen * (1 - best.unseen) + best.known * (1 - best.known)) / questions)
    return [place for place, fit in enumerate(fits) if fit.right >= best.right - error]


def _lead(ranked: Ranked, sums: Floats) -> tuple[float, float, float]:
    """Return the first entity by the sums, its dense score and its lead over the best of the others."""
    entities, dense = ranked
    if not len(entities):
        return -1.0, 0.0, 0.0
    place = int(np.argmax(sums))
    others = np.delete(dense, place)
    return float(entities[place]), float(dense[place]), float(dense[place] - others.max()) if len(others) else 0.0


def _alike(halves: Sequence[Sequence[Ranked]], spelling: Spelling) -> list[list[Floats]]:
    """Return how alike the names of the first candidates are to each question."""
    return [
        [
            spelling.of(number, entities[:LOOKED_AT], without=half == 0).astype(np.float64)
            for number, (entities, _) in enumerate(ranked)
        ]
        for half, ranked in enumerate(halves)
    ]


def _has_other_names(prototypes: Prototypes, question: Question) -> bool:
    """Whether an entity could be found by a prototype that is spelled otherwise."""
    first, last = np.searchsorted(prototypes.entity, [question.entity, question.entity + 1]).tolist()
    key = name_key(question.mention.surface)
    return any(name_key(prototypes.surface(row)) != key for row in range(first, last))


def _candidates(
    scores: NDArray[np.float32], rows: Rows, prototypes: Prototypes, dropped: Sequence[str] | None
) -> Iterator[Ranked]:
    """Yield for each query the entities found and their best scores, without prototypes of a spelling."""
    for number, (row_scores, row_rows) in enumerate(zip(scores, rows, strict=True)):
        best: dict[int, float] = {}
        for score, row in zip(row_scores.tolist(), row_rows.tolist(), strict=True):
            if row >= 0 and not (dropped and name_key(prototypes.surface(row)) == dropped[number]):
                best.setdefault(int(prototypes.entity[row]), score)
        yield np.array([*best], dtype=np.int64), np.array([*best.values()])
