"""What a batch consists of: a function of the seed and the step alone, on any number of processes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kriss.encoder.windows import Sequences, Windows
from kriss.records import Entity, Excerpt
from kriss.train.config import TrainConfig
from kriss.train.examples import TrainingSet

_AHEAD = 2
"""Batches tokenized while the model is busy with the one before."""
_MOST = 16
"""Of an entity with more names than this, the rest do not bring it into a round again."""
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenizedBatch:
    """The sequences of 2N mentions and, unless `beta` is 0, of N references: the part of one process."""

    step: int
    mentions: Sequences
    references: Sequences | None

    def __len__(self) -> int:
        return len(self.mentions) + len(self.references or ())


class Sampler:
    """Draws batches. In a round every entity comes once, or once for each name if `draw` says so.

    Those that would not fill a batch wait for the next round.
    """

    def __init__(self, examples: TrainingSet, config: TrainConfig) -> None:
        self._examples = examples
        self._config = config
        wanted = config.batch // 2
        bare = round(wanted * config.name_only)
        self.bare = min(bare, len(examples.name_only), wanted - 1)  # one entity with mentions at least
        self.mined = min(wanted - self.bare, len(examples.mentions.rows))
        self._counts = examples.mentions.counts()
        self._place = {int(row): place for place, row in enumerate(examples.mentions.rows)}
        self._tickets = [self._tickets_of(rows) for rows in (examples.mentions.rows, examples.name_only)]
        self._orders: dict[int, tuple[int, Rows]] = {}

    @property
    def entities(self) -> int:
        """N, the entities of a batch."""
        return self.mined + self.bare

    def batches(self, windows: Windows, steps: range, rank: int = 0, ranks: int = 1) -> Iterator[TokenizedBatch]:
        """Yield the batches of some steps, tokenized by a thread while the model works."""
        with ThreadPoolExecutor(1) as thread:
            waiting = [thread.submit(self.batch, windows, step, rank, ranks) for step in steps[:_AHEAD]]
            for step in steps:
                batch = waiting.pop(0).result()
                if step + _AHEAD < steps.stop:
                    waiting.append(thread.submit(self.batch, windows, step + _AHEAD, rank, ranks))
                yield batch

    def batch(self, windows: Windows, step: int, rank: int = 0, ranks: int = 1) -> TokenizedBatch:
        """Return the part of a batch that falls to one of several processes."""
        rows = self.entities_at(step)
        share = len(rows) // ranks
        first = rank * share
        own = rows[first : first + share]
        references = windows.references(self.references_at(step, own, first)) if self._config.beta else None
        return TokenizedBatch(step, windows.mentions(self.mentions_at(step, own, first)), references)

    def entities_at(self, step: int) -> list[int]:
        """Return the rows of the entities in a batch."""
        rows, bare = self._examples.mentions.rows, self._examples.name_only
        return [
            *(int(rows[place]) for place in self._walk(step, self.mined, stream=0)),
            *(int(bare[place]) for place in self._walk(step, self.bare, stream=1)),
        ]

    def mentions_at(self, step: int, rows: list[int], first: int) -> list[Excerpt]:
        """Return two mentions for each entity; `first` is the place of the first of them in the batch."""
        return [
            mention
            for number, row in enumerate(rows, start=first)
            for mention in self._pair(row, random.Random(f"{self._config.seed} {step} {number}"))  # noqa: S311
        ]

    def references_at(self, step: int, rows: list[int], first: int) -> list[Entity]:
        """Return the entities as references show them, their aliases in a new order each time."""
        entities = []
        for number, entity in enumerate(self._examples.references(rows), start=first):
            aliases = list(entity.aliases)
            random.Random(f"{self._config.seed} {step} {number} references").shuffle(aliases)  # noqa: S311
            entities.append(replace(entity, aliases=tuple(aliases)))
        return entities

    def _tickets_of(self, rows: Rows) -> Rows:
        """Return how often each entity comes in a round."""
        if self._config.draw == "entities":
            return np.ones(len(rows), dtype=np.int64)
        return np.minimum(self._examples.name_counts[rows], _MOST)

    def _walk(self, step: int, size: int, stream: int) -> list[int]:
        """Return the next `size` places of a walk through all, in a new order each time round."""
        if not size:
            return []
        tickets = self._tickets[stream]
        number, at = divmod(step, int(tickets.sum()) // size)
        known, order = self._orders.get(stream, (-1, None))
        if order is None or known != number:  # a new order of millions takes a while: once a round
            order = _shuffled(tickets, np.random.default_rng((self._config.seed, stream, number)))
            self._orders[stream] = number, order
        chosen = dict.fromkeys(order[at * size : (at + 1) * size].tolist())
        if len(chosen) < size:  # one with many names among few entities
            others = np.random.default_rng((self._config.seed, stream, 3, step)).permutation(len(tickets))
            chosen |= dict.fromkeys(others.tolist())
        return list(chosen)[:size]

    def _pair(self, row: int, draw: random.Random) -> tuple[Excerpt, Excerpt]:
        names = self._examples.names(row).seen
        place = self._place.get(row)
        if place is None:  # two bare names, different if there are two
            first, second = draw.sample(names, 2) if len(names) > 1 else names * 2
            return Excerpt.bare(first), Excerpt.bare(second)
        count = int(self._counts[place])
        numbers = draw.sample(range(count), 2) if count > 1 else [0, 0]
        one, other = (self._view(self._examples.mentions.get(place, number), names, draw) for number in numbers)
        return one, other

    def _view(self, mention: Excerpt, names: tuple[str, ...], draw: random.Random) -> Excerpt:
        """Return a mention masked, with another name in its place, without its context, or as it is."""
        config = self._config
        bare, fate = draw.random() < config.p_bare, draw.random()
        if fate < config.p_replace:
            others = [name for name in names if name != mention.surface]
            if others:
                mention = replace(mention, surface=draw.choice(others))
        elif fate < config.p_replace + config.p_mask and not bare:  # a mask alone would say nothing
            mention = replace(mention, masked=True)
        return Excerpt.bare(mention.surface) if bare else mention


def _shuffled(tickets: Rows, draw: np.random.Generator) -> Rows:
    """Return a random order in which each place comes as often as it has tickets, at even distances."""
    if tickets.max(initial=1) == 1:
        return draw.permutation(len(tickets))
    places = np.repeat(np.arange(len(tickets)), tickets)
    first = np.cumsum(tickets) - tickets
    nth = np.arange(len(places)) - np.repeat(first, tickets)
    return places[np.argsort((nth + draw.random(len(tickets))[places]) / tickets[places], kind="stable")]
