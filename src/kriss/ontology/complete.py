"""Give every entity a root-to-leaf path and a type, whatever its source left out.

In this order, and only where the source is silent:
1. parents from tree numbers: whoever owns `C04` is the parent of whoever owns `C04.557`;
2. tree numbers from parents: a MeSH supplementary record takes those of the descriptors it maps to;
3. tree numbers from the is-a graph, if the source has none at all: the nearest way to a root;
4. types from the tree: the owner of the first part of the tree number (`C04`: Neoplasms),
   or the classes at the top of the is-a graph;
5. what is left has the default type, and hangs at the root: by its type's rank, or at `0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kriss.ontology.hierarchy import Graph, classes_above, joined, spanning_tree, top_classes, tree_numbers
from kriss.ontology.pairs import Pairs

Labels = Callable[[Iterable[int]], dict[int, str]]
"""Gives the preferred names of some rows."""

UNPLACED = "0"
"""The tree number of an entity for which neither the source nor its type gives a place."""


@dataclass(frozen=True, slots=True)
class Columns:
    """All of an ontology but its names, by row."""

    ids: pa.Array
    definitions: pa.Array
    types: Pairs
    trees: Pairs
    xrefs: Pairs
    graph: Graph

    def __len__(self) -> int:
        return len(self.ids)


def complete(
    columns: Columns,
    labels: Labels,
    default_type: str,
    *,
    trees_are_positions: bool,
    more_edges: Graph,
) -> Columns:
    """Fill in parents, tree numbers and types; `labels` gives the preferred names of rows.

    `more_edges` are another ontology's: they join once ours are complete, save those that would
    lead in a circle.
    """
    n = len(columns)
    owners = _owners(columns.trees) if trees_are_positions else {}
    if owners:
        columns = _parents_from_trees(columns, owners)
    columns = replace(columns, graph=joined(columns.graph, more_edges))
    if owners:
        columns = _trees_from_parents(columns)
        columns = _types_from_trees(columns, owners, labels)
    elif trees_are_positions and len(columns.graph.child):
        columns = _numbered_by_graph(columns, labels)
    untyped = columns.types.lacking(n).tolist()
    columns = replace(columns, types=columns.types.extended(untyped, [default_type] * len(untyped)))
    return _placed_by_type(columns, default_type)


def _owners(trees: Pairs) -> dict[str, int]:
    """Return whose place each tree number is; if several claim one, the first."""
    rows, numbers = trees.rows.tolist(), trees.values.to_pylist()
    return {number: row for row, number in zip(reversed(rows), reversed(numbers), strict=True)}


def _parents_from_trees(columns: Columns, owners: dict[str, int]) -> Columns:
    has_parent = set(columns.graph.child.tolist())
    edges: dict[tuple[int, int], None] = {}
    for row, number in zip(columns.trees.rows.tolist(), columns.trees.values.to_pylist(), strict=True):
        above = owners.get(number.rpartition(".")[0], row)
        if row not in has_parent and above != row:
            edges[(row, above)] = None
    # A record in several trees may stand above another in one of them and below it in the next.
    more = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
    return replace(columns, graph=joined(columns.graph, Graph(0, more[:, 0], more[:, 1])))


def _trees_from_parents(columns: Columns) -> Columns:
    lacking = set(columns.trees.lacking(len(columns)).tolist())
    if not lacking:
        return columns
    numbers = columns.trees.by_row(len(columns))
    ups: dict[int, list[int]] = {}
    for below, above in zip(columns.graph.child.tolist(), columns.graph.parent.tolist(), strict=True):
        if below in lacking:
            ups.setdefault(below, []).append(above)
    rows: list[int] = []
    values: list[str] = []
    for row in spanning_tree(columns.graph).order.tolist():
        if row in ups:
            numbers[row] = list(dict.fromkeys(number for above in sorted(ups[row]) for number in numbers[above]))
            rows.extend([row] * len(numbers[row]))
            values.extend(numbers[row])
    return replace(columns, trees=columns.trees.extended(rows, values))


def _types_from_trees(columns: Columns, owners: dict[str, int], labels: Labels) -> Columns:
    lacking = set(columns.types.lacking(len(columns)).tolist())
    names = labels({row for number, row in owners.items() if "." not in number})
    found: dict[tuple[int, str], None] = {}
    for row, number in zip(columns.trees.rows.tolist(), columns.trees.values.to_pylist(), strict=True):
        if row in lacking:
            top = number.partition(".")[0]
            found[(row, names[owners[top]] if top in owners else top)] = None
    return replace(columns, types=columns.types.extended([row for row, _ in found], [name for _, name in found]))


def _numbered_by_graph(columns: Columns, labels: Labels) -> Columns:
    graph = columns.graph
    tree = spanning_tree(graph)
    numbers = tree_numbers(tree)
    placed = [row for row, number in enumerate(numbers) if number]
    trees = columns.trees.extended(placed, [numbers[row] for row in placed])
    lacking = set(columns.types.lacking(len(columns)).tolist())
    held = classes_above(graph, tree, top_classes(tree)) if lacking else []
    pairs = [(row, above) for row, classes in enumerate(held) if row in lacking for above in classes]
    names = labels({above for _, above in pairs})
    types = columns.types.extended([row for row, _ in pairs], [names[above] for _, above in pairs])
    return replace(columns, trees=trees, types=types)


def _placed_by_type(columns: Columns, default_type: str) -> Columns:
    unplaced = columns.trees.lacking(len(columns))
    if not len(unplaced):
        return columns
    first = np.searchsorted(columns.types.rows, unplaced)
    kinds = columns.types.values.take(pa.array(first)).to_pylist()
    known = sorted(set(kinds) - {default_type})
    numbered = len(columns.trees.rows) == 0
    ranks = {kind: str(rank) for rank, kind in enumerate(known, start=1)} if numbered else {}
    return replace(
        columns,
        trees=columns.trees.extended(unplaced.tolist(), [ranks.get(kind, UNPLACED) for kind in kinds]),
    )
