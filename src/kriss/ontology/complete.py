"""Give every entity a root-to-leaf path and a type, whatever its source left out.

In this order, and only where the source is silent:
1. parents from tree numbers: whoever owns `C04` is the parent of whoever owns `C04.557`;
2. tree numbers from parents: a MeSH supplementary record takes those of the descriptors it maps to;
3. tree numbers from the is-a graph, if the source has none at all: the nearest way to a root;
4. types from the tree: the owner of the first part of the tree number (`C04`: Neoplasms),
   or the classes at the top of the is-a graph;
5. what is left has the default type, and hangs at the root: by its type's rank, or at `0`.

The records are numbered by their ids already, so that `n` is an entity's row.
"""

from __future__ import annotations

import numpy as np

from kriss.ontology.hierarchy import Graph, classes_above, joined, spanning_tree, top_classes, tree_numbers
from kriss.ontology.staging import Staging


def complete(staging: Staging, graph: Graph, merged: Graph, default_type: str) -> Graph:
    """Fill in types and tree numbers, and return the graph with more parents.

    Those of `merged`, another ontology's, join once ours are complete, save those that would lead
    in a circle.
    """
    con = staging.con
    has_trees = bool(staging.rows("SELECT 1 FROM tree LIMIT 1"))
    if has_trees and staging.trees_are_positions:
        # Whose place each tree number is; if several claim one, the first.
        con.execute("CREATE TEMP TABLE place AS SELECT value, min(n) AS n FROM tree GROUP BY value")
        graph = joined(joined(graph, _parents_from_trees(staging, graph)), merged)
        _trees_from_parents(staging, graph)
        con.execute(
            """
            INSERT INTO type
            WITH top AS (SELECT n, split_part(value, '.', 1) AS value, min(rank) AS rank FROM tree GROUP BY ALL),
                 label AS (SELECT p.value, arg_min(name.value, (name.rank, name.value)) AS text
                           FROM place p JOIN name USING (n) WHERE p.value NOT LIKE '%.%' GROUP BY p.value)
            SELECT top.n, coalesce(label.text, top.value), min(top.rank)
            FROM top LEFT JOIN label USING (value) WHERE top.n NOT IN (SELECT n FROM type) GROUP BY ALL
            """
        )
    else:
        graph = joined(graph, merged)
        if staging.trees_are_positions and len(graph.child):
            _number_by_graph(staging, graph)
    con.execute(
        "INSERT INTO type SELECT n, $default, 0 FROM entity WHERE n NOT IN (SELECT n FROM type)",
        {"default": default_type},
    )
    con.execute(  # at the root: by the rank of the type if nothing has a tree number, or at 0
        """
        INSERT INTO tree
        WITH kind AS (SELECT n, arg_min(value, (rank, value)) AS value FROM type
                      WHERE n NOT IN (SELECT n FROM tree) GROUP BY n),
             numbered AS (SELECT value, row_number() OVER (ORDER BY value) AS place
                          FROM (SELECT DISTINCT value FROM kind) WHERE value <> $default AND NOT EXISTS (FROM tree))
        SELECT kind.n, coalesce(numbered.place, 0)::VARCHAR, 0 FROM kind LEFT JOIN numbered USING (value)
        """,
        {"default": default_type},
    )
    return graph


def _parents_from_trees(staging: Staging, graph: Graph) -> Graph:
    """Return edges for rows without a parent.

    A record in several trees may stand above another in one and below it in the next: these may have cycles.
    """
    child, parent, _ = staging.numbers(
        r"""
        SELECT tree.n, place.n AS above, min(tree.rank) AS rank
        FROM tree JOIN place ON place.value = regexp_extract(tree.value, '^(.*)\.', 1, 's')
        WHERE place.n <> tree.n GROUP BY tree.n, place.n ORDER BY tree.n, rank
        """
    )
    silent = ~np.isin(child, graph.child)
    return Graph(0, child[silent], parent[silent])


def _trees_from_parents(staging: Staging, graph: Graph) -> None:
    """Give rows without a tree number those of their parents, from the root down."""
    lacking = {n for (n,) in staging.rows("SELECT n FROM entity WHERE n NOT IN (SELECT n FROM tree)")}
    if not lacking:
        return
    ups: dict[int, list[int]] = {}
    for below, above in sorted(zip(graph.child.tolist(), graph.parent.tolist(), strict=True)):
        if below in lacking:
            ups.setdefault(below, []).append(above)
    numbers: dict[int, list[str]] = {}
    for n, value in staging.rows("SELECT n, value FROM tree ORDER BY n, rank, value"):
        numbers.setdefault(n, []).append(value)
    for row in spanning_tree(graph).order.tolist():
        if row in ups:
            numbers[row] = list(dict.fromkeys(value for above in ups[row] for value in numbers.get(above, ())))
    staging.insert("tree", [(row, value, rank) for row in ups for rank, value in enumerate(numbers[row])])


def _number_by_graph(staging: Staging, graph: Graph) -> None:
    """Number the entities of a source without tree numbers, and type them by the classes at the top."""
    tree = spanning_tree(graph)
    staging.insert("tree", [(row, number, 0) for row, number in enumerate(tree_numbers(tree)) if number])
    lacking = [n for (n,) in staging.rows("SELECT n FROM entity WHERE n NOT IN (SELECT n FROM type) ORDER BY n")]
    if lacking:
        held = classes_above(graph, top_classes(tree))
        staging.con.execute("CREATE TEMP TABLE class (n INTEGER, above INTEGER, rank INTEGER)")
        staging.insert("class", [(row, above, rank) for row in lacking for rank, above in enumerate(held[row])])
        staging.con.execute(
            """
            INSERT INTO type
            WITH label AS (SELECT n, arg_min(value, (rank, value)) AS text FROM name
                           WHERE n IN (SELECT above FROM class) GROUP BY n)
            SELECT class.n, label.text, class.rank FROM class JOIN label ON label.n = class.above
            """
        )
