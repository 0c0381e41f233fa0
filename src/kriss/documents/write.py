"""Writing links: one document at a time, in formats that `read_annotated` reads again, or as a table."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO
from xml.sax.saxutils import escape, quoteattr

from kriss.documents.bioc import IDENTIFIER
from kriss.errors import ExistsError, InputError
from kriss.names import clean
from kriss.records import Document, Evidence, Link, Span

NO_ENTITY = "-1"
_AROUND = 60
"""Characters on each side that a line of evidence shows."""
COLUMNS = (
    "document",
    "start",
    "end",
    "surface",
    "entity",
    "name",
    "score",
    "probability",
    "evidence_kind",
    "evidence_document",
    "evidence_text",
)
_LINE_ENDS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", " "))
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Linked = tuple[Document, Sequence[Link]]


class OutputFormat(StrEnum):
    """The formats in which links are written."""

    JSONL = "jsonl"
    PREDICTIONS = "predictions"
    PUBTATOR = "pubtator"
    BIOC_XML = "bioc-xml"
    BIOC_JSON = "bioc-json"
    TABLE = "table"


def write_links(links: Iterable[Linked], out: TextIO, format: OutputFormat) -> None:
    """Write documents with their links; the nth link of a document is that of its nth span."""
    _WRITERS[format](map(_checked, links), out)


@contextmanager
def output(path: Path | None, *, force: bool = False) -> Iterator[TextIO]:
    """Open a file that appears under its name only when it is whole; standard output without a path.

    Pipes and devices are written to as they are. A link to a file stays one. A name that ends in `.gz` is
    compressed, without a time in it: the same links give the same bytes.
    """
    if path is None:
        with _standard_output() as stream:
            yield stream
    elif path.exists() and not path.is_file() and not path.is_dir():
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
    else:
        _check_target(path, force=force)
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.building-{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with draft.open("xb") as raw:
                packed = gzip.GzipFile("", "wb", 6, raw, mtime=0) if target.suffix == ".gz" else None
                stream = io.TextIOWrapper(packed or raw, encoding="utf-8", newline="\n")
                try:
                    yield stream
                    stream.flush()
                finally:
                    stream.detach()
                    if packed:
                        packed.close()
                raw.flush()
                os.fsync(raw.fileno())
            _check_target(path, force=force)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Write UTF-8 whatever the terminal's encoding is: the files that this is piped into are to be read again."""
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # a notebook's, or a test's
        yield sys.stdout
        return
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="\n", write_through=True)
    try:
        yield stream
        stream.flush()
    finally:
        stream.detach()


def _check_target(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise ExistsError(f"{path} is a folder; name a file to write to")
    if path.exists() and not force:
        raise ExistsError(f"{path} exists; give --force to replace it, or another --out")


def _checked(linked: Linked) -> Linked:
    document, links = linked
    if len(links) != len(document.spans):
        raise ValueError(f"document '{document.id}' has {len(document.spans)} mentions and {len(links)} links")
    return linked


def _write_jsonl(links: Iterable[Linked], out: TextIO) -> None:
    for document, found in links:
        mentions = [_as_json(document, span, link) for span, link in zip(document.spans, found, strict=True)]
        offset = {"offset": document.offset} if document.offset else {}
        _dump({"id": document.id, **offset, "text": document.text, "mentions": mentions}, out)
        out.write("\n")


def _write_predictions(links: Iterable[Linked], out: TextIO) -> None:
    """Write what `kriss evaluate` wants and no more: one mention a line, with evidence for its first candidate."""
    for document, found in links:
        for span, link in zip(document.spans, found, strict=True):
            candidates = [
                {"entity": one.entity, "score": _rounded(one.score), "name": one.evidence.surface}
                for one in link.candidates
            ]
            if candidates:
                candidates[0]["evidence"] = shown_evidence(link.candidates[0].evidence)
            start, end = document.offset + span.start, document.offset + span.end
            row = {"document": document.id, "start": start, "end": end, "entity": link.entity}
            _dump(row | {"candidates": candidates, "probability": _rounded(link.probability)}, out)
            out.write("\n")


def shown_evidence(evidence: Evidence) -> str:
    """Return a prototype as a line of text: its surface between the words around it, and where it is from."""
    left, right = evidence.left, evidence.right
    if len(left) > _AROUND:
        left = "…" + left[-_AROUND:].partition(" ")[2]
    if len(right) > _AROUND:
        right = right[:_AROUND].rpartition(" ")[0] + "…"
    source = f"{evidence.kind}, {evidence.document}" if evidence.document else evidence.kind
    return f"{left}[[{evidence.surface}]]{right} ({source})"


def _rounded(score: float) -> float | None:
    return round(score, 6) if math.isfinite(score) else None


def _write_pubtator(links: Iterable[Linked], out: TextIO) -> None:
    """Write title and abstract on a line each: the first line of the text, and the rest with blanks for line ends."""
    for document, found in links:
        if not document.id or "|" in document.id or document.id != _on_a_line(document.id):
            what = "it is empty, or has a '|', a tab, a line end or a blank at its end"
            raise InputError(f"the document id {document.id!r} cannot stand in PubTator: {what}; write jsonl instead")
        title, _, body = document.text.partition("\n")
        out.write(f"{document.id}|t|{title.translate(_LINE_ENDS)}\n{document.id}|a|{body.translate(_LINE_ENDS)}\n")
        for span, link in zip(document.spans, found, strict=True):
            surface = document.text[span.start : span.end].translate(_LINE_ENDS)
            entity = NO_ENTITY if link.entity is None else _on_a_line(link.entity)
            out.write(f"{document.id}\t{span.start}\t{span.end}\t{surface}\t{_on_a_line(span.type)}\t{entity}\n")
        out.write("\n")


def _on_a_line(name: str) -> str:
    return name.translate(_LINE_ENDS).strip()


def _write_bioc_xml(links: Iterable[Linked], out: TextIO) -> None:
    """Write each text as one passage, since a mention may cross any line end that passages could be cut at."""
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n')
    out.write("<collection>\n<source>kriss</source>\n<date></date>\n<key>kriss.key</key>\n")
    for document, found in links:
        text = _xml(document.text)
        out.write(f"<document>\n<id>{_xml(document.id)}</id>\n<passage>\n<offset>0</offset>\n<text>{text}</text>\n")
        for span, link in zip(document.spans, found, strict=True):
            name = f" id={quoteattr(_xml_characters(span.id), _REFERENCES)}" if span.id else ""
            infons = (f"<infon key={quoteattr(key)}>{_xml(value)}</infon>" for key, value in _infons(span, link))
            place = f'<location offset="{span.start}" length="{span.end - span.start}"/>'
            surface = _xml(document.text[span.start : span.end])
            out.write(f"<annotation{name}>{''.join(infons)}{place}<text>{surface}</text></annotation>\n")
        out.write("</passage>\n</document>\n")
    out.write("</collection>\n")


def _write_bioc_json(links: Iterable[Linked], out: TextIO) -> None:
    out.write('{"source": "kriss", "date": "", "key": "kriss.key", "infons": {}, "documents": [')
    separator = "\n"
    for document, found in links:
        annotations = [
            {
                "id": span.id,
                "infons": dict(_infons(span, link)),
                "locations": [{"offset": span.start, "length": span.end - span.start}],
                "text": document.text[span.start : span.end],
            }
            for span, link in zip(document.spans, found, strict=True)
        ]
        passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": annotations}
        out.write(separator)
        _dump({"id": document.id, "infons": {}, "passages": [passage], "relations": []}, out)
        separator = ",\n"
    out.write("\n]}\n")


def _write_table(links: Iterable[Linked], out: TextIO) -> None:
    table = csv.writer(out, dialect="excel-tab", lineterminator="\n")
    table.writerow(COLUMNS)
    for document, found in links:
        for span, link in zip(document.spans, found, strict=True):
            evidence = next((one.evidence for one in link.candidates if one.entity == link.entity), None)
            shown = (evidence.kind, evidence.document, _in_context(evidence)) if evidence else ("", "", "")
            surface = document.text[span.start : span.end]
            named = (surface, link.entity or "", link.name, _figure(link.score), _figure(link.probability), *shown)
            table.writerow([clean(document.id), span.start, span.end, *map(clean, named)])


_WRITERS: dict[OutputFormat, Callable[[Iterable[Linked], TextIO], None]] = {
    OutputFormat.JSONL: _write_jsonl,
    OutputFormat.PREDICTIONS: _write_predictions,
    OutputFormat.PUBTATOR: _write_pubtator,
    OutputFormat.BIOC_XML: _write_bioc_xml,
    OutputFormat.BIOC_JSON: _write_bioc_json,
    OutputFormat.TABLE: _write_table,
}


def _as_json(document: Document, span: Span, link: Link) -> dict[str, Any]:
    candidates = [
        {"entity": one.entity, "name": one.name, "score": _finite(one.score), "evidence": asdict(one.evidence)}
        for one in link.candidates
    ]
    return {
        "start": span.start,
        "end": span.end,
        "surface": document.text[span.start : span.end],
        **({"id": span.id} if span.id else {}),
        **({"type": span.type} if span.type else {}),
        **({"expanded": link.expanded} if link.expanded else {}),
        "entity": link.entity,
        "name": link.name,
        "score": _finite(link.score),
        "probability": _finite(link.probability),
        "candidates": candidates,
    }


def _infons(span: Span, link: Link) -> Iterator[tuple[str, str]]:
    if span.type:
        yield "type", span.type
    yield IDENTIFIER, NO_ENTITY if link.entity is None else link.entity
    if link.entity is not None:
        yield "name", link.name
    yield from (
        (key, _figure(value))
        for key, value in (("score", link.score), ("probability", link.probability))
        if math.isfinite(value)
    )


def _in_context(evidence: Evidence) -> str:
    if not evidence.left and not evidence.right:
        return evidence.surface
    return f"{evidence.left}[[{evidence.surface}]]{evidence.right}"


def _figure(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold, which has none for infinity."""
    return value if math.isfinite(value) else None


def _dump(value: dict[str, Any], out: TextIO) -> None:
    out.write(json.dumps(value, ensure_ascii=False, allow_nan=False))


_REFERENCES = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}


def _xml(text: str) -> str:
    """Return text for XML; a carriage return, which a parser would make a line end, by its number."""
    return escape(_xml_characters(text), {"\r": "&#13;"})


def _xml_characters(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
