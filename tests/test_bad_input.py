"""Bad input: one line that says what and where, status 1, and nothing written."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kriss.cli import run
from kriss.ontology import Ontology
from tests.conftest import (
    FIXTURES,
    Fails,
    conso,
    contents,
    mrcui,
    mrdef,
    rel,
    sty,
    write_jsonl,
    write_meta,
    write_obo,
    write_tsv,
)
from tests.test_ontology_mesh import record, write_mesh

GOOD = {
    "MRCONSO": [conso("C0000001", "One"), conso("C0000002", "Two"), conso("C0000003", "Three")],
    "MRSTY": [sty("C0000001"), sty("C0000002"), sty("C0000003")],
    "MRDEF": [mrdef("C0000001", "Text."), mrdef("C0000002", "Text.")],
    "MRREL": [rel("C0000001", "PAR", "C0000002"), rel("C0000003", "PAR", "C0000002")],
    "MRCUI": [mrcui("C0000008", "SY", "C0000001"), mrcui("C0000009", "SY", "C0000002")],
    "MRRANK": ["0400|MSH|MH|N|", "0300|NCI|PT|N|"],
}


def damage(folder: Path, table: str, change: Callable[[bytes], bytes]) -> Path:
    """Write a good META folder with one file changed."""
    meta = write_meta(folder / "META", **GOOD)
    file = meta / f"{table}.RRF"
    file.write_bytes(change(file.read_bytes()))
    return meta


def second_line(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def apply(content: bytes) -> bytes:
        lines = content.split(b"\n")
        lines[1] = change(lines[1])
        return b"\n".join(lines)

    return apply


LINE_DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "too few columns": (lambda line: line[line.index(b"|") + 1 :], "columns where"),
    "too many columns": (lambda line: line + b"extra|", "columns where"),
    "blank line": (lambda line: b"", "columns where"),
    "bad UTF-8": (lambda line: b"\xff" + line, "byte 1 of the line is not UTF-8"),
    "NUL byte": (lambda line: b"\0" + line, "NUL"),
}


# --- UMLS ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        *(("too few columns", table) for table in GOOD),
        *((kind, "MRCONSO") for kind in LINE_DAMAGE),
        ("NUL byte", "MRSTY"),
    ],
)
def test_umls_line(tmp_path: Path, fails: Fails, kind: str, table: str) -> None:
    change, message = LINE_DAMAGE[kind]
    meta = damage(tmp_path, table, second_line(change))
    line = fails("umls", meta)
    assert f"{table}.RRF:2: " in line
    assert message in line
    assert "--skip-bad-rows" in line


def test_umls_too_few_and_too_many_that_balance(tmp_path: Path, fails: Fails) -> None:
    short, long = conso("C0000001", "One")[:-1], conso("C0000002", "Two") + "|"
    meta = write_meta(tmp_path / "META", **GOOD | {"MRCONSO": [short, long]})
    assert "MRCONSO.RRF:1: the row has 17 columns where 18 are expected" in fails("umls", meta)


def test_umls_skip_bad_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        conso("C0000001", "One"),
        "C0000002|ENG|too|short|",
        conso("C0000002", "Two"),
        conso("C0000004", "Fo\0ur"),
        conso("C0000003", "Three"),
    ]
    meta = write_meta(tmp_path / "META", **GOOD | {"MRCONSO": rows, "MRSTY": [*GOOD["MRSTY"], sty("C0000777")]})
    with (meta / "MRCONSO.RRF").open("ab") as stream:
        stream.write(conso("C0000005", "F?ve").encode().replace(b"?", b"\xed") + b"\n")
    assert run(["ontology", "build", "umls", str(meta), "--out", str(tmp_path / "out"), "--skip-bad-rows"]) == 0
    printed = capsys.readouterr()
    ontology = Ontology.load(tmp_path / "out")
    assert [entity.name for entity in ontology] == ["One", "Two", "Three"]
    assert ontology["C0000001"].parents == ("C0000002",)
    assert "skipped 4 bad rows in all" in printed.err
    for place in ("MRCONSO.RRF:2:", "MRCONSO.RRF:4:", "MRCONSO.RRF:6:", "MRSTY.RRF:4:"):
        assert place in printed.err
    assert ontology.artifact.facts["bad_rows"] == 4


def test_umls_line_numbers_over_several_blocks(tmp_path: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kriss.ontology.rrf._BLOCK", 64)
    rows = [conso(f"C{i:07}", f"Name {i}") for i in range(50)]
    rows[36] = "bad"
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[sty("C0000001")])
    assert "MRCONSO.RRF:37:" in fails("umls", meta)
    rows[36] = conso("C0000036", "Name 36")
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[*(sty(f"C{i:07}") for i in range(40)), sty("C9999999")])
    assert "MRSTY.RRF:41:" in fails("umls", meta)


def test_umls_type_of_an_unknown_cui(tmp_path: Path, fails: Fails) -> None:
    meta = write_meta(tmp_path / "META", **GOOD | {"MRSTY": [sty("C0000001"), sty("C0000404")]})
    line = fails("umls", meta)
    assert "MRSTY.RRF:2: the CUI 'C0000404' has a type here but no row in MRCONSO" in line


def test_umls_type_of_a_cui_that_a_filter_left_out_is_no_error(tmp_path: Path) -> None:
    rows = [conso("C0000001", "One"), conso("C0000002", "Deux", lat="FRE")]
    meta = write_meta(tmp_path / "META", MRCONSO=rows, MRSTY=[sty("C0000001"), sty("C0000002")])
    assert run(["ontology", "build", "umls", str(meta), "--out", str(tmp_path / "out")]) == 0


def test_umls_cycle(tmp_path: Path, fails: Fails, capsys: pytest.CaptureFixture[str]) -> None:
    relations = [
        rel("C0000001", "PAR", "C0000002"),
        rel("C0000002", "RO", "C0000003"),
        rel("C0000002", "PAR", "C0000003"),
        rel("C0000001", "CHD", "C0000003", "isa"),
    ]
    meta = write_meta(tmp_path / "META", **GOOD | {"MRREL": relations})
    line = fails("umls", meta)
    assert "is-a has a cycle" in line
    assert any(f"MRREL.RRF:{number}: " in line for number in (1, 3, 4))
    assert run(["ontology", "build", "umls", str(meta), "--out", str(tmp_path / "out"), "--skip-bad-rows"]) == 0
    assert "skipped 1 bad rows" in capsys.readouterr().err
    assert len(Ontology.load(tmp_path / "out")) == 3


def test_umls_entity_without_a_name(tmp_path: Path, fails: Fails) -> None:
    meta = write_meta(tmp_path / "META", **GOOD | {"MRCONSO": [*GOOD["MRCONSO"], conso("C0000004", " ")]})
    line = fails("umls", meta)
    assert "MRCONSO.RRF:4: " in line
    assert "name" in line


def test_umls_row_without_a_cui(tmp_path: Path, fails: Fails) -> None:
    meta = write_meta(tmp_path / "META", **GOOD | {"MRCONSO": [*GOOD["MRCONSO"], conso("", "Nobody")]})
    assert "MRCONSO.RRF:4: " in fails("umls", meta)


def test_umls_rank_that_is_no_number(tmp_path: Path, fails: Fails) -> None:
    meta = write_meta(tmp_path / "META", **GOOD | {"MRRANK": ["0400|MSH|MH|N|", "high|NCI|PT|N|"]})
    assert "MRRANK.RRF:2: " in fails("umls", meta)


@pytest.mark.parametrize("table", GOOD)
def test_umls_empty_file(tmp_path: Path, fails: Fails, table: str) -> None:
    meta = damage(tmp_path, table, lambda _: b"")
    assert f"{table}.RRF: the file is empty" in fails("umls", meta)


def test_umls_byte_order_mark(tmp_path: Path) -> None:
    meta = damage(tmp_path, "MRCONSO", lambda content: b"\xef\xbb\xbf" + content)
    assert run(["ontology", "build", "umls", str(meta), "--out", str(tmp_path / "out")]) == 0
    assert [entity.id for entity in Ontology.load(tmp_path / "out")] == ["C0000001", "C0000002", "C0000003"]
    meta = damage(tmp_path / "2", "MRCONSO", lambda content: b"\xef\xbb\xbf" + content + b"bad\n")
    arguments = ["ontology", "build", "umls", str(meta), "--out", str(tmp_path / "out2"), "--skip-bad-rows"]
    assert run(arguments) == 0
    assert [entity.id for entity in Ontology.load(tmp_path / "out2")] == ["C0000001", "C0000002", "C0000003"]


def test_umls_folder_without_mrconso(tmp_path: Path, fails: Fails) -> None:
    meta = write_meta(tmp_path / "META", MRSTY=[sty("C0000001")])
    assert "there is no MRCONSO.RRF" in fails("umls", meta)
    assert str(meta) in fails("umls", meta)
    (tmp_path / "empty").mkdir()
    assert "there is no MRCONSO.RRF" in fails("umls", tmp_path / "empty")
    meta = write_meta(tmp_path / "two", MRCONSO=[conso("C0000001", "One")])
    assert "there is no MRSTY.RRF" in fails("umls", meta)


def test_umls_filters_that_leave_nothing(tmp_path: Path, fails: Fails) -> None:
    meta = write_meta(tmp_path / "META", **GOOD)
    assert "no entity is left" in fails("umls", meta, "--language", "XXX")
    assert "no entity is left" in fails("umls", meta, "--sab", "NOBODY")
    assert "'T999'" in fails("umls", meta, "--type", "T999")


# --- gzip, in every format ----------------------------------------------------------------------------------

SOURCES: dict[str, str] = {
    "mesh": "desc.xml",
    "obo": "mini.obo",
    "tsv": "table.tsv",
    "jsonl": "table.jsonl",
    "dictionary": "dictionary.txt",
    "umls": "META/MRCONSO.RRF",
}


def source_with(folder: Path, kind: str, content: bytes) -> tuple[Path, Path]:
    """Write a source with this content: (what to give the command, the file that is bad)."""
    name = Path(SOURCES[kind]).name
    (folder / "META").mkdir()
    if kind == "umls":
        (folder / "META" / "MRSTY.RRF").write_bytes((FIXTURES / "META" / "MRSTY.RRF").read_bytes())
    file = folder / "META" / f"{name}.gz" if kind == "umls" else folder / f"{name}.gz"
    file.write_bytes(content)
    return (folder / "META" if kind == "umls" else file), file


@pytest.mark.parametrize("kind", SOURCES)
def test_truncated_gzip(tmp_path: Path, fails: Fails, kind: str) -> None:
    packed = gzip.compress((FIXTURES / SOURCES[kind]).read_bytes())
    source, file = source_with(tmp_path, kind, packed[: len(packed) * 2 // 3])
    assert f"{file}: the gzip file is truncated" in fails(kind, source)


@pytest.mark.parametrize("kind", SOURCES)
def test_corrupted_gzip(tmp_path: Path, fails: Fails, kind: str) -> None:
    packed = bytearray(gzip.compress((FIXTURES / SOURCES[kind]).read_bytes()))
    packed[-6] ^= 0xFF
    source, file = source_with(tmp_path, kind, bytes(packed))
    assert f"{file}: the gzip file is damaged" in fails(kind, source)


@pytest.mark.parametrize("kind", SOURCES)
def test_gzip_of_nothing(tmp_path: Path, fails: Fails, kind: str) -> None:
    source, file = source_with(tmp_path, kind, gzip.compress(b""))
    assert str(file) in fails(kind, source)


@pytest.mark.parametrize("kind", SOURCES)
def test_empty_file_missing_file_and_folder(tmp_path: Path, fails: Fails, kind: str) -> None:
    source, file = source_with(tmp_path, kind, b"")
    assert f"{file}: the file is empty" in fails(kind, source)
    assert f"{tmp_path / 'nowhere'}: no such file" in fails(kind, tmp_path / "nowhere")
    if kind != "umls":
        assert "folder" in fails(kind, tmp_path)


@pytest.mark.parametrize("kind", ["obo", "tsv", "jsonl", "dictionary", "mesh"])
@pytest.mark.parametrize("rubbish", [b"\xff", b"\0"], ids=["bad UTF-8", "NUL"])
def test_bad_bytes_name_their_line(tmp_path: Path, fails: Fails, kind: str, rubbish: bytes) -> None:
    content = (FIXTURES / SOURCES[kind]).read_bytes()
    name = b"cancer" if kind == "dictionary" else b"Heart Valve" if kind in ("tsv", "jsonl") else b"Seizure"
    name = b"Mental Disorders" if kind == "mesh" else name
    at = content.index(name) + 3
    file = tmp_path / SOURCES[kind]
    file.write_bytes(content[:at] + rubbish + content[at:])
    assert f"{file}:{content.count(bytes([10]), 0, at) + 1}: " in fails(kind, file)


# --- tables ---------------------------------------------------------------------------------------------


def test_table_rows(tmp_path: Path, fails: Fails) -> None:
    header = ("id", "name", "parents")
    table = tmp_path / "a.tsv"
    cases: dict[str, list[tuple[str, ...]]] = {
        "a.tsv:3: the row has 2 columns where the header has 3": [("1", "a", ""), ("2", "b")],
        "a.tsv:2: the row has 4 columns where the header has 3": [("1", "a", "", "")],
        "a.tsv:3: a second entity with the id '1'": [("1", "a", ""), ("1", "b", "")],
        "a.tsv:3: the entity '2' has no name": [("1", "a", ""), ("2", " ", "")],
        "a.tsv:2: an entity has no id": [("", "a", "")],
        "a.tsv:2: is-a has a cycle: '1' is its own ancestor": [("1", "a", "1")],
    }
    for expected, rows in cases.items():
        assert expected in fails("tsv", write_tsv(table, header, *rows))
    line = fails("tsv", write_tsv(table, header, ("1", "a", "2"), ("2", "b", "3"), ("3", "c", "1"), ("4", "d", "1")))
    assert "is-a has a cycle" in line
    assert any(f"a.tsv:{number}: " in line for number in (2, 3, 4))


def test_table_without_rows_or_columns(tmp_path: Path, fails: Fails) -> None:
    table = tmp_path / "a.tsv"
    line = fails("tsv", write_tsv(table, ("code", "name"), ("1", "a")))
    assert "a.tsv:1: there is no column 'id'" in line
    assert "--column id=HEADER" in line
    assert "no column 'name'" in fails("tsv", write_tsv(table, ("id", "label"), ("1", "a")))
    assert f"{table}: there is no entity in it" in fails("tsv", write_tsv(table, ("id", "name")))
    table.write_text("\n\n")
    assert str(table) in fails("tsv", table)


def test_table_with_one_header_twice(tmp_path: Path, fails: Fails) -> None:
    line = fails("tsv", write_tsv(tmp_path / "a.tsv", ("id", "name", "name"), ("1", "a", "b")))
    assert "a.tsv:1: " in line


def test_csv_with_a_broken_quote(tmp_path: Path, fails: Fails) -> None:
    table = tmp_path / "a.csv"
    table.write_text('id,name\n1,"open\n2,b\n')
    assert f"{table}:" in fails("tsv", table)
    table.write_text('id,name\n1,a\n2,"b"c\n')
    assert f"{table}:3: not a valid table" in fails("tsv", table)


def test_csv_lines_are_counted_past_skipped_and_long_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "a.csv"
    table.write_bytes(b'id,name\n1,b\xffd\n2,"two\nlines"\n3\n4,four\n')
    assert run(["ontology", "build", "tsv", str(table), "--out", str(tmp_path / "out"), "--skip-bad-rows"]) == 0
    printed = capsys.readouterr().err
    assert f"{table}:2: " in printed
    assert f"{table}:5: the row has 1 columns where the header has 2" in printed
    assert "skipped 2 bad rows in all" in printed
    assert [entity.name for entity in Ontology.load(tmp_path / "out")] == ["two lines", "four"]


JSON_LINES = {
    "{": "not valid JSON",
    "nonsense": "not valid JSON",
    "[1]": "not a JSON object",
    "7": "not a JSON object",
    "null": "not a JSON object",
    '{"id": "1"}': "the entity '1' has no name",
    '{"id": "1", "name": null}': "the entity '1' has no name",
    '{"name": "a"}': "an entity has no id",
    '{"id": "1", "name": "a\\udc00"}': "not valid JSON",
    '{"id": "1", "name": "a", "aliases": ["\\ud800 x"]}': "not valid JSON",
    '{"id": "1", "name": "a\\u0000b"}': "NUL",
    '{"id": {"x": 1}, "name": "a"}': "the field 'id' holds neither text nor a list",
    '{"id": "G", "name": "again"}': "a second entity with the id 'G'",
    "[" * 100_000: "not valid JSON",
    '{"id": "1", "name": "x"} trailing': "not valid JSON",
    "{'id': '1'}": "not valid JSON",
}


@pytest.mark.parametrize("bad", JSON_LINES, ids=lambda text: text[:40])
def test_json_lines(tmp_path: Path, fails: Fails, bad: str) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"id": "G", "name": "good"}\n' + bad + "\n" + '{"id": "H", "name": "here"}\n')
    line = fails("jsonl", source)
    assert "a.jsonl:2: " in line
    assert JSON_LINES[bad] in line
    assert len(line) < 600


def test_json_lines_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text("\n".join(['{"id": "G", "name": "good"}', *JSON_LINES, '{"id": "H", "name": "here"}']))
    assert run(["ontology", "build", "jsonl", str(source), "--out", str(tmp_path / "out"), "--skip-bad-rows"]) == 0
    assert f"skipped {len(JSON_LINES)} bad rows in all" in capsys.readouterr().err
    assert [entity.id for entity in Ontology.load(tmp_path / "out")] == ["G", "H"]


def test_dictionary_lines(tmp_path: Path, fails: Fails) -> None:
    source = tmp_path / "a.txt"
    cases = {"D1 no bars": "no '||'", "||name": "no id", "D1||": "no name", "D1| || |": "no name"}
    for bad, message in cases.items():
        source.write_text(f"D0||good\n{bad}\n")
        line = fails("dictionary", source)
        assert "a.txt:2: " in line
        assert message in line


def test_table_of_retired_ids(tmp_path: Path, fails: Fails) -> None:
    (tmp_path / "r.tsv").write_text("X:7\tX:1\nX:8\n")
    assert "r.tsv:2: " in fails("tsv", FIXTURES / "table.tsv", "--retired", tmp_path / "r.tsv")
    assert "nowhere" in fails("tsv", FIXTURES / "table.tsv", "--retired", tmp_path / "nowhere")


# --- MeSH and OBO ---------------------------------------------------------------------------------------


def test_malformed_xml(tmp_path: Path, fails: Fails) -> None:
    source = write_mesh(tmp_path / "a.xml", record("D1", "a", "C01"), "<DescriptorRecord>\n<oops\n")
    assert "a.xml:7: not well-formed XML" in fails("mesh", source)
    source.write_text("<DescriptorRecordSet>\n")
    assert "a.xml:2: not well-formed XML" in fails("mesh", source)
    source.write_text("plain text")
    assert "a.xml:1: not well-formed XML" in fails("mesh", source)
    source.write_text("<html><body/></html>")
    assert "is it MeSH XML?" in fails("mesh", source)
    source.write_text('<?xml version="1.0" encoding="gb2312"?><DescriptorRecordSet/>')
    assert "a.xml" in fails("mesh", source)
    source.write_text('<?xml version="1.0" encoding="klingon"?><DescriptorRecordSet/>')
    assert "a.xml" in fails("mesh", source)


def test_a_billion_laughs(tmp_path: Path, fails: Fails) -> None:
    lines = ['<!ENTITY a0 "ha">', *(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))]
    (tmp_path / "a.xml").write_text(f"<!DOCTYPE x [{''.join(lines)}]>\n{record('D1', '&a11;', 'C01')}")
    assert "a.xml" in fails("mesh", tmp_path / "a.xml")


def test_mesh_records(tmp_path: Path, fails: Fails, capsys: pytest.CaptureFixture[str]) -> None:
    good = record("D1", "a", "C01")
    source = tmp_path / "a.xml"
    assert "a.xml:5: a second entity with the id 'D1'" in fails("mesh", write_mesh(source, good, good))
    assert "a.xml:5: " in fails("mesh", write_mesh(source, good, record("D2", "", "C02")))
    assert "DescriptorRecord number 2 has no DescriptorUI" in fails("mesh", write_mesh(source, good, record("", "b")))
    write_mesh(source, good, good, record("D2", "", "C02"), record("D3", "c", "C03"), record("", "b"))
    assert run(["ontology", "build", "mesh", str(source), "--out", str(tmp_path / "out"), "--skip-bad-rows"]) == 0
    assert "skipped 3 bad rows in all" in capsys.readouterr().err
    assert [entity.id for entity in Ontology.load(tmp_path / "out")] == ["D1", "D3"]


def test_the_same_id_in_two_files_is_found_in_the_second(tmp_path: Path, fails: Fails) -> None:
    one = write_mesh(tmp_path / "1.xml", record("D1", "a", "C01"))
    two = write_mesh(tmp_path / "2.xml", record("D2", "b", "C02"), record("D1", "a", "C01"))
    assert "2.xml:5: a second entity with the id 'D1'" in fails("mesh", one, two)
    one = write_obo(tmp_path / "1.obo", "id: X:1\nname: a")
    two = write_obo(tmp_path / "2.obo", "id: X:2\nname: b", "id: X:1\nname: a")
    assert "2.obo:9: a second entity with the id 'X:1'" in fails("obo", one, two)
    one = write_jsonl(tmp_path / "1.jsonl", {"id": "1", "name": "a"})
    two = write_jsonl(tmp_path / "2.jsonl", {"id": "2", "name": "b"}, {"id": "1", "name": "a"})
    assert "2.jsonl:2: a second entity with the id '1'" in fails("jsonl", one, two)


def test_malformed_obo(tmp_path: Path, fails: Fails) -> None:
    source = tmp_path / "a.obo"
    for clause in ('synonym: "unclosed EXACT []', "is_a:", "no colon here", "is_obsolete: perhaps"):
        write_obo(source, "id: X:1\nname: a", f"id: X:2\nname: b\n{clause}")
        line = fails("obo", source)
        assert "not valid OBO" in line
        assert "a.obo:1" in line  # lines 8 to 11 or so; the parser says which
    source.write_text("just some text\n")
    assert str(source) in fails("obo", source)
    source.write_text("format-version: 1.2\n\n[Typedef]\nid: part_of\nname: part of\n")
    assert "is it an OBO file?" in fails("obo", source)


def test_obo_terms(tmp_path: Path, fails: Fails, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.obo"
    good = "id: X:1\nname: a"
    assert "a.obo:9: a second entity with the id 'X:1'" in fails("obo", write_obo(source, good, good))
    assert "a.obo:9: the term 'X:2' has no name" in fails("obo", write_obo(source, good, "id: X:2\nis_a: X:1"))
    line = fails("obo", write_obo(source, "id: X:1\nname: a\nis_a: X:2", "id: X:2\nname: b\nis_a: X:1"))
    assert "is-a has a cycle" in line
    assert "a.obo:5: " in line or "a.obo:10: " in line
    assert "is-a has a cycle" in fails("obo", write_obo(source, "id: X:1\nname: a\nis_a: X:1"))
    write_obo(source, good, good, "id: X:2", "id: X:3\nname: c\nis_a: X:4", "id: X:4\nname: d\nis_a: X:3")
    assert run(["ontology", "build", "obo", str(source), "--out", str(tmp_path / "out"), "--skip-bad-rows"]) == 0
    assert "skipped 3 bad rows in all" in capsys.readouterr().err
    assert [entity.id for entity in Ontology.load(tmp_path / "out")] == ["X:1", "X:3", "X:4"]


# --- options --------------------------------------------------------------------------------------------


def test_unknown_format(fails: Fails) -> None:
    line = fails("owl", FIXTURES / "mini.obo")
    assert "'format' must be one of umls, mesh, obo" in line


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("tsv", ("--language", "FRE")),
        ("tsv", ("--sab", "MSH")),
        ("obo", ("--keep-suppressed",)),
        ("mesh", ("--keep-obsolete",)),
        ("tsv", ("--scope", "BROAD")),
        ("obo", ("--column", "id=x")),
        ("dictionary", ("--separator", "aliases=;")),
        ("jsonl", ("--delimiter", ";")),
        ("umls", ("--column", "id=x")),
    ],
)
def test_option_of_another_format(fails: Fails, kind: str, options: tuple[str, ...]) -> None:
    source = FIXTURES / "META" if kind == "umls" else FIXTURES / SOURCES[kind]
    assert f"not for {kind}" in fails(kind, source, *options)


def test_an_option_of_another_format_is_called_as_the_user_typed_it(fails: Fails) -> None:
    assert "--sab" in fails("tsv", FIXTURES / "table.tsv", "--sab", "MSH")


def test_other_options(tmp_path: Path, fails: Fails) -> None:
    table = FIXTURES / "table.tsv"
    assert "--column wants FIELD=HEADER, not 'id'" in fails("tsv", table, "--column", "id")
    assert "--separator wants FIELD=CHARS" in fails("tsv", table, "--separator", "aliases=")
    assert "'nofield' is not a field" in fails("tsv", table, "--column", "nofield=x")
    assert "one character" in fails("tsv", table, "--delimiter", "ab")
    assert "'WIDE' is not a synonym scope" in fails("obo", FIXTURES / "mini.obo", "--scope", "wide")
    assert "go together" in fails("tsv", table, "--on", "MESH")
    assert "needs at least one source" in fails("tsv")
    assert "hpo needs no source" in fails("hpo", FIXTURES / "mini.obo")
    assert "did you mean 'Organ'" in fails("tsv", table, "--type", "Organs")
    assert "does not exist" in fails("tsv", table, "--merge", tmp_path / "nowhere", "--on", "MESH")


def test_a_source_whose_name_is_not_utf8(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"caf\xe9.tsv")
    source.write_bytes((FIXTURES / "table.tsv").read_bytes())
    assert run(["ontology", "build", "tsv", str(source), "--out", str(tmp_path / "out")]) == 0
    assert len(Ontology.load(tmp_path / "out")) == 2


def test_a_failing_build_keeps_the_old_ontology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "beside" / "out"
    build = ["ontology", "build", "tsv"]
    assert run([*build, str(FIXTURES / "table.tsv"), "--out", str(out)]) == 0
    before = contents(tmp_path / "beside")
    assert run([*build, str(FIXTURES / "table.tsv"), "--out", str(out)]) == 1
    assert "--force" in capsys.readouterr().err
    bad = write_tsv(tmp_path / "bad.tsv", ("id", "name"), ("1", "a"), ("1", "b"))
    assert run([*build, str(bad), "--out", str(out), "--force"]) == 1
    assert contents(tmp_path / "beside") == before
    assert sorted(path.name for path in (tmp_path / "beside").iterdir()) == ["out"]


def test_a_failing_build_leaves_no_new_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write_tsv(tmp_path / "bad.tsv", ("id", "name"), ("1", "a"), ("1", "b"))
    assert run(["ontology", "build", "tsv", str(bad), "--out", str(tmp_path / "new" / "deep" / "out")]) == 1
    assert not (tmp_path / "new").exists()
    capsys.readouterr()


def test_an_out_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert run(["ontology", "build", "tsv", str(FIXTURES / "table.tsv"), "--out", str(out), "--force"]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("kriss: error: ")
        assert str(tmp_path / "file") in line
    assert (tmp_path / "file").read_text() == "x"
