"""kriss links a mention in its context to one entity of an ontology, without labeled data.

    ontology ──► mine ──► train ──► index ──► link ──► rerank ──► evaluate ──► serve

Each stage reads folders and writes a folder; each is a command (`kriss --help`) over a library
function. Names are loaded when first used, so `import kriss` is quick and light.

    from kriss import Linker
    linker = Linker.load("out/linker")
    [link] = linker.link_text("The boy had a [[seizure]].")
    link.entity, link.probability, link.candidates[0].evidence
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kriss.errors import KrissError
    from kriss.index.config import IndexConfig
    from kriss.link.build import build_linker
    from kriss.link.linker import Linker
    from kriss.ontology import Ontology, OntologyConfig, build_ontology
    from kriss.records import Candidate, Document, Entity, Evidence, Excerpt, Link, Mention, Span

__version__ = "0.1.0"

_HOME = {
    "Candidate": "kriss.records",
    "Document": "kriss.records",
    "Mention": "kriss.records",
    "Span": "kriss.records",
    "Entity": "kriss.records",
    "Evidence": "kriss.records",
    "IndexConfig": "kriss.index.config",
    "KrissError": "kriss.errors",
    "Link": "kriss.records",
    "Linker": "kriss.link.linker",
    "Excerpt": "kriss.records",
    "Ontology": "kriss.ontology",
    "OntologyConfig": "kriss.ontology",
    "build_linker": "kriss.link.build",
    "build_ontology": "kriss.ontology",
}

__all__ = [
    "Candidate",
    "Document",
    "Entity",
    "Evidence",
    "Excerpt",
    "IndexConfig",
    "KrissError",
    "Link",
    "Linker",
    "Mention",
    "Ontology",
    "OntologyConfig",
    "Span",
    "__version__",
    "build_linker",
    "build_ontology",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'kriss' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
