"""UMLS from the RRF files of a Metathesaurus download (the folder `META`), plain or gzipped.

The files go straight into SQL: 4 million concepts never pass through Python one by one.

- MRCONSO gives names, MRRANK (or TS, STT, ISPREF) which of them is preferred;
- MRSTY gives types, and the paper's semantic tree number (STN) of each type;
- MRDEF gives definitions, MRREL parents, MRCUI the successors of retired CUIs.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from kriss.errors import InputError, KrissError, Place
from kriss.files import BadRows
from kriss.ontology.config import OntologyConfig
from kriss.ontology.rrf import COLUMNS, read_rrf
from kriss.ontology.staging import Staging
from kriss.ontology.subsets import SOURCE_SETS

REQUIRED = ("MRCONSO", "MRSTY")
_SPACE = r"\s\x{0b}\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_CLEAN = rf"""
CREATE TEMP MACRO clean(text) AS
CASE WHEN regexp_matches(text, '^ | $|  |[\x00-\x1f\x{{85}}-\x{{3000}}]')
THEN trim(regexp_replace(text, '[{_SPACE}]+', ' ', 'g')) ELSE text END
"""
"""`kriss.names.clean` in SQL; the first pattern spares most names the second."""


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
    staging.trees_are_positions = False
    staging.con.execute(_CLEAN)
    staging.con.execute("CREATE TEMP TABLE ranking (sab VARCHAR, tty VARCHAR, suppress VARCHAR, place INTEGER)")
    if "MRRANK" in files:
        _load_ranks(files["MRRANK"], staging, bad)
    _load_names(files["MRCONSO"], config, staging, bad)
    _load_types(files["MRSTY"], staging, bad)
    if "MRDEF" in files:
        _load_definitions(files["MRDEF"], config, staging, bad)
    if "MRREL" in files:
        _load_parents(files["MRREL"], config, staging, bad)
    if "MRCUI" in files:  # only SY rows name a CUI that took the place of another; the rest are parents or related
        query = "INSERT INTO retired SELECT DISTINCT CUI1, CUI2 FROM rrf WHERE REL = 'SY' AND CUI2 <> ''"
        _run(query, staging, files["MRCUI"], "CUI1 REL CUI2", bad)
    staging.con.execute("DROP TABLE atom")


def _run(query: str, staging: Staging, path: Path, wanted: str, bad: BadRows, **values: object) -> None:
    """Run SQL that reads the wanted columns of a file as the view `rrf`, once.

    What is wrong with the file is raised as it is; DuckDB would wrap an error from inside the stream.
    """
    problems: list[KrissError] = []
    table = path.name.upper().partition(".")[0]
    staging.con.register("rrf", read_rrf(path, table, wanted.split(), bad, problems))
    try:
        staging.con.execute(query, values)
    except duckdb.Error:
        if problems:
            raise problems[0] from None
        raise
    finally:
        staging.con.unregister("rrf")


def _unwanted(config: OntologyConfig) -> list[str]:
    """SUPPRESS flags to leave out: O is obsolete, E and Y are suppressed by editors or by the source."""
    return [*([] if config.keep_obsolete else ["O"]), *([] if config.keep_suppressed else ["E", "Y"])]


def _vocabularies(config: OntologyConfig) -> list[str]:
    return [sab for name in config.sources for sab in SOURCE_SETS.get(name, (name,))]


def _load_ranks(path: Path, staging: Staging, bad: BadRows) -> None:
    query = "CREATE TEMP TABLE ranks AS SELECT *, TRY_CAST(RANK AS INTEGER) AS place FROM rrf"
    _run(query, staging, path, "RANK SAB TTY SUPPRESS", bad)
    for rank, line in staging.rows("SELECT RANK, line FROM ranks WHERE place IS NULL ORDER BY line"):
        bad.report(f"the rank '{rank}' is not a number", Place(path, line))
    staging.con.execute("INSERT INTO ranking SELECT SAB, TTY, SUPPRESS, max(place) FROM ranks GROUP BY ALL")


def _load_names(path: Path, config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Keep all atoms by id, for MRSTY is checked against them, but the text only of those that pass the filters."""
    con = staging.con
    _run(
        """
        CREATE TABLE atom AS
        SELECT CUI AS id,
               CASE WHEN ($languages = [] OR LAT IN (SELECT unnest($languages)))
                     AND ($sources = [] OR m.SAB IN (SELECT unnest($sources)))
                     AND m.SUPPRESS NOT IN (SELECT unnest($unwanted)) THEN clean(STR) END AS text,
               -(coalesce(r.place, 0) * 8
                 + (TS = 'P')::INT * 4 + (STT = 'PF')::INT * 2 + (ISPREF = 'Y')::INT)::INTEGER AS rank,
               m.SAB AS sab,
               CASE WHEN CUI = '' OR trim(STR) = '' THEN line END AS bad_line
        FROM rrf m LEFT JOIN ranking r ON r.sab = m.SAB AND r.tty = m.TTY AND r.suppress = m.SUPPRESS
        """,
        staging,
        path,
        "CUI LAT TS STT ISPREF SAB TTY STR SUPPRESS",
        bad,
        languages=[] if "all" in config.languages else list(config.languages),
        sources=_vocabularies(config),
        unwanted=_unwanted(config),
    )
    rows = staging.rows("SELECT id, bad_line FROM atom WHERE bad_line IS NOT NULL ORDER BY bad_line")
    for cui, line in rows:
        bad.report(f"the row of '{cui}' has no name" if cui else "the row has no CUI", Place(path, line))
    if rows:
        con.execute("DELETE FROM atom WHERE bad_line IS NOT NULL")
    if staging.rows("SELECT count(*) FROM atom") == [(0,)]:
        raise InputError("there is no row in it", Place(path))
    con.execute(
        """
        INSERT INTO entity
        SELECT row_number() OVER (ORDER BY id) - 1, id, '', $file, NULL
        FROM (SELECT DISTINCT id FROM atom WHERE text <> '')
        """,
        {"file": staging.file_number(path)},
    )
    con.execute(
        """
        INSERT INTO name
        SELECT e.n, a.text, min(a.rank) FROM atom a JOIN entity e USING (id) WHERE a.text <> '' GROUP BY e.n, a.text
        """
    )


def _load_types(path: Path, staging: Staging, bad: BadRows) -> None:
    query = "CREATE TEMP TABLE sty AS SELECT CUI AS id, TUI AS tui, STN AS stn, STY AS sty, line FROM rrf"
    _run(query, staging, path, "CUI TUI STN STY", bad)
    orphans = staging.rows("SELECT id, line FROM sty WHERE id NOT IN (SELECT id FROM atom) ORDER BY line")
    for cui, line in orphans:
        bad.report(f"the CUI '{cui}' has a type here but no row in MRCONSO", Place(path, line))
    staging.type_codes = dict(staging.rows("SELECT DISTINCT tui, sty FROM sty ORDER BY tui, sty"))
    for table, column in (("type", "sty"), ("tree", "stn")):
        staging.con.execute(
            f"""
            INSERT INTO {table}
            SELECT e.n, s.{column}, min(s.line - e.first)::INTEGER
            FROM sty s
            JOIN (SELECT e.n, e.id, min(s.line) AS first FROM entity e JOIN sty s USING (id) GROUP BY ALL) e USING (id)
            WHERE s.{column} <> '' GROUP BY e.n, s.{column}
            """
        )
    staging.con.execute("DROP TABLE sty")


def _load_definitions(path: Path, config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Keep one definition an entity: MeSH's or NCI's if there is one, else the first vocabulary's.

    MRDEF has no language column; a vocabulary counts if it has names that passed the filters.
    """
    _run(
        """
        CREATE TEMP TABLE chosen AS
        SELECT CUI AS id, arg_min(DEF, (CASE SAB WHEN 'MSH' THEN 0 WHEN 'NCI' THEN 1 ELSE 2 END, SAB, DEF)) AS text
        FROM rrf
        WHERE SUPPRESS NOT IN (SELECT unnest($unwanted)) AND clean(DEF) <> ''
          AND SAB IN (SELECT DISTINCT sab FROM atom WHERE text <> '')
        GROUP BY CUI
        """,
        staging,
        path,
        "CUI SAB DEF SUPPRESS",
        bad,
        unwanted=_unwanted(config),
    )
    staging.con.execute("UPDATE entity SET definition = clean(chosen.text) FROM chosen WHERE chosen.id = entity.id")
    staging.con.execute("DROP TABLE chosen")


def _load_parents(path: Path, config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """REL tells what CUI2 is to CUI1: PAR makes CUI2 the parent, CHD makes it the child."""
    _run(
        """
        INSERT INTO parent
        WITH edge AS (
          SELECT CASE WHEN up THEN CUI1 ELSE CUI2 END AS id, CASE WHEN up THEN CUI2 ELSE CUI1 END AS parent, line
          FROM (SELECT *, REL = 'PAR' OR RELA = 'inverse_isa' AS up FROM rrf
                WHERE (REL IN ('PAR', 'CHD') OR RELA IN ('isa', 'inverse_isa')) AND CUI1 <> CUI2
                  AND SUPPRESS NOT IN (SELECT unnest($unwanted))
                  AND ($sources = [] OR SAB IN (SELECT unnest($sources))))
        )
        SELECT e.n, edge.parent, $file, min(edge.line) FROM edge JOIN entity e ON e.id = edge.id
        GROUP BY e.n, edge.parent
        """,
        staging,
        path,
        "CUI1 REL CUI2 RELA SAB SUPPRESS",
        bad,
        unwanted=_unwanted(config),
        sources=_vocabularies(config),
        file=staging.file_number(path),
    )
