"""Which files the user means."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from kriss.documents.brat import text_beside
from kriss.errors import InputError, Place
from kriss.files import Where

TEXT_SUFFIXES = (".xml", ".json", ".jsonl", ".ndjson", ".pubtator", ".txt", ".text")
"""What is taken from a folder, each also with `.gz`; a file that is named is read whatever its suffix."""
_MARKS = ".ann"
_BESIDE_TEXT = (".md5", _MARKS, ".conf")  # what lies beside PubMed files and in brat folders


def find_files(sources: Where | Sequence[Where]) -> list[Path]:
    """Return the files that the sources name, each once, in an order that does not depend on theirs.

    A source is a file, a folder (searched to its depth for the suffixes of text, so that checksums,
    brat's annotations and hidden files stay out) or a glob; annotations of brat name their text. The order
    is that of the file names, with numbers by their value, so that PubMed's baseline comes before its updates.
    """
    sources = [sources] if isinstance(sources, str | PathLike) else sources
    if not sources:
        raise InputError("no text was given; name files, folders or globs")
    files = {path for source in sources for path in _expand(source)}
    once: dict[Path, Path] = {}
    for path in sorted(files, key=_natural):
        once.setdefault(path.resolve(), path)
    return list(once.values())


def _expand(source: Where) -> Iterable[Path]:
    path = Path(source)
    if path.is_dir():
        if found := list(_in_folder(path)):
            return found
        what = "no text in the folder" if any(path.iterdir()) else "nothing in the folder"
        raise InputError(f"there is {what}; kriss looks for {', '.join(TEXT_SUFFIXES)}, each also .gz", Place(path))
    if path.exists():
        return [_text_of(path) if _suffix(path) == _MARKS else path]
    if not any(sign in str(source) for sign in "*?["):
        raise InputError("no such file or folder", Place(path))
    found = []
    for match in map(Path, glob.glob(str(source), recursive=True)):  # noqa: PTH207 - it takes absolute patterns too
        if match.is_dir():
            found += _in_folder(match)
        elif _suffix(path) == _MARKS:
            found.append(_text_of(match))
        elif _suffix(match) not in _BESIDE_TEXT and not match.name.startswith("."):
            found.append(match)
    if not found:
        raise InputError(f"no file matches the pattern '{source}'")
    return found


def _text_of(annotations: Path) -> Path:
    """Return the text whose mentions are marked in a file of brat."""
    if text := text_beside(annotations):
        return text
    raise InputError("there is no text file of the same name beside these annotations", Place(annotations))


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
