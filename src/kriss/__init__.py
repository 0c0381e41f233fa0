"""kriss links a mention in its context to one entity of an ontology, without labeled data.

    ontology ──► mine ──► train ──► index ──► link ──► rerank ──► evaluate ──► serve

Each stage reads folders and writes a folder; each is a command (`kriss --help`) over a library
function. Names are loaded when first used, so `import kriss` is quick and light.

    from kriss import Ontology
    ontology = Ontology.load("out/hpo")
    ontology["HP:0001250"].name
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kriss.errors import KrissError
    from kriss.ontology import Ontology, OntologyConfig, build_ontology
    from kriss.records import Entity, Mention

__version__ = "0.1.0"

_HOME = {
    "Entity": "kriss.records",
    "KrissError": "kriss.errors",
    "Mention": "kriss.records",
    "Ontology": "kriss.ontology",
    "OntologyConfig": "kriss.ontology",
    "build_ontology": "kriss.ontology",
}

__all__ = ["Entity", "KrissError", "Mention", "Ontology", "OntologyConfig", "__version__", "build_ontology"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'kriss' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
