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


def wanted(part: str, split: str) -> str:
    """Return the names of the files that make the split."""
    listed = f"{part}/data/{_CORPUS}.gz and full/data/{_list_name(split)}"
    return f"{listed}, or {split}.jsonl.gz with a row of tokens a mention" if part == "st21pv" else listed


def medmentions(part: str, folder: Path, split: str) -> Iterator[Document] | None:
    """Return a split of the full corpus, or of ST21pv: both have a file of the same name, told apart by their folders.

    ST21pv takes its lists from the full one. Without the PubTator file it may be rows of tokens. None if there is
    neither below the folder.
    """
    found = (path for name in (_CORPUS, f"{_CORPUS}.gz") for path in sorted(folder.rglob(name)))
    for corpus in found:
        named = "/".join((folder.name, *corpus.relative_to(folder).parts)).lower()  # a clone of the owners' has both
        if ("st21pv" in named) == (part == "st21pv"):
            listed = _listed(folder, corpus, split)
            return _chosen(corpus, listed) if listed else None
    has_rows = part == "st21pv" and "st21pv" in folder.name.lower()
    rows = below(folder, f"{split}.jsonl") if has_rows else None
    return read_tokenized(rows) if rows else None


@dataclass(frozen=True, slots=True)
class _Row:
    tokens: list[str]
    start: int
    end: int
    cui: str | None
    source: str


def read_tokenized(path: Path) -> Iterator[Document]:
    """Yield the documents of rows of `tokens`, `start`, `end` (of tokens) and `cui`: a sentence, one of its mentions.

    Rows with one `pmid` are a document of that id: its sentences, each once, with all of their mentions. So what an
    abstract says in one sentence, an abbreviation's long form say, is known in the next. A row without a `pmid` is a
    document by itself, by the name of the file and its line.
    """
    documents: dict[str, list[_Row]] = {}
    for number, raw in numbered_lines(path):
        if raw and not raw.isspace():
            with at(Place(path, number)):
                row = _row(decode(raw))
            documents.setdefault(row.source or f"{stem(path)}:{number}", []).append(row)
    return (_document(name, rows) for name, rows in documents.items())


def _document(name: str, rows: list[_Row]) -> Document:
    """Join sentences; a row with a mention that the last sentence has already is another sentence of these tokens."""
    sentences: list[str] = []
    spans: list[Span] = []
    offset, last, marked = 0, list[str](), set[tuple[int, int]]()
    for row in rows:
        if row.tokens != last or (row.start, row.end) in marked:
            offset += len(sentences[-1]) + 1 if sentences else 0
            sentences.append(joined(row.tokens))
            last, marked = row.tokens, set()
        marked.add((row.start, row.end))
        end = offset + len(joined(row.tokens[: row.end]))
        start = end - len(joined(row.tokens[row.start : row.end]))
        spans.append(Span(start, end, known_entities([(row.cui or "").removeprefix(_PREFIX)])))
    return Document(name, " ".join(sentences), tuple(spans))


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


def _chosen(corpus: Path, listed: Path) -> Iterator[Document]:
    """Yield the documents that the list of a split names."""
    wanted: dict[str, Place] = {}
    for number, raw in numbered_lines(listed):
        with at(Place(listed, number)):
            if name := decode(raw).strip():
                wanted[name] = Place(listed, number)
    for document in read_marked(corpus, PUBTATOR):
        if wanted.pop(document.id, None):
            yield Document(document.id, document.text, _bare(document.spans))
    for name, place in wanted.items():
        raise InputError(f"document '{name}' is not in {corpus}; fetch list and corpus of one release", place)


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
