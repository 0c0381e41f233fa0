"""TSV, CSV, JSON lines and dictionaries; and random entities that go through each format unchanged."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.errors import ConfigError, InputError
from kriss.ontology import Ontology
from kriss.records import Entity
from tests.conftest import (
    FIXTURES,
    assert_acyclic,
    assert_complete,
    build,
    by_id,
    conso,
    contents,
    gzipped,
    mrcui,
    mrdef,
    rel,
    sty,
    write_jsonl,
    write_meta,
    write_obo,
    write_tsv,
)

HEART = Entity("X:1", "Heart", ("Cor", "cardiac organ"), ("Organ",), ("A07",), "It pumps.", (), ("UMLS:C0018787",))
VALVE = Entity("X:2", "Heart Valve", (), ("Organ", "Tissue"), ("A07.541", "A07.542"), "", ("X:1",))


@pytest.mark.parametrize("name", ["table.tsv", "table.jsonl"])
def test_every_field_comes_out_as_it_went_in(tmp_path: Path, name: str) -> None:
    ontology = build(tmp_path / "out", name.rpartition(".")[2], FIXTURES / name)
    assert list(ontology) == [HEART, VALVE]
    assert ontology.retired() == {"X:9": "X:1"}
    assert_complete(ontology)


def test_csv_with_quotes_and_mapped_columns(tmp_path: Path) -> None:
    columns = {"id": "code", "name": "label", "aliases": "other names", "types": "kind"}
    ontology = build(tmp_path / "out", "tsv", FIXTURES / "table.csv", columns=columns, separators={"aliases": ";"})
    assert ontology["11"].names == ("Valve, mitral", "bicuspid valve", '"left" valve')
    assert ontology["12"].types == ("Vessel",)
    assert_complete(ontology)


def test_jsonl_columns_and_separators(tmp_path: Path) -> None:
    source = write_jsonl(
        tmp_path / "a.jsonl", {"code": 7, "label": "Seven", "syn": "VII; sept"}, {"code": 8, "label": "Eight"}
    )
    columns = {"id": "code", "name": "label", "aliases": "syn"}
    ontology = build(tmp_path / "out", "jsonl", source, columns=columns, separators={"aliases": ";"})
    assert [entity.names for entity in ontology] == [("Seven", "VII", "sept"), ("Eight",)]
    assert [entity.id for entity in ontology] == ["7", "8"]


def test_second_headers_are_found_unless_another_column_is_named(tmp_path: Path) -> None:
    header = ("id", "name", "synonyms", "type", "description", "kind")
    source = write_tsv(tmp_path / "a.tsv", header, ("1", "One", "I|uno", "Number", "The first.", "Digit"))
    assert build(tmp_path / "a", "tsv", source)["1"] == Entity(
        "1", "One", ("I", "uno"), ("Number",), ("1",), "The first."
    )
    assert build(tmp_path / "b", "tsv", source, columns={"types": "kind"})["1"].types == ("Digit",)


def test_a_table_with_another_delimiter(tmp_path: Path) -> None:
    source = write_tsv(tmp_path / "a.txt", ("id", "name", "aliases"), ("1", '"a;b"', "x|y"), delimiter=";")
    assert build(tmp_path / "out", "tsv", source, delimiter=";")["1"].names == ("a;b", "x", "y")


def test_quotation_marks_in_tsv_are_only_that_unless_they_enclose_a_cell(tmp_path: Path) -> None:
    header = ("id", "name", "aliases")
    rows = [
        ("1", '"Heart', 'the "pump"|5\' end'),
        ("2", '"a ""b""\tc"', '"x|y"'),
        ("3", '"A', 'B"'),
        ("4", 'a"', '"b"c'),
    ]
    ontology = build(tmp_path / "out", "tsv", write_tsv(tmp_path / "a.tsv", header, *rows))
    assert ontology["1"].names == ('"Heart', 'the "pump"', "5' end")
    assert ontology["2"].names == ('a "b" c', "x", "y")
    assert ontology["3"].names == ('"A', 'B"')
    assert ontology["4"].names == ('a"', '"b"c')


def test_zero_is_an_id(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", {"id": 0, "name": "zero"}, {"id": 1, "name": 1.5, "aliases": [0]})
    found = build(tmp_path / "out", "jsonl", source)
    assert {entity.id: entity.names for entity in found} == {"0": ("zero",), "1": ("1.5", "0")}


def test_a_field_under_its_own_name_wins_over_its_second_name(tmp_path: Path) -> None:
    rows = [{"id": "1", "name": "a", "aliases": ["own"], "synonyms": ["second"]}]
    rows.append({"id": "2", "name": "b", "synonyms": ["second"], "aliases": ["own"]})
    found = build(tmp_path / "out", "jsonl", write_jsonl(tmp_path / "a.jsonl", *rows))
    assert [entity.aliases for entity in found] == [("own",), ("own",)]


def test_csv_cell_over_several_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,name,definition\r\n1,Heart,"It\r\npumps"\r\n2,Lung,\r\n')
    ontology = build(tmp_path / "out", "tsv", tmp_path / "a.csv")
    assert [(entity.name, entity.definition) for entity in ontology] == [("Heart", "It pumps"), ("Lung", "")]


def test_gzipped_tables(tmp_path: Path) -> None:
    for name in ("table.tsv", "table.jsonl", "table.csv"):
        shutil.copy(FIXTURES / name, tmp_path / name)
    assert list(build(tmp_path / "a", "tsv", gzipped(tmp_path / "table.tsv"))) == [HEART, VALVE]
    assert list(build(tmp_path / "b", "jsonl", gzipped(tmp_path / "table.jsonl"))) == [HEART, VALVE]
    columns = {"id": "code", "name": "label"}
    assert len(build(tmp_path / "c", "tsv", gzipped(tmp_path / "table.csv"), columns=columns)) == 2


def test_blank_lines_bom_and_windows_ends(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbfid\tname\r\n\r\n1\tOne\r\n\r\n")
    assert [entity.names for entity in build(tmp_path / "a", "tsv", tmp_path / "a.tsv")] == [("One",)]
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "1", "name": "One"}\r\n\r\n{"id": "2", "name": "Two"}')
    assert len(build(tmp_path / "b", "jsonl", tmp_path / "a.jsonl")) == 2
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf1||One\r\n\r\n2||Two\r\n")
    ontology = build(tmp_path / "c", "dictionary", tmp_path / "a.txt")
    assert [entity.names for entity in ontology] == [("One",), ("Two",)]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,name\r\n1,One\r\n\r\n")
    assert [entity.id for entity in build(tmp_path / "d", "tsv", tmp_path / "a.csv")] == ["1"]


NAMES = {
    "right-to-left": "קדחת ים תיכונית",
    "arabic": "داء السكري",
    "greek": "β-Θαλασσαιμία",
    "combining": "e\u0301te\u0301",
    "composed": "été",
    "astral": "𝒟isease 🫀",
    "joiner": "a\u200db",
    "quotes": '5\'-"end" `x`',
    "backslash": "a\\tb\\u0000",
    "brackets": "[/red] {x} <b>&amp;",
    "long": "ab " * 333_333 + "c",
}


def write_names(folder: Path, kind: str) -> Path:
    """Write one entity for each of the names, which has it with an x before it as an alias."""
    rows = [(key, name, f"x {name}") for key, name in NAMES.items()]
    header = ("id", "name", "aliases")
    if kind == "tsv":
        return write_tsv(folder / "a.tsv", header, *rows)
    if kind == "jsonl":
        return write_jsonl(folder / "a.jsonl", *({"id": key, "name": name, "aliases": [x]} for key, name, x in rows))
    if kind == "csv":
        with (folder / "a.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *rows])
        return folder / "a.csv"
    if kind == "dictionary":
        (folder / "a.txt").write_text("".join(f"{key}||{name}|{x}\n" for key, name, x in rows), encoding="utf-8")
        return folder / "a.txt"
    names = [row for key, name, x in rows for row in (conso(key, name), conso(key, x, ts="S"))]
    return write_meta(folder / "META", MRCONSO=names, MRSTY=[sty(key) for key in NAMES])


@pytest.mark.parametrize("kind", ["tsv", "jsonl", "csv", "dictionary", "umls"])
def test_names_of_every_script_in_every_format(tmp_path: Path, kind: str) -> None:
    ontology = build(tmp_path / "out", "tsv" if kind == "csv" else kind, write_names(tmp_path, kind))
    assert len(ontology) == len(NAMES)
    for key, name in NAMES.items():
        assert ontology[key].names == (name, f"x {name}"), key
        assert [entity.id for entity in ontology.entities_named(name)] == [key]
        assert ontology.entities_named(f"y {name}") == []


def test_pipes_in_names_where_the_format_allows(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", {"id": "1", "name": "a|b", "aliases": ["c|d", "||"]})
    assert build(tmp_path / "a", "jsonl", source)["1"].names == ("a|b", "c|d", "||")
    table = write_tsv(tmp_path / "a.tsv", ("id", "name", "aliases"), ("1", "a|b", "c|d;e"))
    ontology = build(tmp_path / "b", "tsv", table, separators={"aliases": ";"})
    assert ontology["1"].names == ("a|b", "c|d", "e")


def test_a_text_about_nul_is_not_a_nul(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "name": "the escape \\\\u0000 \\u00e9"}\n')
    assert build(tmp_path / "out", "jsonl", tmp_path / "a.jsonl")["1"].name == "the escape \\u0000 é"


def test_a_list_where_one_text_belongs_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", {"id": "1", "name": ["Heart", "Cor"]})
    with pytest.raises(InputError, match=r"a\.jsonl:1: .*name"):
        build(tmp_path / "out", "jsonl", source)


@pytest.mark.parametrize("value", [{"a": 1}, [["nested"]], [{"a": 1}], [None]])
def test_nested_json_is_refused(tmp_path: Path, value: object) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", {"id": "1", "name": "x", "aliases": value})
    with pytest.raises(InputError, match=r"a\.jsonl:1: the field 'aliases' holds neither text nor a list"):
        build(tmp_path / "out", "jsonl", source)


def test_names_are_cleaned_and_repeated_ones_dropped(tmp_path: Path) -> None:
    row = {
        "id": " 1 ",
        "name": " Heart  \n valve ",
        "aliases": ["Heart valve", "", "  ", "b", "b"],
        "types": [" T ", "T"],
    }
    entity = build(tmp_path / "out", "jsonl", write_jsonl(tmp_path / "a.jsonl", row))["1"]
    assert entity.names == ("Heart valve", "b")
    assert entity.types == ("T",)


def test_unknown_fields_and_missing_columns(tmp_path: Path) -> None:
    source = FIXTURES / "table.tsv"
    with pytest.raises(ConfigError, match="'label' is not a field; the fields are id, name"):
        build(tmp_path / "out", "tsv", source, columns={"label": "name"})
    with pytest.raises(ConfigError, match="'label' is not a field"):
        build(tmp_path / "out", "jsonl", FIXTURES / "table.jsonl", separators={"label": ";"})
    with pytest.raises(InputError, match=r"table\.tsv:1: there is no column 'Kind' for the field 'types'"):
        build(tmp_path / "out", "tsv", source, columns={"types": "Kind"})
    with pytest.raises(ConfigError, match="delimiter must be one character"):
        build(tmp_path / "out", "tsv", source, delimiter="::")
    with pytest.raises(ConfigError, match=r"[Ss]eparator"):
        build(tmp_path / "out", "tsv", source, separators={"aliases": ""})


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    one = write_tsv(tmp_path / "1.tsv", ("id", "name", "parents"), ("b", "B", "a"), ("d", "D", ""))
    two = write_tsv(tmp_path / "2.tsv", ("name", "id"), ("A", "a"), ("C", "c"))
    build(tmp_path / "x", "tsv", one, two)
    build(tmp_path / "y", "tsv", two, one)
    assert contents(tmp_path / "x") == contents(tmp_path / "y")


def test_each_table_must_have_its_own_id_column(tmp_path: Path) -> None:
    one = write_tsv(tmp_path / "1.tsv", ("id", "name"), ("a", "A"))
    two = write_tsv(tmp_path / "2.tsv", ("code", "name"), ("b", "B"))
    with pytest.raises(InputError, match=r"2\.tsv:1: there is no column 'id'"):
        build(tmp_path / "out", "tsv", one, two)


def test_types_without_trees_or_parents_give_a_place(tmp_path: Path) -> None:
    source = write_tsv(
        tmp_path / "a.tsv", ("id", "name", "types"), ("1", "a", "Organ"), ("2", "b", "Cell"), ("3", "c", "")
    )
    ontology = build(tmp_path / "out", "tsv", source, default_type="Thing")
    assert [entity.types for entity in ontology] == [("Organ",), ("Cell",), ("Thing",)]
    assert ontology["1"].tree_numbers != ontology["2"].tree_numbers
    assert_complete(ontology)


def test_nothing_but_ids_and_names(tmp_path: Path) -> None:
    source = write_tsv(tmp_path / "a.tsv", ("id", "name"), ("1", "a"), ("2", "b"))
    ontology = build(tmp_path / "out", "tsv", source)
    assert [entity.types for entity in ontology] == [("Entity",)] * 2
    assert_complete(ontology)


def test_some_with_trees_some_with_parents_some_alone(tmp_path: Path) -> None:
    header = ("id", "name", "tree_numbers", "parents")
    rows = [
        ("1", "top", "C", ""),
        ("2", "sub", "C.1", ""),
        ("3", "by parent", "", "2"),
        ("4", "deep", "", "3"),
        ("5", "x", "", ""),
    ]
    ontology = build(tmp_path / "out", "tsv", write_tsv(tmp_path / "a.tsv", header, *rows))
    assert ontology["2"].parents == ("1",)
    assert ontology["4"].tree_numbers == ontology["3"].tree_numbers == ("C.1",)
    assert ontology["4"].types == ("top",)
    assert_complete(ontology)


def test_parents_against_the_order_of_the_tree_make_no_cycle(tmp_path: Path) -> None:
    header = ("id", "name", "tree_numbers", "parents")
    source = write_tsv(tmp_path / "a.tsv", header, ("A", "a", "C01", "B"), ("B", "b", "C01.1", ""))
    ontology = build(tmp_path / "out", "tsv", source)
    assert ontology["A"].parents == ("B",)  # what the source says outright
    assert_acyclic(ontology)


def test_dictionary(tmp_path: Path) -> None:
    ontology = build(tmp_path / "out", "dictionary", FIXTURES / "dictionary.txt")
    assert {entity.id: entity.names for entity in ontology} == {
        "D001241": ("aspirin",),
        "D009369": ("neoplasm", "tumour", "cancer"),
    }
    assert ontology.retired() == {"C04999": "D009369"}
    assert_complete(ontology)


def test_dictionary_over_several_files_and_ids_that_are_primary_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("A|B||first\n")
    (tmp_path / "2.txt").write_text("B||second\nA||third\n")
    ontology = build(tmp_path / "out", "dictionary", tmp_path / "1.txt", tmp_path / "2.txt")
    assert {entity.id: entity.names for entity in ontology} == {"A": ("first", "third"), "B": ("second",)}
    assert ontology.retired() == {}


def test_table_of_retired_ids(tmp_path: Path) -> None:
    (tmp_path / "retired.tsv").write_text("old_id\tnew_id\tnote\nX:7\tX:8\t\nX:8\tX:2\tmerged\nX:5\tX:404\t\n\n")
    ontology = build(tmp_path / "out", "tsv", FIXTURES / "table.tsv", retired=tmp_path / "retired.tsv")
    assert ontology.retired() == {"X:7": "X:2", "X:8": "X:2", "X:9": "X:1"}


def test_a_retired_id_with_two_successors_takes_the_live_one(tmp_path: Path) -> None:
    (tmp_path / "retired.tsv").write_text("X:7\tA:404\nX:7\tX:2\n")
    ontology = build(tmp_path / "out", "tsv", FIXTURES / "table.tsv", retired=tmp_path / "retired.tsv")
    assert ontology["X:7"].id == "X:2"


# --- what goes in comes out, for random entities -------------------------------------------------

_TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), exclude_characters="|\ufeff"),
    min_size=1,
    max_size=6,
)
_WORDS = st.lists(_TEXT, min_size=1, max_size=3).map(" ".join)


@st.composite
def entity_lists(draw: st.DrawFn) -> list[Entity]:
    """Draw entities whose parents come later in the list, so that is-a has no cycle."""
    ids = draw(st.lists(_TEXT.map(lambda text: f"I{text}"), min_size=1, max_size=6, unique=True))
    found = []
    for index, entity_id in enumerate(ids):
        names = draw(st.lists(_WORDS, min_size=1, max_size=4, unique=True))
        later = ids[index + 1 :]
        numbers = st.from_regex(r"[A-Z][0-9]{2}(\.[0-9]{3}){0,2}", fullmatch=True)
        found.append(
            Entity(
                entity_id,
                names[0],
                tuple(names[1:]),
                tuple(draw(st.lists(_WORDS, min_size=1, max_size=2, unique=True))),
                tuple(draw(st.lists(numbers, min_size=1, max_size=2, unique=True))),
                draw(st.one_of(st.just(""), _WORDS)),
                tuple(sorted(draw(st.lists(st.sampled_from(later), unique=True, max_size=2)))) if later else (),
                tuple(draw(st.lists(_TEXT, max_size=2, unique=True))),
            )
        )
    return found


def given_parents(ontology: Ontology, entities: list[Entity]) -> dict[str, Entity]:
    """What came out, with the parents that were inferred from tree numbers taken off."""
    silent = {entity.id for entity in entities if not entity.parents}
    return {key: replace(one, parents=() if key in silent else one.parents) for key, one in by_id(ontology).items()}


def as_row(entity: Entity) -> dict[str, Any]:
    return {name: getattr(entity, name) for name in Entity.__slots__}


def _as_a_spreadsheet_would(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if cell.startswith('"') else cell


@given(entities=entity_lists())
def test_random_entities_through_tsv(tmp_path_factory: pytest.TempPathFactory, entities: list[Entity]) -> None:
    folder = tmp_path_factory.mktemp("tsv")
    cells = [[value if isinstance(value, str) else "|".join(value) for value in as_row(e).values()] for e in entities]
    source = write_tsv(folder / "a.tsv", Entity.__slots__, *(map(_as_a_spreadsheet_would, row) for row in cells))
    assert given_parents(build(folder / "out", "tsv", source), entities) == by_id(entities)


@given(entities=entity_lists(), escaped=st.booleans())
def test_random_entities_through_jsonl(
    tmp_path_factory: pytest.TempPathFactory, entities: list[Entity], escaped: bool
) -> None:
    folder = tmp_path_factory.mktemp("jsonl")
    source = folder / "a.jsonl"
    if escaped:
        source.write_text("".join(json.dumps(as_row(entity)) + "\n" for entity in entities))
    else:
        write_jsonl(source, *map(as_row, entities))
    assert given_parents(build(folder / "out", "jsonl", source), entities) == by_id(entities)


@given(entities=entity_lists())
def test_random_entities_through_rrf(tmp_path_factory: pytest.TempPathFactory, entities: list[Entity]) -> None:
    folder = tmp_path_factory.mktemp("rrf")
    meta = write_meta(
        folder / "META",
        MRCONSO=[
            conso(entity.id, text, tty=f"T{index}") for entity in entities for index, text in enumerate(entity.names)
        ],
        MRRANK=[f"{100 - index:04}|MSH|T{index}|N|" for index in range(5)],
        MRSTY=[
            sty(entity.id, f"T{index}{kind}", number, kind)
            for entity in entities
            for index, (kind, number) in enumerate(_padded(entity))
        ],
        MRDEF=[mrdef(entity.id, entity.definition) for entity in entities if entity.definition]
        or [mrdef("nobody", "has this")],
        MRREL=[rel(entity.id, "PAR", parent) for entity in entities for parent in entity.parents]
        or [rel("nobody", "PAR", "no one")],
        MRCUI=[mrcui("nobody", "SY", "no one")],
    )
    found = build(folder / "out", "umls", meta)
    assert list(found) == [
        Entity(*(getattr(entity, name) for name in Entity.__slots__[:-1]))  # all but xrefs, which RRF has not
        for entity in sorted(entities, key=lambda entity: entity.id)
    ]


def _padded(entity: Entity) -> list[tuple[str, str]]:
    """Pair types with tree numbers, the last of the shorter repeated."""
    count = max(len(entity.types), len(entity.tree_numbers))
    kinds, numbers = (
        [values[min(index, len(values) - 1)] for index in range(count)]
        for values in (entity.types, entity.tree_numbers)
    )
    return list(zip(kinds, numbers, strict=True))


@given(entities=entity_lists())
def test_random_names_through_a_dictionary(tmp_path_factory: pytest.TempPathFactory, entities: list[Entity]) -> None:
    folder = tmp_path_factory.mktemp("dictionary")
    lines = (f"{entity.id}||{name}\n" for entity in entities for name in entity.names)
    (folder / "a.txt").write_text("".join(lines), encoding="utf-8")
    found = build(folder / "out", "dictionary", folder / "a.txt")
    assert {entity.id: entity.names for entity in found} == {entity.id: entity.names for entity in entities}
    assert_complete(found)


def test_the_same_input_gives_the_same_bytes_for_every_format(tmp_path: Path) -> None:
    obo = write_obo(tmp_path / "a.obo", "id: X:1\nname: a", "id: X:2\nname: b\nis_a: X:1\nalt_id: X:3")
    sources: dict[str, tuple[Path, ...]] = {
        "umls": (FIXTURES / "META",),
        "mesh": (FIXTURES / "desc.xml", FIXTURES / "supp.xml"),
        "obo": (obo,),
        "tsv": (FIXTURES / "table.tsv",),
        "jsonl": (FIXTURES / "table.jsonl",),
        "dictionary": (FIXTURES / "dictionary.txt",),
    }
    for kind, paths in sources.items():
        moved = tmp_path / f"copy of {kind}"
        moved.mkdir()
        copies = []
        for path in paths:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, moved / path.name)
            copies.append(moved / path.name)
        build(tmp_path / "1" / kind, kind, *paths)
        build(tmp_path / "2" / kind, kind, *copies)
        assert contents(tmp_path / "1" / kind) == contents(tmp_path / "2" / kind), kind
        assert_complete(Ontology.load(tmp_path / "1" / kind))
