"""The is-a graph as arrays: cycles, depths, a spanning tree, and numbers and classes drawn from it.

Entities are rows 0..n-1 and edges two arrays `child` and `parent`, so that four million rows
are no more work than forty. Everything is deterministic: ties go to the smallest row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Graph:
    """An is-a graph over `n` rows; edge i says that `child[i]` is a `parent[i]`."""

    n: int
    child: Rows
    parent: Rows

    def without(self, edges: Rows) -> Graph:
        """Return the graph with some edges left out."""
        keep = np.ones(len(self.child), dtype=bool)
        keep[edges] = False
        return Graph(self.n, self.child[keep], self.parent[keep])


@dataclass(frozen=True, slots=True)
class Tree:
    """A spanning forest: each row's nearest way to a root. `parent` is -1 at a root."""

    parent: Rows
    order: Rows
    """All rows, parents before their children."""


def cycle_edges(graph: Graph) -> Rows:
    """Return the edges to leave out so that no cycle remains; empty when there is none.

    Rows that no cycle can pass are peeled off layer by layer from below and above; a depth-first
    walk through what is left finds the edges that lead back.
    """
    left = _core(graph)
    if not left.any():
        return np.empty(0, dtype=np.int64)
    inside = np.flatnonzero(left[graph.child] & left[graph.parent])
    inside = inside[np.lexsort((graph.parent[inside], graph.child[inside]))]
    ups: dict[int, list[int]] = {}
    for edge in inside.tolist():
        ups.setdefault(int(graph.child[edge]), []).append(edge)
    back: list[int] = []
    done: set[int] = set()
    for start in sorted(ups):
        if start in done:
            continue
        on_path = {start}
        stack = [(start, iter(ups[start]))]
        while stack:
            row, edges = stack[-1]
            edge = next(edges, -1)
            if edge < 0:
                stack.pop()
                on_path.discard(row)
                done.add(row)
                continue
            above = int(graph.parent[edge])
            if above in on_path:
                back.append(edge)
            elif above not in done:
                on_path.add(above)
                stack.append((above, iter(ups.get(above, ()))))
    return np.array(sorted(back), dtype=np.int64)


def joined(graph: Graph, more: Graph) -> Graph:
    """Return an acyclic graph with more edges added in order, except those that would close a cycle."""
    if not len(more.child):
        return graph
    known = set(zip(graph.child.tolist(), graph.parent.tolist(), strict=True))
    fresh = [pair for pair in zip(more.child.tolist(), more.parent.tolist(), strict=True) if pair not in known]
    below, above = np.array(fresh, dtype=np.int64).reshape(-1, 2).T
    both = Graph(graph.n, np.concatenate([graph.child, below]), np.concatenate([graph.parent, above]))
    core = _core(both)
    ups: dict[int, list[int]] = {}
    refused: list[int] = []
    for edge in np.flatnonzero(core[both.child] & core[both.parent]).tolist():  # outside the core there is no cycle
        low, high = int(both.child[edge]), int(both.parent[edge])
        if edge >= len(graph.child) and _leads_to(high, low, ups):
            refused.append(edge)
        else:
            ups.setdefault(low, []).append(high)
    return both.without(np.array(refused, dtype=np.int64))


def _leads_to(start: int, goal: int, ups: dict[int, list[int]]) -> bool:
    """Tell whether there is a way up from one row to another, or none is needed."""
    seen, waiting = {start}, [start]
    while waiting:
        row = waiting.pop()
        if row == goal:
            return True
        for above in ups.get(row, ()):
            if above not in seen:
                seen.add(above)
                waiting.append(above)
    return False


def _core(graph: Graph) -> NDArray[np.bool_]:
    """Return the rows left after peeling, again and again, those without a parent or without a child."""
    child, parent = graph.child, graph.parent
    while len(child):
        has_parent = np.zeros(graph.n, dtype=bool)
        has_child = np.zeros(graph.n, dtype=bool)
        has_parent[child] = True
        has_child[parent] = True
        alive = has_parent & has_child
        keep = alive[child] & alive[parent]
        if keep.all():
            return alive
        child, parent = child[keep], parent[keep]
    return np.zeros(graph.n, dtype=bool)


def spanning_tree(graph: Graph) -> Tree:
    """Give each row its shortest way up to a root, through the smallest parent where several are as short."""
    order = np.lexsort((graph.child, graph.parent))
    child, parent = graph.child[order], graph.parent[order]
    starts = np.searchsorted(parent, np.arange(graph.n + 1))
    tree_parent = np.full(graph.n, -1, dtype=np.int64)
    seen = np.ones(graph.n, dtype=bool)
    seen[graph.child] = False
    layer = np.flatnonzero(seen)
    layers = [layer]
    while len(layer):
        counts = starts[layer + 1] - starts[layer]
        edges = np.repeat(starts[layer] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(
            counts.sum()
        )
        fresh = edges[~seen[child[edges]]]
        fresh = fresh[np.lexsort((parent[fresh], child[fresh]))]
        below, first = np.unique(child[fresh], return_index=True)
        tree_parent[below] = parent[fresh][first]
        seen[below] = True
        layer = below
        layers.append(layer)
    return Tree(tree_parent, np.concatenate(layers))


def tree_numbers(tree: Tree) -> list[str]:
    """Number the tree as UMLS and MeSH do: a child's number is its parent's, a dot and its rank.

    An entity alone, with neither parent nor child, gets no number (an empty string).
    """
    numbers = [""] * len(tree.parent)
    ranks: Counter[int] = Counter()
    has_child = np.zeros(len(tree.parent), dtype=bool)
    has_child[tree.parent[tree.parent >= 0]] = True
    for row in tree.order.tolist():
        above = int(tree.parent[row])
        if above < 0 and not has_child[row]:
            continue
        ranks[above] += 1
        numbers[row] = f"{numbers[above]}.{ranks[above]}" if above >= 0 else str(ranks[above])
    return numbers


def top_classes(tree: Tree) -> set[int]:
    """Choose the rows that serve as types: below the roots, and deeper where one class holds over half."""
    n = len(tree.parent)
    size = np.ones(n, dtype=np.int64)
    children: dict[int, list[int]] = {}
    for row in tree.order[::-1].tolist():
        above = int(tree.parent[row])
        if above >= 0:
            size[above] += size[row]
            children.setdefault(above, []).append(row)
    classes = {row for row in children if tree.parent[row] < 0}
    placed = sum(int(size[row]) for row in classes)
    while classes:
        largest = max(classes, key=lambda row: (int(size[row]), -row))
        if size[largest] * 2 <= placed or largest not in children:
            break
        classes.remove(largest)
        classes.update(children[largest])
    return classes


def classes_above(graph: Graph, classes: set[int]) -> list[tuple[int, ...]]:
    """For each row, return the classes that it is or is below by any path; above all classes, itself."""
    ups: dict[int, list[int]] = {}
    for below, above in zip(graph.child.tolist(), graph.parent.tolist(), strict=True):
        ups.setdefault(below, []).append(above)
    found: list[frozenset[int]] = [frozenset({row}) if row in classes else frozenset() for row in range(graph.n)]
    for row in TopologicalSorter(ups).static_order():  # every parent before its children
        found[row] = found[row].union(*(found[above] for above in ups.get(row, ())))
    has_child = set(graph.parent.tolist())
    return [tuple(sorted(held)) or ((row,) if row in has_child else ()) for row, held in enumerate(found)]
