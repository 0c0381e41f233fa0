"""Reading an ontology: memory-mapped, so that four million entities open as fast as forty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kriss.artifacts import Artifact, open_artifact
from kriss.errors import ConfigError, UnknownEntityError
from kriss.files import Where
from kriss.ontology.arrowfile import ArrowFile, KeyIndex
from kriss.ontology.subsets import chosen_values
from kriss.records import Entity

_OMIM = ("OMIM", "MIM")
"""Prefixes of the numbers that may stand bare among other ids."""


class Ontology:
    """Entities by id and by name.

        ontology = Ontology.load("out/hpo")
        ontology["HP:0001250"].name              # 'Seizure'; a retired id gives its successor
        ontology.entities_named("Seizure")       # exactly this name or alias, case and all
        ontology.search("seizure")               # names that contain it, best first
        ontology.subset("disease")               # the same ontology, fewer entities

    It can be pickled and shared between threads and processes: its path travels, not its content.
    """

    def __init__(self, artifact: Artifact, keep: NDArray[np.bool_] | None = None) -> None:
        self.artifact = artifact
        self._entities = ArrowFile(artifact.path / "entities.arrow")
        self._names = ArrowFile(artifact.path / "names.arrow")
        self._retired = ArrowFile(artifact.path / "retired.arrow")
        self._by_id = KeyIndex(artifact.path / "id_index.arrow")
        self._by_name = KeyIndex(artifact.path / "name_index.arrow")
        self._keep = keep
        self._id, self._definition = self._entities.strings("id"), self._entities.strings("definition")
        self._types, self._trees = self._entities.lists("types"), self._entities.lists("tree_numbers")
        self._parents, self._xrefs = self._entities.lists("parents"), self._entities.lists("xrefs")
        self._ends = self._entities.numbers("names_end")
        self._text, self._owner = self._names.strings("text"), self._names.numbers("entity")
        self._old, self._successor = self._retired.strings("id"), self._retired.numbers("entity")

    @classmethod
    def load(cls, path: Ontology | Where) -> Ontology:
        """Open the ontology in a folder written by `kriss ontology build`; one that is open is returned."""
        return path if isinstance(path, Ontology) else cls(open_artifact(Path(path), "ontology"))

    def __reduce__(self) -> tuple[object, ...]:
        return (Ontology, (self.artifact, self._keep))

    def __repr__(self) -> str:
        return f"<Ontology {self.artifact.path}: {len(self):,} entities>"

    def __len__(self) -> int:
        return len(self._entities) if self._keep is None else int(self._keep.sum())

    def __iter__(self) -> Iterator[Entity]:
        return (self.at(row) for row in self.rows())

    def __contains__(self, entity_id: object) -> bool:
        return isinstance(entity_id, str) and self.row_of(entity_id) is not None

    def __getitem__(self, entity_id: str) -> Entity:
        row = self.row_of(entity_id)
        if row is None:
            raise UnknownEntityError(entity_id, str(self.artifact.path))
        return self.at(row)

    def rows(self) -> Iterator[int]:
        """Row numbers of the entities, in the order of their ids; later stages speak of entities so."""
        if self._keep is None:
            return iter(range(len(self._entities)))
        return iter(np.flatnonzero(self._keep).tolist())

    def row_of(self, entity_id: str) -> int | None:
        """Return the row of an entity by its id or by a retired id; None if there is none."""
        total = len(self._entities)
        for found in self._by_id.rows(entity_id):
            row = found
            if found < total:
                if self._id[found] != entity_id:
                    continue
            elif self._old[found - total] == entity_id:
                row = self._successor[found - total]
            else:
                continue
            return row if self._has(row) else None
        return None

    def forms_of(self, entity: str) -> list[str]:
        """Return how an id may be written here: as it is, without a corpus's prefix, with that of all ids here.

        `MESH:D009103` may be `D009103`, and `0001250` may be `HP:0001250` if all ids begin so. A bare number among
        other ids is OMIM's, so `NCBIGene:114480` is not taken for it.
        """
        prefix, _, bare = entity.partition(":")
        if bare.isdigit() and prefix.upper() not in _OMIM and not self._id[len(self._entities) - 1][0].isdigit():
            bare = ""
        return [form for form in dict.fromkeys((entity, bare, self._prefix() + entity)) if form]

    def find(self, entity: str) -> str | None:
        """Return the id that an entity has here: retired ids and prefixes of corpora are understood."""
        rows = (self.row_of(form) for form in self.forms_of(entity))
        return next((self.id_at(row) for row in rows if row is not None), None)

    def _prefix(self) -> str:
        """Return what all ids begin with, up to a colon; they are sorted."""
        prefix, colon, _ = self._id[0].partition(":")
        return prefix + colon if colon and self._id[len(self._entities) - 1].startswith(prefix + colon) else ""

    def id_at(self, row: int) -> str:
        """Return the id of the entity in a row."""
        return self._id[row]

    def at(self, row: int) -> Entity:
        """Return the entity in a row."""
        name, *aliases = self.names_at(row)
        return Entity(
            id=self._id[row],
            name=name,
            aliases=tuple(aliases),
            types=self._types[row],
            tree_numbers=self._trees[row],
            definition=self._definition[row],
            parents=tuple(self._id[above] for above in self.parents_at(row)),
            xrefs=self._xrefs[row],
        )

    def name_at(self, row: int) -> str:
        """Return the preferred name of the entity in a row."""
        return self._text[self._ends[row - 1] if row else 0]

    def names_at(self, row: int) -> list[str]:
        """Return the names of the entity in a row, the preferred one first."""
        start = self._ends[row - 1] if row else 0
        return [self._text[i] for i in range(start, self._ends[row])]

    def parents_at(self, row: int) -> list[int]:
        """Return the rows of the entities right above the one in a row."""
        return [above for above in self._parents[row] if self._has(above)]

    def entities_named(self, text: str) -> list[Entity]:
        """Return the entities that have exactly this name or alias, in the order of their ids."""
        rows = [self._owner[i] for i in self._by_name.rows(text) if self._text[i] == text]
        return [self.at(row) for row in sorted(set(rows)) if self._has(row)]

    def path_to(self, entity_id: str) -> tuple[Entity, ...]:
        """Return the entities from a root down to this one, along first parents."""
        row = self.row_of(entity_id)
        if row is None:
            raise UnknownEntityError(entity_id, str(self.artifact.path))
        way = [row]
        while above := self.parents_at(way[-1]):
            way.append(above[0])
        return tuple(self.at(row) for row in reversed(way))

    def subset(self, *selectors: str) -> Ontology:
        """Return the ontology of the entities with these types: names, codes, tree prefixes, named subsets."""
        if not selectors:
            raise ConfigError("a subset needs at least one type")
        types, trees = chosen_values(
            selectors,
            _distinct(self._entities.table.column("types")),
            _distinct(self._entities.table.column("tree_numbers")),
            self.artifact.facts.get("type_codes", {}),
        )
        keep = _rows_with(self._entities.table.column("types"), types)
        keep |= _rows_with(self._entities.table.column("tree_numbers"), trees)
        return Ontology(self.artifact, keep if self._keep is None else keep & self._keep)

    def retired(self) -> dict[str, str]:
        """Return the retired ids, each with the id that stands in its place."""
        pairs = ((self._old[i], self._successor[i]) for i in range(len(self._retired)))
        return {old: self._id[row] for old, row in pairs if self._has(row)}

    def names_table(self) -> pa.Table:
        """Return all names as Arrow columns `text` and `entity` (a row); an entity's first is preferred."""
        table = self._names.table
        if self._keep is None:
            return table
        return table.filter(pa.array(self._keep[np.asarray(table.column("entity"))]))

    def entities_table(self) -> pa.Table:
        """Return the entities as Arrow columns; `names_end` counts names of the whole ontology."""
        return self._entities.table if self._keep is None else self._entities.table.filter(pa.array(self._keep))

    def _has(self, row: int) -> bool:
        return self._keep is None or bool(self._keep[row])

    def search(self, text: str, limit: int = 20) -> list[Match]:
        """Find entities by id, or by names that contain the text in any case; the closest names first."""
        from kriss.ontology.search import search

        return search(self, text, limit)


@dataclass(frozen=True, slots=True)
class Match:
    """An entity found by `Ontology.search`, and the name (or id) that matched."""

    entity: Entity
    matched: str


def _distinct(lists: pa.ChunkedArray) -> list[str]:
    found: list[str] = pc.unique(pc.list_flatten(lists)).to_pylist()
    return found


def _rows_with(lists: pa.ChunkedArray, chosen: set[str]) -> NDArray[np.bool_]:
    """Tell for each row of a list column whether it holds one of the chosen values."""
    member = pc.is_in(pc.list_flatten(lists), value_set=pa.array(sorted(chosen), pa.large_string()))
    owners = np.asarray(pc.list_parent_indices(lists.combine_chunks()))
    keep = np.zeros(len(lists), dtype=bool)
    keep[owners[np.asarray(member)]] = True
    return keep
