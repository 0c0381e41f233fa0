"""What is known beside gold and predictions: it maps ids, finds the owners of a name, and tells slices apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from kriss.errors import ConfigError, NotAnArtifactError
from kriss.evaluate.gold import GoldMention
from kriss.index.prototypes import Prototypes
from kriss.names import folded
from kriss.ontology import Ontology
from kriss.rank.parts import ONTOLOGY, PROTOTYPES


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training set shows: its entities, and which surfaces it gives to each."""

    entities: frozenset[str]
    pairs: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Knowledge:
    """An ontology, a training set and the prototypes of a linker: each may be missing, and then says nothing."""

    ontology: Ontology | None = None
    trained: Trained | None = None
    prototypes: Mapping[str, int] | None = field(default=None, repr=False)

    @classmethod
    def load(
        cls, ontology: Path | None = None, linker: Path | None = None, train: Iterable[GoldMention] | None = None
    ) -> Knowledge:
        """Open what was given; a linker brings its ontology, and goes with no other."""
        counts = None
        opened = Ontology.load(ontology) if ontology else None
        if linker:
            counts = prototype_counts(linker)
            own = Ontology.load(linker / ONTOLOGY)
            if opened and opened.artifact.digest != own.artifact.digest:
                raise ConfigError(
                    f"{linker} was built on another ontology than {ontology}; give the one that it was built on"
                )
            opened = opened or own
        plain = cls(opened, None, counts)
        return cls(opened, None if train is None else plain.shown_by(train), counts)

    def shown_by(self, mentions: Iterable[GoldMention]) -> Trained:
        """Return what a training set shows, by the ids of the ontology."""
        pairs = {(self.find(entity), folded(one.surface)) for one in mentions for entity in one.entities}
        return Trained(frozenset(entity for entity, _ in pairs), frozenset(pairs))

    @cached_property
    def find(self) -> _Find:
        """Turn an id into that of the ontology: retired ids and prefixes of corpora are understood."""
        return _Find(self.ontology)

    def has(self, entity: str) -> bool:
        """Say whether the ontology has an entity; without an ontology every one is taken to exist."""
        return self.ontology is None or entity in self.ontology

    def name_of(self, entity: str) -> str:
        """Return the preferred name of an entity, and nothing if there is none."""
        row = self.ontology.row_of(entity) if self.ontology else None
        return self.ontology.name_at(row) if self.ontology and row is not None else ""

    def owners(self, name: str) -> frozenset[str]:
        """Return the entities that own a name, whatever its case."""
        return self._owners.get(folded(name), frozenset())

    def parents(self, entity: str) -> frozenset[str]:
        """Return the entities directly above one."""
        if entity not in self._parents:
            known = self.ontology is not None and entity in self.ontology
            self._parents[entity] = frozenset(self.ontology[entity].parents) if known and self.ontology else frozenset()
        return self._parents[entity]

    def above(self, entity: str) -> frozenset[str]:
        """Return all ancestors of an entity."""
        found: set[str] = set()
        waiting = [entity]
        while waiting:
            new = self.parents(waiting.pop()) - found
            found |= new
            waiting.extend(new)
        return frozenset(found - {entity})

    @cached_property
    def _parents(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _owners(self) -> dict[str, frozenset[str]]:
        if self.ontology is None:
            return {}
        found: dict[str, set[str]] = {}
        table = self.ontology.names_table()
        owners, names = table.column("entity").to_pylist(), table.column("text").to_pylist()
        for row, name in zip(owners, names, strict=True):
            found.setdefault(folded(name), set()).add(self.ontology.id_at(row))
        return {name: frozenset(entities) for name, entities in found.items()}


class _Find:
    """An id as the ontology writes it, and as it is where the ontology does not have it."""

    def __init__(self, ontology: Ontology | None) -> None:
        self._find = lru_cache(maxsize=1 << 16)(ontology.find) if ontology else None

    def __call__(self, entity: str) -> str:
        return (self._find(entity) if self._find else None) or entity


def prototype_counts(linker: Path) -> dict[str, int]:
    """Return how many mined mentions stand for each entity of a linker."""
    if not (linker / PROTOTYPES).is_file():
        raise NotAnArtifactError(f"{linker} is no linker: it has no {PROTOTYPES}; give what 'kriss index' wrote")
    ontology, prototypes = Ontology.load(linker / ONTOLOGY), Prototypes(linker / PROTOTYPES)
    found = dict.fromkeys((ontology.id_at(row) for row in ontology.rows()), 0)
    for row in prototypes.entity[prototypes.kind == 0].tolist():
        found[ontology.id_at(row)] += 1
    return found
