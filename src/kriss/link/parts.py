"""The files of a linker, opened and checked."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kriss.artifacts import MANIFEST, Artifact
from kriss.errors import DamagedError
from kriss.index.layout import ENCODER
from kriss.index.prototypes import Prototypes


def weight_of_references(artifact: Artifact) -> np.float32:
    """Return how much a reference counts in the vectors of a linker."""
    try:
        return np.float32(artifact.facts["references"])
    except (KeyError, ValueError, TypeError):
        raise DamagedError(f"{artifact.path / MANIFEST} has no weight of references; build the linker again") from None


def map_prototypes(file: Path, entities: int) -> Prototypes:
    """Map the table of prototypes; each must be of one of so many entities."""
    try:
        prototypes = Prototypes(file)
    except (OSError, ValueError, KeyError, TypeError) as error:  # Arrow's errors are among them
        raise DamagedError(f"{file} cannot be read ({error}); build the linker again") from None
    owners = prototypes.entity
    if len(owners) and not (owners[0] >= 0 and owners[-1] < entities and (owners[1:] >= owners[:-1]).all()):
        raise DamagedError(f"{file} has prototypes of entities that there are not; build the linker again")
    return prototypes


def map_references(file: Path, count: int, width: int) -> NDArray[Any]:
    """Map the vectors of the references of `count` entities."""
    try:
        references: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DamagedError(f"{file} cannot be read ({error}); build the linker again") from None
    if references.shape != (count, width) or references.dtype.kind != "f":
        what = f"{references.dtype} of the shape {references.shape} where numbers of {(count, width)} belong"
        raise DamagedError(f"{file} has {what}; build the linker again")
    return references


def digest_of_encoder(artifact: Artifact, weight: np.float32) -> str:
    """Return a name for what vectors are made by: linkers that have it in common could share their examples."""
    files = sorted(name for name in artifact.files if name.startswith(f"{ENCODER}/"))
    parts = [f"{name}{artifact.files[name]['sha256']}" for name in files]
    return sha256("".join([*parts, f"references {weight}"]).encode()).hexdigest()


def made_for(artifact: Artifact, ontology: Artifact) -> dict[str, str]:
    """Return what the candidates of a linker and their scores depend on, each under its name."""
    if len(artifact.inputs) < 3 or "sha256" not in artifact.inputs[2]:
        raise DamagedError(f"{artifact.path / MANIFEST} does not name its encoder; build the linker again")
    return {
        "ontology": ontology.digest,
        "encoder": str(artifact.inputs[2]["sha256"]),
        "weight of references": str(weight_of_references(artifact)),
    }
