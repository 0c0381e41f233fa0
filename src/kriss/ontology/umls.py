"""UMLS from the RRF files of a Metathesaurus download (the folder `META`), plain or gzipped.

The files go straight into SQL: 4 million concepts never pass through Python one by one.

- MRCONSO gives names, MRRANK (or TS, STT, ISPREF) which of them is preferred;
- MRSTY gives types, and the paper's semantic tree number (STN) of each type;
- MRDEF gives definitions, MRREL parents, MRCUI the successors of retired CUIs.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from kriss.errors import InputError, Place
from kriss.files import BadRows
from kriss.ontology.config import OntologyConfig
from kriss.ontology.rrf import COLUMNS, read_rrf
from kriss.ontology.staging import Staging
from kriss.ontology.subsets import SOURCE_SETS

REQUIRED = ("MRCONSO", "MRSTY")


def find_files(sources: tuple[Path, ...]) -> dict[str, Path]:
    """Return the RRF files in a META folder, in the folder above it, or among files given one by one."""
    found: dict[str, Path] = {}
    for source in sources:
        if not source.exists():
            raise InputError("no such file or folder", Place(source))
        folder = source / "META" if (source / "META").is_dir() else source
        for file in sorted(folder.iterdir()) if folder.is_dir() else [source]:
            table = file.name.upper().removesuffix(".GZ").removesuffix(".RRF")
            if table in COLUMNS:
                found.setdefault(table, file)
    for table in REQUIRED:
        if table not in found:
            raise InputError(
                f"there is no {table}.RRF or {table}.RRF.gz here; give the META folder of a UMLS download",
                Place(sources[0]),
            )
    return found


def load_umls(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Fill the staging tables from RRF files."""
    files = find_files(sources)
    con = staging.con
    staging.trees_are_positions = False
    _load_names(con, files, config, staging, bad)
    _load_types(con, files["MRSTY"], staging, bad)
    if "MRDEF" in files:
        _load_definitions(con, files["MRDEF"], config, bad)
    if "MRREL" in files:
        _load_parents(con, files["MRREL"], config, staging, bad)
    if "MRCUI" in files:
        _load_retired(con, files["MRCUI"], bad)
    con.execute("DROP TABLE atom")


def _unwanted(config: OntologyConfig) -> list[str]:
    """SUPPRESS flags to leave out: O is obsolete, E and Y are suppressed by editors or by the source."""
    return [*([] if config.keep_obsolete else ["O"]), *([] if config.keep_suppressed else ["E", "Y"])]


def _vocabularies(config: OntologyConfig) -> list[str]:
    return [sab for name in config.sources for sab in SOURCE_SETS.get(name, (name,))]


def _load_names(
    con: duckdb.DuckDBPyConnection,
    files: dict[str, Path],
    config: OntologyConfig,
    staging: Staging,
    bad: BadRows,
) -> None:
    con.execute("CREATE TEMP TABLE ranking (sab VARCHAR, tty VARCHAR, suppress VARCHAR, place INTEGER)")
    if "MRRANK" in files:
        reader = read_rrf(files["MRRANK"], "MRRANK", COLUMNS["MRRANK"], bad)
        con.register("mrrank", reader)
        con.execute(
            "INSERT INTO ranking SELECT SAB, TTY, SUPPRESS, max(TRY_CAST(RANK AS INTEGER)) FROM mrrank GROUP BY ALL"
        )
        con.unregister("mrrank")
    wanted = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "STR", "SUPPRESS")
    reader = read_rrf(files["MRCONSO"], "MRCONSO", wanted, bad)
    con.register("mrconso", reader)
    # All atoms are kept by id, for MRSTY is checked against them; the text only of those that pass the filters.
    con.execute(
        r"""
        CREATE TABLE atom AS
        SELECT CUI AS id,
               CASE WHEN ($languages = [] OR LAT IN (SELECT unnest($languages)))
                     AND ($sources = [] OR m.SAB IN (SELECT unnest($sources)))
                     AND m.SUPPRESS NOT IN (SELECT unnest($unwanted))
                    THEN nullif(trim(CASE WHEN contains(STR, '  ') OR contains(STR, chr(9))
                                     THEN regexp_replace(STR, '\s+', ' ', 'g') ELSE STR END), '') END AS text,
               -(coalesce(r.place, 0) * 8
                 + (TS = 'P')::INT * 4 + (STT = 'PF')::INT * 2 + (ISPREF = 'Y')::INT)::INTEGER AS rank,
               m.SAB AS sab
        FROM mrconso m LEFT JOIN ranking r ON r.sab = m.SAB AND r.tty = m.TTY AND r.suppress = m.SUPPRESS
        """,
        {
            "languages": [] if "all" in config.languages else list(config.languages),
            "sources": _vocabularies(config),
            "unwanted": _unwanted(config),
        },
    )
    con.unregister("mrconso")
    con.execute(
        """
        INSERT INTO entity
        SELECT row_number() OVER (ORDER BY id) - 1, id, '', $file, NULL
        FROM (SELECT DISTINCT id FROM atom WHERE text IS NOT NULL)
        """,
        {"file": staging.file_number(files["MRCONSO"])},
    )
    con.execute(
        """
        INSERT INTO name
        SELECT e.n, a.text, min(a.rank) FROM atom a JOIN entity e USING (id)
        WHERE a.text IS NOT NULL GROUP BY e.n, a.text
        """
    )


def _load_types(con: duckdb.DuckDBPyConnection, path: Path, staging: Staging, bad: BadRows) -> None:
    con.register("mrsty", read_rrf(path, "MRSTY", ("CUI", "TUI", "STN", "STY"), bad))
    con.execute("CREATE TEMP TABLE sty AS SELECT CUI AS id, TUI AS tui, STN AS stn, STY AS sty, line FROM mrsty")
    con.unregister("mrsty")
    orphans = staging.rows("SELECT id, line FROM sty WHERE id NOT IN (SELECT id FROM atom) ORDER BY line")
    for cui, line in orphans:
        bad.add(f"the CUI '{cui}' has a type here but no row in MRCONSO", Place(path, line))
    staging.type_codes = dict(staging.rows("SELECT DISTINCT tui, sty FROM sty ORDER BY tui, sty"))
    for table, column in (("type", "sty"), ("tree", "stn")):
        con.execute(
            f"""
            INSERT INTO {table}
            SELECT e.n, s.{column}, min(s.line - e.first)::INTEGER
            FROM sty s JOIN (SELECT e.n, e.id, min(line) AS first FROM entity e JOIN sty USING (id) GROUP BY ALL) e
            USING (id) WHERE s.{column} <> '' GROUP BY e.n, s.{column}
            """
        )
    con.execute("DROP TABLE sty")


def _load_definitions(con: duckdb.DuckDBPyConnection, path: Path, config: OntologyConfig, bad: BadRows) -> None:
    """Keep one definition an entity: MeSH's or NCI's if there is one, else the first vocabulary's.

    MRDEF has no language column; a vocabulary counts if it has names that passed the filters.
    """
    con.register("mrdef", read_rrf(path, "MRDEF", ("CUI", "SAB", "DEF", "SUPPRESS"), bad))
    con.execute(
        """
        CREATE TEMP TABLE chosen AS
        SELECT CUI AS id, arg_min(DEF, (CASE SAB WHEN 'MSH' THEN 0 WHEN 'NCI' THEN 1 ELSE 2 END, SAB, DEF)) AS text
        FROM mrdef
        WHERE SUPPRESS NOT IN (SELECT unnest($unwanted)) AND trim(DEF) <> ''
          AND SAB IN (SELECT DISTINCT sab FROM atom WHERE text IS NOT NULL)
        GROUP BY CUI
        """,
        {"unwanted": _unwanted(config)},
    )
    con.unregister("mrdef")
    con.execute("UPDATE entity SET definition = trim(chosen.text) FROM chosen WHERE chosen.id = entity.id")
    con.execute("DROP TABLE chosen")


def _load_parents(
    con: duckdb.DuckDBPyConnection, path: Path, config: OntologyConfig, staging: Staging, bad: BadRows
) -> None:
    """REL tells what CUI2 is to CUI1: PAR makes CUI2 the parent, CHD makes it the child."""
    con.register("mrrel", read_rrf(path, "MRREL", ("CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"), bad))
    con.execute(
        """
        INSERT INTO parent
        WITH edge AS (
          SELECT CASE WHEN up THEN CUI1 ELSE CUI2 END AS id, CASE WHEN up THEN CUI2 ELSE CUI1 END AS parent, line
          FROM (SELECT *, REL = 'PAR' OR RELA = 'inverse_isa' AS up FROM mrrel
                WHERE (REL IN ('PAR', 'CHD') OR RELA IN ('isa', 'inverse_isa')) AND CUI1 <> CUI2
                  AND SUPPRESS NOT IN (SELECT unnest($unwanted))
                  AND ($sources = [] OR SAB IN (SELECT unnest($sources))))
        )
        SELECT e.n, edge.parent, $file, min(edge.line) FROM edge JOIN entity e ON e.id = edge.id
        GROUP BY e.n, edge.parent
        """,
        {"unwanted": _unwanted(config), "sources": _vocabularies(config), "file": staging.file_number(path)},
    )
    con.unregister("mrrel")


def _load_retired(con: duckdb.DuckDBPyConnection, path: Path, bad: BadRows) -> None:
    """Only SY rows name a CUI that took the place of another; the rest are broader or merely related."""
    con.register("mrcui", read_rrf(path, "MRCUI", ("CUI1", "REL", "CUI2"), bad))
    con.execute("INSERT INTO retired SELECT CUI1, min(CUI2) FROM mrcui WHERE REL = 'SY' AND CUI2 <> '' GROUP BY CUI1")
    con.unregister("mrcui")
