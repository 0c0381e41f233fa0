"""Names that training never sees: what a dev mention is swapped for must be new to the encoder.

Two spellings of one name ("Neoplasms, Breast", "breast neoplasm") share a key and a fate, whosever
they are. A preferred name is never held out, nor any other spelling of it, nor an alias of one entity
that another one is called by: training would see it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from kriss.names import name_key


@dataclass(frozen=True, slots=True)
class Names:
    """The names of an entity: those for training, the preferred one first, and those held out."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def kept_keys(preferred: Iterable[str], share: float, seed: int) -> frozenset[str]:
    """Return the keys that chance would hold out, but that some entity of an ontology is called by."""
    return frozenset(key for key in map(name_key, preferred) if _drawn(key, share, seed))


def divide(names: Sequence[str], share: float, seed: int, kept: frozenset[str] = frozenset()) -> Names:
    """Divide the names of an entity, the first of which is the preferred one; names with a key in `kept` stay."""
    if share <= 0 or len(names) < 2:
        return Names(tuple(names), ())
    preferred = name_key(names[0])
    seen: list[str] = []
    unseen: list[str] = []
    for name in names:
        key = name_key(name)
        held = key != preferred and key not in kept and _drawn(key, share, seed)
        (unseen if held else seen).append(name)
    return Names(tuple(seen), tuple(unseen))


def _drawn(key: str, share: float, seed: int) -> bool:
    return crc32(f"{seed}\0{key}".encode()) < share * 2**32
