"""How to use a re-ranker: chosen on mentions of the dev split, which nobody labeled and no training saw.

Each mention is asked twice, as in `kriss.rank.calibrate`: once without the prototypes and the names that are
spelled as it is, so that other names must lead to its entity, and once with them. The linker's candidates are its best
by Eq. 4, in the order that likeness in spelling gives them. Of all numbers of candidates and all weights, those with
the best accuracy over both halves are taken, the smallest first; then the least certainty of the linker from which on
asking the re-ranker changes next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.pairs import Option, Pairs
from kriss.encoder.session import Precision
from kriss.encoder.windows import Sequences
from kriss.link.linker import Linker
from kriss.names import name_key
from kriss.rank.logistic import Logistic
from kriss.rank.rerank import Blend, blended, lead
from kriss.rank.spelling import Spelling
from kriss.rerank.candidates import Asked, CandidateSearch, Seen
from kriss.rerank.examples import Labeled, without_names

CANDIDATES = (2, 4, 8, 16)
WEIGHTS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56)
"""Weights that are tried, as shares of the usual distance between the linker's first and eighth candidate."""
_EIGHTH = 7
_DEEP = 32
"""Candidates of Eq. 4 that likeness in spelling may bring among the first."""
_COST = 0.002
"""What sparing the re-ranker may cost in accuracy."""
_ENOUGH = 20
"""Answers that a probability is fitted on, at least."""
_ALWAYS = 2.0
"""A certainty that no answer has."""
Floats = NDArray[np.float64]
Scores = Callable[[Sequences], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Case:
    """A dev mention as it is asked, with the linker's candidates in their order."""

    options: list[Option]
    dense: Floats
    """The scores of Eq. 4."""
    scores: Floats
    """These and likeness in spelling: the linker's order."""
    gold: int
    """The place of the correct entity; -1 if it is not there."""
    likely: float
    """How sure the linker is of its first candidate."""
    known: bool
    """Whether names and prototypes of its spelling count."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was chosen, and what it is worth: shares of the dev mentions, over both halves."""

    blend: Blend
    mentions: int
    linker: float
    reranked: float
    """With the re-ranker asked whenever the blend says."""
    always: float
    """With the re-ranker asked for every mention."""
    alone: float
    """By the re-ranker's scores among as many candidates."""
    recall: float
    """With the correct entity among the candidates that are read."""
    spared: float
    """For which the re-ranker is not asked."""
    left_out: int
    """Mentions that are in none of these figures, for nothing speaks for their entities but their own spelling."""
    unseen: tuple[float, float]
    """The accuracy before and after where no name is spelled as the mention."""

    def flat(self) -> dict[str, Any]:
        """Return the figures as a manifest has them."""
        figures = {key: value for key, value in asdict(self).items() if key not in ("blend", "unseen")}
        before, after = self.unseen
        chosen = {"candidates": self.blend.candidates, "weight": self.blend.weight, "sure": self.blend.sure}
        return {**chosen, **figures, "unseen": {"linker": before, "reranked": after}}


def dev_cases(linker: Linker, labeled: Sequence[Labeled]) -> list[tuple[Labeled, Case]]:
    """Ask the linker for each mention twice; those for which nothing else speaks than their spelling are left out."""
    search = CandidateSearch(linker)
    hidden = [frozenset({name_key(one.mention.surface)}) for one in labeled]
    kept = [
        number
        for number, (one, keys) in enumerate(zip(labeled, hidden, strict=True))
        if search.usable(Asked(one.mention, one.document, keys), one.entity)
    ]
    surfaces = [labeled[number].mention.surface for number in kept]
    index = linker.ngram_index
    spelling = Spelling(index, linker.ontology, surfaces) if linker.ngrams and index else None
    cases = []
    for known in (False, True):
        asked = [
            Asked(labeled[number].mention, labeled[number].document, frozenset() if known else hidden[number])
            for number in kept
        ]
        answers = search(asked, [labeled[number].entity for number in kept], _DEEP)
        for place, (number, (found, _)) in enumerate(zip(kept, answers, strict=True)):
            dense = np.array([seen.score for seen in found])
            scores = dense.copy()
            entities = np.array([seen.entity for seen in found], dtype=np.int64)
            if spelling:
                scores += linker.ngrams * spelling.of(place, entities, without=not known)
            named = known and linker.hierarchy.is_named(int(entities[np.argmax(scores)]), surfaces[place])
            if linker.broader and not named:
                scores += linker.broader * linker.hierarchy.support(entities.tolist(), scores)
            order = np.argsort(-scores, kind="stable")[: max(CANDIDATES)].tolist()
            one = labeled[number]
            keys = frozenset[str]() if known else hidden[number]
            case = Case(
                options=[_option(linker, found[at], keys) for at in order],
                dense=dense[order],
                scores=scores[order],
                gold=next((rank for rank, at in enumerate(order) if found[at].entity == one.entity), -1),
                likely=linker.calibration.fit(linker.context).likely(dense, order[0]),
                known=known,
            )
            cases.append((one, case))
    return cases


def _option(linker: Linker, seen: Seen, hidden: frozenset[str]) -> Option:
    [prototype] = linker.prototypes.mentions(seen.prototype, seen.prototype + 1)
    return Option(without_names(linker.ontology.at(seen.entity), hidden), prototype)


def tune(
    pairs: Pairs, scores: Scores, cases: Sequence[tuple[Labeled, Case]], precision: Precision, left_out: int = 0
) -> Tuning:
    """Choose how to use a re-ranker by at least one dev mention."""
    mentions, options = [one.mention for one, _ in cases], [case.options for _, case in cases]
    flat = scores(pairs(mentions, options)).astype(np.float64)
    cross = np.split(flat, np.cumsum([len(some) for some in options])[:-1])
    asked = [case for _, case in cases]
    scale = _scale(asked)
    trials = [(count, weight * scale) for count in CANDIDATES for weight in WEIGHTS]
    right = {trial: _right(asked, cross, *trial) for trial in trials}
    best = max(trials, key=lambda trial: right[trial].mean())  # the first of equals: the smallest
    count, weight = best
    first = np.array([case.gold == 0 for case in asked])
    likely = np.array([case.likely for case in asked])
    sure = _sure(first, right[best], likely) if weight else 0.0
    after = np.where(likely >= sure, first, right[best])
    unseen = np.array([not case.known for case in asked])
    fit = _chance(asked, cross, count, weight, right[best], likely < sure)
    return Tuning(
        blend=Blend(count, weight, sure, fit, precision),
        mentions=len(asked) // 2,
        linker=_share(first),
        reranked=_share(after),
        always=_share(right[best]),
        alone=_share(np.array([int(own[:count].argmax()) == c.gold for c, own in zip(asked, cross, strict=True)])),
        recall=_share(np.array([0 <= case.gold < count for case in asked])),
        spared=_share(likely >= sure),
        left_out=left_out,
        unseen=(_share(first[unseen]), _share(after[unseen])),
    )


def _right(cases: Sequence[Case], cross: Sequence[Floats], count: int, weight: float) -> NDArray[np.bool_]:
    """Tell for which mentions the best of the first candidates is the correct one."""
    return np.array(
        [
            int(blended(case.scores[:count], own[:count], weight).argmax()) == case.gold
            for case, own in zip(cases, cross, strict=True)
        ]
    )


def _sure(before: NDArray[np.bool_], after: NDArray[np.bool_], likely: Floats) -> float:
    """Return the least certainty from which on the linker alone costs next to nothing; more than 1 if none is."""
    order = np.argsort(-likely, kind="stable")
    lost = np.cumsum(after[order].astype(int) - before[order].astype(int))
    affordable = np.flatnonzero(lost <= _COST * len(likely))
    last = [at for at in affordable.tolist() if at + 1 == len(order) or likely[order[at + 1]] < likely[order[at]]]
    return float(likely[order[last[-1]]]) if last else _ALWAYS


def _scale(cases: Sequence[Case]) -> float:
    """Return how far apart the linker's scores usually are: encoders differ in that."""
    spread = float(np.median([case.scores[0] - case.scores[: _EIGHTH + 1][-1] for case in cases]))
    return spread if spread > 0 else 1.0


def _chance(
    cases: Sequence[Case],
    cross: Sequence[Floats],
    count: int,
    weight: float,
    right: NDArray[np.bool_],
    asked: NDArray[np.bool_],
) -> Logistic:
    """Return how likely an answer is right where the re-ranker was asked, or anywhere if it hardly ever is.

    The score is that of Eq. 4: unlike the sum it does not depend on how many candidates are read.
    """
    figures = []
    for case, own in zip(cases, cross, strict=True):
        sums = blended(case.scores[:count], own[:count], weight)
        figures.append((case.dense[int(sums.argmax())], lead(sums)))
    score, margin = np.array(figures).T
    some = asked if asked.sum() >= _ENOUGH else np.ones_like(asked)
    return Logistic.fitted(score[some], margin[some], right[some])


def _share(right: NDArray[np.bool_]) -> float:
    return round(float(right.mean()), 4) if len(right) else 0.0
