"""Mentions as queries: each in two views, as a bare name and in its context, and what may not speak for it.

Dev mentions and training data ask about mentions whose answer is known. Their own document, and prototypes or names
that are spelled as they are, would give it away: `Hidden` says what must stay out. A user's mention hides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kriss.names import name_key
from kriss.records import Excerpt, Mention

Floats = NDArray[np.float32]
key_of = lru_cache(maxsize=1 << 17)(name_key)
"""`name_key`, remembered: the same prototypes come up for query after query."""


class EncodesMentions(Protocol):
    """Whatever turns mentions into vectors."""

    def mentions(self, mentions: Sequence[Excerpt], /) -> Floats:
        """Return c for each mention."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What may not speak for a mention."""

    keys: frozenset[str] = frozenset()
    """Prototypes and names with these keys (`names.name_key`)."""
    document: str = ""
    """Prototypes of this document."""

    def hides(self, surface: str, document: str) -> bool:
        """Whether a prototype is hidden."""
        return bool(self.keys and key_of(surface) in self.keys) or bool(self.document and self.document == document)

    def __bool__(self) -> bool:
        return bool(self.keys or self.document)


NOTHING = Hidden()


@dataclass(frozen=True, slots=True)
class Queries:
    """A batch of mentions, made ready."""

    excerpts: Sequence[Excerpt]
    """The mentions as they are read: abbreviations written out."""
    bare: Floats
    """c of each as a bare name."""
    context: Floats
    """c of each in its sentence; of no rows where the context does not count."""
    mentions: Sequence[Mention] = ()
    """As the text has them, where there is a text."""
    hidden: Sequence[Hidden] = ()
    """For each what may not speak for it; empty if that is nothing."""

    @classmethod
    def of(
        cls,
        encoder: EncodesMentions,
        excerpts: Sequence[Excerpt],
        *,
        context: bool,
        mentions: Sequence[Mention] = (),
        hidden: Sequence[Hidden] = (),
    ) -> Queries:
        """Encode both views, or the bare one alone; a text that occurs several times is encoded once."""
        views = [Excerpt("", one.surface, "", one.masked) for one in excerpts]
        views += excerpts if context else []
        places = {view: place for place, view in enumerate(dict.fromkeys(views))}
        encoded = encoder.mentions(list(places))
        found = encoded[[places[view] for view in views]] if views else encoded.reshape(0, encoded.shape[-1])
        return cls(excerpts, found[: len(excerpts)], found[len(excerpts) :], mentions, hidden)

    def __len__(self) -> int:
        return len(self.excerpts)

    def vectors(self, context: float) -> Floats:
        """Return (1 - w) times the bare view plus w times the view in context; 1 is the paper's query.

        The sum is linear, so a score is the like sum of two scores.
        """
        if not context:
            return self.bare
        found = np.float32(context) * self.context
        return found + np.float32(1 - context) * self.bare if context < 1 else found

    def surface(self, place: int) -> str:
        """Return how a mention is read; nothing of a masked one."""
        return "" if self.excerpts[place].masked else self.excerpts[place].surface

    def hides(self, place: int) -> Hidden:
        """Return what may not speak for a mention."""
        return self.hidden[place] if self.hidden else NOTHING


class Remembering:
    """An encoder that keeps the vectors of the bare names that it met last: texts say the same name again and again."""

    def __init__(self, encoder: EncodesMentions, most: int = 8192) -> None:
        self._encoder, self._most = encoder, most
        self._kept: dict[Excerpt, Floats] = {}
        self._lock = Lock()

    def mentions(self, mentions: Sequence[Excerpt], /) -> Floats:
        """Return c for each mention; a vector does not depend on when it was made."""
        with self._lock:
            known = {one: self._kept[one] for one in mentions if one in self._kept}
        new = [mention for mention in dict.fromkeys(mentions) if mention not in known]
        encoded = self._encoder.mentions(new)
        found = known | dict(zip(new, encoded, strict=True))
        with self._lock:
            self._kept |= {one: found[one].copy() for one in new if not one.left and not one.right}
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return np.stack([found[mention] for mention in mentions]) if mentions else encoded
