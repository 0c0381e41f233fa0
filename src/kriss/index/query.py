"""A mention as a query: its view in context, and its view as a bare name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.records import Mention


class EncodesMentions(Protocol):
    """Whatever turns mentions into vectors."""

    def mentions(self, mentions: Sequence[Mention], /) -> NDArray[np.float32]:
        """Return c for each mention."""


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
