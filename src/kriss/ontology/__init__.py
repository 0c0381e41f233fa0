"""The first stage: from an ontology in any of the field's formats to one that every stage reads.

    sources ──► loader (umls, mesh, obo, tables) ──► staging ──► assemble ──► Ontology

`Ontology` reads an artifact, `build_ontology` writes one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kriss.ontology.build import BuildReport, build_ontology
    from kriss.ontology.config import FORMATS, OntologyConfig
    from kriss.ontology.store import Match, Ontology

_HOME = {"Match": "store", "Ontology": "store", "BuildReport": "build", "build_ontology": "build"}
__all__ = ["FORMATS", "BuildReport", "Match", "Ontology", "OntologyConfig", "build_ontology"]


def __getattr__(name: str) -> object:
    """Load a name when it is first used: the options of the command line are read without Arrow."""
    if name in __all__:
        return getattr(importlib.import_module(f"kriss.ontology.{_HOME.get(name, 'config')}"), name)
    raise AttributeError(f"module 'kriss.ontology' has no attribute '{name}'")
