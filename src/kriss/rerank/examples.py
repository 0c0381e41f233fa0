"""Training data: mined mentions, each with candidates of the linker, one of which is right.

A mention is first masked, or another name of its entity is put in its place, or it stays as it is; then the linker's
own ranking is asked, with what would give the answer away hidden from it: the mention's document, and, but for a share
of the mentions, whatever is spelled like it. What an example consists of depends on the seed and its number alone, so
a run that goes on after a kill makes them again: that takes a fiftieth of a second each.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from kriss.encoder.pairs import Option
from kriss.link.linker import Linker, encodable, storable
from kriss.names import name_key
from kriss.ontology import Ontology
from kriss.rank.features import without_names
from kriss.rank.queries import Hidden, Queries
from kriss.rank.tune import Case
from kriss.records import Document, Excerpt, Mention
from kriss.rerank.config import RerankConfig
from kriss.train.examples import read_mentions

_BATCH = 256
"""Mentions that the linker is asked about at a time."""
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Example:
    """A mention as the model sees it, and its candidates."""

    mention: Excerpt
    candidates: tuple[tuple[int, int], ...]
    """An entity and its best prototype: rows of the ontology and of the linker's table."""
    gold: int
    """The place of the correct entity among them; -1 if it is not there."""
    hidden: frozenset[str] = frozenset()
    """Keys of the names that references leave out."""

    def options(self, linker: Linker) -> list[Option]:
        """Return the candidates as the model sees them."""
        found = []
        for entity, prototype in self.candidates:
            [shown] = linker.prototypes.mentions(prototype, prototype + 1)
            found.append(Option(without_names(linker.ontology.at(entity), self.hidden), shown))
        return found


def read_cases(folder: Path, ontology: Ontology, split: str, most: int, seed: int) -> list[Case]:
    """Read the first `most` mentions of each entity in a split, and put them in a random order."""
    mined = read_mentions(folder, ontology, split, most)
    counts = zip(mined.rows.tolist(), mined.counts().tolist(), strict=True)
    numbers = [(row, place, number) for place, (row, count) in enumerate(counts) for number in range(count)]
    return shuffled(
        [Case(mined.get(place, number), row, mined.document(place, number)) for row, place, number in numbers], seed
    )


def shuffled(cases: Sequence[Case], seed: int) -> list[Case]:
    """Return mentions in a random order."""
    return [cases[place] for place in np.random.default_rng((seed, 11)).permutation(len(cases)).tolist()]


def labeled_by_hand(documents: Iterable[Document], linker: Linker) -> list[Case]:
    """Return the mentions of documents that name one entity, if the linker has it in its ontology."""
    found = []
    for document in documents:
        for span in document.spans:
            known = linker.find_id(span.entities[0]) if len(span.entities) == 1 else None
            row = None if known is None else linker.ontology.row_of(known)
            if row is not None:
                mention = storable(Mention(document, span.start, span.end))
                found.append(Case(mention.excerpt(), row, document.id))
    return found


def digest_of(cases: Iterable[Case]) -> str:
    """Return a name for what the mentions say."""
    return sha256(json.dumps([astuple(one) for one in cases]).encode()).hexdigest()


class ExampleMaker:
    """Makes examples; `training` puts the correct entity among the candidates, in any place."""

    def __init__(self, linker: Linker, config: RerankConfig, *, training: bool) -> None:
        self._linker = linker
        self._config = config
        self._training = training

    def __call__(self, cases: Sequence[Case], progress: Progress = lambda event: None) -> list[Example]:
        """Return examples of the mentions that have any."""
        found: list[Example] = []
        for first in range(0, len(cases), _BATCH):
            found += self._made(cases[first : first + _BATCH], first)
            progress({"event": "examples", "done": min(first + _BATCH, len(cases)), "total": len(cases)})
        return found

    def _made(self, cases: Sequence[Case], first: int) -> Iterator[Example]:
        """Yield examples of a batch; `first` is the number of the first mention in it."""
        ranking, most = self._linker.ranking, self._config.candidates
        drawn = [self._drawn(case, number) for number, case in enumerate(cases, first)]
        views, hidden = [encodable(view) for view, _, _ in drawn], [hidden for _, hidden, _ in drawn]
        queries = Queries.of(self._linker.encoder, views, context=ranking.context > 0, hidden=hidden)
        finder, vectors = ranking.finder(), queries.vectors(ranking.context)
        for case, (view, hides, draw), vector, ranked in zip(
            cases, drawn, vectors, ranking(queries, top=most), strict=True
        ):
            best = finder.best_of(case.entity, vector, hides)
            if not len(best.entities):  # only the correct candidate would have no evidence
                continue
            found = list(zip(ranked.entities[:most].tolist(), ranked.rows[:most].tolist(), strict=True))
            if self._training:
                if case.entity not in ranked.entities[:most]:
                    found = [*found[: most - 1], (case.entity, int(best.rows[0]))]
                draw.shuffle(found)
            gold = next((place for place, (entity, _) in enumerate(found) if entity == case.entity), -1)
            yield Example(view, tuple(found), gold, self._unseen(case, view, draw))

    def _drawn(self, case: Case, number: int) -> tuple[Excerpt, Hidden, random.Random]:
        """Return a mention as it is shown, what is hidden from the ranking, and where its dice go on."""
        draw = random.Random(f"{self._config.seed} {self._training} {number}")  # noqa: S311
        view = self._view(case, draw)
        same = draw.random() < self._config.p_same_prototype
        return view, Hidden(frozenset() if same else _spellings(case, view), case.document), draw

    def _view(self, case: Case, draw: random.Random) -> Excerpt:
        fate = draw.random()
        if fate < self._config.p_replace:
            names = self._linker.ontology.names_at(case.entity)
            others = [name for name in names if name != case.excerpt.surface]
            return replace(case.excerpt, surface=draw.choice(others)) if others else case.excerpt
        return replace(case.excerpt, masked=fate < self._config.p_replace + self._config.p_mask)

    def _unseen(self, case: Case, view: Excerpt, draw: random.Random) -> frozenset[str]:
        """Return the names that references leave out: those spelled as the mention, if the entity has others."""
        if draw.random() < self._config.p_same_name:
            return frozenset()
        keys = _spellings(case, view)
        return (
            keys
            if any(name_key(name) not in keys for name in self._linker.ontology.names_at(case.entity))
            else frozenset()
        )


def _spellings(case: Case, view: Excerpt) -> frozenset[str]:
    """Return the keys of the names that would give the answer away: as the text has it, and as it is shown."""
    return frozenset({name_key(case.excerpt.surface), name_key(view.surface)})
