"""kriss links a mention in its context to one entity of an ontology, without labeled data.

    ontology ──► mine ──► train ──► index ──► rank ──► link ──► evaluate

Each stage reads folders and writes a folder; each is a command (`kriss --help`) over a function. Settings are
keywords of the functions, or one object, `config`, that keywords change; folders are given as paths, an ontology or a
linker also as what it was loaded into. Names are loaded when first used, so `import kriss` is quick and light.

    import kriss
    kriss.mine("out/mesh", ["text"], "out/mentions", per_entity=8, workers=4)
    kriss.train("out/mesh", "out/mentions", "out/encoder", steps=200)
    kriss.build("out/mesh", "out/mentions", "out/encoder", "out/linker", precision="int8")
    for document, links in kriss.link_documents("out/linker", "notes.jsonl", threshold=0.5): ...
    kriss.evaluate("out/links.jsonl", "gold.pubtator", linker="out/linker").evaluation.rows
    linker = kriss.Linker.load("out/linker", threshold=0.5)
    [link] = linker.link_text("The boy had a [[seizure]].")
    link.entity, link.probability, link.candidates[0].evidence
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kriss.errors import KrissError
    from kriss.evaluate.run import evaluate
    from kriss.index.config import IndexConfig
    from kriss.link.build import build_linker as build
    from kriss.link.config import LinkConfig
    from kriss.link.documents import link_documents
    from kriss.link.linker import Linker
    from kriss.mine.config import MineConfig
    from kriss.mine.run import mine
    from kriss.ontology import Ontology, OntologyConfig, build_ontology
    from kriss.records import Candidate, Document, Entity, Evidence, Excerpt, Link, Mention, Span
    from kriss.train.config import TrainConfig
    from kriss.train.run import train

__version__ = "0.1.0"

_HOME = {
    "kriss.records": ("Candidate", "Document", "Entity", "Evidence", "Excerpt", "Link", "Mention", "Span"),
    "kriss.errors": ("KrissError",),
    "kriss.ontology": ("Ontology", "OntologyConfig", "build_ontology"),
    "kriss.mine.config": ("MineConfig",),
    "kriss.train.config": ("TrainConfig",),
    "kriss.index.config": ("IndexConfig",),
    "kriss.link.config": ("LinkConfig",),
    "kriss.link.linker": ("Linker",),
    "kriss.link.build": ("build_linker",),
    "kriss.link.documents": ("link_documents",),
}
_ROOMS = ("evaluate", "mine", "train")
"""Packages of kriss that are named like what they do: `kriss.mine` is one, and `kriss.mine(...)` mines."""

__all__ = [
    "Candidate",
    "Document",
    "Entity",
    "Evidence",
    "Excerpt",
    "IndexConfig",
    "KrissError",
    "Link",
    "LinkConfig",
    "Linker",
    "Mention",
    "MineConfig",
    "Ontology",
    "OntologyConfig",
    "Span",
    "TrainConfig",
    "__version__",
    "build",
    "build_ontology",
    "evaluate",
    "link_documents",
    "mine",
    "train",
]


class _Room(ModuleType):
    """A package that can be called as the function of its name in its module `run`."""

    def __call__(self, *given: Any, **named: Any) -> object:  # noqa: ANN401 - what the function takes
        name = self.__name__.rpartition(".")[2]
        return getattr(importlib.import_module(f"{self.__name__}.run"), name)(*given, **named)


def __getattr__(name: str) -> object:
    wanted = "build_linker" if name == "build" else name
    if home := next((home for home, names in _HOME.items() if wanted in names), None):
        return getattr(importlib.import_module(home), wanted)
    raise AttributeError(f"module 'kriss' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)


for _name in _ROOMS:  # they hold a docstring, so this loads nothing else
    importlib.import_module(f"kriss.{_name}").__class__ = _Room
