"""From staging tables to the files of an ontology artifact.

Entities are sorted by id and names by entity, the preferred one first. All orders are total, so
the same input gives the same bytes whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kriss.errors import InputError
from kriss.files import BadRows
from kriss.ontology.arrowfile import KeyIndex, write_arrow
from kriss.ontology.complete import complete
from kriss.ontology.config import OntologyConfig
from kriss.ontology.hierarchy import Graph, Rows, cycle_edges
from kriss.ontology.staging import Staging
from kriss.ontology.subsets import chosen_values

ENTITIES = pa.schema(
    [
        ("id", pa.large_string()),
        ("definition", pa.large_string()),
        ("types", pa.large_list(pa.large_string())),
        ("tree_numbers", pa.large_list(pa.large_string())),
        ("parents", pa.large_list(pa.int32())),
        ("xrefs", pa.large_list(pa.large_string())),
        ("names_end", pa.int64()),
    ]
)
NAMES = pa.schema([("text", pa.large_string()), ("entity", pa.int32())])
RETIRED = pa.schema([("id", pa.large_string()), ("entity", pa.int32())])
_CHUNK = 1 << 18


def assemble(staging: Staging, folder: Path, config: OntologyConfig, bad: BadRows) -> dict[str, int]:
    """Complete what was staged, choose the subset asked for, write the artifact's files, and return their sizes."""
    size = staging.number()
    if not size:
        raise InputError("no entity is left to write: the source is empty, or its filters leave nothing out of it")
    graph = complete(staging, _graph(staging, size, bad), _merged(staging), config.default_type)
    if config.types:
        graph = _choose(staging, graph, config.types)
        size = graph.n
    ends = _write_names(staging, folder, size)
    _write_entities(staging, graph, ends, folder)
    retired = _write_retired(staging, folder)
    ids = staging.con.sql("SELECT md5_number_lower(id) AS key FROM entity ORDER BY n").to_arrow_table()
    KeyIndex.write(folder / "id_index.arrow", np.concatenate([np.asarray(ids.column("key")), retired]))
    return {"entities": size, "names": int(ends[-1]), "retired": len(retired)}


def _graph(staging: Staging, size: int, bad: BadRows) -> Graph:
    """Resolve parents to rows; one that is not in the ontology is left out and counted."""
    [(unknown,)] = staging.rows("SELECT count(*) FROM parent WHERE id NOT IN (SELECT id FROM entity)")
    if unknown:
        staging.notes.append(f"{unknown:,} parents are not in the ontology and were left out")
    child, parent = staging.numbers(
        "SELECT DISTINCT p.n, e.n AS above FROM parent p JOIN entity e USING (id) ORDER BY p.n, above"
    )
    graph = Graph(size, child, parent)
    circular = cycle_edges(graph)
    for edge in circular.tolist():
        [(below, above, file, line)] = staging.rows(
            """SELECT any_value(c.id), any_value(p.id), any_value(p.file), min(p.line)
               FROM parent p JOIN entity c USING (n) JOIN entity a ON a.id = p.id
               WHERE c.n = $child AND a.n = $parent""",
            child=int(child[edge]),
            parent=int(parent[edge]),
        )
        message = f"is-a has a cycle: '{below}' is its own ancestor through its parent '{above}'"
        bad.report(message, staging.place(file, line, below))
    return graph.without(circular)


def _merged(staging: Staging) -> Graph:
    """Return the edges that come of other ontologies."""
    child, parent = staging.numbers(
        "SELECT DISTINCT p.n, e.n AS above FROM merged_parent p JOIN entity e USING (id) ORDER BY p.n, above"
    )
    return Graph(0, child, parent)


def _choose(staging: Staging, graph: Graph, selectors: tuple[str, ...]) -> Graph:
    """Keep the entities that a selector names, and number them anew."""
    present = {
        table: [value for (value,) in staging.rows(f"SELECT DISTINCT value FROM {table}")] for table in ("type", "tree")
    }
    types, trees = chosen_values(selectors, present["type"], present["tree"], staging.type_codes)
    staging.drop(
        """n NOT IN (SELECT n FROM type WHERE value IN (SELECT unnest($types))
                     UNION SELECT n FROM tree WHERE value IN (SELECT unnest($trees)))""",
        types=sorted(types),
        trees=sorted(trees),
    )
    [kept] = staging.numbers("SELECT n FROM entity ORDER BY n")
    if left := graph.n - len(kept):
        staging.notes.append(f"{left:,} entities are of other types than {', '.join(selectors)} and were left out")
    new = np.full(graph.n, -1, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    inside = (new[graph.child] >= 0) & (new[graph.parent] >= 0)
    return Graph(staging.number(), new[graph.child[inside]], new[graph.parent[inside]])


def _write_names(staging: Staging, folder: Path, size: int) -> NDArray[np.int64]:
    """Write names and their index; return for each entity where its names end."""
    reader = staging.con.sql(
        "SELECT value AS text, n AS entity, md5_number_lower(value) AS key FROM name ORDER BY n, rank, value"
    ).to_arrow_reader(_CHUNK)
    keys: list[NDArray[np.uint64]] = []
    counts = np.zeros(size, dtype=np.int64)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            keys.append(np.asarray(batch.column("key")).copy())
            counts[:] += np.bincount(np.asarray(batch.column("entity")), minlength=size)
            yield batch.select(["text", "entity"])

    write_arrow(folder / "names.arrow", NAMES, batches())
    KeyIndex.write(folder / "name_index.arrow", np.concatenate(keys))
    return np.cumsum(counts)


def _write_entities(staging: Staging, graph: Graph, ends: NDArray[np.int64], folder: Path) -> None:
    order = np.argsort(graph.child, kind="stable")  # our own parents stay before those merged in
    parents = _lists(graph.child[order], pa.array(graph.parent[order], pa.int32()), graph.n)
    texts = staging.con.sql("SELECT id, definition FROM entity ORDER BY n").to_arrow_table()
    types, trees, xrefs = (_values(staging, table, graph.n) for table in ("type", "tree", "xref"))
    columns = [_array(texts, "id"), _array(texts, "definition"), types, trees, parents, xrefs, pa.array(ends)]
    write_arrow(folder / "entities.arrow", ENTITIES, [pa.RecordBatch.from_arrays(columns, schema=ENTITIES)])


def _values(staging: Staging, table: str, size: int) -> pa.LargeListArray:
    found = staging.con.sql(f"SELECT n, value FROM {table} ORDER BY n, rank, value").to_arrow_table()
    return _lists(np.asarray(found.column("n")), _array(found, "value"), size)


def _lists(rows: Rows, values: pa.Array, size: int) -> pa.LargeListArray:
    """Return values that are sorted by row as a list a row."""
    ends = np.cumsum(np.bincount(rows, minlength=size))
    return pa.LargeListArray.from_arrays(pa.array(np.concatenate(([0], ends)), pa.int64()), values)


def _array(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).cast(pa.large_string()).combine_chunks()


def _write_retired(staging: Staging, folder: Path) -> NDArray[np.uint64]:
    """Write retired ids with the live entity each ends at, following chains; return their keys."""
    staging.con.execute("CREATE TABLE chain AS SELECT DISTINCT id, successor FROM retired")
    for _ in range(20):  # each doubles the steps taken; what ends nowhere even then is left out below
        [(moved,)] = staging.rows(
            """UPDATE chain SET successor = next.successor
               FROM (SELECT id, min(successor) AS successor FROM chain GROUP BY id) next
               WHERE next.id = chain.successor AND chain.successor NOT IN (SELECT id FROM entity)"""
        )
        if not moved:
            break
    table = staging.con.sql(
        """
        SELECT chain.id, min(entity.n)::INTEGER AS entity, md5_number_lower(chain.id) AS key
        FROM chain JOIN entity ON entity.id = chain.successor
        WHERE chain.id NOT IN (SELECT id FROM entity) GROUP BY chain.id ORDER BY chain.id
        """
    ).to_arrow_table()
    write_arrow(folder / "retired.arrow", RETIRED, table.select(["id", "entity"]).to_batches())
    return np.asarray(table.column("key"), dtype=np.uint64)
