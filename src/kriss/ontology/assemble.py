"""From staging tables to the files of an ontology artifact.

Entities are sorted by id and names by entity, the preferred one first. All orders are total, so
the same input gives the same bytes whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kriss.errors import InputError
from kriss.files import BadRows
from kriss.ontology.arrowfile import KeyIndex, write_arrow
from kriss.ontology.complete import Columns, complete
from kriss.ontology.config import OntologyConfig
from kriss.ontology.hierarchy import Graph, cycle_edges
from kriss.ontology.pairs import Pairs
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


@dataclass(frozen=True, slots=True)
class Assembled:
    """What was written, for the manifest and the reader's eye."""

    entities: int
    names: int
    retired: int


def assemble(staging: Staging, folder: Path, config: OntologyConfig, bad: BadRows) -> Assembled:
    """Check what was staged, complete it, choose the subset asked for, and write the artifact's files."""
    staging.con.execute(
        "CREATE TABLE numbered AS SELECT n, id, (row_number() OVER (ORDER BY id) - 1)::INTEGER AS row FROM entity"
    )
    columns = _columns(staging, bad)
    if not len(columns):
        raise InputError("no entity is left to write: the source is empty, or its filters leave nothing out of it")
    columns = complete(
        columns,
        lambda rows: _preferred_names(staging, rows),
        config.default_type,
        trees_are_positions=staging.trees_are_positions,
        more_edges=_merged_edges(staging),
    )
    if config.types:
        columns = _subset(columns, config.types, staging)
    ends = _write_names(staging, folder, len(columns))
    _write_entities(columns, ends, folder)
    retired = _write_retired(staging, folder)
    keys = [_keys(staging, "SELECT md5_number_lower(id) FROM numbered ORDER BY row"), retired]
    KeyIndex.write(folder / "id_index.arrow", np.concatenate(keys))
    return Assembled(len(columns), int(ends[-1]), len(retired))


def drop_bad_records(staging: Staging, bad: BadRows) -> None:
    """Report and drop ids given twice (the first stays) and entities without a name."""
    staging.flush()
    con = staging.con
    queries = {
        """SELECT n, id, file, line, nth
           FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY n) AS of_all,
                 row_number() OVER (PARTITION BY id, file ORDER BY n) AS nth FROM entity)
           WHERE of_all > 1 ORDER BY n""": "a second entity with the id '{id}'",
        """SELECT n, id, file, line, 1 FROM entity
           WHERE n NOT IN (SELECT n FROM name) ORDER BY n""": "the entity '{id}' has no name",
    }
    for query, message in queries.items():
        rows = staging.rows(query)
        for _, entity_id, file, line, nth in rows:
            bad.add(message.format(id=entity_id), staging.place(file, line, entity_id, nth))
        if rows:
            dropped = pa.table({"n": pa.array([row[0] for row in rows], pa.int32())})  # noqa: F841 - read by SQL
            for table in ("entity", "name", "type", "tree", "parent", "xref"):
                con.execute(f"DELETE FROM {table} WHERE n IN (SELECT n FROM dropped)")


def _columns(staging: Staging, bad: BadRows) -> Columns:
    table = staging.table("SELECT m.id, e.definition FROM numbered m JOIN entity e USING (n) ORDER BY m.row")
    return Columns(
        ids=_array(table, "id"),
        definitions=_array(table, "definition"),
        types=_pairs(staging, "type"),
        trees=_pairs(staging, "tree"),
        xrefs=_pairs(staging, "xref"),
        graph=_graph(staging, table.num_rows, bad),
    )


def _array(table: pa.Table, name: str) -> pa.Array:
    chunks = table.column(name).cast(pa.large_string())
    return chunks.combine_chunks() if chunks.num_chunks != 1 else chunks.chunk(0)


def _pairs(staging: Staging, table: str) -> Pairs:
    result = staging.table(
        f"SELECT m.row, t.value FROM {table} t JOIN numbered m USING (n) ORDER BY m.row, t.rank, t.value"
    )
    return Pairs(np.asarray(result.column("row"), dtype=np.int64), _array(result, "value"))


def _graph(staging: Staging, n: int, bad: BadRows) -> Graph:
    """Resolve parents to rows; one that is not in the ontology is left out and counted."""
    [(unknown,)] = staging.rows("SELECT count(*) FROM parent WHERE parent NOT IN (SELECT id FROM numbered)")
    if unknown:
        staging.notes.append(f"{unknown:,} parents are not in the ontology and were left out")
    edges = staging.table(
        """
        SELECT c.row AS child, p.row AS parent, any_value(t.file) AS file, min(t.line) AS line
        FROM parent t JOIN numbered c ON c.n = t.n JOIN numbered p ON p.id = t.parent
        GROUP BY c.row, p.row ORDER BY c.row, p.row
        """
    )
    child, parent = (np.asarray(edges.column(name), dtype=np.int64) for name in ("child", "parent"))
    graph = Graph(n, child, parent)
    back = cycle_edges(graph)
    for edge in back.tolist():
        names = [_id_of(staging, int(row)) for row in (child[edge], parent[edge])]
        place = staging.place(edges.column("file")[edge].as_py(), edges.column("line")[edge].as_py(), names[0])
        bad.add(f"is-a has a cycle: '{names[0]}' is its own ancestor through its parent '{names[1]}'", place)
    return graph.without(back)


def _merged_edges(staging: Staging) -> Graph:
    edges = staging.table(
        """
        SELECT DISTINCT c.row AS child, p.row AS parent
        FROM merged_parent t JOIN numbered c ON c.n = t.n JOIN numbered p ON p.id = t.parent ORDER BY ALL
        """
    )
    child, parent = (np.asarray(edges.column(name), dtype=np.int64) for name in ("child", "parent"))
    return Graph(0, child, parent)


def _id_of(staging: Staging, row: int) -> str:
    [(found,)] = staging.rows("SELECT id FROM numbered WHERE row = $row", row=row)
    return str(found)


def _preferred_names(staging: Staging, rows: Iterable[int]) -> dict[int, str]:
    wanted = pa.table({"row": pa.array(sorted(rows), pa.int32())})  # noqa: F841 - read by SQL
    return dict(
        staging.con.execute(
            """
            SELECT row, arg_min(text, (rank, text)) FROM name JOIN numbered USING (n) JOIN wanted USING (row)
            GROUP BY row
            """
        ).fetchall()
    )


def _subset(columns: Columns, selectors: tuple[str, ...], staging: Staging) -> Columns:
    """Keep the entities that a selector names, and renumber rows here and in the database."""
    types, trees = chosen_values(
        selectors,
        pc.unique(columns.types.values).to_pylist(),
        pc.unique(columns.trees.values).to_pylist(),
        staging.type_codes,
    )
    kept = np.union1d(columns.types.rows_with(types), columns.trees.rows_with(trees))
    if len(kept) < len(columns):
        left = len(columns) - len(kept)
        staging.notes.append(f"{left:,} entities are of other types than {', '.join(selectors)} and were left out")
    new_row = np.full(len(columns), -1, dtype=np.int64)
    new_row[kept] = np.arange(len(kept))
    graph = columns.graph
    child, parent = new_row[graph.child], new_row[graph.parent]
    inside = (child >= 0) & (parent >= 0)
    moved = pa.table({"row": pa.array(kept, pa.int32()), "moved": pa.array(np.arange(len(kept)), pa.int32())})  # noqa: F841
    staging.con.execute(
        "CREATE TABLE chosen AS SELECT n, id, moved AS row FROM numbered JOIN moved USING (row);"
        "DROP TABLE numbered; ALTER TABLE chosen RENAME TO numbered"
    )
    rows = pa.array(kept)
    return replace(
        columns,
        ids=columns.ids.take(rows),
        definitions=columns.definitions.take(rows),
        types=columns.types.moved(new_row),
        trees=columns.trees.moved(new_row),
        xrefs=columns.xrefs.moved(new_row),
        graph=Graph(len(kept), child[inside], parent[inside]),
    )


def _write_names(staging: Staging, folder: Path, n: int) -> NDArray[np.int64]:
    """Write names and their index; return for each entity where its names end."""
    reader = staging.con.sql(
        """
        SELECT t.text, m.row AS entity, md5_number_lower(t.text) AS key
        FROM name t JOIN numbered m USING (n) ORDER BY m.row, t.rank, t.text
        """
    ).to_arrow_reader(_CHUNK)
    keys: list[NDArray[np.uint64]] = []
    counts = np.zeros(n, dtype=np.int64)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            keys.append(np.asarray(batch.column("key")).copy())
            counts[:] += np.bincount(np.asarray(batch.column("entity")), minlength=n)
            yield batch.select(["text", "entity"])

    write_arrow(folder / "names.arrow", NAMES, batches())
    KeyIndex.write(folder / "name_index.arrow", np.concatenate(keys))
    return np.cumsum(counts)


def _write_entities(columns: Columns, ends: NDArray[np.int64], folder: Path) -> None:
    n = len(columns)
    order = np.argsort(columns.graph.child, kind="stable")  # our own parents stay before those merged in
    parents = Pairs(columns.graph.child[order], pa.array(columns.graph.parent[order], pa.int32()))
    batch = pa.RecordBatch.from_arrays(
        [
            columns.ids,
            columns.definitions,
            columns.types.to_lists(n),
            columns.trees.to_lists(n),
            parents.to_lists(n),
            columns.xrefs.to_lists(n),
            pa.array(ends),
        ],
        schema=ENTITIES,
    )
    write_arrow(folder / "entities.arrow", ENTITIES, [batch])


def _write_retired(staging: Staging, folder: Path) -> NDArray[np.uint64]:
    """Write retired ids with the live entity each ends at, following chains; return their keys."""
    con = staging.con
    con.execute("CREATE TABLE chain AS SELECT DISTINCT id, successor FROM retired")
    for _ in range(20):  # a longer chain, or a loop, ends nowhere and is left out below
        [(moved,)] = staging.rows(
            """UPDATE chain SET successor = next.successor
               FROM (SELECT id, min(successor) AS successor FROM chain GROUP BY id) next
               WHERE next.id = chain.successor AND chain.successor NOT IN (SELECT id FROM numbered)"""
        )
        if not moved:
            break
    table = staging.table(
        """
        SELECT chain.id, min(m.row)::INTEGER AS entity, md5_number_lower(chain.id) AS key
        FROM chain JOIN numbered m ON m.id = chain.successor
        WHERE chain.id NOT IN (SELECT id FROM numbered) GROUP BY chain.id ORDER BY chain.id
        """
    )
    write_arrow(folder / "retired.arrow", RETIRED, table.select(["id", "entity"]).to_batches())
    return np.asarray(table.column("key"), dtype=np.uint64)


def _keys(staging: Staging, query: str) -> NDArray[np.uint64]:
    return np.asarray(staging.table(query).column(0), dtype=np.uint64)
