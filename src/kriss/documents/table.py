"""What links are written as and never read again as documents: a table, and the lines that `kriss evaluate` scores."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from typing import TextIO

from kriss.documents.format import Format, Linked
from kriss.documents.jsonl import dump
from kriss.names import clean
from kriss.records import Evidence

_AROUND = 60
"""Characters on each side that a line of evidence shows."""
COLUMNS = tuple(
    "document start end surface entity name score probability evidence_kind evidence_document evidence_text".split()
)


def _write_predictions(links: Iterable[Linked], out: TextIO) -> None:
    """Write what `kriss evaluate` wants and no more: one mention a line, with evidence for its first candidate."""
    for document, found in links:
        for span, link in zip(document.spans, found, strict=True):
            candidates = [
                {
                    "entity": one.entity,
                    "score": _rounded(one.score),
                    "name": one.evidence.surface,
                }
                for one in link.candidates
            ]
            if candidates:
                candidates[0]["evidence"] = shown_evidence(link.candidates[0].evidence)
            start, end = document.offset + span.start, document.offset + span.end
            row = {"document": document.id, "start": start, "end": end, "entity": link.entity}
            dump(row | {"candidates": candidates, "probability": _rounded(link.probability)}, out)
            out.write("\n")


def _rounded(score: float) -> float | None:
    return round(score, 6) if math.isfinite(score) else None


def shown_evidence(evidence: Evidence) -> str:
    """Return a prototype as a line of text: its surface between the words around it, and where it is from."""
    left, right = evidence.left, evidence.right
    if len(left) > _AROUND:
        left = "…" + left[-_AROUND:].partition(" ")[2]
    if len(right) > _AROUND:
        right = right[:_AROUND].rpartition(" ")[0] + "…"
    source = f"{evidence.kind}, {evidence.document}" if evidence.document else evidence.kind
    return f"{left}[[{evidence.surface}]]{right} ({source})"


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


def _in_context(evidence: Evidence) -> str:
    if not evidence.left and not evidence.right:
        return evidence.surface
    return f"{evidence.left}[[{evidence.surface}]]{evidence.right}"


def _figure(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


PREDICTIONS = Format("predictions", write=_write_predictions)
TABLE = Format("table", write=_write_table)
