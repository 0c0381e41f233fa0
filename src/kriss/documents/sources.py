"""Which files the user means, and which format each one has."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from kriss.documents.xmlcut import ROOT
from kriss.errors import InputError, Place
from kriss.files import open_bytes, reading

TEXT_SUFFIXES = (".xml", ".json", ".jsonl", ".ndjson", ".pubtator", ".txt", ".text")
"""What is taken from a folder, each also with `.gz`; a file that is named is read whatever its suffix."""
_BESIDE_TEXT = (".md5", ".ann", ".conf")  # what lies beside PubMed files and in brat folders
_HEAD = 1 << 16

_BIOC_KEY = re.compile(rb'"(?:documents|PubTator3|passages)"\s*:\s*\[')
_PUBTATOR = re.compile(rb"\s*[^\s|][^|\t\r\n]{0,199}\|[ta]\|")  # an id may hold blanks: that of a file named so


class Format(StrEnum):
    """The formats of text that kriss reads."""

    PUBMED = "pubmed"
    BIOC_XML = "bioc-xml"
    BIOC_JSON = "bioc-json"
    PUBTATOR = "pubtator"
    JSONL = "jsonl"
    TEXT = "text"


_ROOTS = {
    b"PubmedArticleSet": Format.PUBMED,
    b"PubmedBookArticleSet": Format.PUBMED,
    b"collection": Format.BIOC_XML,
}


def find_files(sources: Sequence[Path | str]) -> list[Path]:
    """Return the files that the sources name, each once, in an order that does not depend on theirs.

    A source is a file, a folder (searched to its depth for the suffixes of text, so that checksums,
    brat's annotations and hidden files stay out) or a glob. The order is that of the file names, with
    numbers by their value, so that PubMed's baseline comes before its updates.
    """
    if not sources:
        raise InputError("no text was given; name files, folders or globs")
    files = {path for source in sources for path in _expand(source)}
    once: dict[Path, Path] = {}
    for path in sorted(files, key=_natural):
        once.setdefault(path.resolve(), path)
    return list(once.values())


def detect_format(path: Path) -> Format:
    """Tell the format from the first bytes, and from the suffix where those leave a choice."""
    with open_bytes(path) as stream, reading(path):
        head = stream.read(_HEAD)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("the file is in UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", Place(path))
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    suffix = _suffix(path)
    if not start and len(head) < _HEAD:
        raise InputError("there is nothing but white space in the file", Place(path))
    root = ROOT.match(start)
    if root and root[1] in _ROOTS:
        return _ROOTS[root[1]]
    if start[:1] in (b"{", b"[") and _BIOC_KEY.search(start):
        return Format.BIOC_JSON
    if suffix in (".jsonl", ".ndjson") or (suffix not in (".txt", ".text") and _is_object(start)):
        return Format.JSONL
    if _PUBTATOR.match(start):
        return Format.PUBTATOR
    if suffix in (".txt", ".text", ".md", "") and not (suffix == "" and b"\0" in head):
        return Format.TEXT
    raise InputError(f"{_seen(start, root)}; kriss reads {', '.join(Format)}", Place(path))


def _expand(source: Path | str) -> Iterable[Path]:
    path = Path(source)
    if path.is_dir():
        if found := list(_in_folder(path)):
            return found
        what = "no text in the folder" if any(path.iterdir()) else "nothing in the folder"
        raise InputError(f"there is {what}; kriss looks for {', '.join(TEXT_SUFFIXES)}, each also .gz", Place(path))
    if path.exists():
        return [path]
    if not any(sign in str(source) for sign in "*?["):
        raise InputError("no such file or folder", Place(path))
    found = []
    for match in map(Path, glob.glob(str(source), recursive=True)):  # noqa: PTH207 - it takes absolute patterns too
        if match.is_dir():
            found += _in_folder(match)
        elif _suffix(match) not in _BESIDE_TEXT and not match.name.startswith("."):
            found.append(match)
    if not found:
        raise InputError(f"no file matches the pattern '{source}'")
    return found


def _in_folder(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and _suffix(path) in TEXT_SUFFIXES and path.is_file():
            yield path


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _natural(path: Path) -> tuple[list[str | int], str]:
    parts = re.split(r"([0-9]+)", path.name.casefold())
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], str(path)


def _is_object(start: bytes) -> bool:
    """Whether the first line is a JSON object, or begins one that is longer than the head of the file."""
    line, ended, _ = start.partition(b"\n")
    if not ended and len(start) > _HEAD // 2:
        return start.startswith(b"{")
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _seen(start: bytes, root: re.Match[bytes] | None) -> str:
    if root:
        return f"this is XML with the root element <{root[1].decode()}>, which is neither PubMed nor BioC"
    if start[:1] in (b"{", b"["):
        return "this is JSON, but neither BioC nor one object on each line"
    return "the file has no format that kriss knows"
