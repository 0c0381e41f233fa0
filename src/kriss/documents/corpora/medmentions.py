"""MedMentions: its owners' PubTator file with a list of PubMed ids a split, or one row of tokens a mention."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kriss.documents.corpora.files import below
from kriss.documents.format import stem
from kriss.documents.problems import at, flaw_of
from kriss.documents.pubtator import PUBTATOR
from kriss.documents.registry import read_marked
from kriss.documents.spans import known_entities, whole_number
from kriss.documents.text import decode
from kriss.errors import InputError, Place
from kriss.files import numbered_lines
from kriss.records import Document, Span

_CORPUS = "corpus_pubtator.txt"
_LISTS = {"train": "trng", "dev": "dev", "test": "test"}
_PREFIX = "UMLS:"
"""ST21pv writes it before a concept and the full corpus does not; an ontology of UMLS has the bare ids."""
_HOLDS = frozenset("([{-/")
_CLINGS = frozenset(")]}-/.,;:%") | {"'s"}
"""Tokens before and after which a tokenizer of English puts a blank that the text did not have."""


@dataclass(frozen=True, slots=True)
class MedMentions:
    """The full corpus, or ST21pv: both have a file of the same name, and ST21pv takes its lists from the full one."""

    part: str

    def splits(self, folder: Path) -> tuple[str, ...]:
        """Return the splits of the PubTator file that have a list, or else those that are rows of tokens."""
        if corpus := self._corpus(folder):
            return tuple(split for split in _LISTS if _listed(folder, corpus, split))
        return tuple(split for split in _LISTS if self._tokenized(folder, split))

    def read(self, folder: Path, splits: Sequence[str]) -> dict[str, list[Document]]:
        """Read the splits, in one pass over the PubTator file."""
        if corpus := self._corpus(folder):
            found = {split: _listed(folder, corpus, split) for split in splits}
            return _deal(corpus, {split: path for split, path in found.items() if path})
        rows = {split: self._tokenized(folder, split) for split in splits}
        return {split: list(read_tokenized(path)) for split, path in rows.items() if path}

    def wanted(self, split: str) -> str:
        """Return the names of the files that make the split."""
        listed = f"{self.part}/data/{_CORPUS}.gz and full/data/{_list_name(split)}"
        return f"{listed}, or {split}.jsonl.gz with a row of tokens a mention" if self.part == "st21pv" else listed

    def _corpus(self, folder: Path) -> Path | None:
        found = (path for name in (_CORPUS, f"{_CORPUS}.gz") for path in sorted(folder.rglob(name)))
        return next((path for path in found if self._is_part(path, folder)), None)

    def _is_part(self, path: Path, folder: Path) -> bool:
        """Tell the two by their folders: a clone of the owners' repository has both."""
        named = "/".join((folder.name, *path.relative_to(folder).parts)).lower()
        return ("st21pv" in named) == (self.part == "st21pv")

    def _tokenized(self, folder: Path, split: str) -> Path | None:
        named = self.part == "st21pv" and "st21pv" in folder.name.lower()
        return below(folder, f"{split}.jsonl") if named else None


def read_tokenized(path: Path) -> Iterator[Document]:
    """Yield the documents of rows of `tokens`, `start`, `end` (of tokens) and `cui`: a sentence, one of its mentions.

    Rows with one `pmid` are a document of that id: its sentences, each once, with all of their mentions. So what an
    abstract says in one sentence, an abbreviation's long form say, is known in the next. A row without a `pmid` is a
    document by itself, by the name of the file and its line.
    """
    drafts: dict[str, _Draft] = {}
    for number, raw in numbered_lines(path):
        if raw and not raw.isspace():
            with at(Place(path, number)):
                row = _row(decode(raw))
            name = row.source or f"{stem(path)}:{number}"
            drafts.setdefault(name, _Draft(name)).add(row)
    return (draft.document() for draft in drafts.values())


@dataclass(frozen=True, slots=True)
class _Row:
    tokens: list[str]
    start: int
    end: int
    cui: str | None
    source: str

    def span(self, offset: int) -> Span:
        """Return the mention in a text in which the sentence begins at the offset."""
        surface = joined(self.tokens[self.start : self.end])
        end = offset + len(joined(self.tokens[: self.end]))
        return Span(end - len(surface), end, known_entities([(self.cui or "").removeprefix(_PREFIX)]))


class _Draft:
    """A document that grows row by row."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sentences: list[str] = []
        self._length = 0
        self._spans: list[Span] = []
        self._last: list[str] = []
        self._marked: set[tuple[int, int]] = set()

    def add(self, row: _Row) -> None:
        """Add a mention, and its sentence unless that is the last one; with the same mention it is another one."""
        if row.tokens != self._last or (row.start, row.end) in self._marked:
            self._length += len(self._sentences[-1]) + 1 if self._sentences else 0
            self._sentences.append(joined(row.tokens))
            self._last, self._marked = row.tokens, set()
        self._marked.add((row.start, row.end))
        self._spans.append(row.span(self._length))

    def document(self) -> Document:
        """Return what there is so far."""
        return Document(self._name, " ".join(self._sentences), tuple(self._spans))


def joined(tokens: Sequence[str]) -> str:
    """Return tokens as text: whether a blank stands between two of them is told by these two alone.

    >>> joined(["short", "-", "chain", "acids", "(", "SCA", ")", "."])
    'short-chain acids (SCA).'
    """
    return "".join(
        f" {token}" if place and token not in _CLINGS and tokens[place - 1] not in _HOLDS else token
        for place, token in enumerate(tokens)
    )


def _row(line: str) -> _Row:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("the line is not a JSON object; write one object on each line")
    tokens, cui, source = record.get("tokens"), record.get("cui"), record.get("pmid", "")
    if not isinstance(tokens, list) or set(map(type, tokens)) - {str}:
        raise ValueError("the row has no 'tokens', a list of texts")
    if not isinstance(cui, str | None) or not isinstance(source, str | int):
        raise ValueError("the row's 'cui' or 'pmid' is not a text")
    start = whole_number(record.get("start"), "the 'start' of the row")
    end = whole_number(record.get("end"), "the 'end' of the row")
    if not 0 <= start < end <= len(tokens):
        raise ValueError(f"the mention from token {start} to {end} does not lie in the row's {len(tokens)}")
    if not joined(tokens[start:end]).strip():
        raise ValueError(f"the mention from token {start} to {end} is nothing but white space")
    if "\\u" in line and (flaw := flaw_of("".join((*tokens, cui or "", str(source))))):
        raise ValueError(f"{flaw}; remove it")
    return _Row(tokens, start, end, cui, str(source))


def _deal(corpus: Path, lists: dict[str, Path]) -> dict[str, list[Document]]:
    """Give every document to the split whose list names it."""
    wanted: dict[str, tuple[str, Place]] = {}
    for split, path in lists.items():
        for number, raw in numbered_lines(path):
            place = Place(path, number)
            with at(place):
                name = decode(raw).strip()
            if name in wanted and wanted[name][0] != split:
                raise InputError(f"document '{name}' is in the list of {wanted[name][0]} too; it can be in one", place)
            if name:
                wanted[name] = split, place
    dealt: dict[str, list[Document]] = {split: [] for split in lists}
    seen = set()
    for document in read_marked(corpus, PUBTATOR):
        if document.id in wanted:
            seen.add(document.id)
            dealt[wanted[document.id][0]].append(Document(document.id, document.text, _bare(document.spans)))
    for name, (_, place) in wanted.items():
        if name not in seen:
            raise InputError(f"document '{name}' is not in {corpus}; fetch list and corpus of one release", place)
    return dealt


def _bare(spans: Sequence[Span]) -> tuple[Span, ...]:
    return tuple(
        Span(span.start, span.end, tuple(one.removeprefix(_PREFIX) for one in span.entities), span.type)
        for span in spans
    )


def _list_name(split: str) -> str:
    return f"corpus_pubtator_pmids_{_LISTS[split]}.txt"


def _listed(folder: Path, corpus: Path, split: str) -> Path | None:
    """Return the list of a split: beside the corpus, or with the full corpus, which alone is shipped with lists."""
    beside = (path for path in sorted(folder.parent.iterdir()) if path.name.lower().startswith("medmentions"))
    places = (corpus.parent, folder, *(path for path in beside if path.is_dir()))
    return next((path for place in places if (path := below(place, _list_name(split)))), None)
