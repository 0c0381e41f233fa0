"""What ranking looks at: the parts of a linker's folder, opened and checked, and what may be linked to."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import Artifact
from kriss.errors import DamagedError, UnknownEntityError
from kriss.index.prototypes import Prototypes
from kriss.index.vectors import Index
from kriss.ontology import Ontology
from kriss.rank.hierarchy import Hierarchy
from kriss.rank.spelling import Spelling

ONTOLOGY, ENCODER, NAMES = "ontology", "encoder", "names"
PROTOTYPES, REFERENCES, VECTORS, SPELLING = "prototypes.arrow", "references.npy", "vectors", "spelling"
LEARNED = "learned"
"""Where a linker keeps learned examples; not in the manifest, for it changes."""
RERANKER = "reranker"
"""Where a linker keeps a re-ranker: an artifact of its own, put in after it was built."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a linker that candidates and features come from."""

    folder: Path
    ontology: Ontology
    prototypes: Prototypes
    index: Index
    """A vector for each prototype."""
    references: NDArray[Any]
    """A vector for each entity."""
    spelling: Spelling
    hierarchy: Hierarchy

    @classmethod
    def open(cls, folder: Path) -> Parts:
        """Open the folder of a linker."""
        ontology = Ontology.load(folder / ONTOLOGY)
        prototypes = _map_prototypes(folder / PROTOTYPES, len(ontology))
        index = Index.open(folder / VECTORS)
        if len(prototypes) != len(index):
            raise DamagedError(
                f"{folder} has {len(index):,} vectors for {len(prototypes):,} prototypes; build it again"
            )
        references = _map_references(folder / REFERENCES, len(ontology), index.width)
        spelling = Spelling(folder / SPELLING)
        return cls(folder, ontology, prototypes, index, references, spelling, Hierarchy(ontology))


@dataclass(frozen=True, slots=True)
class Scope:
    """Which entities may be linked to."""

    rows: NDArray[np.bool_] | None = None
    """Those of the ontology; None for all."""
    ids: frozenset[str] = frozenset()
    """Entities that were added and may be linked to, unless all may: they have no type to be chosen by."""

    @classmethod
    def of(
        cls, types: tuple[str, ...], ids: tuple[str, ...], ontology: Ontology, added: Container[str], linker: Path
    ) -> Scope:
        """Return the scope of some types and ids; `added` are the entities that a linker learned."""
        if not types and not ids:
            return cls()
        allowed = np.zeros(len(ontology), dtype=bool)
        allowed[list(ontology.subset(*types).rows() if types else ontology.rows())] = True
        if ids:
            chosen = np.zeros_like(allowed)
            for entity in ids:
                if entity in added:
                    continue
                if (row := ontology.row_of(entity)) is None:
                    raise UnknownEntityError(entity, str(linker))
                chosen[row] = True
            allowed &= chosen
        return cls(allowed, frozenset(() if types else ids))


def encoder_digest(linker: Artifact) -> str:
    """Return a name for what the vectors of a linker are made by."""
    files = sorted(name for name in linker.files if name.startswith(f"{ENCODER}/"))
    return sha256("".join(f"{name}{linker.files[name]['sha256']}" for name in files).encode()).hexdigest()


def _map_prototypes(file: Path, entities: int) -> Prototypes:
    try:
        prototypes = Prototypes(file)
    except (OSError, ValueError, KeyError, TypeError) as error:  # Arrow's errors are among them
        raise DamagedError(f"{file} cannot be read ({error}); build the linker again") from None
    owners = prototypes.entity
    if len(owners) and not (owners[0] >= 0 and owners[-1] < entities and (owners[1:] >= owners[:-1]).all()):
        raise DamagedError(f"{file} has prototypes of entities that there are not; build the linker again")
    return prototypes


def _map_references(file: Path, count: int, width: int) -> NDArray[Any]:
    try:
        references: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DamagedError(f"{file} cannot be read ({error}); build the linker again") from None
    if references.shape != (count, width) or references.dtype.kind != "f":
        what = f"{references.dtype} of the shape {references.shape} where numbers of {(count, width)} belong"
        raise DamagedError(f"{file} has {what}; build the linker again")
    return references
