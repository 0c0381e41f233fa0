"""Clinical notes with stand-off files whose columns are parted by `||`: ShARe/CLEF and n2c2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kriss.documents.corpora.files import below
from kriss.documents.problems import at
from kriss.documents.registry import read_file
from kriss.documents.spans import mark, split_entities, whole_number
from kriss.documents.text import TEXT, decode
from kriss.errors import InputError, Place
from kriss.files import numbered_lines
from kriss.records import Document, Span

_CUI = re.compile(r"[Cc][0-9]{7}")
_UNKNOWN = "unk"
"""What stands for the concepts of n2c2's test set in the files that participants got."""
_SPLITS = {"train": ("train", "trng"), "dev": ("dev",), "test": ("test",)}
_ENDINGS = (".pipe.txt", ".pipe", ".text", ".txt")
_PREFERRED = "2012"
"""Two gold folders came with ShARe's test set of 2013, Gold_SN2011 and Gold_SN2012, by release of SNOMED CT."""


# --- What both have ---------------------------------------------------------------------------


def _rows(path: Path) -> Iterator[tuple[Place, list[str]]]:
    """Yield the columns of each line; an empty file is how a note without mentions is written."""
    for number, raw in numbered_lines(path) if path.stat().st_size else ():
        place = Place(path, number)
        with at(place):
            line = decode(raw)
        if line.strip():
            yield place, [column.strip() for column in line.split("||")]


def _hull(offsets: Sequence[str], form: str) -> tuple[int, int]:
    """Return where a mention begins and ends; what lies between the pieces of a discontinuous one belongs to it."""
    if not offsets or len(offsets) % 2:
        raise ValueError(f"the line is not of the form '{form}'; mend it")
    numbers = [whole_number(offset, "an offset of the line") for offset in offsets]
    pieces = sorted(zip(numbers[::2], numbers[1::2], strict=True))
    for start, end in pieces:
        if start >= end:
            raise ValueError(f"the piece from {start} to {end} is empty; its end must be greater than its start")
    return pieces[0][0], max(end for _, end in pieces)


def _concepts(field: str) -> tuple[str, ...]:
    """Return the concepts of one column: `c0027051` is C0027051, `CUI-less` none."""
    found = split_entities(field.replace("CUI_less", "CUI-less"))
    return tuple(one.upper() if _CUI.fullmatch(one) else one for one in found)


def _note(name: str, path: Path) -> Document:
    """Return a note to the character, with blanks for the line ends within its paragraphs."""
    texts = (one for one in read_file(path, format=TEXT) if isinstance(one, Document)) if path.stat().st_size else ()
    return Document(name, next((one.text for one in texts), ""))


# --- n2c2 2019 track 3, the MCN corpus: notes, and for each a norm file of `id||CUI||start||end` lines ----------


N2C2_WANTED = "the folders {0}_note and {0}_norm, or {0}_norm.txt beside the norm files without concepts"


def n2c2(folder: Path, split: str) -> Iterator[Document] | None:
    """Return the notes of `train_note` with the concepts of `train_norm`, in the order of `train_file_list.txt`.

    None if they do not lie below the folder. The norm files that participants got for the test set have no concepts:
    those of all are in one file, a line each, in the order of the list.
    """
    notes = below(folder, f"{split}_note", f"{split}_notes", is_folder=True)
    listed = below(folder, f"{split}_file_list.txt", f"{split}_note_list.txt")
    if notes and (norms := below(folder, f"{split}_norm", f"{split}_norms", is_folder=True)):
        return _n2c2_documents(notes, norms, None, listed)
    bare = (f"{split}_norm_cui_replaced_with_unk", f"{split}_span", f"{split}_spans")
    spans, concepts = below(folder, *bare, is_folder=True), below(folder, f"{split}_norm.txt")
    return _n2c2_documents(notes, spans, concepts, listed) if notes and spans and concepts and listed else None


def _n2c2_documents(notes: Path, norms: Path, concepts: Path | None, listed: Path | None) -> Iterator[Document]:
    apart = ((place, row[-1]) for place, row in _rows(concepts)) if concepts else None
    for name, place in _n2c2_names(notes, norms, listed):
        paths = notes / f"{name}.txt", norms / f"{name}.norm"
        if lacking := next((path for path in paths if not path.is_file()), None):
            raise InputError(f"note '{name}' has no file {lacking}; fetch it, or take the note out", place)
        document = _note(name, paths[0])
        yield Document(name, document.text, tuple(_n2c2_spans(paths[1], document, apart)))
    if apart and (more := next(apart, None)):
        raise InputError("there are more concepts here than mentions in the norm files; fetch both again", more[0])


def _n2c2_names(notes: Path, norms: Path, listed: Path | None) -> Iterator[tuple[str, Place]]:
    if not listed:
        files = {path.stem: path for path in (*notes.glob("*.txt"), *norms.glob("*.norm"))}
        yield from ((name, Place(files[name])) for name in sorted(files))
        return
    named = {Path(row[0]).name.removesuffix(".txt").removesuffix(".norm"): place for place, row in _rows(listed)}
    if left_out := sorted({path.stem for path in norms.glob("*.norm")} - set(named)):
        what = f"the list does not name note '{left_out[0]}', which has a norm file"
        raise InputError(f"{what}; add it, or take list and file of one release", Place(listed))
    yield from named.items()


def _n2c2_spans(path: Path, document: Document, apart: Iterator[tuple[Place, str]] | None) -> Iterator[Span]:
    for place, row in _rows(path):
        with at(place, document.id):
            start, end = _hull(row[2:], "id||CUI||start||end")
            following = next(apart, None) if apart else (place, row[1])
            if not following:
                raise ValueError("there are more mentions here than lines of concepts; fetch both again")
            concept = following[1]
            if concept.lower() == _UNKNOWN:
                what = "the concept is 'unk', as in the files for participants"
                raise ValueError(f"{what}; ask the portal for those with the concepts")
            span = mark(document, Span(start, end, _concepts(concept), "", row[0]))
        yield span


# --- ShARe/CLEF 2013 and SemEval-2014 task 7: reports, and for each a file of `report||type||CUI||start||end` lines --


def shareclef_wanted(split: str) -> str:
    """Return how the files of a split are named."""
    folder = "devel" if split == "dev" else split
    return f"{folder}/*.text with *.pipe beside them, or 'ALLREPORTS {split}' and the folders of .pipe.txt files"


def shareclef(folder: Path, split: str) -> Iterator[Document] | None:
    """Return reports: texts in folders that name their split, annotations beside them (SemEval) or elsewhere (CLEF).

    None if there are no texts, or annotations for none of them. A report that no annotation file goes with has no
    mentions, as in the CLEF release.
    """
    marked = _annotations(folder)
    texts = _texts(folder, split)
    if not any(name in marked for name in texts):
        return None
    return _reports(folder, split, texts, marked)


def _reports(folder: Path, split: str, texts: dict[str, Path], marked: dict[str, list[Path]]) -> Iterator[Document]:
    reports = {name for split in _SPLITS for name in _texts(folder, split)}
    for name, paths in marked.items():
        if name not in reports and _split_of(paths[0], folder) in (None, split):
            what = "there is no report of this name; put its text into a folder train or test"
            raise InputError(what, Place(paths[0]))
    yield from (_report(name, text, marked) for name, text in texts.items())


def _report(name: str, text: Path, marked: dict[str, list[Path]]) -> Document:
    document = _note(name, text)
    found = marked.get(name, [])
    beside = [path for path in found if path.parent == text.parent]
    newer = [path for path in found if _PREFERRED in path.parent.name]
    chosen = beside or (found if len(found) < 2 else newer or found)
    if len(chosen) > 1:
        what = f"two annotation files go with this report, the other is {chosen[1]}"
        raise InputError(f"{what}; keep one", Place(chosen[0]))
    return Document(name, document.text, tuple(_report_spans(chosen[0], document)) if chosen else ())


def _report_spans(path: Path, document: Document) -> Iterator[Span]:
    form = "report||Disease_Disorder||CUI||start||end"
    for place, row in _rows(path):
        with at(place, document.id):
            if len(row) < 5:
                raise ValueError(f"the line has {len(row)} columns, but is to be of the form '{form}'; mend it")
            if _name(Path(row[0])) != document.id:
                what = f"the line belongs to report '{row[0]}', but the file to '{document.id}'"
                raise ValueError(f"{what}; put it into its own")
            while not row[-1]:  # lines may end in bars
                row.pop()
            start, end = _hull(row[3:], form)
            span = mark(document, Span(start, end, _concepts(row[2]), row[1]))
        yield span


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
    ending = next((ending for ending in _ENDINGS if path.name.lower().endswith(ending)), "")
    return path.name[: len(path.name) - len(ending)]
