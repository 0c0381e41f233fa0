"""The figures that `kriss ontology info` shows."""

from __future__ import annotations

import pyarrow.compute as pc

from kriss.ontology.store import Ontology


def describe(ontology: Ontology) -> dict[str, int]:
    """Count what an ontology holds."""
    entities, names = ontology.entities_table(), ontology.names_table()
    owners = names.group_by("text").aggregate([("entity", "count_distinct")]).column("entity_count_distinct")
    per_entity = pc.value_counts(names.column("entity")).field("counts")
    return {
        "entities": len(ontology),
        "names": names.num_rows,
        "names of several entities": _count(pc.greater(owners, 1)),
        "entities with aliases": _count(pc.greater(per_entity, 1)),
        "entities with a definition": _count(pc.not_equal(entities.column("definition"), "")),
        "entities with parents": sum(bool(ontology.parents_at(row)) for row in ontology.rows()),
        "distinct tree numbers": len(pc.unique(pc.list_flatten(entities.column("tree_numbers")))),
        "retired ids": len(ontology.retired()),
        "types": len(types(ontology)),
    }


def types(ontology: Ontology) -> list[tuple[str, int]]:
    """Return the types, each with how many entities have it; the largest first."""
    counts = pc.value_counts(pc.list_flatten(ontology.entities_table().column("types"))).to_pylist()
    return sorted(((item["values"], item["counts"]) for item in counts), key=lambda pair: (-pair[1], pair[0]))


def _count(flags: object) -> int:
    return int(pc.sum(flags).as_py() or 0)
