"""Reading an ontology: lookups, names, subsets, search, threads and pickles, in one batch or many."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.errors import ConfigError, KrissError, UnknownEntityError, WrongKindError
from kriss.ontology import Ontology, arrowfile
from kriss.ontology.arrowfile import ArrowFile, KeyIndex, key_of, write_arrow
from kriss.ontology.info import describe, types
from kriss.records import Entity
from tests.conftest import build, by_id, write_jsonl


@pytest.fixture
def tiny_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches of four rows, so that small tables cross many of them."""
    monkeypatch.setattr(arrowfile, "_SHIFT", 2)
    monkeypatch.setattr(arrowfile, "_MASK", 3)
    monkeypatch.setattr(arrowfile, "BATCH", 4)


@pytest.fixture(scope="module")
def organs(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    """Return an ontology with shared names, two types, parents across them and retired ids."""
    folder = tmp_path_factory.mktemp("organs")
    source = write_jsonl(
        folder / "a.jsonl",
        {"id": "O:1", "name": "Body part", "types": ["Organ"]},
        {
            "id": "O:2",
            "name": "Heart",
            "aliases": ["Cor", "MS"],
            "types": ["Organ"],
            "parents": ["O:1"],
            "retired": ["O:22"],
        },
        {
            "id": "O:3",
            "name": "Heart attack",
            "aliases": ["MI"],
            "types": ["Disease"],
            "parents": ["O:2"],
            "retired": ["O:33"],
        },
        {"id": "O:4", "name": "Mitral stenosis", "aliases": ["MS", "MI"], "types": ["Disease"], "parents": ["O:2"]},
        {"id": "O:5", "name": "Scar", "types": ["Organ", "Disease"], "parents": ["O:3"], "definition": "A mark."},
    )
    return build(folder / "out", "jsonl", source)


# --- lookups ---------------------------------------------------------------------------------------


def test_lookup_by_id_and_retired_id(organs: Ontology) -> None:
    assert organs["O:2"].name == "Heart"
    assert organs["O:22"] == organs["O:2"]
    assert "O:22" in organs
    assert "O:404" not in organs
    assert "" not in organs
    assert 5 not in organs
    assert "\ud800" not in organs
    assert organs.retired() == {"O:22": "O:2", "O:33": "O:3"}


def test_unknown_id_is_a_key_error_and_ours(organs: Ontology) -> None:
    with pytest.raises(UnknownEntityError, match=r"^no entity 'O:404' in .*out$") as caught:
        organs["O:404"]
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, KrissError)
    with pytest.raises(UnknownEntityError):
        organs.path_to("O:404")


def test_iteration_length_and_repr(organs: Ontology) -> None:
    assert [entity.id for entity in organs] == ["O:1", "O:2", "O:3", "O:4", "O:5"]
    assert list(organs) == list(organs)
    assert len(organs) == 5
    assert "5 entities" in repr(organs)


def test_entities_named_is_exact(organs: Ontology) -> None:
    assert [entity.id for entity in organs.entities_named("MS")] == ["O:2", "O:4"]
    assert [entity.id for entity in organs.entities_named("Heart")] == ["O:2"]
    for text in ("ms", "heart", "Hear", "", "\ud800"):
        assert organs.entities_named(text) == []


def test_path_to(organs: Ontology) -> None:
    assert [entity.id for entity in organs.path_to("O:5")] == ["O:1", "O:2", "O:3", "O:5"]
    assert [entity.id for entity in organs.path_to("O:22")] == ["O:1", "O:2"]


def test_loading_something_else(tmp_path: Path, organs: Ontology) -> None:
    with pytest.raises(KrissError, match="does not exist"):
        Ontology.load(tmp_path / "nowhere")
    assert Ontology.load(str(organs.artifact.path))["O:1"].name == "Body part"
    assert issubclass(WrongKindError, KrissError)


# --- ambiguous names, against a Counter --------------------------------------------------------------


def ambiguous(ontology: Ontology) -> int:
    return describe(ontology)["names of several entities"]


def brute_ambiguous(entities: list[Entity]) -> int:
    owners = Counter(name for entity in entities for name in set(entity.names))
    return sum(count > 1 for count in owners.values())


def test_ambiguous_names(organs: Ontology) -> None:
    assert ambiguous(organs) == brute_ambiguous(list(organs)) == 2


# --- subsets -----------------------------------------------------------------------------------------


def test_a_subset_is_an_ontology_with_fewer_entities(organs: Ontology) -> None:
    disease = organs.subset("disease")
    assert [entity.id for entity in disease] == ["O:3", "O:4", "O:5"]
    assert len(disease) == 3
    assert "O:2" not in disease
    assert "O:22" not in disease
    assert disease["O:33"].name == "Heart attack"
    assert disease.retired() == {"O:33": "O:3"}
    assert disease["O:3"].parents == ()
    assert disease["O:5"].parents == ("O:3",)
    assert [entity.id for entity in disease.path_to("O:5")] == ["O:3", "O:5"]
    assert [entity.id for entity in disease.entities_named("MS")] == ["O:4"]
    assert disease.entities_named("Heart") == []
    assert [match.entity.id for match in disease.search("heart")] == ["O:3"]
    assert ambiguous(disease) == brute_ambiguous(list(disease)) == 1
    assert disease.names_table().num_rows == 6
    assert disease.entities_table().num_rows == 3
    with pytest.raises(UnknownEntityError):
        disease["O:2"]
    assert len(organs) == 5


def test_a_subset_of_a_subset_is_their_intersection(organs: Ontology) -> None:
    assert [entity.id for entity in organs.subset("Disease").subset("Organ")] == ["O:5"]
    assert [entity.id for entity in organs.subset("Disease", "Organ")] == [entity.id for entity in organs]


def test_a_subset_that_nothing_fits(organs: Ontology) -> None:
    with pytest.raises(ConfigError, match="did you mean 'Disease'"):
        organs.subset("Diseases")


def test_a_description_of_a_subset_counts_what_the_subset_has(organs: Ontology) -> None:
    for ontology in (organs, organs.subset("Disease"), organs.subset("Organ")):
        entities = list(ontology)
        found = describe(ontology)
        assert found["entities"] == len(entities)
        assert found["names"] == sum(len(entity.names) for entity in entities)
        assert ambiguous(ontology) == brute_ambiguous(entities)
        assert found["entities with aliases"] == sum(bool(entity.aliases) for entity in entities)
        assert found["entities with a definition"] == sum(bool(entity.definition) for entity in entities)
        assert found["distinct tree numbers"] == len({number for entity in entities for number in entity.tree_numbers})
        assert found["retired ids"] == len(ontology.retired())
        kinds = Counter(kind for entity in entities for kind in entity.types)
        assert found["types"] == len(kinds)
        assert dict(types(ontology)) == kinds
        assert found["entities with parents"] == sum(bool(entity.parents) for entity in entities)


# --- pickles, processes and threads --------------------------------------------------------------------


def test_pickling(organs: Ontology) -> None:
    for ontology in (organs, organs.subset("Disease")):
        raw = pickle.dumps(ontology)
        assert len(raw) < 10_000
        copy = pickle.loads(raw)
        assert list(copy) == list(ontology)
        assert copy.retired() == ontology.retired()


def test_a_pickle_opens_in_another_process(organs: Ontology, tmp_path: Path) -> None:
    (tmp_path / "pickle").write_bytes(pickle.dumps(organs.subset("Disease")))
    code = "import pickle, sys; print(*(e.id for e in pickle.load(open(sys.argv[1], 'rb'))))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "pickle")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["O:3", "O:4", "O:5"]


def test_use_from_several_threads(organs: Ontology) -> None:
    expected = by_id(organs)

    def work(seed: int) -> bool:
        choose = random.Random(seed)
        for _ in range(300):
            entity_id = choose.choice(list(expected))
            assert organs[entity_id] == expected[entity_id]
            assert len(organs.entities_named("MS")) == 2
        return len(organs.search("heart")) == 2

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_an_open_ontology_survives_its_replacement(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", {"id": "1", "name": "old"})
    opened = build(tmp_path / "out", "jsonl", source)
    newer = build(tmp_path / "out", "jsonl", write_jsonl(source, {"id": "1", "name": "new"}), force=True)
    assert opened["1"].name == "old"
    assert newer["1"].name == "new"


# --- search ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fevers(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    """Return an ontology of names that hold one word in ever looser ways."""
    folder = tmp_path_factory.mktemp("fevers")
    names = [
        "Unfevered",
        "Yellow fever",
        "fever dream",
        "FEVER",
        "Fever",
        "fe ver",
        "Sandfly-fever",
        "chill, then fever",
    ]
    objects: list[object] = [{"id": f"F:{index}", "name": name} for index, name in enumerate(names)]
    many = {"id": "F:9", "name": "cold", "aliases": [f"cold {i:04}" for i in range(400)], "retired": ["F:99"]}
    objects += [many, {"id": "F:10", "name": "a very cold thing"}, {"id": "cold", "name": "Named by its id"}]
    return build(folder / "out", "jsonl", write_jsonl(folder / "a.jsonl", *objects))


def test_search_ranks_the_closest_first(fevers: Ontology) -> None:
    found = [match.entity.name for match in fevers.search("Fever")]
    assert found == ["Fever", "FEVER", "fever dream", "Yellow fever", "Sandfly-fever", "chill, then fever", "Unfevered"]
    assert [match.entity.name for match in fevers.search("Fever", 2)] == found[:2]


def test_search_for_words_apart_and_for_odd_texts(fevers: Ontology) -> None:
    assert [match.entity.name for match in fevers.search("fever chill")] == ["chill, then fever"]
    assert [match.entity.name for match in fevers.search("  yellow   FEVER ")] == ["Yellow fever"]
    for text in ("", "   ", "nothing of it", ".*", "(", "fever dream x"):
        assert fevers.search(text) == []
    assert fevers.search("fever", 0) == []


def test_search_by_id_comes_first(fevers: Ontology) -> None:
    first, second, *_ = fevers.search("cold")
    assert (first.entity.id, first.matched) == ("cold", "cold")
    assert second.entity.id == "F:9"
    [retired] = fevers.search("F:99")
    assert (retired.entity.id, retired.matched) == ("F:9", "F:99")


def test_search_gives_each_entity_once_and_says_what_matched(organs: Ontology) -> None:
    [match] = organs.search("cor")
    assert (match.entity.id, match.matched) == ("O:2", "Cor")
    found = [match.entity.id for match in organs.search("m")]
    assert sorted(found) == ["O:2", "O:3", "O:4"]


def test_many_names_of_one_entity_do_not_hide_another(fevers: Ontology) -> None:
    assert [match.entity.id for match in fevers.search("cold", 3)] == ["cold", "F:9", "F:10"]


def test_search_in_other_scripts(tmp_path: Path) -> None:
    names = {"1": "β-Θαλασσαιμία", "2": "ГРИПП", "3": "קדחת", "4": "Ménière’s disease", "5": "naïve [T] cell (x)"}
    objects = [{"id": key, "name": name} for key, name in names.items()]
    ontology = build(tmp_path / "out", "jsonl", write_jsonl(tmp_path / "a.jsonl", *objects))
    for text, expected in {"θαλασσ": "1", "грипп": "2", "קדח": "3", "MÉNIÈRE": "4", "[t] CELL (": "5"}.items():
        assert [match.entity.id for match in ontology.search(text)] == [expected], text


def test_search_for_text_that_is_no_unicode(fevers: Ontology) -> None:
    assert fevers.search("\udcff") == []  # how a shell passes a byte that is not UTF-8


# --- files in many batches, against plain Python ---------------------------------------------------------


def test_key_of_is_duckdbs(tmp_path: Path) -> None:
    for text in ("", "a", "Heart", "β", "𝒟", "x" * 1000):
        [(expected,)] = duckdb.execute("SELECT md5_number_lower($1)", [text]).fetchall()
        assert key_of(text) == expected


@settings(max_examples=60)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), min_size=1, max_size=40))
def test_key_index_against_a_dict(tmp_path: Path, tiny_batches: None, texts: list[str]) -> None:
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(text, []).append(row)
    KeyIndex.write(tmp_path / "index", np.array([key_of(text) for text in texts], dtype=np.uint64))
    index = KeyIndex(tmp_path / "index")
    for text, expected in rows.items():
        assert sorted(index.rows(text)) == expected
    for other in ("missing", "not there", "another", "zzzz"):
        assert index.rows(other) == []


@settings(max_examples=60)
@given(keys=st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_key_index_with_long_runs_of_one_key(
    tmp_path_factory: pytest.TempPathFactory, tiny_batches: None, keys: list[int]
) -> None:
    path = tmp_path_factory.mktemp("index") / "index"
    words = ["a", "b", "c", "d"]
    KeyIndex.write(path, np.array([key_of(words[key]) for key in keys], dtype=np.uint64))
    index = KeyIndex(path)
    for key, word in enumerate(words):
        assert sorted(index.rows(word)) == [row for row, other in enumerate(keys) if other == key]


_CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(_CELLS, st.lists(_CELLS, max_size=3), st.lists(st.integers(-9, 9), max_size=3)), max_size=30
    ),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_arrow_file_against_a_list(
    tmp_path: Path, tiny_batches: None, rows: list[tuple[str, list[str], list[int]]], cuts: list[int]
) -> None:
    schema = pa.schema(
        [
            ("text", pa.large_string()),
            ("several", pa.large_list(pa.large_string())),
            ("numbers", pa.large_list(pa.int32())),
            ("row", pa.int64()),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        for start, stop in pairwise(edges):
            some = rows[start:stop]
            columns = [
                [row[0] for row in some],
                [row[1] for row in some],
                [row[2] for row in some],
                list(range(start, stop)),
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    path = tmp_path / "table.arrow"
    assert write_arrow(path, schema, batches()) == len(rows)
    file = ArrowFile(path)
    assert len(file) == len(rows)
    assert all(chunk.num_rows == 4 for chunk in file.table.to_batches()[:-1])
    text, several, numbers, number = (
        file.strings("text"),
        file.lists("several"),
        file.lists("numbers"),
        file.numbers("row"),
    )
    for index, (one, many, ints) in enumerate(rows):
        assert text[index] == one
        assert several[index] == tuple(many)
        assert numbers[index] == tuple(ints)
        assert number[index] == index


def test_the_bytes_of_a_file_do_not_depend_on_how_its_rows_came(tmp_path: Path, tiny_batches: None) -> None:
    schema = pa.schema([("text", pa.large_string())])
    whole = pa.RecordBatch.from_arrays([pa.array([f"row {i}" for i in range(23)], pa.large_string())], schema=schema)
    for size in (1, 3, 4, 7, 23):
        parts = [whole.slice(start, size) for start in range(0, 23, size)]
        write_arrow(tmp_path / f"{size}", schema, parts)
    assert len({(tmp_path / f"{size}").read_bytes() for size in (1, 3, 4, 7, 23)}) == 1


def test_a_whole_ontology_in_tiny_batches(tmp_path: Path, tiny_batches: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kriss.ontology.assemble._CHUNK", 3)
    choose = random.Random(7)
    entities = [
        Entity(
            f"E:{i:03}",
            f"name {choose.randrange(40)}",
            tuple(dict.fromkeys(f"alias {choose.randrange(60)}" for _ in range(choose.randrange(4)))),
            (choose.choice(["Cell", "Organ"]),),
            (f"A{i:03}",),
            choose.choice(["", "text"]),
            tuple(sorted({f"E:{choose.randrange(i):03}" for _ in range(2)})) if i else (),
            tuple(f"X:{n}" for n in range(choose.randrange(3))),
        )
        for i in range(60)
    ]
    rows = [
        {name: getattr(entity, name) for name in Entity.__slots__} | {"retired": [f"old {entity.id}"]}
        for entity in entities
    ]
    ontology = build(tmp_path / "out", "jsonl", write_jsonl(tmp_path / "a.jsonl", *rows))
    assert list(ontology) == entities
    assert ambiguous(ontology) == brute_ambiguous(entities)
    for entity in entities:
        assert ontology[entity.id] == ontology[f"old {entity.id}"] == entity
    for name in {name for entity in entities for name in entity.names}:
        assert ontology.entities_named(name) == [entity for entity in entities if name in entity.names]
    cells = ontology.subset("Cell")
    kept = {entity.id for entity in entities if entity.types == ("Cell",)}
    assert {entity.id for entity in cells} == kept
    for entity in cells:
        assert entity.parents == tuple(parent for parent in ontology[entity.id].parents if parent in kept)
    assert ambiguous(cells) == brute_ambiguous(list(cells))
    assert [match.entity.id for match in ontology.search("name 7", 50)]


@given(
    names=st.lists(st.lists(st.sampled_from("ABCDEFG"), min_size=1, max_size=4, unique=True), min_size=1, max_size=8)
)
def test_random_ambiguous_names(tmp_path_factory: pytest.TempPathFactory, names: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("names")
    objects = [{"id": str(index), "name": one[0], "aliases": one[1:]} for index, one in enumerate(names)]
    ontology = build(folder / "out", "jsonl", write_jsonl(folder / "a.jsonl", *objects))
    assert ambiguous(ontology) == brute_ambiguous(list(ontology))
    for text in "ABCDEFGH":
        assert [entity.id for entity in ontology.entities_named(text)] == [
            str(index) for index, one in enumerate(names) if text in one
        ]
