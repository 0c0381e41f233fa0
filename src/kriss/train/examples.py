"""The training set: entities with a few mentions each, and entities that have names alone.

Some names training never sees: what a dev mention is swapped for must be new to the encoder. Two spellings of one name
("Neoplasms, Breast", "breast neoplasm") share a key and a fate, whosever they are. A preferred name is never held out,
nor any other spelling of it, nor an alias of one entity that another one is called by: training would see it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kriss.errors import ArtifactError, InputError
from kriss.mine.store import mentions_of, open_mentions
from kriss.names import name_key
from kriss.ontology import Ontology
from kriss.records import Entity, Excerpt
from kriss.train.config import TrainConfig

_REMEMBERED = 200_000
"""Entities whose names are kept divided: all that are mined, as a rule; at most 0.2 GB."""
_TEXT = ["entity", "document", "left", "surface", "right"]


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


class MinedMentions:
    """The mentions of one split, sorted by entity: at most so many of each."""

    def __init__(self, table: pa.Table, ontology: Ontology) -> None:
        ids = table.column("entity").combine_chunks().dictionary_encode()
        rows = [ontology.row_of(entity) for entity in ids.dictionary.to_pylist()]
        if None in rows:
            stranger = ids.dictionary[rows.index(None)]
            raise ArtifactError(f"a mention is of '{stranger}', which the ontology does not have; mine again")
        entity = np.array(rows, dtype=np.int64)[np.asarray(ids.indices)] if len(table) else np.zeros(0, dtype=np.int64)
        order = np.argsort(entity, kind="stable")
        self._text = table.select(_TEXT[1:]).take(pa.array(order)).combine_chunks()
        self.rows, starts = np.unique(entity[order], return_index=True)
        self._bounds = np.append(starts, len(order))

    def __len__(self) -> int:
        return len(self._text)

    def counts(self) -> NDArray[np.int64]:
        """Return how many mentions each entity of `rows` has."""
        return np.diff(self._bounds)

    def get(self, place: int, number: int) -> Excerpt:
        """Return a mention of the entity at a place of `rows`."""
        row = int(self._bounds[place]) + number
        return Excerpt(*(self._text.column(name)[row].as_py() for name in ("left", "surface", "right")))

    def document(self, place: int, number: int) -> str:
        """Return the document of a mention."""
        found: str = self._text.column("document")[int(self._bounds[place]) + number].as_py()
        return found


def read_mentions(
    folder: Path, ontology: Ontology, split: str, most: int, drop: dict[str, frozenset[str]] | None = None
) -> MinedMentions:
    """Read the first `most` mentions of each entity in a split; `drop` are held-out keys, by entity id."""
    file = open_mentions(folder, ontology)
    parts, taken = [file.schema_arrow.empty_table().select(_TEXT)], dict[str, int]()
    for table in mentions_of(file, [split], _TEXT):
        keep = np.zeros(len(table), dtype=bool)
        entities, surfaces = table.column("entity").to_pylist(), table.column("surface").to_pylist()
        for row, (entity, surface) in enumerate(zip(entities, surfaces, strict=True)):
            if taken.get(entity, 0) >= most or (drop and entity in drop and name_key(surface) in drop[entity]):
                continue
            taken[entity] = taken.get(entity, 0) + 1
            keep[row] = True
        parts.append(table.filter(pa.array(keep)))
    return MinedMentions(pa.concat_tables(parts), ontology)


class TrainingSet:
    """What batches are drawn from."""

    def __init__(self, ontology: Ontology, folder: Path, config: TrainConfig) -> None:
        open_mentions(folder, ontology).close()
        self.ontology = ontology
        self.folder = folder
        self._config = config
        self._names: dict[int, Names] = {}
        self._owners = np.asarray(ontology.names_table().column("entity"), dtype=np.int64)
        self.name_counts = np.bincount(self._owners, minlength=len(ontology))
        self._kept = self._kept_keys()
        self.held_out = self._held_out()
        mentioned = read_mentions(folder, ontology, "train", config.mentions_per_entity, self.held_out)
        if len(mentioned.rows) < 2:
            raise InputError(
                f"{folder} has training mentions of {len(mentioned.rows)} entities, and at least 2 are needed: "
                "mine more text"
            )
        self.mentions = mentioned
        self.name_only = self._with_synonyms() if config.name_only else np.zeros(0, dtype=np.int64)

    def _kept_keys(self) -> frozenset[str]:
        _, first = np.unique(self._owners, return_index=True)
        preferred = self.ontology.names_table().column("text").take(pa.array(first)).to_pylist()
        return kept_keys(preferred, self._config.held_out, self._config.seed)

    def _held_out(self) -> dict[str, frozenset[str]]:
        """Return the keys of the names that training may not see, by entity id; mined entities only."""
        table = pq.read_table(self.folder / "mentions.parquet", columns=["entity"])
        found = {}
        for entity in table.column("entity").unique().to_pylist():
            row = self.ontology.row_of(entity)
            if row is not None and (unseen := self.names(row).unseen):
                found[entity] = frozenset(map(name_key, unseen))
        return found

    def _with_synonyms(self) -> NDArray[np.int64]:
        """Return the rows of entities that were not mined but have at least two names to contrast."""
        several = self.name_counts >= 2
        several[self.mentions.rows] = False
        return np.flatnonzero(several)

    def names(self, row: int) -> Names:
        """Return the names of an entity, divided into those for training and those held out."""
        if (found := self._names.get(row)) is None:
            found = divide(self.ontology.names_at(row), self._config.held_out, self._config.seed, self._kept)
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            self._names[row] = found
        return found

    def references(self, rows: Sequence[int]) -> list[Entity]:
        """Return entities as their references may show them: without the names held out."""
        return [replace(self.ontology.at(row), aliases=self.names(row).seen[1:]) for row in rows]
