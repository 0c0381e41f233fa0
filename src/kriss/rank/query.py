"""A mention as a query: its view in context, and its view as a bare name."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.records import Excerpt

_LONGEST = 4096
"""Characters around a mention that is kept: 2,048 of them are 8 MB of plain text."""


class EncodesMentions(Protocol):
    """Whatever turns mentions into vectors."""

    def mentions(self, mentions: Sequence[Excerpt], /) -> NDArray[np.float32]:
        """Return c for each mention."""


class Remembering:
    """An encoder that keeps the vectors of what it met last.

    Bare names, for texts say the same name again and again; and mentions, which come again when a text is asked about
    otherwise. Mentions in long texts are not kept, for their texts would be.
    """

    def __init__(self, encoder: EncodesMentions, most: int = 8192, most_in_context: int = 2048) -> None:
        self._encoder = encoder
        self._bare, self._in_context = _Lately(most), _Lately(most_in_context)
        self._lock = Lock()

    def mentions(self, mentions: Sequence[Excerpt], /) -> NDArray[np.float32]:
        """Return c for each mention; a vector does not depend on when it was made."""
        with self._lock:
            known = {one: vector for one in mentions if (vector := self._of(one).get(one)) is not None}
        new = [mention for mention in dict.fromkeys(mentions) if mention not in known]
        encoded = self._encoder.mentions(new)
        found = known | dict(zip(new, encoded, strict=True))
        with self._lock:
            for mention in new:
                if len(mention.left) + len(mention.right) <= _LONGEST:
                    self._of(mention).put(mention, found[mention].copy())
        return np.stack([found[mention] for mention in mentions]) if mentions else encoded

    def _of(self, mention: Excerpt) -> _Lately:
        return self._in_context if mention.left or mention.right else self._bare


class _Lately(dict[Excerpt, NDArray[np.float32]]):
    """The vectors that were put in last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, mention: Excerpt, vector: NDArray[np.float32]) -> None:
        self[mention] = vector
        while len(self) > self._most:
            del self[next(iter(self))]


def query_vectors(encoder: EncodesMentions, mentions: Sequence[Excerpt], context: float) -> NDArray[np.float32]:
    """Return (1 - w) times the bare view plus w times the view in context, with w = `context`.

    1 is the paper's query. The sum is linear, so a score is the like sum of two scores. A mention that
    occurs several times in a call is encoded once.
    """
    views: list[tuple[float, list[Excerpt]]] = []
    if context > 0:
        views.append((context, list(mentions)))
    if context < 1:
        views.append((1 - context, [Excerpt("", m.surface, "", m.masked) for m in mentions]))
    distinct = {mention: number for number, mention in enumerate(dict.fromkeys(m for _, view in views for m in view))}
    encoded = encoder.mentions(list(distinct))
    if not len(mentions):
        return encoded
    vectors = np.zeros((len(mentions), encoded.shape[1]), dtype=np.float32)
    for weight, view in views:
        vectors += np.float32(weight) * encoded[[distinct[mention] for mention in view]]
    return vectors
