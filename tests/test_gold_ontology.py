"""The ontology of a labeled split: what the split shows, and no more."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.gold_ontology import entities, main

from kriss.records import Document, Span
from tests.conftest import build, write_jsonl

TEXT = "MS, ms or multiple sclerosis; Colds, a cold."


def spans(*found: tuple[str, tuple[str, ...]]) -> tuple[Span, ...]:
    return tuple(Span(TEXT.index(text), TEXT.index(text) + len(text), ids) for text, ids in found)


def test_names_are_the_surfaces_the_most_frequent_first() -> None:
    marked = spans(
        ("multiple sclerosis", ("C1",)), ("MS", ("C1",)), ("ms", ("C1",)), ("cold", ("C0", "C2")), ("or", ())
    )
    again = spans(("MS", ("C1",)), ("Colds", ("C0",)))
    found = list(entities([Document("1", TEXT, marked), Document("2", TEXT, again)]))
    assert found == [
        {"id": "C0", "name": "Colds", "aliases": []},
        {"id": "C1", "name": "MS", "aliases": ["multiple sclerosis"]},  # "ms" is the same name
    ]


def test_the_command_writes_what_an_ontology_is_built_of(tmp_path: Path) -> None:
    mentions = [{"start": 0, "end": 2, "entity": "C1"}]
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": TEXT, "mentions": mentions})
    assert main([str(gold), "--out", str(tmp_path / "terms.jsonl")]) == 0
    assert json.loads((tmp_path / "terms.jsonl").read_text())["id"] == "C1"
    assert [entity.name for entity in build(tmp_path / "built", "jsonl", tmp_path / "terms.jsonl")] == ["MS"]
