"""Writing links: what is written is read again, nothing in a text breaks a format, and files appear whole."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import stat
import sys
import tracemalloc
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.documents.read import read
from kriss.documents.registry import FORMATS, find_format
from kriss.documents.table import COLUMNS
from kriss.documents.write import output, write_links
from kriss.errors import ExistsError, InputError
from kriss.records import Candidate, Document, Evidence, Link, Mention, Span

WRITTEN = [format.name for format in FORMATS.values() if format.write]
MINED = Evidence("mined", "MS", "In\tpatients with ", ' "relapsing"\nMS.', "PMC1", 17, 19)
NAME = Evidence("name", "Mitral Valve Stenosis")
TEXT = 'On "MS".\nMS\thurts;\r\nMS & <b>.'
DOCUMENT = Document(
    "7",
    TEXT,
    (Span(4, 6, ("GOLD",), "Disease", "T1"), Span(9, 11, (), "Disease"), Span(3, 11), Span(20, 22)),
)


def link(entity: str | None, span: Span = Span(0, 1), text: str = TEXT, **fields: str) -> Link:  # noqa: B008
    candidates = (
        Candidate("D009103", "Multiple Sclerosis", 0.75, MINED),
        Candidate("D008946", "Mitral Valve Stenosis", 0.5, NAME),
    )
    name = {"D009103": "Multiple Sclerosis", "D008946": "Mitral Valve Stenosis"}.get(entity or "", "")
    return Link(Mention.at(text, span.start, span.end), entity, name, 0.75, 0.9, candidates, **fields)


LINKS = [link("D009103", expanded="multiple sclerosis"), link(None), link("D008946"), link("X")]


def written(format: str, *linked: tuple[Document, list[Link]]) -> str:
    out = io.StringIO()
    write_links(linked, out, find_format(format, "write"))
    return out.getvalue()


def read_again(content: str, folder: Path, format: str, *, told: bool = False) -> list[Document]:
    path = folder / f"links.{ {'bioc-xml': 'xml', 'bioc-json': 'json'}.get(format, format) }"
    path.write_bytes(content.encode())
    return list(read([path], format if told else None))


def linked_spans(document: Document, links: list[Link], **keep: bool) -> tuple[Span, ...]:
    """Return the spans that reading should give: the links' entities in the place of the gold ones."""
    return tuple(
        Span(
            span.start,
            span.end,
            (one.entity,) if one.entity else (),
            span.type,
            span.id if keep.get("ids", True) else "",
        )
        for span, one in zip(document.spans, links, strict=True)
    )


# --- Each format ------------------------------------------------------------------------------


def test_jsonl_holds_everything() -> None:
    content = written("jsonl", (DOCUMENT, LINKS), (Document("8", "", ()), []))
    first, second = map(json.loads, content.splitlines())
    assert (first["id"], first["text"]) == ("7", TEXT)
    assert second == {"id": "8", "text": "", "mentions": []}
    evidence: dict[str, str | int] = {"kind": "mined", "surface": "MS", "left": MINED.left, "right": MINED.right}
    evidence |= {"document": "PMC1", "start": 17, "end": 19, "example": ""}
    assert first["mentions"][0] == {
        "start": 4,
        "end": 6,
        "surface": "MS",
        "id": "T1",
        "type": "Disease",
        "expanded": "multiple sclerosis",
        "entity": "D009103",
        "name": "Multiple Sclerosis",
        "score": 0.75,
        "probability": 0.9,
        "candidates": [
            {"entity": "D009103", "name": "Multiple Sclerosis", "score": 0.75, "evidence": evidence},
            {
                "entity": "D008946",
                "name": "Mitral Valve Stenosis",
                "score": 0.5,
                "evidence": dict.fromkeys(evidence, "")
                | {"start": 0, "end": 0, "kind": "name", "surface": NAME.surface},
            },
        ],
    }
    nil = first["mentions"][1]
    assert (nil["entity"], nil["name"], len(nil["candidates"])) == (None, "", 2)
    assert not {"id", "expanded"} & set(nil)


def test_pubtator_has_a_line_for_each_part_and_mention() -> None:
    assert written("pubtator", (DOCUMENT, LINKS), (Document("8 b", "one\ntwo\nthree", ()), [])) == (
        '7|t|On "MS".\n7|a|MS hurts;  MS & <b>.\n'
        "7\t4\t6\tMS\tDisease\tD009103\n7\t9\t11\tMS\tDisease\t-1\n"
        '7\t3\t11\t"MS". MS\t\tD008946\n7\t20\t22\tMS\t\tX\n\n'
        "8 b|t|one\n8 b|a|two three\n\n"
    )


@pytest.mark.parametrize("name", ["", " ", "a|b", "a\tb", "a\nb", "a\u2028b", " a", "a "])
def test_an_id_that_pubtator_cannot_hold(name: str) -> None:
    with pytest.raises(InputError, match=r"cannot stand in PubTator.*write jsonl instead"):
        written("pubtator", (Document(name, "x", ()), []))


def test_bioc_xml_is_xml() -> None:
    odd = Document('<a>&"', "MS\x01\r\n\x85]]>\ufffe", (Span(0, 2, (), '"&\t', "'\n\""),))
    content = written("bioc-xml", (DOCUMENT, LINKS), (odd, [link("A&B", odd.spans[0])]))
    collection = ET.fromstring(content)
    assert [child.tag for child in collection] == ["source", "date", "key", "document", "document"]
    annotation = collection.findall(".//annotation")[0]
    assert annotation.get("id") == "T1"
    assert {infon.get("key"): infon.text for infon in annotation.findall("infon")} == {
        "type": "Disease",
        "identifier": "D009103",
        "name": "Multiple Sclerosis",
        "score": "0.7500",
        "probability": "0.9000",
    }
    assert {infon.get("key"): infon.text for infon in collection.findall(".//annotation")[1].findall("infon")} == {
        "type": "Disease",
        "identifier": "-1",
        "score": "0.7500",
        "probability": "0.9000",
    }
    last = collection.findall("document")[1]
    assert last.findtext("id") == odd.id
    assert last.findtext("passage/text") == "MS\ufffd\r\n\x85]]>\ufffd"
    assert last.findall(".//annotation")[0].get("id") == odd.spans[0].id


def test_bioc_json_is_json() -> None:
    collection = json.loads(written("bioc-json", (DOCUMENT, LINKS), (DOCUMENT, LINKS)))
    assert [document["id"] for document in collection["documents"]] == ["7", "7"]
    annotation = collection["documents"][0]["passages"][0]["annotations"][0]
    assert annotation["locations"] == [{"offset": 4, "length": 2}]
    assert annotation["infons"]["identifier"] == "D009103"


def test_the_table_has_a_row_for_each_mention() -> None:
    content = written("table", (DOCUMENT, LINKS), (Document("8", "x", ()), []))
    rows = list(csv.reader(io.StringIO(content), dialect="excel-tab"))
    context = 'In patients with [[MS]] "relapsing" MS.'
    assert rows == [
        list(COLUMNS),
        ["7", "4", "6", "MS", "D009103", "Multiple Sclerosis", "0.7500", "0.9000", "mined", "PMC1", context],
        ["7", "9", "11", "MS", "", "", "0.7500", "0.9000", "", "", ""],
        ["7", "3", "11", '"MS". MS', "D008946", "Mitral Valve Stenosis", "0.7500", "0.9000", "name", "", NAME.surface],
        ["7", "20", "22", "MS", "X", "", "0.7500", "0.9000", "", "", ""],
    ]
    assert len(content.splitlines()) == 5


@pytest.mark.parametrize("format", WRITTEN)
def test_nothing_is_a_file_too(format: str, tmp_path: Path) -> None:
    content = written(format)
    if content and format != "table":
        assert read_again(content, tmp_path, format) == []


@pytest.mark.parametrize("format", WRITTEN)
def test_scores_that_are_no_numbers(format: str) -> None:
    empty = Link(Mention.at("MS", 0, 2), None, "", float("-inf"), float("nan"))
    content = written(format, (Document("1", "MS", (Span(0, 2),)), [empty]))
    assert "nan" not in content.lower().replace("-inf", "nan").replace("infon", "")


@pytest.mark.parametrize("format", WRITTEN)
def test_links_must_be_those_of_the_mentions(format: str) -> None:
    with pytest.raises(ValueError, match="document '7' has 4 mentions and 3 links"):
        written(format, (DOCUMENT, LINKS[:3]))


@pytest.mark.parametrize("format", WRITTEN)
def test_one_document_at_a_time(format: str) -> None:
    document = Document("1", "heart failure " * 4000, (Span(0, 5),))

    def stream() -> Iterator[tuple[Document, list[Link]]]:
        for number in range(300):
            yield Document(str(number), document.text + str(number), document.spans), [link("A")]

    tracemalloc.start()
    with open(os.devnull, "w", encoding="utf-8") as out:  # noqa: PTH123
        write_links(stream(), out, find_format(format, "write"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # of 17,000,000


# --- Round trips ------------------------------------------------------------------------------

ODD = "a B\n\t\r\x85\u2028\x1c\x0c\u00a0|+;,<>&\"'[]{}\\אب\u202e\u0301\u200d𝒳🧬ﬁßİ-1\ufeff"
letters = st.one_of(st.sampled_from(ODD), st.characters(codec="utf-8", exclude_characters="\0"))
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
ids = words.filter(
    lambda word: (
        not set(word) & set("|+;,") and word.rpartition(":")[2].lower() not in ("", "-", "-1", "cui-less", "nil")
    )
)


@st.composite
def linked_documents(draw: st.DrawFn) -> tuple[Document, list[Link]]:
    text = draw(st.text(letters, max_size=40).filter(lambda text: text.strip() or not text))
    spans, links = [], []
    places = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(lambda pair: tuple(sorted(pair)))
    for start, end in draw(st.lists(places, max_size=4)):
        if text[start:end].strip():
            spans.append(Span(start, end, (), draw(st.just("") | words), draw(st.just("") | words)))
            links.append(link(draw(st.none() | ids), spans[-1], text))
    return Document(draw(words.filter(lambda word: "|" not in word)), text, tuple(spans)), links


def round_trip(
    linked: list[tuple[Document, list[Link]]],
    folder: Path,
    format: str,
    as_read: Callable[[str], str] = lambda text: text,
    **keep: bool,
) -> None:
    content = written(format, *linked)
    if not content:
        return
    found = read_again(content, folder, format)
    assert found == [
        Document(document.id, as_read(document.text), linked_spans(document, links, **keep))
        for document, links in linked
    ]


many = st.lists(linked_documents(), max_size=3)


@given(many)
def test_jsonl_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, linked: list[tuple[Document, list[Link]]]
) -> None:
    round_trip(linked, tmp_path_factory.mktemp("links"), "jsonl")


@given(many)
def test_bioc_json_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, linked: list[tuple[Document, list[Link]]]
) -> None:
    round_trip(linked, tmp_path_factory.mktemp("links"), "bioc-json")


@given(many)
def test_bioc_xml_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, linked: list[tuple[Document, list[Link]]]
) -> None:
    def as_xml(text: str) -> str:  # what XML has no place for
        return "".join(
            "\ufffd" if (sign < " " and sign not in "\t\n\r") or sign in "\ufffe\uffff" else sign for sign in text
        )

    round_trip(linked, tmp_path_factory.mktemp("links"), "bioc-xml", as_xml)


@given(many)
def test_pubtator_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, linked: list[tuple[Document, list[Link]]]
) -> None:
    def as_lines(text: str) -> str:
        title, end, body = text.partition("\n")
        title, body = (
            "".join(" " if len(f"a{sign}b".splitlines()) > 1 or sign == "\t" else sign for sign in part)
            for part in (title, body)
        )
        return title + end + body if body.strip() else title

    round_trip(linked, tmp_path_factory.mktemp("links"), "pubtator", as_lines, ids=False)


def test_the_id_of_a_file_whose_name_has_blanks_is_read_again(tmp_path: Path) -> None:
    document = Document("my notes 2", "MS hurts.", (Span(0, 2),))
    for format in (one for one in WRITTEN if FORMATS[one].parse):
        found = read_again(written(format, (document, [link("C1")])), tmp_path, format)
        assert found == [Document("my notes 2", "MS hurts.", (Span(0, 2, ("C1",)),))]


# --- Where it is written to -------------------------------------------------------------------


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "links.jsonl"
    with output(path) as out:
        out.write("β\n")
        assert not path.exists()
    assert path.read_bytes() == "β\n".encode()
    assert [file.name for file in path.parent.iterdir()] == ["links.jsonl"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_name_that_ends_in_gz_is_compressed_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        with output(tmp_path / name) as stream:
            stream.write("β\n" * 1000)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz"))
    assert first == second
    assert gzip.decompress(first).decode() == "β\n" * 1000
    assert len(first) < 100
    with pytest.raises(ZeroDivisionError), output(tmp_path / "c.jsonl.gz") as stream:
        stream.write("half" * (1 // 0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl.gz", "b.jsonl.gz"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text("old")
    with pytest.raises(RuntimeError), output(path, force=True) as out:  # noqa: PT012
        out.write("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_exists_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text("old")
    with pytest.raises(ExistsError, match="exists; give --force to replace it, or another --out"), output(path):
        pass
    with output(path, force=True) as out:
        out.write("new")
    assert path.read_text() == "new"
    with pytest.raises(ExistsError, match="is a folder; name a file to write to"), output(tmp_path, force=True):
        pass


def test_a_file_that_came_in_between_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    with pytest.raises(ExistsError), output(path) as out:  # noqa: PT012
        out.write("ours")
        path.write_text("theirs")
    assert path.read_text() == "theirs"


def test_a_link_to_a_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with output(tmp_path / "link") as out:
        out.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_device_is_written_to_as_it_is() -> None:
    with output(Path(os.devnull)) as out:
        out.write("x")
    assert Path(os.devnull).is_char_device()


def test_standard_output_is_utf8_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    terminal = io.TextIOWrapper(raw, encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    terminal.write("before\n")
    with output(None) as out:
        out.write("β\n")
    terminal.write("after\n")
    terminal.flush()
    assert raw.getvalue() == "before\nβ\nafter\n".encode()


def test_standard_output_that_takes_text_alone() -> None:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), output(None) as out:
        out.write("β\n")
    assert text.getvalue() == "β\n"
