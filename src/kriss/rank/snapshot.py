"""What ranking must know of learned examples, whoever keeps them; without any, `NONE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.index.search import Found, no_entities
from kriss.records import Evidence


class Example(Protocol):
    """A learned example: what it marks, and where."""

    @property
    def evidence(self) -> Evidence:
        """The mention and some of the text around it."""


class Snapshot(Protocol):
    """What is learned at one moment, by places: one example after the other, as they were learned."""

    @property
    def owner(self) -> NDArray[np.int32]:
        """The entity of each: a row of the ontology, or, behind those, one that was added."""

    @property
    def standing(self) -> NDArray[np.bool_]:
        """Whether it was not removed."""

    @property
    def entities(self) -> Mapping[str, tuple[str, NDArray[np.float32]]]:
        """The entities that were added: their names and references."""

    def __len__(self) -> int:
        """Return how many stand."""

    def example(self, place: int) -> Example:
        """Return one of them."""

    def spelled_as(self, surface: str) -> NDArray[np.int64]:
        """Return the places of those that stand and mark this text in any case, ascending; none for ""."""

    def vectors_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors at some places, which ascend."""

    def search(self, queries: NDArray[np.float32], top: int, allowed: NDArray[np.bool_]) -> Sequence[Found]:
        """Return the best entities for each query by allowed examples; `rows` are places."""


@dataclass(frozen=True, slots=True)
class _Nothing:
    """No examples at all."""

    @property
    def owner(self) -> NDArray[np.int32]:
        return np.zeros(0, np.int32)

    @property
    def standing(self) -> NDArray[np.bool_]:
        return np.zeros(0, bool)

    @property
    def entities(self) -> Mapping[str, tuple[str, NDArray[np.float32]]]:
        return {}

    def __len__(self) -> int:
        return 0

    def example(self, place: int) -> Example:
        raise IndexError(place)

    def spelled_as(self, surface: str) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)

    def vectors_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.zeros((len(places), 0), np.float32)

    def search(self, queries: NDArray[np.float32], top: int, allowed: NDArray[np.bool_]) -> Sequence[Found]:
        return [no_entities() for _ in queries]


NONE: Snapshot = _Nothing()
