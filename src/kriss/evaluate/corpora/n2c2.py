"""n2c2 2019 track 3 (the MCN corpus): notes, and for each a norm file of `id||CUI||start||end` lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kriss.documents.spans import mark
from kriss.errors import InputError, Place
from kriss.evaluate.corpora.files import below, folder_below
from kriss.evaluate.corpora.piped import concepts, hull, note_text, piped_rows
from kriss.records import Document, Span

_FORM = "id||CUI||start||end"
_UNKNOWN = "unk"
"""What stands for the concepts of the test set in the files that participants got."""


@dataclass(frozen=True, slots=True)
class _Split:
    notes: Path
    norms: Path
    concepts: Path | None
    """Where the norm files are those for participants: the concepts of all, a line each, in the order of the list."""
    listed: Path | None


class N2c2:
    """`train/train_note`, `train/train_norm` and `train_file_list.txt`, and the same for test."""

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Return the splits whose notes and concepts lie below the folder."""
        return tuple(split for split in ("train", "test") if _find(folder, split))

    def read(self, folder: Path, splits: Sequence[str]) -> dict[str, list[Document]]:
        """Read the splits, in the order of the owners' list if it is there."""
        found = {split: _find(folder, split) for split in splits}
        return {split: list(_documents(parts)) for split, parts in found.items() if parts}

    def wanted(self, split: str) -> str:
        """Return the names of the folders that make the split."""
        return f"the folders {split}_note and {split}_norm, or {split}_norm.txt beside the norm files without concepts"


def _find(folder: Path, split: str) -> _Split | None:
    notes = folder_below(folder, f"{split}_note", f"{split}_notes")
    listed = below(folder, f"{split}_file_list.txt", f"{split}_note_list.txt")
    if notes and (norms := folder_below(folder, f"{split}_norm", f"{split}_norms")):
        return _Split(notes, norms, None, listed)
    spans = folder_below(folder, f"{split}_norm_cui_replaced_with_unk", f"{split}_span", f"{split}_spans")
    concepts_of_all = below(folder, f"{split}_norm.txt")
    return _Split(notes, spans, concepts_of_all, listed) if notes and spans and concepts_of_all and listed else None


def _documents(parts: _Split) -> Iterator[Document]:
    named = _concept_lines(parts.concepts) if parts.concepts else None
    for name, place in _names(parts):
        note, norm = _one(parts.notes, name, ".txt", place), _one(parts.norms, name, ".norm", place)
        document = Document(name, note_text(note), ())
        yield Document(name, document.text, tuple(_spans(norm, document, named)))
    if named and (more := next(named, None)):
        raise InputError("there are more concepts here than mentions in the norm files; fetch both again", more[0])


def _names(parts: _Split) -> Iterator[tuple[str, Place]]:
    if parts.listed:
        named = {
            Path(row[0]).name.removesuffix(".txt").removesuffix(".norm"): at for at, row in piped_rows(parts.listed)
        }
        if left_out := sorted({path.stem for path in parts.norms.glob("*.norm")} - set(named)):
            what = f"the list does not name note '{left_out[0]}', which has a norm file"
            raise InputError(f"{what}; add it, or take list and file of one release", Place(parts.listed))
        yield from named.items()
        return
    files = {path.stem: path for folder in (parts.notes, parts.norms) for path in folder.glob("*.*")}
    yield from ((name, Place(files[name])) for name in sorted(files) if files[name].suffix in (".txt", ".norm"))


def _one(folder: Path, name: str, suffix: str, place: Place) -> Path:
    path = folder / f"{name}{suffix}"
    if not path.is_file():
        raise InputError(f"note '{name}' has no file {path}; fetch it, or take the note out", place)
    return path


def _concept_lines(path: Path) -> Iterator[tuple[Place, str]]:
    return ((place, row[-1]) for place, row in piped_rows(path))


def _spans(path: Path, document: Document, named: Iterator[tuple[Place, str]] | None) -> Iterator[Span]:
    for place, row in piped_rows(path):
        start, end = hull(row[2:], _FORM, place)
        concept = row[1]
        if named:
            following = next(named, None)
            if following is None:
                raise InputError("there are more mentions here than lines of concepts; fetch both again", place)
            concept = following[1]
        if concept.lower() == _UNKNOWN:
            what = "the concept is 'unk', as in the files for participants"
            raise InputError(f"{what}; ask the portal for those with the concepts", place)
        yield mark(document, Span(start, end, concepts(concept), "", row[0]), place)
