"""A mention as a query: its view in context, and its view as a bare name."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.records import Mention


class EncodesMentions(Protocol):
    """Whatever turns mentions into vectors."""

    def mentions(self, mentions: Sequence[Mention], /) -> NDArray[np.float32]:
        """Return c for each mention."""


class Remembering:
    """An encoder that keeps the vectors of the bare names it met last: texts say the same name again and again."""

    def __init__(self, encoder: EncodesMentions, most: int = 8192) -> None:
        self._encoder = encoder
        self._most = most
        self._known: dict[Mention, NDArray[np.float32]] = {}
        self._lock = Lock()

    def mentions(self, mentions: Sequence[Mention], /) -> NDArray[np.float32]:
        """Return c for each mention; a vector does not depend on when it was made."""
        with self._lock:
            known = {mention: self._known[mention] for mention in mentions if mention in self._known}
        new = [mention for mention in dict.fromkeys(mentions) if mention not in known]
        encoded = self._encoder.mentions(new)
        found = known | dict(zip(new, encoded, strict=True))
        with self._lock:
            for mention in new:
                if not mention.left and not mention.right:
                    self._known[mention] = found[mention].copy()
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return np.stack([found[mention] for mention in mentions]) if mentions else encoded


def query_vectors(encoder: EncodesMentions, mentions: Sequence[Mention], context: float) -> NDArray[np.float32]:
    """Return (1 - w) times the bare view plus w times the view in context, with w = `context`.

    1 is the paper's query. The sum is linear, so a score is the like sum of two scores. A mention that
    occurs several times in a call is encoded once.
    """
    views: list[tuple[float, list[Mention]]] = []
    if context > 0:
        views.append((context, list(mentions)))
    if context < 1:
        views.append((1 - context, [Mention("", m.surface, "", m.masked) for m in mentions]))
    distinct = {mention: number for number, mention in enumerate(dict.fromkeys(m for _, view in views for m in view))}
    encoded = encoder.mentions(list(distinct))
    if not len(mentions):
        return encoded
    vectors = np.zeros((len(mentions), encoded.shape[1]), dtype=np.float32)
    for weight, view in views:
        vectors += np.float32(weight) * encoded[[distinct[mention] for mention in view]]
    return vectors
