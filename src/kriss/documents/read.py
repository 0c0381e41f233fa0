"""The one way into documents, for every stage: files of any format, folders, globs, standard input, data sets."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, groupby
from pathlib import Path

from kriss.documents.brat import BRAT
from kriss.documents.datasets import DATASETS, VARIABLE, check_split, data_folder, find_dataset, load, without_repeats
from kriss.documents.problems import Deleted
from kriss.documents.registry import find_format, read_file
from kriss.documents.sources import find_files
from kriss.errors import ConfigError, InputError, Place
from kriss.files import Problems
from kriss.records import Document

STANDARD_INPUT = "-"
_INPUT = Path("standard input")
_Reader = Callable[[Path], Iterator[Document | Deleted]]


def read(
    sources: Sequence[Path | str],
    format: str | None = None,
    *,
    marked: bool = True,
    problems: Problems | None = None,
    data: Path | None = None,
) -> Iterator[Document]:
    """Iterate over documents, one at a time, with their marked mentions or as text alone.

    A source is a file, a folder, a glob, `-` for standard input, or a data set and its split
    (`ncbi-disease:test`, in the folder `data`). Without a format, each file's is told by its content and suffix.
    Files come in the order of their names, standard input first. A source that names nothing is an error at once,
    not when the reading comes to it. A bad document is an error, or counted in `problems`.
    """
    if any(not str(source).strip() for source in sources):
        raise ConfigError("a source is named by nothing; give files, or a data set and its split (ncbi-disease:test)")
    chosen = find_format(format, "read") if format else None
    if chosen is BRAT and STANDARD_INPUT in map(str, sources):
        raise InputError("brat's texts and annotations are files; name their folder", Place(_INPUT))
    one_file = partial(read_file, problems=problems, marked=marked, format=chosen)
    parts: list[Iterator[Document | Deleted]] = []
    for is_dataset, group in groupby(sources, _is_dataset):
        found = list(group)
        parts += [_dataset(str(source), data) for source in found] if is_dataset else _files(found, one_file)
    documents = chain.from_iterable(parts or _files([], one_file))
    return (document for document in documents if isinstance(document, Document))


def gold(source: str, data: Path | None) -> list[Document]:
    """Return the documents that a user names, a document that stands twice only once."""
    return without_repeats(read([source], data=data))


def _is_dataset(source: Path | str) -> bool:
    name, colon, _ = str(source).partition(":")
    return name in DATASETS and bool(colon or not Path(source).exists())


def _dataset(source: str, data: Path | None) -> Iterator[Document]:
    name, _, split = source.partition(":")
    check_split(find_dataset(name), split)
    if (folder := data_folder(data)) is None:
        raise ConfigError(f"{source} is read from a data folder; give --data DIR or set {VARIABLE}")
    return chain.from_iterable(map(load, [name], [split], [folder]))  # when the reading comes to it


def _files(sources: Sequence[Path | str], one_file: _Reader) -> list[Iterator[Document | Deleted]]:
    named = [source for source in sources if str(source) != STANDARD_INPUT]
    try:
        files = find_files(named) if named or not sources else []
    except InputError as error:
        if any(Path(source).exists() or set(str(source)) & set("*?[/") for source in named):
            raise
        raise InputError(f"{error}; nor is it a data set ({', '.join(DATASETS)}) with its split") from None
    opened = [_read_stream(_INPUT, one_file)] if len(named) < len(sources) else []
    return opened + [one_file(path) if path.is_file() else _read_stream(path, one_file) for path in files]


def _read_stream(name: Path, one_file: _Reader) -> Iterator[Document | Deleted]:
    """Read what can be read only once, as the shell makes for <(...), from a copy: telling its format takes a look."""
    with tempfile.TemporaryDirectory(prefix="kriss-") as folder:
        copy = Path(folder) / "stdin"
        with nullcontext(sys.stdin.buffer) if name is _INPUT else name.open("rb") as stream, copy.open("wb") as target:
            shutil.copyfileobj(stream, target)
        try:
            yield from one_file(copy)
        except InputError as error:
            place = error.place or Place(copy)
            raise InputError(str(error).removeprefix(f"{place}: "), Place(name, place.line)) from None
