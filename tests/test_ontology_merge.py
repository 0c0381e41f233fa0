"""Enriching one ontology by another through exact xrefs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kriss.errors import ConfigError, NotAnArtifactError
from kriss.ontology import Ontology, OntologyConfig, build_ontology
from tests.conftest import assert_acyclic, assert_complete, build, contents, write_jsonl, write_obo


def ours(folder: Path, *objects: dict[str, object]) -> Path:
    return write_jsonl(folder / "ours.jsonl", *objects)


def theirs(folder: Path, *frames: str, name: str = "theirs") -> Path:
    build(folder / name, "obo", write_obo(folder / f"{name}.obo", *frames))
    return folder / name


def merged(folder: Path, source: Path, *others: Path, on: tuple[str, ...] = ("MESH",), **options: Any) -> Ontology:
    return build(folder / "out", "jsonl", source, merge_with=others, merge_on=on, **options)


def test_names_definitions_and_parents_are_added(tmp_path: Path) -> None:
    source = ours(
        tmp_path,
        {"id": "D1", "name": "Neoplasms", "aliases": ["Tumors"], "types": ["Disease"]},
        {"id": "D2", "name": "Glioma", "definition": "Ours.", "types": ["Disease"], "xrefs": ["OMIM:1"]},
        {"id": "D3", "name": "Untouched", "types": ["Disease"]},
    )
    other = theirs(
        tmp_path,
        'id: MO:1\nname: neoplasm\nsynonym: "Tumors" EXACT []\nsynonym: "growth" EXACT []\n'
        'def: "Theirs of one." []\nxref: MESH:D1',
        'id: MO:2\nname: Glioma\ndef: "Theirs of two." []\nxref: mesh:D2\nxref: UMLS:C1\nis_a: MO:1',
        "id: MO:4\nname: nowhere else\nxref: MESH:D4",
    )
    found = merged(tmp_path, source, other)
    assert len(found) == 3
    assert found["D1"].names == ("Neoplasms", "Tumors", "neoplasm", "growth")
    assert found["D1"].definition == "Theirs of one."
    assert found["D2"].names == ("Glioma",)
    assert found["D2"].definition == "Ours."
    assert found["D2"].parents == ("D1",)
    assert found["D2"].xrefs == ("OMIM:1", "UMLS:C1")  # one to itself says nothing
    assert found["D3"].names == ("Untouched",)
    assert found["D3"].parents == ()
    assert {entity.types for entity in found} == {("Disease",)}
    assert_complete(found)


def test_parents_are_found_past_entities_that_do_not_match(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "top"}, {"id": "D2", "name": "bottom"})
    other = theirs(
        tmp_path,
        "id: MO:1\nname: a\nxref: MESH:D1",
        "id: MO:2\nname: b\nis_a: MO:1",
        "id: MO:3\nname: c\nis_a: MO:2",
        "id: MO:4\nname: d\nxref: MESH:D2\nis_a: MO:3",
    )
    assert merged(tmp_path, source, other)["D2"].parents == ("D1",)


def test_one_that_matches_several_of_ours_is_left_out(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"}, {"id": "D2", "name": "two"})
    other = theirs(
        tmp_path,
        'id: MO:1\nname: both\nxref: MESH:D1\nxref: MESH:D2\ndef: "x" []',
        "id: MO:2\nname: only two\nxref: MESH:D2\nis_a: MO:1",
    )
    config = OntologyConfig(format="jsonl", merge_on=("MESH",))
    report = build_ontology(config, (source,), tmp_path / "out", merge_with=(other,))
    found = Ontology.load(tmp_path / "out")
    assert found["D1"].names == ("one",)
    assert found["D2"].names == ("two", "only two")
    assert found["D1"].definition == found["D2"].definition == ""
    assert any("1 match several entities" in note for note in report.notes)


def test_several_of_theirs_may_match_one_of_ours(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"})
    other = theirs(
        tmp_path,
        "id: MO:1\nname: uno\nxref: MESH:D1",
        'id: MO:3\nname: een\nxref: MESH:D1\ndef: "Third." []',
        'id: MO:2\nname: eins\nxref: MESH:D1\nis_a: MO:1\ndef: "Second." []',
    )
    found = merged(tmp_path, source, other)
    assert found["D1"].name == "one"
    assert found["D1"].definition == "Second."  # of those that have one, the first by id
    assert set(found["D1"].aliases) == {"uno", "eins", "een"}
    assert found["D1"].parents == ()


def test_no_cycle_comes_of_a_merge(tmp_path: Path) -> None:
    source = ours(
        tmp_path,
        {"id": "D1", "name": "one"},
        {"id": "D2", "name": "two", "parents": ["D1"]},
        {"id": "D3", "name": "three", "parents": ["D2"]},
    )
    other = theirs(
        tmp_path,
        "id: MO:3\nname: c\nxref: MESH:D3",
        "id: MO:1\nname: a\nxref: MESH:D1\nis_a: MO:3",
        "id: MO:2\nname: b\nxref: MESH:D2\nis_a: MO:3",
    )
    found = merged(tmp_path, source, other)
    assert {entity.id: entity.parents for entity in found} == {"D1": (), "D2": ("D1",), "D3": ("D2",)}
    assert_acyclic(found)


def test_a_merged_edge_on_no_cycle_is_kept_beside_one_that_is(tmp_path: Path) -> None:
    source = ours(
        tmp_path,
        {"id": "D1", "name": "one"},
        {"id": "D2", "name": "two", "parents": ["D1"]},
        {"id": "D3", "name": "three"},
        {"id": "D4", "name": "four", "parents": ["D3"]},
    )
    other = theirs(  # turns both pairs round, and puts the first below the second
        tmp_path,
        "id: MO:4\nname: d\nxref: MESH:D4",
        "id: MO:3\nname: c\nxref: MESH:D3\nis_a: MO:4",
        "id: MO:2\nname: b\nxref: MESH:D2\nis_a: MO:3",
        "id: MO:1\nname: a\nxref: MESH:D1\nis_a: MO:2",
    )
    found = merged(tmp_path, source, other)
    assert_acyclic(found)
    assert found["D2"].parents == ("D1", "D3")


def test_match_by_our_xref_and_by_their_own_id(tmp_path: Path) -> None:
    source = ours(
        tmp_path, {"id": "X:1", "name": "one", "xrefs": ["MESH:D1"]}, {"id": "X:2", "name": "two", "xrefs": ["D2"]}
    )
    build(
        tmp_path / "theirs",
        "jsonl",
        write_jsonl(tmp_path / "t.jsonl", {"id": "D1", "name": "uno"}, {"id": "D2", "name": "dos"}),
    )
    found = merged(tmp_path, source, tmp_path / "theirs")
    assert found["X:1"].names == ("one", "uno")
    assert found["X:2"].names == ("two",)


def test_other_prefixes_do_not_match(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"}, {"id": "D2", "name": "two"})
    other = theirs(tmp_path, "id: MO:1\nname: uno\nxref: OMIM:D1", "id: MO:2\nname: dos\nxref: DOID:D2")
    assert merged(tmp_path, source, other, on=("MESH", "DOID"))["D1"].names == ("one",)
    assert Ontology.load(tmp_path / "out")["D2"].names == ("two", "dos")


def test_a_retired_id_matches_and_keeps_parents_right(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D2", "name": "top", "retired": ["D1"]}, {"id": "D3", "name": "bottom"})
    other = theirs(tmp_path, "id: MO:1\nname: summit\nxref: MESH:D1", "id: MO:2\nname: foot\nxref: MESH:D3\nis_a: MO:1")
    found = merged(tmp_path, source, other)
    assert found["D2"].names == ("top", "summit")
    assert found["D3"].parents == ("D2",)


def test_two_merges_in_one_build(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"})
    first = theirs(tmp_path, 'id: A:1\nname: uno\nxref: MESH:D1\ndef: "First." []', name="first")
    second = theirs(tmp_path, 'id: B:1\nname: eins\nxref: MESH:D1\ndef: "Second." []', name="second")
    found = merged(tmp_path, source, first, second)
    assert found["D1"].name == "one"
    assert set(found["D1"].aliases) == {"uno", "eins"}
    assert found["D1"].definition == "First."


def test_merging_with_a_bad_row_skipped(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"}, {"id": "D1", "name": "one again"})
    other = theirs(tmp_path, "id: MO:1\nname: uno\nxref: MESH:D1")
    found = merged(tmp_path, source, other, skip_bad_rows=True)
    assert found["D1"].names == ("one", "uno")


def test_types_found_by_a_merged_hierarchy_are_complete(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"}, {"id": "D2", "name": "two"}, {"id": "D3", "name": "alone"})
    other = theirs(tmp_path, "id: MO:1\nname: a\nxref: MESH:D1", "id: MO:2\nname: b\nxref: MESH:D2\nis_a: MO:1")
    assert_complete(merged(tmp_path, source, other))


def test_merging_twice_gives_the_same_bytes_and_records_its_input(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"}, {"id": "D2", "name": "two"})
    other = theirs(tmp_path, "id: MO:1\nname: a\nxref: MESH:D1", "id: MO:2\nname: b\nxref: MESH:D2\nis_a: MO:1")
    merged(tmp_path, source, other)
    first = contents(tmp_path / "out")
    again = build(tmp_path / "again", "jsonl", source, merge_with=(other,), merge_on=("MESH",))
    assert contents(tmp_path / "again") == first
    assert {item["name"] for item in again.artifact.inputs} == {"ours.jsonl", "theirs"}


def test_merge_and_on_go_together(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"})
    with pytest.raises(ConfigError, match="--merge and --on go together"):
        build(tmp_path / "out", "jsonl", source, merge_on=("MESH",))
    with pytest.raises(ConfigError, match="--merge and --on go together"):
        build(tmp_path / "out", "jsonl", source, merge_with=(tmp_path,))
    with pytest.raises(NotAnArtifactError, match="nowhere"):
        merged(tmp_path, source, tmp_path / "nowhere")


def test_the_union_keeps_what_matches_nothing(tmp_path: Path) -> None:
    source = ours(
        tmp_path,
        {"id": "D1", "name": "one", "types": ["Disease"]},
        {"id": "D2", "name": "two"},
        {"id": "MO:5", "name": "five"},
    )
    other = theirs(
        tmp_path,
        "id: MO:1\nname: first\nxref: MESH:D1",
        'id: MO:2\nname: new\nsynonym: "newer" EXACT []\ndef: "Theirs." []\nxref: OMIM:7\nis_a: MO:1',
        "id: MO:3\nname: newest\nis_a: MO:2\nis_a: MO:4",
        "id: MO:4\nname: both\nxref: MESH:D1\nxref: MESH:D2\nis_a: MO:1",
        "id: MO:5\nname: an id of ours",
    )  # fmt: skip
    found = merged(tmp_path, source, other, keep_unmatched=True)
    assert [entity.id for entity in found] == ["D1", "D2", "MO:2", "MO:3", "MO:5"]
    assert found["MO:2"].names == ("new", "newer")
    assert found["MO:2"].definition == "Theirs."
    assert found["MO:2"].xrefs == ("OMIM:7",)
    assert found["MO:2"].parents == ("D1",)  # MO:1 is D1 here
    assert found["MO:3"].parents == ("D1", "MO:2")  # past MO:4, which matched two
    assert found["MO:5"].names == ("five",)
    assert_complete(found)
    assert_acyclic(found)


def test_what_types_leave_out_of_a_union_is_said(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one", "types": ["Disease"]}, {"id": "D2", "name": "two"})
    other = theirs(
        tmp_path, "id: MO:1\nname: first\nxref: MESH:D1", "id: MO:2\nname: a kind\nis_a: MO:1", "id: MO:3\nname: far"
    )
    config = OntologyConfig(format="jsonl", merge_on=("MESH",), keep_unmatched=True, types=("Disease",))
    report = build_ontology(config, (source,), tmp_path / "out", merge_with=(other,))
    kept = [entity.id for entity in Ontology.load(tmp_path / "out")]
    assert "D1" in kept
    assert "MO:3" not in kept
    assert f"{4 - len(kept)} entities are of other types than Disease and were left out" in report.notes


def test_a_union_needs_something_to_unite(tmp_path: Path) -> None:
    source = ours(tmp_path, {"id": "D1", "name": "one"})
    with pytest.raises(ConfigError, match="--keep-unmatched says what to do with the entities of --merge"):
        build(tmp_path / "out", "jsonl", source, keep_unmatched=True)


def test_names_match_what_no_xref_does(tmp_path: Path) -> None:
    source = write_jsonl(
        tmp_path / "ours.jsonl",
        {"id": "D1", "name": "Cardiomegaly", "aliases": ["Heart Enlargement"]},
        {"id": "D2", "name": "Seizures", "aliases": ["fit", "Shared"]},
        {"id": "D3", "name": "Ataxia", "aliases": ["shared"]},
    )
    other = write_jsonl(
        tmp_path / "theirs.jsonl",
        {"id": "H:1", "name": "heart enlargement", "aliases": ["big heart"]},
        {"id": "H:2", "name": "SHARED", "aliases": ["of two"]},
        {"id": "H:3", "name": "fits of all sorts", "aliases": ["Seizures"]},  # an alias does not match
        {"id": "H:4", "name": "ataxia", "aliases": ["by its xref"], "xrefs": ["MESH:D2"]},
    )
    build(tmp_path / "theirs", "jsonl", other)
    found = merged(tmp_path, source, tmp_path / "theirs", on=("MESH", "name"))
    assert found["D1"].names == ("Cardiomegaly", "Heart Enlargement", "big heart")
    assert found["D2"].names == ("Seizures", "fit", "Shared", "by its xref")  # ataxia is another's
    assert found["D3"].names == ("Ataxia", "shared")
    plain = build(tmp_path / "plain", "jsonl", source, merge_with=(tmp_path / "theirs",), merge_on=("MESH",))
    assert plain["D1"].names == ("Cardiomegaly", "Heart Enlargement")


def test_two_names_that_agree_match_what_the_preferred_name_does_not(tmp_path: Path) -> None:
    source = write_jsonl(
        tmp_path / "ours.jsonl",
        {"id": "D1", "name": "Doxorubicin", "aliases": ["Rubex", "Adria"]},
        {"id": "D2", "name": "Ethanol", "aliases": ["Alcohol", "Spirit", "SPIRIT"]},
    )
    other = write_jsonl(
        tmp_path / "theirs.jsonl",
        {"id": "P:1", "name": "adriblastin", "aliases": ["rubex", "RUBEX", "DOXORUBICIN"]},
        {"id": "P:2", "name": "wood spirit", "aliases": ["spirit", "Spirit"]},  # one name, however often, is too few
        {"id": "P:3", "name": "a mixture", "aliases": ["doxorubicin", "adria", "ethanol"]},  # of two of ours
        {"id": "P:4", "name": "alcohol", "aliases": ["booze", "rubex", "adria"]},  # by its preferred name, as with NAME
        {"id": "P:5", "name": "bottled", "aliases": ["rubex", "adria"], "xrefs": ["MESH:D2"]},  # by its xref first
        {"id": "P:6", "name": "of each one", "aliases": ["adria", "spirit"]},  # so of none
    )
    build(tmp_path / "theirs", "jsonl", other)
    found = merged(tmp_path, source, tmp_path / "theirs", on=("MESH", "names"))
    assert found["D1"].names == ("Doxorubicin", "Rubex", "Adria", "adriblastin")
    assert found["D2"].names == ("Ethanol", "Alcohol", "Spirit", "SPIRIT", "bottled", "booze")
    with_theirs = (tmp_path / "theirs",)
    union = build(
        tmp_path / "union", "jsonl", source, merge_with=with_theirs, merge_on=("MESH", "NAMES"), keep_unmatched=True
    )
    assert {entity.id for entity in union} == {"D1", "D2", "P:2", "P:6"}  # what matches several is none of them
    plain = build(tmp_path / "plain", "jsonl", source, merge_with=with_theirs, merge_on=("NAME",))
    assert plain["D1"].names == ("Doxorubicin", "Rubex", "Adria")


def test_a_merged_name_that_differs_in_case_alone_is_not_taken_over(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "ours.jsonl", {"id": "D1", "name": "Ataxia", "aliases": ["ataxia", "ATM Disease"]})
    for number, names in enumerate((("ATAXIA", "Gait Ataxia"), ("gait ataxia", "atm disease", "Unsteady Gait"))):
        file = write_jsonl(
            tmp_path / f"{number}.jsonl",
            {"id": f"H:{number}", "name": names[0], "aliases": names[1:], "xrefs": ["MESH:D1"]},
        )
        build(tmp_path / f"other{number}", "jsonl", file)
    both = build(
        tmp_path / "out", "jsonl", source, merge_with=(tmp_path / "other0", tmp_path / "other1"), merge_on=("MESH",)
    )
    # our own spellings stay as they are; of merged ones the first of each
    assert both["D1"].names == ("Ataxia", "ataxia", "ATM Disease", "Gait Ataxia", "Unsteady Gait")


def test_a_merged_name_makes_no_name_of_ours_ambiguous(tmp_path: Path) -> None:
    source = write_jsonl(
        tmp_path / "ours.jsonl",
        {"id": "D1", "name": "Coma"},
        {"id": "D2", "name": "Apraxia", "aliases": ["Coma Syndrome"]},
        {"id": "D3", "name": "Stupor", "aliases": ["coma syndrome"]},  # ours are left as they are
    )
    other = write_jsonl(
        tmp_path / "theirs.jsonl",
        {"id": "M:2", "name": "ocular apraxia", "aliases": ["COMA", "eye sign", "new"], "xrefs": ["MESH:D2"]},
        {"id": "M:3", "name": "stupor", "aliases": ["New"], "xrefs": ["MESH:D3"]},
    )
    build(tmp_path / "theirs", "jsonl", other)
    found = merged(tmp_path, source, tmp_path / "theirs", on=("MESH",))
    assert found["D2"].names == ("Apraxia", "Coma Syndrome", "ocular apraxia", "eye sign", "new")
    assert found["D3"].names == ("Stupor", "coma syndrome", "New")  # new to both: the source says so of both


def test_what_is_merged_next_may_match_by_xrefs_of_what_was_merged_before(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "ours.jsonl", {"id": "D1", "name": "Kidney Diseases"})
    between = write_jsonl(
        tmp_path / "between.jsonl", {"id": "M:1", "name": "kidney disorder", "xrefs": ["UMLS:C1", "MESH:D1"]}
    )
    last = write_jsonl(tmp_path / "last.jsonl", {"id": "H:1", "name": "Nephropathy", "xrefs": ["UMLS:C1", "UMLS:C2"]})
    build(tmp_path / "between", "jsonl", between)
    build(tmp_path / "last", "jsonl", last)
    both = (tmp_path / "between", tmp_path / "last")
    found = build(tmp_path / "out", "jsonl", source, merge_with=both, merge_on=("MESH", "UMLS"))
    assert found["D1"].names == ("Kidney Diseases", "kidney disorder", "Nephropathy")
    assert found["D1"].xrefs == ("UMLS:C1", "UMLS:C2")
