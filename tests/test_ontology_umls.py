"""UMLS: every field of the RRF files comes out, and each filter leaves out what it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kriss.errors import ConfigError
from kriss.ontology import Ontology
from kriss.ontology.subsets import SUBSETS
from kriss.records import Entity
from tests.conftest import (
    FIXTURES,
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
    write_meta,
)

DISEASE: dict[str, Any] = {"types": ("Disease or Syndrome",), "tree_numbers": ("B2.2.1.2.1",)}
NEOPLASM: dict[str, Any] = {"types": ("Neoplastic Process",), "tree_numbers": ("B2.2.1.2.1.2",)}


def names(ontology: Ontology) -> dict[str, tuple[str, ...]]:
    return {entity.id: entity.names for entity in ontology}


def test_the_miniature_comes_out_whole(umls: Ontology) -> None:
    assert list(umls) == [
        Entity(
            "C0004057",
            "Aspirin",
            ("Acetylsalicylic Acid", "acetylsalicylic acid"),
            ("Organic Chemical", "Pharmacologic Substance"),
            ("A1.4.1.2.1", "A1.4.1.1.1"),
            "A MeSH text about aspirin.",
        ),
        Entity(
            "C0006826",
            "Malignant Neoplasm",
            ("Cancer",),
            definition="A tumour that invades.",
            parents=("C0027651",),
            **NEOPLASM,
        ),
        Entity("C0026269", "Mitral Valve Stenosis", ("MS",), **DISEASE),
        Entity("C0026769", "Multiple Sclerosis", ("MS",), **DISEASE),
        Entity("C0027651", "Neoplasms", **NEOPLASM),
    ]
    assert_complete(umls)


def test_retired_cuis_lead_along_a_chain_to_a_live_one(umls: Ontology) -> None:
    assert umls.retired() == {"C0999001": "C0004057", "C0999002": "C0004057"}
    assert umls["C0999001"].name == "Aspirin"
    assert "C0999003" not in umls  # deleted
    assert "C0999004" not in umls  # broader is not the same


def test_long_chains_loops_and_dead_ends_of_retired_cuis(tmp_path: Path) -> None:
    chain = [mrcui(f"C9{i:06}", "SY", f"C9{i + 1:06}") for i in range(60)]
    loop = [
        mrcui("C8000001", "SY", "C8000002"),
        mrcui("C8000002", "SY", "C8000001"),
        mrcui("C8000003", "SY", "C8000003"),
    ]
    nowhere = [mrcui("C7000001", "SY", "C7000002"), mrcui("C0000001", "SY", "C0000002")]
    meta = write_meta(
        tmp_path / "META",
        MRCONSO=[conso("C9000060", "End"), conso("C0000001", "Live after all"), conso("C0000002", "Other")],
        MRSTY=[sty("C9000060")],
        MRCUI=chain + loop + nowhere,
    )
    ontology = build(tmp_path / "out", "umls", meta)
    assert ontology.retired() == {f"C9{i:06}": "C9000060" for i in range(60)}
    assert ontology["C0000001"].name == "Live after all"


def test_languages(tmp_path: Path) -> None:
    french = build(tmp_path / "fre", "umls", FIXTURES / "META", languages=("FRE",))
    assert names(french) == {"C0026769": ("Sclérose en plaques",), "C0030193": ("Douleur",)}
    both = build(tmp_path / "both", "umls", FIXTURES / "META", languages=("ENG", "SPA"))
    assert set(both["C0004057"].names) == {"Aspirin", "Acetylsalicylic Acid", "acetylsalicylic acid", "Aspirina"}
    everything = build(tmp_path / "all", "umls", FIXTURES / "META", languages=("all",))
    assert len(everything) == 6
    assert everything["C0027651"].definition == "Un texte en français."


def test_definitions_of_a_vocabulary_left_out_are_left_out(tmp_path: Path) -> None:
    only = build(tmp_path / "nci", "umls", FIXTURES / "META", sources=("NCI",))
    assert names(only) == {"C0004057": ("acetylsalicylic acid",), "C0006826": ("Malignant Neoplasm", "Cancer")}
    assert only["C0004057"].definition == "An NCI text about aspirin."


def test_the_18_vocabularies_of_st21pv(tmp_path: Path) -> None:
    rows = [conso("C0000001", "Kept", sab="HPO"), conso("C0000002", "Left out", sab="CHV")]
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[sty("C0000001"), sty("C0000002")])
    assert names(build(tmp_path / "out", "umls", meta, sources=("st21pv",))) == {"C0000001": ("Kept",)}
    both = build(tmp_path / "both", "umls", meta, sources=("st21pv", "CHV"))
    assert len(both) == 2


def test_relations_of_a_vocabulary_left_out_are_left_out(tmp_path: Path) -> None:
    meta = write_meta(
        tmp_path / "META",
        MRCONSO=[conso("C0000001", "A"), conso("C0000002", "B"), conso("C0000003", "C")],
        MRSTY=[sty("C0000001")],
        MRREL=[rel("C0000001", "PAR", "C0000002", sab="NCI"), rel("C0000001", "PAR", "C0000003", sab="MSH")],
    )
    assert build(tmp_path / "msh", "umls", meta, sources=("MSH",))["C0000001"].parents == ("C0000003",)
    assert build(tmp_path / "all", "umls", meta)["C0000001"].parents == ("C0000002", "C0000003")


def test_suppressed_and_obsolete_rows(tmp_path: Path) -> None:
    obsolete = build(tmp_path / "o", "umls", FIXTURES / "META", keep_obsolete=True)
    assert "ASA-old" in obsolete["C0004057"].aliases
    assert obsolete["C0006826"].aliases == ("Cancer",)
    suppressed = build(tmp_path / "s", "umls", FIXTURES / "META", keep_suppressed=True)
    assert "ASA-old" not in suppressed["C0004057"].aliases
    assert set(suppressed["C0006826"].aliases) == {"Cancer", "Malignancy, NOS"}
    assert suppressed["C0026769"].definition == "A suppressed text."


def test_an_entity_with_only_suppressed_names_is_left_out(tmp_path: Path) -> None:
    rows = [
        conso("C0000001", "Live"),
        conso("C0000002", "Hidden", suppress="Y"),
        conso("C0000003", "Old", suppress="O"),
    ]
    types = [sty("C0000001"), sty("C0000002"), sty("C0000003")]
    relations = [rel("C0000001", "PAR", "C0000002")]
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=types, MRREL=relations)
    ontology = build(tmp_path / "out", "umls", meta)
    assert names(ontology) == {"C0000001": ("Live",)}
    assert ontology["C0000001"].parents == ()


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("T191", {"C0006826", "C0027651"}),
        ("t191", {"C0006826", "C0027651"}),
        ("Neoplastic Process", {"C0006826", "C0027651"}),
        ("neoplastic process", {"C0006826", "C0027651"}),
        ("B2.2.1.2.1.2", {"C0006826", "C0027651"}),
        ("B2.2.1.2.1", {"C0006826", "C0027651", "C0026269", "C0026769"}),
        ("Disease or Syndrome", {"C0026269", "C0026769"}),
        ("T047", {"C0026269", "C0026769"}),
        ("A", {"C0004057"}),
        ("A1.4.1", {"C0004057"}),
        ("T121", {"C0004057"}),
        ("st21pv", {"C0004057", "C0006826", "C0026269", "C0026769", "C0027651"}),
    ],
)
def test_types_by_code_name_and_tree(umls: Ontology, selector: str, expected: set[str]) -> None:
    assert {entity.id for entity in umls.subset(selector)} == expected
    assert_complete(umls.subset(selector))


@pytest.mark.parametrize("selector", ["t191", "Disease or Syndrome", "B2.2.1.2.1", "st21pv"])
def test_a_build_of_some_types_equals_the_subset(umls: Ontology, tmp_path: Path, selector: str) -> None:
    built = build(tmp_path / "out", "umls", FIXTURES / "META", types=(selector,))
    assert list(built) == list(umls.subset(selector))


def test_several_type_selectors_add_up(tmp_path: Path) -> None:
    built = build(tmp_path / "out", "umls", FIXTURES / "META", types=("T109", "T047"))
    assert {entity.id for entity in built} == {"C0004057", "C0026269", "C0026769"}
    assert built["C0004057"].types == ("Organic Chemical", "Pharmacologic Substance")


def test_a_tree_prefix_stops_at_a_dot(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no entity has the type or tree number 'B2\.2\.1\.2\.1\.'"):
        build(tmp_path / "out", "umls", FIXTURES / "META", types=("B2.2.1.2.1.",))
    with pytest.raises(ConfigError, match="did you mean 'Neoplastic Process'"):
        build(tmp_path / "out", "umls", FIXTURES / "META", types=("Neoplastic Proces",))
    assert not (tmp_path / "out").exists()


def test_st21pv_takes_its_types_and_those_below_only(tmp_path: Path) -> None:
    inside = {"T005": "A1.1.4", "T023": "A1.2.3.1", "T204": "A1.1.3", "T201": "A2.3.1", "T195": "A1.4.1.1.1.1"}
    outside = {
        "T194": "A1.1.1",
        "T071": "A",
        "T078": "A2.1",
        "T079": "A2.1.1",
        "T051": "B",
        "T052": "B1",
        "T032": "A2.3",
    }
    rows = [(f"C{code}", code, stn) for code, stn in (inside | outside).items()]
    meta = write_meta(
        tmp_path / "META",
        MRCONSO=[conso(cui, f"name of {code}") for cui, code, _ in rows],
        MRSTY=[sty(cui, code, stn, f"type {code}") for cui, code, stn in rows],
    )
    built = build(tmp_path / "out", "umls", meta, types=("st21pv",))
    assert {entity.id for entity in built} == {f"C{code}" for code in inside}
    assert len(set(SUBSETS["st21pv"])) == 21


def test_preferred_name_by_mrrank_over_ts_stt_ispref(tmp_path: Path) -> None:
    rows = [
        conso("C0000001", "By status", sab="NCI", tty="SY"),
        conso("C0000001", "By rank", sab="MSH", tty="MH", ts="S", stt="VO", ispref="N"),
    ]
    tables = {"MRCONSO": rows, "MRSTY": [sty("C0000001")]}
    without = write_meta(tmp_path / "without" / "META", **tables)
    ranked = write_meta(tmp_path / "ranked" / "META", **tables, MRRANK=["0500|MSH|MH|N|", "0400|NCI|SY|N|"])
    assert build(tmp_path / "a", "umls", without)["C0000001"].names == ("By status", "By rank")
    assert build(tmp_path / "b", "umls", ranked)["C0000001"].names == ("By rank", "By status")


def test_preferred_name_by_status_when_ranks_tie(tmp_path: Path) -> None:
    rows = [
        conso("C0000001", "d", ts="S", stt="VO", ispref="N"),
        conso("C0000001", "c", ts="S", stt="PF", ispref="N"),
        conso("C0000001", "b", ts="P", stt="VO", ispref="Y"),
        conso("C0000001", "z", ts="P", stt="PF", ispref="Y"),
        conso("C0000001", "a", ts="P", stt="PF", ispref="N"),
    ]
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[sty("C0000001")], MRRANK=["0400|MSH|MH|N|"])
    assert build(tmp_path / "out", "umls", meta)["C0000001"].names == ("z", "a", "b", "c", "d")


def test_the_rank_of_a_suppressed_row_is_its_own(tmp_path: Path) -> None:
    rows = [conso("C0000001", "Suppressed", suppress="Y"), conso("C0000001", "Plain", sab="NCI")]
    ranks = ["0500|MSH|MH|N|", "0400|NCI|MH|N|", "0010|MSH|MH|Y|"]
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[sty("C0000001")], MRRANK=ranks)
    ontology = build(tmp_path / "out", "umls", meta, keep_suppressed=True)
    assert ontology["C0000001"].names == ("Plain", "Suppressed")


def test_the_same_string_from_several_vocabularies_is_one_name(tmp_path: Path) -> None:
    rows = [
        conso("C0000001", "Fever"),
        conso("C0000001", "Fever", sab="NCI", ts="S"),
        conso("C0000001", "fever", ts="S"),
    ]
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[sty("C0000001")])
    assert build(tmp_path / "out", "umls", meta)["C0000001"].names == ("Fever", "fever")


@pytest.mark.parametrize(
    ("row", "child"),
    [
        (rel("C0000001", "PAR", "C0000002"), "C0000001"),
        (rel("C0000001", "CHD", "C0000002"), "C0000002"),
        (rel("C0000001", "PAR", "C0000002", "inverse_isa"), "C0000001"),
        (rel("C0000001", "CHD", "C0000002", "isa"), "C0000002"),
        (rel("C0000001", "RB", "C0000002", "inverse_isa"), "C0000001"),
        (rel("C0000001", "RN", "C0000002", "isa"), "C0000002"),
        (rel("C0000001", "RO", "C0000002", "part_of"), ""),
        (rel("C0000001", "RB", "C0000002"), ""),
        (rel("C0000001", "PAR", "C0000002", suppress="O"), ""),
        (rel("C0000001", "PAR", "C0000001"), ""),
    ],
)
def test_directions_of_is_a(tmp_path: Path, row: str, child: str) -> None:
    meta = write_meta(
        tmp_path / "META",
        MRCONSO=[conso("C0000001", "A"), conso("C0000002", "B")],
        MRSTY=[sty("C0000001"), sty("C0000002")],
        MRREL=[row],
    )
    found = {entity.id: entity.parents for entity in build(tmp_path / "out", "umls", meta)}
    other = {"C0000001": "C0000002", "C0000002": "C0000001"}
    assert found == {cui: (other[cui],) if cui == child else () for cui in other}


def test_choice_of_the_definition(tmp_path: Path) -> None:
    meta = write_meta(
        tmp_path / "META",
        MRCONSO=[conso(f"C000000{i}", f"n{i}", sab=sab) for i, sab in enumerate(["MSH", "NCI", "HPO", "CSP"])],
        MRSTY=[sty("C0000000")],
        MRDEF=[
            mrdef("C0000000", "from CSP", sab="CSP"),
            mrdef("C0000000", "from NCI", sab="NCI"),
            mrdef("C0000000", "from MeSH", sab="MSH"),
            mrdef("C0000001", "from NCI", sab="NCI"),
            mrdef("C0000001", "from CSP", sab="CSP"),
            mrdef("C0000002", "from HPO", sab="HPO"),
            mrdef("C0000002", "from CSP", sab="CSP"),
            mrdef("C0000003", "   ", sab="MSH"),
            mrdef("C0000003", " kept ", sab="HPO"),
            mrdef("C9999999", "of nobody", sab="MSH"),
        ],
    )
    found = [entity.definition for entity in build(tmp_path / "out", "umls", meta)]
    assert found == ["from MeSH", "from NCI", "from CSP", "kept"]


def test_white_space_is_cleaned_as_in_every_format(tmp_path: Path) -> None:
    dirty = "  heart \t valve\u00a0\u3000disease \u000b"
    meta = write_meta(
        tmp_path / "META",
        MRCONSO=[conso("C0000001", dirty)],
        MRSTY=[sty("C0000001")],
        MRDEF=[mrdef("C0000001", dirty)],
    )
    entity = build(tmp_path / "out", "umls", meta)["C0000001"]
    assert entity.name == "heart valve disease"
    assert entity.definition == "heart valve disease"


def test_an_entity_without_a_type_row(tmp_path: Path) -> None:
    meta = write_meta(
        tmp_path / "META", MRCONSO=[conso("C0000001", "A"), conso("C0000002", "B")], MRSTY=[sty("C0000001")]
    )
    ontology = build(tmp_path / "out", "umls", meta, default_type="Unknown")
    assert ontology["C0000002"].types == ("Unknown",)
    assert_complete(ontology)


def test_gzipped_equals_plain(tmp_path: Path) -> None:
    packed = tmp_path / "META"
    packed.mkdir()
    for file in (FIXTURES / "META").iterdir():
        copy = packed / file.name
        copy.write_bytes(file.read_bytes())
        gzipped(copy)
        copy.unlink()
    build(tmp_path / "gz", "umls", packed)
    build(tmp_path / "plain", "umls", FIXTURES / "META")
    first, second = contents(tmp_path / "gz"), contents(tmp_path / "plain")
    assert {name: data for name, data in first.items() if name != "manifest.json"} == {
        name: data for name, data in second.items() if name != "manifest.json"
    }


def test_the_folder_above_meta_and_single_files(umls: Ontology, tmp_path: Path) -> None:
    assert list(build(tmp_path / "a", "umls", FIXTURES)) == list(umls)
    files = sorted((FIXTURES / "META").iterdir(), reverse=True)
    assert list(build(tmp_path / "b", "umls", *files)) == list(umls)


def test_only_the_two_required_files(tmp_path: Path) -> None:
    meta = write_meta(tmp_path / "META", MRCONSO=[conso("C0000001", "A")], MRSTY=[sty("C0000001")])
    assert list(build(tmp_path / "out", "umls", meta)) == [Entity("C0000001", "A", **DISEASE)]


def test_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    rows = (FIXTURES / "META" / "MRCONSO.RRF").read_text().splitlines()
    types = (FIXTURES / "META" / "MRSTY.RRF").read_text().splitlines()
    one = build(tmp_path / "a", "umls", write_meta(tmp_path / "1" / "META", MRCONSO=rows, MRSTY=types))
    two = build(tmp_path / "b", "umls", write_meta(tmp_path / "2" / "META", MRCONSO=rows[::-1], MRSTY=types))
    assert by_id(one) == by_id(two)


def test_windows_line_ends_and_a_last_line_without_end(tmp_path: Path, umls: Ontology) -> None:
    for name, end in (("crlf", "\r\n"), ("bare", "\n")):
        folder = tmp_path / name / "META"
        folder.mkdir(parents=True)
        for file in (FIXTURES / "META").iterdir():
            text = file.read_text(encoding="utf-8").removesuffix("\n").replace("\n", end)
            (folder / file.name).write_bytes(text.encode())
        assert list(build(tmp_path / f"{name}-out", "umls", folder)) == list(umls)
