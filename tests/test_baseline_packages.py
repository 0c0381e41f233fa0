"""What the peers read, and what becomes of their answers; the peers themselves are not run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.baselines import packages
from benchmarks.baselines.queries import Query, queries
from benchmarks.peers import quickumls_link, scispacy_link
from scipy import sparse

from kriss.evaluate.predictions import read_predictions, write_predictions
from kriss.ontology import Ontology
from kriss.records import Document, Entity, Span
from tests.conftest import build, write_jsonl

COLUMNS = "cui lat ts lui stt sui ispref aui saui scui sdui sab tty code str srl suppress cvf".split()
"""Those of MRCONSO, as QuickUMLS names them."""
TEXT = "Huntington disease (HD) and\nbreast  cancer."
DOCUMENT = Document(
    "7",
    TEXT,
    (
        Span(0, 18, ("D006816",), "Disease"),
        Span(20, 22, ("D006816",), "Disease"),
        Span(28, 42, ("D001943",), "Cancer"),
        Span(28, 42, ("D000000",), "Cancer"),
        Span(35, 42, (), "Cancer"),
    ),
)


@pytest.fixture(scope="module")
def ontology(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    folder = tmp_path_factory.mktemp("peers")
    rows = [
        {"id": "D006816", "name": "Huntington Disease", "aliases": ["HD", "Chorea | Huntington", "Béla's disease"]},
        {"id": "D001943", "name": "Breast Neoplasms", "aliases": ["breast cancer"]},
    ]
    return build(folder / "ontology", "jsonl", write_jsonl(folder / "names.jsonl", *rows))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_names_for_scispacy_are_all_there(ontology: Ontology, tmp_path: Path) -> None:
    packages.write_names(tmp_path / "names.jsonl", ontology)
    found = {row["concept_id"]: (row["canonical_name"], *row["aliases"]) for row in rows_of(tmp_path / "names.jsonl")}
    assert found == {entity.id: entity.names for entity in ontology}


def test_names_for_quickumls_are_all_there(ontology: Ontology, tmp_path: Path) -> None:
    packages.write_rrf(tmp_path, ontology)
    lines = (tmp_path / "MRCONSO.RRF").read_text(encoding="utf-8").splitlines()
    assert all(line.endswith("|") and line.count("|") == len(COLUMNS) for line in lines)
    rows = [dict(zip(COLUMNS, line.split("|"), strict=False)) for line in lines]
    expected = [(one.id, " ".join(name.replace("|", " ").split())) for one in ontology for name in one.names]
    assert [(row["cui"], row["str"]) for row in rows] == expected
    assert {(row["lat"], row["ispref"]) for row in rows} == {("ENG", "Y")}
    types = (tmp_path / "MRSTY.RRF").read_text(encoding="utf-8").splitlines()
    assert [line.split("|")[:2] for line in types] == [[entity.id, "T047"] for entity in ontology]


def test_a_name_that_an_entity_has_twice_is_written_once(tmp_path: Path) -> None:
    packages.write_rrf(tmp_path, [Entity("1", "Gout", ("gout", "Gout"))])
    assert len((tmp_path / "MRCONSO.RRF").read_text(encoding="utf-8").splitlines()) == 2


def test_mentions_tell_no_entity_and_come_once(tmp_path: Path) -> None:
    packages.write_mentions(tmp_path / "mentions.jsonl", queries([DOCUMENT, DOCUMENT]))
    rows = rows_of(tmp_path / "mentions.jsonl")
    assert rows == [{"surface": "Huntington disease"}, {"surface": "HD"}, {"surface": "breast cancer"}]


def of(count: int) -> list[Query]:
    """Return queries of one letter each."""
    return queries([Document("7", "x" * count, tuple(Span(at, at + 1, ("D0",)) for at in range(count)))])


def brute_force(candidates: list[dict[str, Any]], above: float) -> tuple[set[str], list[str]]:
    """Return the answer and the order of the entities: an entity is before another if any of its matches beats all."""

    def beats(one: str, other: str) -> bool:
        ours, theirs = ([(c["covered"], c["score"]) for c in candidates if c["entity"] == e] for e in (one, other))
        return any(all(a > b for b in theirs) for a in ours)

    entities = sorted({one["entity"] for one in candidates})
    order = sorted(entities, key=lambda one: (sum(beats(other, one) for other in entities), one))
    first = {one for one in entities if not any(beats(other, one) for other in entities)}
    top = [max((c["covered"], c["score"]) for c in candidates if c["entity"] == one)[1] for one in first]
    return first if top and top[0] > above else set(), order


def test_predictions_are_those_of_brute_force(tmp_path: Path) -> None:
    draw = random.Random(7)
    asked = of(300)
    answers = [
        [
            {
                "entity": f"D{draw.randrange(5)}",
                "score": draw.choice((0.5, 0.75, 1.0)),
                "covered": draw.choice((0.5, 1.0)),
                "name": "x",
            }
            for _ in range(draw.randrange(7))
        ]
        for _ in asked
    ]
    out = tmp_path / "predictions.jsonl.gz"
    assert write_predictions(out, packages.predictions(asked, answers, 0.5)) == 300
    found = read_predictions(out)
    for query, candidates in zip(asked, answers, strict=True):
        one = found[query.gold.key]
        answer, order = brute_force(candidates, 0.5)
        assert (set(one.entities), [scored.entity for scored in one.candidates]) == (answer, order)


def test_a_tie_stays_one_and_the_list_ends_at_64() -> None:
    asked = of(1)
    alike = [{"entity": f"D{n:03}", "score": 0.9 + n % 2 * 1e-8, "name": "x"} for n in range(70)]
    [one] = packages.predictions(asked, [alike])
    assert (len(one.entities), len(one.candidates)) == (70, 64)
    [none] = packages.predictions(asked, [[]])
    assert (none.entities, none.candidates) == ((), ())


def test_answers_must_be_as_many_as_queries() -> None:
    with pytest.raises(ValueError, match="zip"):
        list(packages.predictions(of(1), []))


def test_an_entity_of_quickumls_counts_by_the_match_that_covers_most() -> None:
    def match(cui: str, start: int, end: int, similarity: float) -> dict[str, Any]:
        return {"cui": cui, "start": start, "end": end, "similarity": similarity, "term": f"{start}-{end}"}

    groups = [
        [match("D1", 7, 13, 1.0), match("D2", 7, 13, 0.8)],
        [match("D1", 0, 13, 0.7), match("D1", 0, 13, 0.9), match("D3", 0, 13, 0.9)],
    ]
    rows = {row["entity"]: row for row in quickumls_link.candidates("breast cancer", groups)}
    assert {one: (row["covered"], row["score"], row["name"]) for one, row in rows.items()} == {
        "D1": (1.0, 0.9, "0-13"),
        "D2": (6 / 13, 0.8, "7-13"),
        "D3": (1.0, 0.9, "0-13"),
    }
    [one] = packages.predictions(of(1), [list(rows.values())])
    assert one.entities == ("D1", "D3")


def test_the_nearest_names_of_scispacy_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scispacy_link, "_QUERIES", 2)
    rng = np.random.default_rng(0)
    names, asked = (rng.random((rows, 6)) * (rng.random((rows, 6)) < 0.5) for rows in (40, 5))
    index = scispacy_link.ExactIndex(method="hnsw")
    index.addDataPointBatch(sparse.csr_matrix(names))
    index.createIndex({"M": 100}, print_progress=True)
    found = index.knnQueryBatch(sparse.csr_matrix(asked), k=7)
    assert len(found) == len(asked)
    for query, (places, distances) in zip(asked, found, strict=True):
        scores = names @ query
        expected = sorted((place for place in range(40) if scores[place]), key=lambda place: (-scores[place], place))[
            :7
        ]
        assert places.tolist() == expected
        np.testing.assert_allclose(distances, 1 - scores[expected])
