"""Documents with marked mentions: every format, every rule for entities, every way in which a file can be bad."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.documents import registry
from kriss.documents.format import Format, Linked, Record
from kriss.documents.read import gold, read
from kriss.documents.registry import FORMATS, find_format, read_file
from kriss.documents.spans import split_entities
from kriss.documents.text import decode, parse_bracketed
from kriss.documents.write import write_links
from kriss.errors import ConfigError, InputError
from kriss.files import Problems
from kriss.link.annotate import annotated
from kriss.records import Document, Link, Mention, Span

FIXTURES = Path(__file__).parent / "fixtures" / "text"

PUBTATOR = """
1000475|t|Naloxone reverses hypertension.
1000475|a|In rats, breast and ovarian cancer was rare.
1000475\t0\t8\tNaloxone\tChemical\tMESH:D009270
1000475\t18\t30\thypertension \tDisease\t-1
1000475\t41\t66\tbreast and ovarian cancer\tDisease\tD001943|D010051\tbreast cancer|ovarian cancer
1000475\t41\t47\tbreast\tRegion
1000475\tCID\tD009270\tD007022
1000475\tAssociation\tD009270\t4852\tNovel

1000476|t|
1000476|a|No title here.
1000476\t4\t9\ttitle\tThing\tX + Y

1000477|t|Nothing is marked.
1000477|a|
1000478|t|
"""
PUBTATOR_EXPECTED = [
    Document(
        "1000475",
        "Naloxone reverses hypertension.\nIn rats, breast and ovarian cancer was rare.",
        (
            Span(0, 8, ("MESH:D009270",), "Chemical"),
            Span(18, 30, (), "Disease"),
            Span(41, 66, ("D001943", "D010051"), "Disease"),
            Span(41, 47, (), "Region"),
        ),
    ),
    Document("1000476", "\nNo title here.", (Span(4, 9, ("X", "Y"), "Thing"),)),
    Document("1000477", "Nothing is marked.", ()),
    Document("1000478", "", ()),
]

BIOC_XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection>
  <source>PubTator</source><date/><key>BioC.key</key>
  <document>
    <id>1000475</id>
    <passage>
      <infon key="type">title</infon>
      <offset>0</offset>
      <text>Naloxone &amp; β-hypertension</text>
      <annotation id="1"><infon key="type">Chemical</infon><infon key="identifier"> MESH:D009270 </infon>
        <location offset="0" length="8"/><text>Naloxone</text></annotation>
      <annotation id="M"><infon key="type">MeSH_Indexing</infon><infon key="identifier">D1</infon></annotation>
    </passage>
    <passage>
      <offset>30</offset>
      <text>Breast and ovarian cancer.</text>
      <annotation id="2"><infon key="MESH">D001943</infon><infon key="MESH">D010051</infon>
        <infon key="type">Disease</infon><location offset="49" length="6"/><location offset="30" length="6"/>
        <text>Breast cancer</text></annotation>
      <annotation id="3"><infon key="NCBI Gene identifier">12458,12772</infon>
        <location offset="41" length="14"/><text>ovarian\ncancer</text></annotation>
    </passage>
  </document>
  <document>
    <id>1000476</id>
    <passage><offset>0</offset>
      <sentence><offset>0</offset><text>One.</text></sentence>
      <sentence><offset>5</offset><text>Two MS.</text>
        <annotation id="4"><infon key="OMIM">-</infon><location offset="9" length="2"/></annotation></sentence>
      <annotation id="5"><infon key="UMLS">CUI-less</infon><location offset="5" length="3"/></annotation>
    </passage>
    <annotation id="6"><location offset="0" length="3"/><text>One</text></annotation>
  </document>
  <document><id>1000477</id><passage><offset>0</offset></passage></document>
</collection>
"""
BIOC_EXPECTED = [
    Document(
        "1000475",
        "Naloxone & β-hypertension\n    Breast and ovarian cancer.",
        (
            Span(0, 8, ("MESH:D009270",), "Chemical", "1"),
            Span(30, 55, ("D001943", "D010051"), "Disease", "2"),
            Span(41, 55, ("12458", "12772"), "", "3"),
        ),
    ),
    Document("1000476", "One.\nTwo MS.", (Span(9, 11, (), "", "4"), Span(5, 8, (), "", "5"), Span(0, 3, (), "", "6"))),
    Document("1000477", "", ()),
]

BIOC_JSON = json.dumps(
    {
        "documents": [
            {
                "id": 1000475,
                "passages": [
                    {
                        "offset": 0,
                        "text": "Naloxone & β-hypertension",
                        "annotations": [
                            {
                                "id": "1",
                                "infons": {"Identifier": "MESH:D009270", "type": "Chemical", "MESH": "no", "n": None},
                                "text": "Naloxone",
                                "locations": [{"offset": 0, "length": 8}],
                            },
                            {"id": "M", "infons": {"type": "MeSH_Indexing"}, "locations": []},
                        ],
                    },
                    {
                        "offset": 30,
                        "text": "Breast and ovarian cancer.",
                        "annotations": [
                            {
                                "id": 2,
                                "infons": {"MESH": "D001943;D010051", "type": "Disease"},
                                "text": "Breast cancer",
                                "locations": [{"offset": "49", "length": 6}, {"offset": 30, "length": 6}],
                            },
                            {
                                "id": "3",
                                "infons": {"NCBI Gene identifier": "12458,12772"},
                                "locations": [{"offset": 41, "length": 14}],
                            },
                        ],
                    },
                ],
            },
            {
                "id": "1000476",
                "passages": [
                    {
                        "offset": 0,
                        "sentences": [
                            {"offset": 0, "text": "One."},
                            {
                                "offset": 5,
                                "text": "Two MS.",
                                "annotations": [{"id": "4", "locations": [{"offset": 9, "length": 2}]}],
                            },
                        ],
                        "annotations": [{"id": "5", "infons": None, "locations": [{"offset": 5, "length": 3}]}],
                    }
                ],
                "annotations": [{"id": "6", "locations": [{"offset": 0, "length": 3}]}],
            },
            {"id": "1000477", "passages": []},
        ]
    }
)

JSONL = """\
{"id": "a", "title": "On MS.", "text": "MS hurts.", "mentions": [
  {"start": 3, "end": 5, "entity": "C1|C2", "type": "Disease", "id": "m1"},
  {"start": 7, "end": 9, "entities": ["C1", " C2 ", "NIL"], "surface": "MS"}]}
{"id": 7, "text": "MS hurts.", "mentions": [
  {"start": 0, "end": 2, "entity": null},
  {"start": 3, "end": 8, "entity": 254500}]}

{"text": "MS hurts.", "start": 0, "end": 2, "entity": "C1", "type": "Disease"}
{"id": "b", "text": "MS hurts.", "start": 0, "end": 2}
{"id": "c", "text": "Nothing is marked."}
{"id": "d", "text": "Nothing either.", "mentions": null}
{"id": "e", "text": null, "mentions": []}
""".replace("\n  {", " {")
JSONL_EXPECTED = [
    Document("a", "On MS.\nMS hurts.", (Span(3, 5, ("C1|C2",), "Disease", "m1"), Span(7, 9, ("C1", "C2")))),
    Document("7", "MS hurts.", (Span(0, 2), Span(3, 8, ("254500",)))),
    Document("a:2", "MS hurts.", (Span(0, 2, ("C1",), "Disease"),)),
    Document("b", "MS hurts.", (Span(0, 2),)),
    Document("c", "Nothing is marked.", ()),
    Document("d", "Nothing either.", ()),
    Document("e", "", ()),
]

BRAT_TEXT = "Breast and ovarian cancer.\r\nמחלה 𝒳 is rare.\n"
BRAT_ANN = """\
N1\tReference T1 MeSH:D001943\tBreast Neoplasms
T1\tDisease 0 6;19 25\tBreast cancer
N2\tReference T1 MeSH:D010051
T2\tDisease 11 25\tovarian cancer

T3\tDisease 28 34\tמחלה 𝒳
N3\tReference T3 UMLS:CUI-less\t
N4\tReference E1 MeSH:D0\tan event's
R1\tSame Arg1:T1 Arg2:T2
E1\tRare:T3 Theme:T1
A1\tNegated E1
M1\tNegation E1
*\tEquiv T1 T2
#1\tAnnotatorNotes T1\tC0678222
"""
BRAT_EXPECTED = [
    Document(
        "a",
        BRAT_TEXT,
        (
            Span(0, 25, ("MeSH:D001943", "MeSH:D010051"), "Disease", "T1"),
            Span(11, 25, (), "Disease", "T2"),
            Span(28, 34, (), "Disease", "T3"),
        ),
    )
]

MARKED = "Patients with [[MS]] and\n[[[11C]methionine]] [see [1]].\n"
MARKED_EXPECTED = [
    Document("a", "Patients with MS and\n[11C]methionine [see [1]].\n", (Span(14, 16), Span(21, 36))),
]

EVERY = {
    "pubtator": ("a.pubtator", PUBTATOR, PUBTATOR_EXPECTED),
    "bioc-xml": ("a.xml", BIOC_XML, BIOC_EXPECTED),
    "bioc-json": ("a.json", BIOC_JSON, BIOC_EXPECTED),
    "jsonl": ("a.jsonl", JSONL, JSONL_EXPECTED),
    "brat": ("a.txt", BRAT_TEXT, BRAT_EXPECTED),
    "text": ("a.txt", MARKED, MARKED_EXPECTED),
}


def save(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pipe(monkeypatch: pytest.MonkeyPatch, content: str | bytes) -> None:
    raw = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(raw)))


def refuse(source: Path | str, place: str, message: str, format: str | None = None) -> None:
    with pytest.raises(InputError) as error:
        list(read([source], format))
    assert str(error.value).startswith(f"{place}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# --- Every format -----------------------------------------------------------------------------


@pytest.mark.parametrize("format", EVERY)
@pytest.mark.parametrize("how", ["plain", "gzip", "bom", "given", "folder", "glob"])
def test_every_format_is_told_and_read(format: str, how: str, tmp_path: Path) -> None:
    name, content, expected = EVERY[format]
    raw = content.encode()
    path = tmp_path / (f"{name}.gz" if how == "gzip" else name)
    save(path, {"gzip": gzip.compress(raw), "bom": b"\xef\xbb\xbf" + raw}.get(how, raw))
    if format == "brat":
        marked = BRAT_ANN.encode()
        save(tmp_path / ("a.ann.gz" if how == "gzip" else "a.ann"), gzip.compress(marked) if how == "gzip" else marked)
    sources: dict[str, Path | str] = {"folder": tmp_path, "glob": f"{tmp_path}/*"}
    assert list(read([sources.get(how, path)], format if how == "given" else None)) == expected


@pytest.mark.parametrize("format", [format for format in EVERY if format != "brat"])
@pytest.mark.parametrize("told", [True, False])
def test_standard_input(format: str, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _, content, expected = EVERY[format]
    pipe(monkeypatch, gzip.compress(content.encode()) if told else content)
    found = list(read(["-"], format if told else None))
    assert found == [
        Document(re.sub("^a(?=$|:)", "stdin", one.id) if one.id != "a" or format == "text" else "a", *parts)
        for one in expected
        for parts in [(one.text, one.spans)]
    ]


def test_standard_input_that_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, '{"text": "a"}\n{"text": \n')
    refuse("-", "standard input:2", "not valid JSON")
    pipe(monkeypatch, "")
    refuse("-", "standard input", "the file is empty")
    pipe(monkeypatch, "x")
    refuse("-", "standard input", "brat's texts and annotations are files", "brat")


def test_standard_input_comes_before_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, "[[MS]]")
    path = save(tmp_path / "a.txt", "[[ALS]]")
    assert [document.text for document in read([path, "-"])] == ["MS", "ALS"]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, JSONL.encode())
    os.close(writing)
    try:
        assert len(list(read([f"/dev/fd/{reading}"]))) == len(JSONL_EXPECTED)
    finally:
        os.close(reading)


@pytest.mark.parametrize("name", ["bioc.xml", "bioc.json", "pubtator3.json", "mini.pubtator", "abstracts.jsonl"])
def test_texts_are_those_that_mining_reads(name: str) -> None:
    mined = [(one.id, getattr(one, "text", "")) for one in read_file(FIXTURES / name)]
    assert [(one.id, one.text) for one in read([FIXTURES / name]) if one.text] == mined


def test_sources_that_name_nothing_are_told_before_the_reading(tmp_path: Path) -> None:
    for source, message in (
        (tmp_path / "a.txt", "no such file or folder"),
        (tmp_path, "there is nothing in the folder"),
        (tmp_path / "*.ann", "no file matches the pattern"),
    ):
        with pytest.raises(InputError, match=message):
            read([source])
    with pytest.raises(InputError, match="no text was given"):
        read([])


def test_pubmed_marks_no_mentions() -> None:
    refuse(
        FIXTURES / "pubmed.xml",
        str(FIXTURES / "pubmed.xml"),
        "the format pubmed marks no mentions; name a file of one that does",
    )


@pytest.mark.parametrize("format", ["jsonl", "pubtator", "bioc-xml", "bioc-json"])
def test_memory_does_not_grow_with_the_file(format: str, tmp_path: Path) -> None:
    text = "heart failure " * 400
    mention = '{"offset": 0, "length": 5}'
    start, middle, end = {
        "jsonl": ("", f'{{"text": "{text}", "mentions": [{{"start": 0, "end": 5}}]}}\n', ""),
        "pubtator": ("", f"7|t|{text}\n7\t0\t5\theart\tDisease\tD1\n\n", ""),
        "bioc-xml": (
            "<collection>",
            f"<document><passage><offset>0</offset><text>{text}</text>"
            '<annotation><location offset="0" length="5"/></annotation></passage></document>',
            "</collection>",
        ),
        "bioc-json": (
            '{"documents": [{"id":"0","passages":[]}',
            f',{{"passages": [{{"offset": 0, "text": "{text}", "annotations": [{{"locations": [{mention}]}}]}}]}}',
            "]}",
        ),
    }[format]
    path = save(tmp_path / "a.gz", gzip.compress((start + middle * 1000 + end).encode(), 1))
    tracemalloc.start()
    count = sum(len(document.spans) for document in read([path], format))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1000
    assert peak < 4_000_000  # of 5,600,000 characters, and their copies


def test_a_format_that_is_added_is_there_for_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry in the registry is all: `kriss` then tells files of it, and reads, marks and writes them."""

    def parse(record: Record, marked: bool) -> Document:
        entity, _, rest = decode(record.content).partition(">")
        text, places = parse_bracketed(rest)
        return Document("x", text, tuple(Span(*place, (entity,)) for place in places) if marked else ())

    def write(links: Iterable[Linked], out: TextIO) -> None:
        out.writelines(f"{link.entity}>{document.text}" for document, found in links for link in found)

    arrows = Format("arrows", lambda head: head.suffix == ".arrows", FORMATS["text"].records, parse, write)
    monkeypatch.setattr(registry, "FORMATS", {"arrows": arrows, **FORMATS})
    path = save(tmp_path / "a.arrows", "X:1>Severe [[asthma]].")
    text, expected = Document("x", "Severe asthma."), Document("x", "Severe asthma.", (Span(7, 13, ("X:1",)),))
    assert list(read([path], "arrows")) == list(read([path])) == [expected]  # link, learn
    assert gold(str(path), None) == [expected]  # evaluate
    assert list(annotated(lambda texts: [[(7, 13)] for _ in texts], [path], Problems())) == [
        Document("x", text.text, (Span(7, 13),))
    ]
    assert list(read_file(path, Problems())) == [text]  # mine
    out = io.StringIO()
    link = Link(Mention(expected, 7, 13), "X:1", "asthma", 1.0, 1.0)
    write_links([(expected, [link])], out, find_format("arrows", "write"))
    assert out.getvalue() == "X:1>Severe asthma."
    with pytest.raises(ConfigError, match="there is no format 'word' to read; there are arrows, brat, pubmed"):
        read([path], "word")


# --- Entities ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("D003110", ("D003110",)),
        (" MESH:D003110 ", ("MESH:D003110",)),
        ("D003110|D009369", ("D003110", "D009369")),
        ("D003110+D009369", ("D003110", "D009369")),
        ("1234;5678", ("1234", "5678")),
        ("1234, 5678,1234", ("1234", "5678")),
        ("-1|D009369", ("D009369",)),
        *(
            (none, ())
            for none in ("", " ", "-", "-1", "CUI-less", "cui-less", "NIL", "MESH:-1", "MESH:-", "MESH:", "|")
        ),
    ],
)
def test_ids_that_are_joined_and_ids_that_are_none(identifier: str, expected: tuple[str, ...]) -> None:
    assert split_entities(identifier) == expected


# --- PubTator ---------------------------------------------------------------------------------

HEAD = "1|t|Naloxone\n1|a|works.\n"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (
            f"{HEAD}1\t0\t8\tNalorphine\tChemical\tD1",
            3,
            "document '1': the mention from 0 to 8 is 'Nalorphine' in the annotation, but 'Naloxone' in the text; "
            "mend its offsets, which count characters and not bytes",
        ),
        (f"{HEAD}1\t9\t16\tworks.\tX\tD1", 3, "from 9 to 16 does not lie in its text of 15 characters"),
        (f"{HEAD}1\t-2\t3\tworks.\tX\tD1", 3, "from -2 to 3 does not lie in its text"),
        (f"{HEAD}1\t3\t3\t\tX\tD1", 3, "from 3 to 3 is empty; its end must be greater than its start"),
        (f"{HEAD}1\t4\t3\t\tX\tD1", 3, "from 4 to 3 is empty"),
        (f"{HEAD}1\t8\t9\t \tX\tD1", 3, "from 8 to 9 is nothing but white space"),
        (f"{HEAD}1\tzero\t8\tNaloxone\tX\tD1", 3, "the start of the row is 'zero', not a whole number of characters"),
        (f"{HEAD}1\t0\t8.0\tNaloxone\tX\tD1", 3, "the end of the row is '8.0', not a whole number"),
        (f"{HEAD}1\t\t8\tNaloxone\tX", 3, "the start of the row is '', not a whole number"),
        (f"{HEAD}1\t0\t8\tNaloxone", 3, "the row has 4 columns where 5 or 6 are expected: id, start, end, surface"),
        (f"{HEAD}1\tCID", 3, "the row has 2 columns where 5 or 6 are expected"),
        (f"{HEAD}2\t0\t8\tNaloxone\tX\tD1", 3, "belongs to document '2', but the document here is '1'; put it under"),
        (f"{HEAD}\n1\t0\t8\tNaloxone\tX\tD1", 4, "belongs to document '1', but no document begins before it"),
        (f"{HEAD}1|t|again", 3, "a second line of '1|t|'; remove it, or put a blank line between two documents"),
        (f"{HEAD}lost", 3, "the line is neither a title, nor an abstract, nor an annotation"),
        (f"{HEAD}1\t0\t8\tNalo\0xone\tX\tD1", 3, "the line holds a NUL character"),
        (f"{HEAD}2|t|caf@", 3, "byte 8 of the line is 0xe9, which is not UTF-8; convert the file to UTF-8"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_bad_pubtator_file(content: str, line: int, message: str, end: str, tmp_path: Path) -> None:
    raw = content.replace("\n", end).encode().replace(b"@", b"\xe9")
    path = save(tmp_path / "a.txt", raw)
    refuse(path, f"{path}:{line}", message)


def test_what_comes_before_a_bad_row_is_read(tmp_path: Path) -> None:
    found: Iterator[Document] = read([save(tmp_path / "a.txt", f"{HEAD}\n2|t|a\n2\t0\t9\ta\tX\tD1\n")])
    assert next(found).id == "1"
    with pytest.raises(InputError):
        next(found)


# --- JSON lines -------------------------------------------------------------------------------


def with_mention(**fields: object) -> str:
    return json.dumps({"id": "x", "text": "MS β hurts.", "mentions": [{"start": 0, "end": 2}, fields]})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": ', "not valid JSON (Expecting value at column 10); mend it"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "the line is not a JSON object"),
        ('{"id": "x"}', "document 'x': the record has no text"),
        ('{"id": "x", "text": 5}', "document 'x': the title or the text of the record is not a text"),
        ('{"id": [], "text": "a"}', "the record's id is neither text nor a number"),
        ('{"text": "a", "mentions": {}}', "'mentions' is not a list; write [{"),
        ('{"text": "a", "mentions": [], "start": 0}', "both 'mentions' and a 'start' of its own"),
        ('{"id": "x", "text": "a", "start": 0}', "document 'x': mention 1 has no 'end'; it counts characters from 0"),
        ('{"text": "a", "mentions": [5]}', "mention 1 is not an object with 'start' and 'end'"),
        (with_mention(end=5), "document 'x': mention 2 has no 'start'"),
        (with_mention(start=0, end="2"), "mention 2: its 'end' is a text; write the number without quotes"),
        (with_mention(start=0, end=2.0), "mention 2: its 'end' is 2.0, not a whole number of characters"),
        (with_mention(start=True, end=2), "mention 2: its 'start' is True, not a whole number"),
        (with_mention(start=None, end=2), "mention 2: its 'start' is None, not a whole number"),
        (with_mention(start=5, end=12), "the mention from 5 to 12 does not lie in its text of 11 characters"),
        (with_mention(start=5, end=5, id="m"), "the mention 'm' from 5 to 5 is empty"),
        (with_mention(start=2, end=3), "from 2 to 3 is nothing but white space"),
        (with_mention(start=6, end=11, surface="hurts"), "is 'hurts' in the annotation, but 'urts.' in the text"),
        (with_mention(start=0, end=2, entity="C1", entities=["C1"]), "both 'entity' and 'entities'; keep one of them"),
        (with_mention(start=0, end=2, entity=["C1"]), "its 'entity' is a list; call it 'entities'"),
        (with_mention(start=0, end=2, entities="C1"), "its 'entities' is not a list; call a single one 'entity'"),
        (with_mention(start=0, end=2, entities=[{}]), "its entity is neither a text nor a whole number"),
        (with_mention(start=0, end=2, entity=1.5), "its entity is neither a text nor a whole number"),
        (with_mention(start=0, end=2, type=[]), "its 'type' is neither a text nor a whole number"),
        (with_mention(start=0, end=2, entity="\0"), "document 'x': it holds a NUL character; remove it"),
        (with_mention(start=0, end=2, id="\ud800"), "document 'x': it holds half of a surrogate pair, U+D800"),
        ('{"id": "\\ud800", "text": "a"}', "document '\\ud800': it holds half of a surrogate pair"),
        ('{"text": "a\0"}', "not valid JSON (Invalid control character"),
        ('{"text": "caf@"}', "byte 14 of the line is 0xe9, which is not UTF-8"),
    ],
)
def test_a_bad_json_line(line: str, message: str, tmp_path: Path) -> None:
    raw = ('{"text": "one"}\r\n\r\n' + line + "\r\n").encode().replace(b"@", b"\xe9")
    path = save(tmp_path / "a.jsonl", raw)
    refuse(path, f"{path}:3", message)


# --- BioC -------------------------------------------------------------------------------------

GOOD_XML = "<document><id>1</id><passage><offset>0</offset><text>one</text></passage></document>"


def annotated_xml(annotation: str, offset: str = "4") -> str:
    passage = f"<passage><offset>{offset}</offset><text>MS hurts.</text>{annotation}</passage>"
    return f"<document><id>2</id>{passage}</document>"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            annotated_xml('<annotation id="T"><location offset="4" length="0"/></annotation>'),
            "'T' from 4 to 4 is empty",
        ),
        (
            annotated_xml('<annotation id="T"><location offset="4" length="10"/></annotation>'),
            "not lie in its text of 13",
        ),
        (
            annotated_xml('<annotation id="T"><location offset="0" length="2"/></annotation>'),
            "document '2': annotation 'T' begins at 0, outside of its passage; mend its offset",
        ),
        (
            annotated_xml('<annotation id="T"><location offset="x" length="2"/></annotation>'),
            "document '2': annotation 'T': the offset of a location is 'x', not a whole number of characters",
        ),
        (annotated_xml('<annotation id="T"><location offset="4"/></annotation>'), "the length of a location is None"),
        (
            annotated_xml('<annotation id="T"><location offset="4" length="2"/><text>ALS</text></annotation>'),
            "document '2': the mention 'T' from 4 to 6 is 'ALS' in the annotation, but 'MS' in the text",
        ),
        (annotated_xml("", offset="x"), "document '2': the offset of a passage is 'x'"),
        (annotated_xml("&x;"), "not well-formed XML in UTF-8: undefined entity; mend it"),
        (annotated_xml("\0"), "not well-formed XML in UTF-8"),
        (annotated_xml("@"), "not well-formed XML in UTF-8"),
    ],
)
def test_a_bad_bioc_xml_document(document: str, message: str, tmp_path: Path) -> None:
    content = f"<collection>\n{GOOD_XML}\n{document}\n</collection>".encode().replace(b"@", b"\xe9")
    path = save(tmp_path / "a.xml", content)
    refuse(path, f"{path}:3", message)


def test_a_bioc_file_that_is_cut_off(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xml", f"<collection>\n{GOOD_XML}\n")
    refuse(path, f"{path}:3", "the file is cut off")
    path = save(tmp_path / "a.json", '{"documents": [\n{"id": "1", "passages": []}\n')
    refuse(path, f"{path}:3", "the file is cut off")


GOOD_JSON = '{"id": "1", "passages": [{"offset": 0, "text": "one"}]}'


def annotated_json(annotations: object, **passage: object) -> str:
    fields = {"offset": 0, "text": "MS hurts.", "annotations": annotations} | passage
    return json.dumps({"id": "2", "passages": [fields]})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            annotated_json([{"id": "T", "locations": [{"offset": 9, "length": 1}]}]),
            "annotation 'T' begins at 9, outside",
        ),
        (annotated_json([{"id": "T", "locations": [{"offset": 1.5, "length": 1}]}]), "is 1.5, not a whole number"),
        (annotated_json([{"id": "T", "locations": [{"offset": 0}]}]), "the length of a location is None"),
        (
            annotated_json([{"id": "T", "locations": {"offset": 0}}]),
            "document '2': 'locations' is not a list of objects",
        ),
        (annotated_json(["T"]), "document '2': 'annotations' is not a list of objects"),
        (
            annotated_json([{"id": "T", "infons": [], "locations": [{"offset": 0, "length": 1}]}]).replace("[]", "[1]"),
            "document '2': the infons of annotation 'T' are not an object",
        ),
        (annotated_json([], text=5), "the text of a passage is not a text"),
        (annotated_json([], offset=-1), "the offset of a passage is -1"),
        (annotated_json([], text="\ud800"), "document '2': it holds half of a surrogate pair"),
        (annotated_json([], text="caf@"), "document '2': it holds the byte 0xe9, which is not UTF-8"),
        ('{"id": "2", "passages": [,]}', "not valid JSON (Expecting value at column 26); mend it"),
        ('{"id": [], "passages": []}', "the record's id is neither text nor a number"),
    ],
)
def test_a_bad_bioc_json_document(document: str, message: str, tmp_path: Path) -> None:
    content = f'{{"documents": [\n{GOOD_JSON},\n{document}]}}'.encode().replace(b"@", b"\xe9")
    path = save(tmp_path / "a.json", content)
    refuse(path, f"{path}:3", message)


def test_annotations_go_with_a_passage_that_lies_elsewhere(tmp_path: Path) -> None:
    one = {"offset": 0, "text": "one", "annotations": [{"locations": [{"offset": 0, "length": 3}], "text": "one"}]}
    two = {"offset": 0, "text": "two", "annotations": [{"locations": [{"offset": 0, "length": 3}], "text": "two"}]}
    path = save(tmp_path / "a.json", json.dumps({"id": "1", "passages": [one, two]}))
    assert list(read([path])) == [Document("1", "one\ntwo", (Span(0, 3), Span(4, 7)))]


# --- brat -------------------------------------------------------------------------------------


def test_a_brat_folder_that_the_miner_reads_too() -> None:
    expected = [Document("case1", "Aspirin helps.\n", (Span(0, 7, (), "Drug", "T1"),))]
    folder = FIXTURES / "brat"
    for source in (folder, folder / "case1.txt", folder / "case1.ann", f"{folder}/*.ann", f"{folder}/*"):
        assert list(read([source])) == expected
    assert list(read([folder / "case1.ann", folder])) == expected


def test_a_text_with_nothing_marked_has_an_empty_file_beside_it(tmp_path: Path) -> None:
    path = save(tmp_path / "a.txt", "MS [[hurts]].")
    save(tmp_path / "a.ann", "")
    assert list(read([path])) == [Document("a", "MS [[hurts]].", ())]
    (tmp_path / "a.ann").unlink()
    refuse(path, str(path), "there is no a.ann beside it; make an empty one if nothing is marked", "brat")


def test_a_wrapped_paragraph_keeps_its_offsets(tmp_path: Path) -> None:
    start = "x" * 70
    path = save(tmp_path / "a.txt", f"{start} heart\nfailure\n")
    save(tmp_path / "a.ann", "T1\tDisease 71 84\theart failure\n")
    assert list(read([path])) == [Document("a", f"{start} heart failure\n", (Span(71, 84, (), "Disease", "T1"),))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("T1\tDisease 0 2\tALS", "document 'a': the mention 'T1' from 0 to 2 is 'ALS' in the annotation, but 'MS' in"),
        ("T1\tDisease 0 2;3 8\tMS hurt", "the mention 'T1' from 0 to 8 is 'MS hurt' in the annotation, but 'MS hurts'"),
        ("T1\tDisease 0 99\tMS", "does not lie in its text of 10 characters"),
        ("T1\tDisease 2 2\t", "is empty"),
        ("T1\tDisease 2 3\t ", "is nothing but white space"),
        ("T1\tDisease 0 x\tMS", "the end of the mention is 'x', not a whole number"),
        ("T1\tDisease 0\tMS", "the line is not of the form 'T1<tab>Type start end<tab>text'; mend it"),
        ("T1", "not of the form 'T1<tab>Type start end<tab>text'"),
        ("T0\tDisease 0 2\tMS", "a second mention with the id T0; give each its own"),
        ("N1\tReference T9 MeSH:D1\tx", "the line names an entity for T9, but there is no such mention; remove it"),
        ("N1\tReference T0", "not of the form 'N1<tab>Reference T1 MeSH:D003110<tab>name'; mend it"),
        ("N1", "not of the form 'N1<tab>Reference"),
        ("?1\tx", "the line begins with '?', which no annotation of brat does"),
        ("T1\t\0", "the line holds a NUL character"),
        ("#1\tcaf@", "byte 7 of the line is 0xe9, which is not UTF-8"),
    ],
)
def test_a_bad_annotation_of_brat(line: str, message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "a.txt", "MS hurts.\n")
    marked = save(tmp_path / "a.ann", f"T0\tDisease 0 2\tMS\n\n{line}\n".encode().replace(b"@", b"\xe9"))
    refuse(path, f"{marked}:3", message)


def test_annotations_without_their_text(tmp_path: Path) -> None:
    path = save(tmp_path / "a.ann", "")
    refuse(path, str(path), "there is no text file of the same name beside these annotations")


# --- Double brackets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "text", "surfaces"),
    [
        ("", "", []),
        ("nothing", "nothing", []),
        ("[[MS]]", "MS", ["MS"]),
        ("[[a]][[b]]", "ab", ["a", "b"]),
        ("[see [[MS]]]", "[see MS]", ["MS"]),
        ("[[[11C]methionine]]", "[11C]methionine", ["[11C]methionine"]),
        ("[[benzo[a]pyrene]] or [[benzo[a]]]", "benzo[a]pyrene or benzo[a]", ["benzo[a]pyrene", "benzo[a]"]),
        ("[reviewed in [12]] [[MS]]", "[reviewed in [12]] MS", ["MS"]),
        ("[[heart\nfailure]] ]", "heart\nfailure ]", ["heart\nfailure"]),
        ("[ \n[[(0, 1]-scale]]", "[ \n(0, 1]-scale", ["(0, 1]-scale"]),
        ("מחלת [[פרקינסון]] 𝒳 [[e\u0301]]", "מחלת פרקינסון 𝒳 e\u0301", ["פרקינסון", "e\u0301"]),
    ],
)  # fmt: skip
def test_double_brackets(marked: str, text: str, surfaces: list[str]) -> None:
    found, spans = parse_bracketed(marked)
    assert [found[start:end] for start, end in spans] == surfaces
    assert found == text


@pytest.mark.parametrize(
    ("marked", "line", "message"),
    [
        ("a\n[[MS", 2, "the mention that begins here is not closed; write ']]' behind it"),
        ("a\n[[MS [old]]\nb", 2, "the mention that begins here is not closed"),
        ("a\nMS]]", 2, "']]' closes no mention; write '[[' before it, or a blank between the two"),
        ("[ a\nMS]]", 2, "']]' closes no mention"),
        ("[[a\nb [[c]] d]]", 2, "a mention begins within the one of line 1; close that with ']]' first"),
        ("[[[[a]]]]", 1, "a mention begins within the one of line 1"),
        ("\n\n[[]]", 3, "there is no mention between '[[' and ']]'; write one or remove the brackets"),
        ("[[ \t]]", 1, "there is no mention between"),
    ],
)
def test_double_brackets_that_are_wrong(marked: str, line: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        parse_bracketed(marked)
    assert str(error.value).startswith(f"line {line} of the text: {message}")
    path = save(tmp_path / "a.txt", marked)
    refuse(path, f"{path}:{line}", message)


def test_marked_text_that_is_no_text(tmp_path: Path) -> None:
    path = save(tmp_path / "a.txt", b"a\r\n[[b]]\0")
    refuse(path, f"{path}:2", "the line holds a NUL character")
    path = save(tmp_path / "a.txt", b"a\r\n[[b]]\xff")
    refuse(path, f"{path}:2", "byte 6 of the line is 0xff, which is not UTF-8")


plain = st.text(st.characters(codec="utf-8", exclude_characters="[]\0"), max_size=12)


@given(st.lists(st.tuples(plain, plain.filter(str.strip)), max_size=6), plain)
def test_brackets_come_off_and_offsets_hold(parts: list[tuple[str, str]], rest: str) -> None:
    marked = "".join(f"{before}[[{surface}]]" for before, surface in parts) + rest
    text, spans = parse_bracketed(marked)
    assert text == "".join(before + surface for before, surface in parts) + rest
    assert [text[start:end] for start, end in spans] == [surface for _, surface in parts]


@given(st.text("[]a\n ", max_size=14))
def test_any_text_is_parsed_or_refused(marked: str) -> None:
    try:
        text, spans = parse_bracketed(marked)
    except InputError:
        return
    assert len(text) + 4 * len(spans) == len(marked)
    assert "".join(text[start:end] for start, end in spans) or not spans
    assert all(text[start:end].strip() for start, end in spans)
    rebuilt, at = "", 0
    for start, end in spans:
        rebuilt += f"{text[at:start]}[[{text[start:end]}]]"
        at = end
    assert rebuilt + text[at:] == marked
