"""The figures that `kriss ontology info` shows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from kriss.ontology.store import Ontology

_LARGEST = 20


@dataclass(frozen=True, slots=True)
class Description:
    """What an ontology holds."""

    format: str
    entities: int
    names: int
    distinct_names: int
    ambiguous_names: int
    with_aliases: int
    with_definition: int
    with_parents: int
    tree_numbers: int
    retired: int
    types: int
    largest_types: tuple[tuple[str, int], ...]

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of each figure, ready to print."""
        return [
            ("built from", self.format),
            ("entities", f"{self.entities:,}"),
            ("names", f"{self.names:,}"),
            ("names per entity", f"{self.names / max(self.entities, 1):.2f}"),
            ("ambiguous names", self._share(self.ambiguous_names, self.distinct_names)),
            ("entities with aliases", self._share(self.with_aliases, self.entities)),
            ("entities with a definition", self._share(self.with_definition, self.entities)),
            ("entities with parents", self._share(self.with_parents, self.entities)),
            ("distinct tree numbers", f"{self.tree_numbers:,}"),
            ("retired ids", f"{self.retired:,}"),
        ]

    @staticmethod
    def _share(part: int, whole: int) -> str:
        return f"{part:,} ({part / max(whole, 1):.1%})"


def describe(ontology: Ontology) -> Description:
    """Count what an ontology holds."""
    entities, names = ontology.entities_table(), ontology.names_table()
    owners = names.group_by("text").aggregate([("entity", "count_distinct")]).column("entity_count_distinct")
    per_entity = pc.value_counts(names.column("entity")).field("counts")
    counts = pc.value_counts(pc.list_flatten(entities.column("types"))).to_pylist()
    kinds = sorted(((item["values"], item["counts"]) for item in counts), key=lambda pair: (-pair[1], pair[0]))
    return Description(
        format=str(ontology.artifact.config["format"]),
        entities=len(ontology),
        names=names.num_rows,
        distinct_names=len(owners),
        ambiguous_names=_count(pc.greater(owners, 1)),
        with_aliases=_count(pc.greater(per_entity, 1)),
        with_definition=_count(pc.not_equal(entities.column("definition"), "")),
        with_parents=sum(bool(ontology.parents_at(row)) for row in ontology.rows()),
        tree_numbers=len(pc.unique(pc.list_flatten(entities.column("tree_numbers")))),
        retired=len(ontology.retired()),
        types=len(kinds),
        largest_types=tuple(kinds[:_LARGEST]),
    )


def _count(flags: object) -> int:
    return int(pc.sum(flags).as_py() or 0)
