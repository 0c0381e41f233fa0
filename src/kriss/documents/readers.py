"""One way into every format of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kriss.documents.bioc_text import read_bioc_json, read_bioc_xml
from kriss.documents.plain import read_jsonl, read_text
from kriss.documents.problems import Deleted, Problems
from kriss.documents.pubmed import read_pubmed
from kriss.documents.pubtator_text import read_pubtator
from kriss.documents.sources import Format, detect_format
from kriss.records import Document

_READERS = {
    Format.PUBMED: read_pubmed,
    Format.BIOC_XML: read_bioc_xml,
    Format.BIOC_JSON: read_bioc_json,
    Format.PUBTATOR: read_pubtator,
    Format.JSONL: read_jsonl,
    Format.TEXT: read_text,
}


def read_documents(
    path: Path, problems: Problems, *, stripe: int = 0, stripes: int = 1
) -> Iterator[Document | Deleted]:
    """Yield the documents of one file, in the order of the file and in constant memory.

    Several workers may share a file: each takes the records whose ordinal, modulo `stripes`, is its
    `stripe`, and reports the problems of those alone; deletions go to stripe 0. A bad document is
    counted in `problems` and reading goes on; a bad file is an `InputError`.
    """
    if not 0 <= stripe < stripes:
        raise ValueError(f"stripe {stripe} of {stripes}")
    yield from _READERS[detect_format(path)](path, problems, stripe, stripes)
