"""MeSH XML: descriptors, supplementary records, and the trees both stand in."""

from __future__ import annotations

from pathlib import Path

from kriss.ontology import Ontology
from kriss.records import Entity
from tests.conftest import FIXTURES, assert_acyclic, assert_complete, build, contents, gzipped


def record(ui: str, name: str, *trees: str) -> str:
    numbers = "".join(f"<TreeNumber>{tree}</TreeNumber>" for tree in trees)
    return (
        f"<DescriptorRecord><DescriptorUI>{ui}</DescriptorUI>\n"
        f"<DescriptorName><String>{name}</String></DescriptorName>\n"
        f"<TreeNumberList>{numbers}</TreeNumberList></DescriptorRecord>\n"
    )


def write_mesh(path: Path, *records: str) -> Path:
    path.write_text(f"<DescriptorRecordSet>\n{''.join(records)}</DescriptorRecordSet>\n", encoding="utf-8")
    return path


def test_a_descriptor_comes_out_whole(mesh: Ontology) -> None:
    assert mesh["D009369"] == Entity(
        "D009369",
        "Neoplasms",
        aliases=("Tumors", "Cancer"),
        types=("Neoplasms",),
        tree_numbers=("C04",),
        definition="New abnormal growth of tissue.",
    )


def test_parents_and_types_come_from_the_tree(mesh: Ontology) -> None:
    assert mesh["D002471"] == Entity(
        "D002471",
        "Cell Transformation, Neoplastic",
        types=("Neoplasms",),
        tree_numbers=("C04.697.098", "C04.200"),
        parents=("D009369",),
    )
    assert mesh["D001519"].types == ("F01",)  # whose owner is not in the file


def test_a_supplementary_record_inherits_trees(mesh: Ontology) -> None:
    assert mesh["C000001"] == Entity(
        "C000001",
        "aspirin lysinate",
        aliases=("β-lysinate & aspirin",),
        types=("Organic Chemicals",),
        tree_numbers=("D02.455",),
        definition="A salt of aspirin.",
        parents=("D001241",),
    )
    both = mesh["C000002"]
    assert both.parents == ("D001523", "D009369")
    assert set(both.tree_numbers) == {"C04", "F03"}
    assert set(both.types) == {"Neoplasms", "Mental Disorders"}


def test_a_descriptor_outside_all_trees_is_still_complete(mesh: Ontology) -> None:
    assert mesh["D005260"].tree_numbers
    assert_complete(mesh)


def test_named_subsets(tmp_path: Path, mesh: Ontology) -> None:
    sources = (FIXTURES / "desc.xml", FIXTURES / "supp.xml")
    disease = build(tmp_path / "disease", "mesh", *sources, types=("disease",))
    assert [entity.id for entity in disease] == ["C000002", "D001523", "D002471", "D009369"]
    chemical = build(tmp_path / "chemical", "mesh", *sources, types=("chemical",))
    assert [entity.id for entity in chemical] == ["C000001", "D001241", "D009930"]
    both = build(tmp_path / "both", "mesh", *sources, types=("disease", "chemical"))
    assert len(both) == 7
    assert list(mesh.subset("disease")) == list(disease)
    assert list(mesh.subset("chemical", "DISEASE")) == list(both)
    for ontology in (disease, chemical, both):
        assert_complete(ontology)


def test_supplementary_records_alone(tmp_path: Path) -> None:
    ontology = build(tmp_path / "out", "mesh", FIXTURES / "supp.xml")
    assert [entity.parents for entity in ontology] == [(), ()]
    assert_complete(ontology)


def test_gzipped_equals_plain(tmp_path: Path, mesh: Ontology) -> None:
    for name in ("desc.xml", "supp.xml"):
        (tmp_path / name).write_bytes((FIXTURES / name).read_bytes())
    built = build(tmp_path / "out", "mesh", gzipped(tmp_path / "desc.xml"), gzipped(tmp_path / "supp.xml"))
    assert list(built) == list(mesh)


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    build(tmp_path / "a", "mesh", FIXTURES / "desc.xml", FIXTURES / "supp.xml")
    build(tmp_path / "b", "mesh", FIXTURES / "supp.xml", FIXTURES / "desc.xml")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_two_trees_that_order_two_records_differently_make_no_cycle(tmp_path: Path) -> None:
    # Ethics is above Morals in one tree of MeSH and below it in another: that happens.
    source = write_mesh(
        tmp_path / "desc.xml", record("D1", "Ethics", "F01", "K01.200"), record("D2", "Morals", "F01.100", "K01")
    )
    ontology = build(tmp_path / "out", "mesh", source)
    assert_acyclic(ontology)
    assert_complete(ontology)


def test_many_records_are_all_read(tmp_path: Path) -> None:
    source = write_mesh(tmp_path / "desc.xml", *(record(f"D{i:06}", f"Name {i}", f"C{i:02}") for i in range(3000)))
    ontology = build(tmp_path / "out", "mesh", source)
    assert len(ontology) == 3000
    assert ontology["D002999"].name == "Name 2999"


def test_unicode_entities_and_bom(tmp_path: Path) -> None:
    source = tmp_path / "desc.xml"
    source.write_bytes(
        b"\xef\xbb\xbf"
        b'<?xml version="1.0"?>\r\n<DescriptorRecordSet>\r\n'
        + record("D1", "&#945;-Thalassemia &lt;x&gt; קדחת", "C01").replace("\n", "\r\n").encode()
        + b"</DescriptorRecordSet>\r\n"
    )
    assert build(tmp_path / "out", "mesh", source)["D1"].name == "α-Thalassemia <x> קדחת"
