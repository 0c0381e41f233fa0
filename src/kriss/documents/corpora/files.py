"""How the files of a benchmark are found below the user's folder, and the benchmarks that are PubTator files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kriss.documents.pubtator import PUBTATOR
from kriss.documents.registry import read_marked
from kriss.records import Document


def pubtator_file(files: Mapping[str, str], folder: Path, split: str) -> Iterator[Document] | None:
    """Return the documents of a split that is a PubTator file; None if it is not below the folder."""
    path = below(folder, files[split])
    return read_marked(path, PUBTATOR) if path else None


def below(folder: Path, *names: str, is_folder: bool = False) -> Path | None:
    """Return the file of one of these names, or one gzipped, or the folder, that lies nearest below the folder.

    Archives are unpacked with or without their own folders, and both must do.
    """
    wanted = {name.lower() for name in names} | {f"{name.lower()}.gz" for name in names}
    found = [path for path in folder.rglob("*") if path.name.lower() in wanted and path.is_dir() == is_folder]
    return min(found, key=lambda path: (len(path.parts), str(path)), default=None)


def candidates(data: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of these names in `gold` of the data folder and in itself; case and hyphens do not count."""
    for name in names:
        for root in (data / "gold", data):
            if root.is_dir():
                yield from sorted(
                    path for path in root.iterdir() if _letters(path.name) == _letters(name) and path.is_dir()
                )


def _letters(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()
