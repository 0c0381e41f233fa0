"""Enriching one ontology by another: MONDO's synonyms onto MeSH's diseases, for instance.

Two entities match when they share a key under an xref prefix: the local part of an xref
(`MESH:D009103` gives `D009103`), or of an entity's own id. One that matches several of ours
is left out, for its names would make them ambiguous. One that matches none is left out too, or kept as
an entity of its own: then the result is the union of both, as UMLS is one of many vocabularies. Xrefs come along, so
that what is merged next may match by them: MONDO lends MeSH's diseases ids of UMLS, by which HPO's then are known.

Not taken over is a name that one of our entities has already, in any case: the same one, and it says nothing new; or
another, and it would make ambiguous what was not.

Under the prefix `NAME` one that no xref matches is matched by what it is called: its preferred name, in any case, must
be a name of ours. HPO, which knows no ids of MeSH, lends its synonyms to MeSH's diseases so. Under `NAMES` one whose
preferred name is not ours is matched by its others: two of them at least must be names of ours, all of one entity, for
one alone may be a homonym.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kriss.names import folded
from kriss.ontology.staging import Staging
from kriss.ontology.store import Ontology

BY_NAME, BY_NAMES = "NAME", "NAMES"
AGREEING = 2
"""Names that must be ours under `NAMES`: one alone may well be a homonym."""

_KEYS = """
SELECT n, id AS key FROM ids WHERE NOT contains(id, ':')
UNION SELECT n, substr(id, instr(id, ':') + 1) FROM (FROM ids UNION ALL FROM xrefs)
WHERE contains(id, ':') AND upper(split_part(id, ':', 1)) IN (SELECT unnest($prefixes))
"""
_OURS = f"""
WITH ids AS (SELECT n, id FROM entity UNION ALL SELECT e.n, r.id FROM retired r JOIN entity e ON e.id = r.successor),
     xrefs AS (SELECT n, value AS id FROM xref)
{_KEYS}
"""
_THEIRS = f"""
WITH ids AS (SELECT n, id FROM other), xrefs AS (SELECT n, unnest(xrefs) AS id FROM other)
{_KEYS}
"""


def merge(staging: Staging, other: Ontology, prefixes: tuple[str, ...], *, keep_unmatched: bool = False) -> None:
    """Add the names, xrefs, definitions and parents of the entities of `other` that match ours, or all of them."""
    con = staging.con
    wished = [prefix.upper() for prefix in prefixes]
    entities, names = other.entities_table(), other.names_table()
    owners = np.asarray(names.column("entity"))
    ranks = np.arange(len(owners)) - np.searchsorted(owners, owners)
    con.register("other", entities.append_column("n", pa.array(np.arange(len(entities), dtype=np.int32))))
    con.register("other_name", names.rename_columns(["text", "n"]).append_column("rank", pa.array(ranks)))
    con.execute(
        f"CREATE TEMP TABLE matching AS SELECT DISTINCT theirs.n AS row, ours.n FROM ({_THEIRS}) theirs "
        f"JOIN ({_OURS}) ours USING (key)",
        {"prefixes": wished},
    )
    if BY_NAME in wished or BY_NAMES in wished:
        _match_by_name(staging, several=BY_NAMES in wished)
    [(several,)] = staging.rows("SELECT count(*) FROM (SELECT row FROM matching GROUP BY row HAVING count(*) > 1)")
    con.execute("CREATE TEMP TABLE matched AS SELECT row, min(n) AS n FROM matching GROUP BY row HAVING count(*) = 1")
    [(found,)] = staging.rows("SELECT count(*) FROM matched")
    kept = _keep(staging, other) if keep_unmatched else 0
    offered = _add(staging, other)
    staging.notes.append(
        f"merged {found:,} entities of {other.artifact.path.name}: {offered:,} names offered"
        + (f"; {kept:,} that match none kept" if keep_unmatched else "")
        + (f"; {several:,} match several entities and were left out" if several else "")
    )
    con.execute("DROP TABLE matching; DROP TABLE matched")
    con.unregister("other")
    con.unregister("other_name")


def _match_by_name(staging: Staging, *, several: bool) -> None:
    """Match what no xref matched by its preferred name, and if `several`, then by two of its names."""
    con = staging.con
    for table, query in {
        "our_name": "SELECT n, value AS text FROM name",
        "their_name": "SELECT n, text, rank FROM other_name WHERE n NOT IN (SELECT row FROM matching)",
    }.items():
        found = con.sql(query).to_arrow_table()
        texts = pa.array([folded(text) for text in found.column("text").to_pylist()], pa.string())
        con.register("found", found.set_column(1, "text", texts))
        con.execute(f"CREATE TEMP TABLE {table} AS FROM found")
        con.unregister("found")
    con.execute(
        """
        INSERT INTO matching
        SELECT DISTINCT t.n, o.n FROM (SELECT n, arg_min(text, rank) AS text FROM their_name GROUP BY n) t
        JOIN our_name o USING (text)
        """
    )
    if several:
        con.execute(
            f"""
            INSERT INTO matching
            SELECT t.n, o.n FROM their_name t JOIN our_name o USING (text) WHERE t.n NOT IN (SELECT row FROM matching)
            GROUP BY t.n, o.n
            QUALIFY max(count(DISTINCT text)) OVER (PARTITION BY t.n) >= {AGREEING}
            """
        )
    con.execute("DROP TABLE our_name; DROP TABLE their_name")


def _keep(staging: Staging, other: Ontology) -> int:
    """Stage the entities of `other` that match none of ours; one whose id is ours is not. Return how many."""
    file = staging.file_number(other.artifact.path)
    con = staging.con
    con.execute(
        """
        CREATE TEMP TABLE kept AS
        SELECT n AS row, ((SELECT coalesce(max(n), -1) FROM entity) + row_number() OVER (ORDER BY n))::INTEGER AS n
        FROM other WHERE n NOT IN (SELECT row FROM matching) AND id NOT IN (SELECT id FROM entity)
        """
    )
    con.execute(
        f"""
        INSERT INTO entity SELECT kept.n, id, definition, {file}, NULL FROM kept JOIN other ON other.n = row;
        INSERT INTO name SELECT kept.n, text, rank FROM kept JOIN other_name ON other_name.n = row;
        INSERT INTO type SELECT kept.n, unnest(types), generate_subscripts(types, 1)
                         FROM kept JOIN other ON other.n = row;
        INSERT INTO matched FROM kept
        """
    )
    [(count,)] = staging.rows("SELECT count(*) FROM kept")
    con.execute("DROP TABLE kept")
    return int(count)


def _add(staging: Staging, other: Ontology) -> int:
    """Stage the names, xrefs, definitions and parents of matched entities, behind what ours have already."""
    con = staging.con
    [(behind,)] = staging.rows("SELECT coalesce(max(rank), 0) + 1 FROM name")
    [(offered,)] = staging.rows("SELECT count(*) FROM other_name JOIN matched ON row = other_name.n")
    con.execute(
        f"""
        CREATE TEMP TABLE taken AS SELECT DISTINCT lower(value) AS text FROM name;
        INSERT INTO name
        SELECT matched.n, text, {behind} + rank
        FROM other_name JOIN matched ON row = other_name.n WHERE lower(text) NOT IN (FROM taken)
        QUALIFY row_number() OVER (PARTITION BY matched.n, lower(text) ORDER BY rank, text) = 1;
        INSERT INTO xref
        SELECT n, value, {behind} + min(rank)
        FROM (SELECT found.n, value, row_number() OVER (PARTITION BY row ORDER BY place) AS rank
              FROM (SELECT row, matched.n, unnest(xrefs) AS value, generate_subscripts(xrefs, 1) AS place
                    FROM other JOIN matched ON row = other.n) found
              JOIN entity ON entity.n = found.n
              WHERE regexp_extract(value, '^[^:]*:(.*)$', 1, 's') <> entity.id)
        ANTI JOIN xref USING (n, value) GROUP BY n, value;
        UPDATE entity SET definition = found.text
        FROM (SELECT matched.n, arg_min(definition, row) AS text FROM other JOIN matched ON row = other.n
              WHERE definition <> '' GROUP BY matched.n) found
        WHERE found.n = entity.n AND definition = '';
        DROP TABLE taken
        """
    )
    ours = dict(staging.rows("SELECT row, n FROM matched"))
    ids = dict(staging.rows("SELECT n, id FROM entity SEMI JOIN matched USING (n)"))
    parents = {(n, ids[above]) for row, n in ours.items() for above in _matched_above(other, row, ours) if above != n}
    staging.insert("merged_parent", sorted(parents))
    return int(offered)


def _matched_above(other: Ontology, row: int, ours: dict[int, int]) -> set[int]:
    """Return our records of the nearest ancestors in `other` that match, past those that do not."""
    found: set[int] = set()
    seen: set[int] = set()
    waiting = other.parents_at(row)
    while waiting:
        above = waiting.pop()
        if above in ours:
            found.add(ours[above])
        elif above not in seen:
            seen.add(above)
            waiting.extend(other.parents_at(above))
    return found
