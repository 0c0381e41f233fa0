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

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from kriss.errors import Place
from kriss.names import folded
from kriss.ontology.staging import Staging
from kriss.ontology.store import Ontology
from kriss.records import Entity

BY_NAME, BY_NAMES = "NAME", "NAMES"
AGREEING = 2
"""Names that must be ours under `NAMES`: one alone may well be a homonym."""


def merge(staging: Staging, other: Ontology, prefixes: tuple[str, ...], *, keep_unmatched: bool = False) -> None:
    """Add the names, xrefs, definitions and parents of the entities of `other` that match ours, or all of them."""
    staging.flush()
    wanted: dict[str, list[int]] = {}
    for row in other.rows():
        entity = other.at(row)
        for key in _keys(entity.id, entity.xrefs, prefixes):
            wanted.setdefault(key, []).append(row)
    ours: dict[int, set[int]] = {}  # row in other -> our records
    names: dict[int, str] = {}
    for n, entity_id, also_id, xref_list in _ours(staging):
        for key in _keys(also_id, xref_list, prefixes):
            for row in wanted.get(key, ()):
                ours.setdefault(row, set()).add(n)
                names[n] = entity_id
    wished = {prefix.upper() for prefix in prefixes}
    if wished & {BY_NAME, BY_NAMES}:
        for row, n, entity_id in _called_alike(staging, other, set(ours)):
            ours.setdefault(row, set()).add(n)
            names[n] = entity_id
    if BY_NAMES in wished:
        for row, found in _called_alike_otherwise(staging, other, set(ours)).items():
            ours[row] = set(found)
            names |= found
    matched = {row: next(iter(found)) for row, found in ours.items() if len(found) == 1}
    kept = _keep(staging, other, set(ours)) if keep_unmatched else {}
    names |= {n: other.id_at(row) for row, n in kept.items()}
    added = _add(staging, other, matched | kept, names)
    several = len(ours) - len(matched)
    staging.notes.append(
        f"merged {len(matched):,} entities of {other.artifact.path.name}: {added:,} names offered"
        + (f"; {len(kept):,} that match none kept" if keep_unmatched else "")
        + (f"; {several:,} match several entities and were left out" if several else "")
    )


def _keep(staging: Staging, other: Ontology, taken: set[int]) -> dict[int, int]:
    """Stage the entities of `other` that match none of ours, and return their numbers; one whose id is ours is not."""
    ids = {entity_id for (entity_id,) in staging.rows("SELECT id FROM entity")}
    place = Place(other.artifact.path)
    staging.number_on()
    return {
        row: staging.add(replace(other.at(row), parents=(), tree_numbers=()), place)
        for row in other.rows()
        if row not in taken and other.id_at(row) not in ids
    }


def _keys(entity_id: str, xrefs: Iterable[str], prefixes: tuple[str, ...]) -> set[str]:
    upper = {prefix.upper() for prefix in prefixes}
    keys = {entity_id} if ":" not in entity_id else set()
    for reference in (entity_id, *xrefs):
        prefix, colon, local = reference.partition(":")
        if colon and prefix.upper() in upper:
            keys.add(local)
    return keys


def _ours(staging: Staging) -> Iterator[tuple[int, str, str, list[str]]]:
    """Our records: number, id, an id to match by (their own, or a retired one), xrefs."""
    rows = staging.con.cursor().execute(
        """
        SELECT e.n, e.id, e.id, coalesce(x.found, []) FROM entity e
        LEFT JOIN (SELECT n, list(value) AS found FROM xref GROUP BY n) x USING (n)
        UNION ALL
        SELECT e.n, e.id, r.id, [] FROM retired r JOIN entity e ON e.id = r.successor
        """
    )
    while batch := rows.fetchmany(10_000):
        yield from batch


def _called_alike(staging: Staging, other: Ontology, taken: set[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the entities of `other` whose preferred name is a name of ours: the row, our record and its id."""
    wanted: dict[str, list[int]] = {}
    for row in other.rows():
        if row not in taken:
            wanted.setdefault(folded(other.name_at(row)), []).append(row)
    for n, entity_id, text in _our_names(staging):
        for row in wanted.get(text, ()):
            yield row, n, entity_id


def _called_alike_otherwise(staging: Staging, other: Ontology, taken: set[int]) -> dict[int, dict[int, str]]:
    """Return the entities of `other` that share names enough with one of ours: the row, and all they share any with."""
    wanted: dict[str, list[int]] = {}
    for row in other.rows():
        if row not in taken:
            for name in {folded(name) for name in other.names_at(row)}:
                wanted.setdefault(name, []).append(row)
    ids: dict[int, str] = {}
    agreeing: dict[int, dict[int, set[str]]] = {}  # row in other -> our records -> names
    for n, entity_id, text in _our_names(staging):
        for row in wanted.get(text, ()):
            ids[n] = entity_id
            agreeing.setdefault(row, {}).setdefault(n, set()).add(text)
    return {
        row: {n: ids[n] for n in records}
        for row, records in agreeing.items()
        if max(map(len, records.values())) >= AGREEING
    }


def _our_names(staging: Staging) -> Iterator[tuple[int, str, str]]:
    """All names of ours: our record, its id and the name folded."""
    rows = staging.con.cursor().execute("SELECT e.n, e.id, m.text FROM entity e JOIN name m USING (n) ORDER BY ALL")
    while batch := rows.fetchmany(10_000):
        for n, entity_id, text in batch:
            yield n, entity_id, folded(text)


def _add(staging: Staging, other: Ontology, matched: dict[int, int], ids: dict[int, str]) -> int:
    """Stage the names, xrefs, definitions and parents of matched entities, behind what ours have already."""
    con = staging.con
    staging.flush()
    [(behind,)] = staging.rows("SELECT coalesce(max(rank), 0) + 1 FROM name")
    offered = 0
    definitions: dict[int, str] = {}
    for row, n in matched.items():
        entity = other.at(row)
        offered += len(entity.names)
        staging.insert("name", [(n, text, behind + rank) for rank, text in enumerate(entity.names)])
        others = [text for text in entity.xrefs if text.partition(":")[2] != ids[n]]
        staging.insert("xref", [(n, text, behind + rank) for rank, text in enumerate(others)])
        if entity.definition:
            definitions.setdefault(n, entity.definition)
        above = _matched_above(other, entity, matched)
        staging.insert("merged_parent", [(n, ids[parent]) for parent in above if parent != n])
    staging.flush()
    con.execute(
        f"CREATE TABLE taken AS SELECT DISTINCT lower(text) AS text FROM name WHERE rank < {behind};"
        "CREATE TABLE kept_name AS SELECT n, text, rank FROM name "
        f"WHERE rank < {behind} OR lower(text) NOT IN (FROM taken) "
        f"QUALIFY rank < {behind} OR row_number() OVER (PARTITION BY n, lower(text) ORDER BY rank, text) = 1;"
        "DROP TABLE taken;"
        "DROP TABLE name; ALTER TABLE kept_name RENAME TO name;"
        "CREATE TABLE kept_xref AS SELECT n, value, min(rank) AS rank FROM xref GROUP BY n, value;"
        "DROP TABLE xref; ALTER TABLE kept_xref RENAME TO xref"
    )
    found = pa.table(  # noqa: F841 - read by SQL
        {"n": pa.array(definitions, pa.int32()), "text": pa.array(definitions.values(), pa.string())}
    )
    con.execute("UPDATE entity SET definition = found.text FROM found WHERE found.n = entity.n AND definition = ''")
    return offered


def _matched_above(other: Ontology, entity: Entity, matched: dict[int, int]) -> list[int]:
    """Our records of the nearest ancestors in `other` that match, past those that do not."""
    found: dict[int, None] = {}
    seen: set[str] = set()
    waiting = list(entity.parents)
    while waiting:
        parent = waiting.pop(0)
        if parent in seen:
            continue
        seen.add(parent)
        row = other.row_of(parent)
        if row is None:
            continue
        if row in matched:
            found[matched[row]] = None
        else:
            waiting.extend(other.at(row).parents)
    return list(found)
