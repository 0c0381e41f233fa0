"""What a reader of a benchmark does, and how it finds its files below the user's folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kriss.documents.pubtator import PUBTATOR
from kriss.documents.registry import read_marked
from kriss.records import Document


class Corpus(Protocol):
    """A benchmark as a folder holds it, whole or in part."""

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Return the splits whose files lie below the folder; nothing is read."""

    def read(self, folder: Path, splits: Sequence[str]) -> dict[str, list[Document]]:
        """Read the splits, all that share a file in one pass over it."""

    def wanted(self, split: str) -> str:
        """Say which files make the split, for a user who lacks them."""


@dataclass(frozen=True, slots=True)
class PubTatorFiles:
    """A benchmark that is a PubTator file a split."""

    files: Mapping[str, str]

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Return the splits whose file lies below the folder."""
        return tuple(split for split, name in self.files.items() if below(folder, name))

    def read(self, folder: Path, splits: Sequence[str]) -> dict[str, list[Document]]:
        """Read the splits."""
        found = {split: below(folder, self.files[split]) for split in splits}
        return {split: list(read_marked(path, PUBTATOR)) for split, path in found.items() if path}

    def wanted(self, split: str) -> str:
        """Return the name of the split's file."""
        return self.files[split]


def below(folder: Path, *names: str) -> Path | None:
    """Return the file of one of these names, or one gzipped, that lies nearest below the folder.

    Archives are unpacked with or without their own folders, and both must do.
    """
    wanted = {name.lower() for name in names} | {f"{name.lower()}.gz" for name in names}
    found = [path for path in folder.rglob("*") if path.name.lower() in wanted and path.is_file()]
    return min(found, key=lambda path: (len(path.parts), str(path)), default=None)


def folder_below(folder: Path, *names: str) -> Path | None:
    """Return the folder of one of these names that lies nearest below the folder; the first name comes first."""
    for name in names:
        found = [path for path in folder.rglob("*") if path.name.lower() == name.lower() and path.is_dir()]
        if found:
            return min(found, key=lambda path: (len(path.parts), str(path)))
    return None


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
