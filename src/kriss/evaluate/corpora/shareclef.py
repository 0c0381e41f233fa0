"""ShARe/CLEF 2013 and SemEval-2014 task 7: reports, and for each a file of `report||type||CUI||start||end` lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kriss.documents.spans import mark
from kriss.errors import InputError, Place
from kriss.evaluate.corpora.piped import concepts, hull, note_text, piped_rows
from kriss.records import Document, Span

_FORM = "report||Disease_Disorder||CUI||start||end"
_SPLITS = {"train": ("train", "trng"), "dev": ("dev",), "test": ("test",)}
_ENDINGS = (".pipe.txt", ".pipe", ".text", ".txt")
_PREFERRED = "2012"
"""Two gold folders came with the test set of 2013, Gold_SN2011 and Gold_SN2012, by release of SNOMED CT."""


class ShareClef:
    """Texts in folders that name their split; annotations beside them (SemEval) or in folders of their own (CLEF)."""

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Return the splits that have texts, and annotations for one of them at least."""
        marked = _annotations(folder)
        return tuple(split for split in _SPLITS if any(name in marked for name in _texts(folder, split)))

    def read(self, folder: Path, splits: Sequence[str]) -> dict[str, list[Document]]:
        """Read the splits; a report that no annotation file goes with has no mentions, as in the CLEF release."""
        marked = _annotations(folder)
        reports = {name for split in _SPLITS for name in _texts(folder, split)}
        for name, paths in marked.items():
            if name not in reports and _split_of(paths[0], folder) in (None, *splits):
                raise InputError(
                    "there is no report of this name; put its text into a folder train or test", Place(paths[0])
                )
        return {split: [_document(n, t, marked) for n, t in _texts(folder, split).items()] for split in splits}

    def wanted(self, split: str) -> str:
        """Return how the files of a split are named."""
        folder = "devel" if split == "dev" else split
        return f"{folder}/*.text with *.pipe beside them, or 'ALLREPORTS {split}' and the folders of .pipe.txt files"


def _document(name: str, text: Path, marked: dict[str, list[Path]]) -> Document:
    document = Document(name, note_text(text), ())
    annotations = _choose(name, text, marked)
    spans = tuple(_spans(annotations, document)) if annotations else ()
    return Document(name, document.text, spans)


def _choose(name: str, text: Path, marked: dict[str, list[Path]]) -> Path | None:
    found = marked.get(name, [])
    beside = [path for path in found if path.parent == text.parent]
    newer = [path for path in found if _PREFERRED in path.parent.name]
    chosen = beside or (found if len(found) < 2 else newer or found)
    if len(chosen) > 1:
        what = f"two annotation files go with this report, the other is {chosen[1]}"
        raise InputError(f"{what}; keep one", Place(chosen[0]))
    return chosen[0] if chosen else None


def _spans(path: Path, document: Document) -> Iterator[Span]:
    for place, row in piped_rows(path):
        if len(row) < 5:
            raise InputError(f"the line has {len(row)} columns, but is to be of the form '{_FORM}'; mend it", place)
        if _name(Path(row[0])) != document.id:
            what = f"the line belongs to report '{row[0]}', but the file to '{document.id}'"
            raise InputError(f"{what}; put it into its own", place)
        while not row[-1]:  # lines may end in bars
            row.pop()
        start, end = hull(row[3:], _FORM, place)
        yield mark(document, Span(start, end, concepts(row[2]), row[1]), place)


def _texts(folder: Path, split: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        is_text = path.name.lower().endswith((".text", ".txt")) and not path.name.lower().startswith("readme")
        if is_text and not _is_annotation(path, folder) and _split_of(path, folder) == split and path.is_file():
            if other := found.get(_name(path)):
                raise InputError(f"a second text of this report, the other is {other}; keep one", Place(path))
            found[_name(path)] = path
    return found


def _annotations(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if _is_annotation(path, folder) and path.is_file():
            found.setdefault(_name(path), []).append(path)
    return found


def _is_annotation(path: Path, folder: Path) -> bool:
    """Tell by the suffix, or by the folder: the gold files of the CLEF test set are called as their reports are."""
    if path.name.lower().endswith((".pipe", ".pipe.txt")):
        return True
    parents = (part.lower() for part in path.relative_to(folder).parts[:-1])
    return path.suffix.lower() == ".txt" and any(part.startswith("gold") or "pipe" in part for part in parents)


def _split_of(path: Path, folder: Path) -> str | None:
    for part in reversed(path.relative_to(folder).parts[:-1]):
        for split, words in _SPLITS.items():
            if any(word in part.lower() for word in words):
                return split
    return None


def _name(path: Path) -> str:
    """Return the report's name: some rows and files have a suffix that others lack."""
    lower = path.name.lower()
    ending = next((ending for ending in _ENDINGS if lower.endswith(ending)), "")
    return path.name[: len(path.name) - len(ending)]
