"""Graph functions against brute force, on random graphs with and without cycles."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.ontology.hierarchy import (
    Graph,
    classes_above,
    cycle_edges,
    joined,
    spanning_tree,
    top_classes,
    tree_numbers,
)
from kriss.ontology.subsets import in_tree

MANY = settings(max_examples=100)
Edge = tuple[int, int]


def graph_of(n: int, edges: list[Edge]) -> Graph:
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return Graph(n, pairs[:, 0], pairs[:, 1])


def edges_of(graph: Graph) -> list[Edge]:
    return list(zip(graph.child.tolist(), graph.parent.tolist(), strict=True))


@st.composite
def any_edges(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    """Draw edges of any kind: cycles, and edges from a row to itself."""
    n = draw(st.integers(1, 9))
    row = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(row, row), unique=True, max_size=20))


@st.composite
def acyclic_edges(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    """Draw edges that lead up in some order of the rows."""
    n, edges = draw(any_edges())
    rank = draw(st.permutations(range(n)))
    return n, list(dict.fromkeys((a, b) if rank[a] > rank[b] else (b, a) for a, b in edges if a != b))


def ancestors(n: int, edges: list[Edge]) -> list[set[int]]:
    """For each row, the rows above it, itself among them only if it is on a cycle."""
    above = [{b for a, b in edges if a == row} for row in range(n)]
    for _ in range(n):
        above = [found | {higher for row in found for higher in above[row]} for found in above]
    return above


def is_acyclic(n: int, edges: list[Edge]) -> bool:
    return all(row not in found for row, found in enumerate(ancestors(n, edges)))


def depths(n: int, edges: list[Edge]) -> list[int]:
    """Edges on the shortest way to a root; -1 where there is none."""
    found = [0 if all(a != row for a, _ in edges) else -1 for row in range(n)]
    for depth in range(n):
        for a, b in edges:
            if found[b] == depth and found[a] < 0:
                found[a] = depth + 1
    return found


@MANY
@given(any_edges())
def test_without_its_cycle_edges_a_graph_has_no_cycle(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    graph = graph_of(n, edges)
    removed = cycle_edges(graph)
    left = graph.without(removed)
    assert is_acyclic(n, edges_of(left))
    assert len(left.child) == len(edges) - len(removed)
    above = ancestors(n, edges)
    for index in removed.tolist():  # and each of them was on a cycle
        child, parent = edges[index]
        assert child == parent or child in above[parent]


@MANY
@given(acyclic_edges())
def test_nothing_is_taken_from_an_acyclic_graph(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    assert cycle_edges(graph_of(n, edges)).tolist() == []


@MANY
@given(acyclic_edges())
def test_the_spanning_tree_takes_the_shortest_way(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    tree = spanning_tree(graph_of(n, edges))
    expected = depths(n, edges)
    parent = tree.parent.tolist()
    for row in range(n):
        depth, step = 0, row
        while parent[step] >= 0:
            assert (step, parent[step]) in edges
            step, depth = parent[step], depth + 1
        assert depth == expected[row]
        nearest = [b for a, b in edges if a == row and expected[b] == expected[row] - 1]
        assert parent[row] == min(nearest, default=-1)
    order = tree.order.tolist()
    assert sorted(order) == list(range(n))
    assert all(parent[row] < 0 or order.index(parent[row]) < order.index(row) for row in range(n))


@MANY
@given(acyclic_edges())
def test_tree_numbers_spell_the_way_down(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    tree = spanning_tree(graph_of(n, edges))
    numbers = tree_numbers(tree)
    given_out = [number for number in numbers if number]
    assert len(set(given_out)) == len(given_out)
    in_graph = {row for edge in edges for row in edge}
    for row in range(n):
        above = int(tree.parent[row])
        if above >= 0:
            assert numbers[row].rpartition(".")[0] == numbers[above]
        elif row not in in_graph:
            assert numbers[row] == ""
        else:
            has_tree_child = row in tree.parent.tolist()
            assert numbers[row].isdigit() if has_tree_child else "." not in numbers[row]


@MANY
@given(acyclic_edges(), st.sets(st.integers(0, 8)))
def test_classes_above_are_the_ancestors_that_are_classes(drawn: tuple[int, list[Edge]], some: set[int]) -> None:
    n, edges = drawn
    classes = {row for row in some if row < n}
    graph = graph_of(n, edges)
    above = ancestors(n, edges)
    parents = {b for _, b in edges}
    for row, found in enumerate(classes_above(graph, spanning_tree(graph), classes)):
        expected = tuple(sorted((above[row] | {row}) & classes))
        assert found == (expected or ((row,) if row in parents else ()))


@MANY
@given(acyclic_edges())
def test_top_classes_are_rows_and_cover_what_is_below_them(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    tree = spanning_tree(graph_of(n, edges))
    classes = top_classes(tree)
    assert classes <= set(range(n))
    assert bool(classes) == bool(edges)
    for row in classes:  # no class is above another in the tree
        step = int(tree.parent[row])
        while step >= 0:
            assert step not in classes
            step = int(tree.parent[step])


def test_top_classes_go_deeper_where_one_class_holds_over_half() -> None:
    # 0 is the root of all; 1 holds most of it; 3, 4, 5 are below 1; 2 stands beside 1.
    edges = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
    assert top_classes(spanning_tree(graph_of(6, edges))) == {2, 3, 4, 5}


@MANY
@given(acyclic_edges(), any_edges())
def test_joined_graphs_stay_acyclic_and_keep_the_first(
    drawn: tuple[int, list[Edge]], others: tuple[int, list[Edge]]
) -> None:
    n, edges = drawn
    more = [(a, b) for a, b in others[1] if a < n and b < n]
    both = edges_of(joined(graph_of(n, edges), graph_of(n, more)))
    assert both[: len(edges)] == edges
    assert set(both) <= set(edges) | set(more)
    assert len(set(both)) == len(both)
    assert is_acyclic(n, both)
    if is_acyclic(n, edges + more):
        assert set(both) == set(edges) | set(more)


def test_deep_chain_and_wide_star_are_no_trouble() -> None:
    chain = graph_of(5000, list(pairwise(range(5000))))
    assert cycle_edges(chain).tolist() == []
    assert tree_numbers(spanning_tree(chain))[0].count(".") == 4999
    ring = graph_of(5000, [*pairwise(range(5000)), (4999, 0)])
    assert len(cycle_edges(ring)) == 1
    star = graph_of(5000, [(row, 0) for row in range(1, 5000)])
    assert tree_numbers(spanning_tree(star))[4999] == "1.4999"


def test_empty_graph() -> None:
    graph = graph_of(3, [])
    assert cycle_edges(graph).tolist() == []
    assert spanning_tree(graph).order.tolist() == [0, 1, 2]
    assert tree_numbers(spanning_tree(graph)) == ["", "", ""]


def test_in_tree() -> None:
    assert in_tree("C04", "C04")
    assert in_tree("C04.557.1", "C04")
    assert in_tree("C04.557", "C")
    assert not in_tree("C045", "C04")
    assert not in_tree("C04", "C04.557")
    assert not in_tree("CA1", "C")
    assert in_tree("B2.2.1.2.1.2", "B2.2.1")
    assert not in_tree("B2.2.10", "B2.2.1")
