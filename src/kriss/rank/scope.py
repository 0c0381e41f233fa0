"""Which entities may be linked to: all, those of some types, those that a user names."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kriss.errors import UnknownEntityError
from kriss.link.config import LinkConfig
from kriss.ontology import Ontology


@dataclass(frozen=True, slots=True)
class Scope:
    """Which entities may be linked to."""

    rows: NDArray[np.bool_] | None
    """Those of the ontology; None for all."""
    ids: frozenset[str]
    """Entities that were added and may be linked to, unless all may: they have no type to be chosen by."""


def scope_of(config: LinkConfig, ontology: Ontology, added: Container[str], linker: str) -> Scope:
    """Return what a user asks for; `added` are the entities that a linker learned, beside its ontology."""
    ids = frozenset(() if config.types else config.ids)
    if not config.types and not config.ids:
        return Scope(None, ids)
    allowed = np.zeros(len(ontology), dtype=bool)
    allowed[list(ontology.subset(*config.types).rows() if config.types else ontology.rows())] = True
    if config.ids:
        chosen = np.zeros_like(allowed)
        for entity in config.ids:
            if entity in added:
                continue
            if (row := ontology.row_of(entity)) is None:
                raise UnknownEntityError(entity, linker)
            chosen[row] = True
        allowed &= chosen
    return Scope(allowed, ids)
