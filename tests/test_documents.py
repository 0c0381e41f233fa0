"""Reading text: every format, every way in which a file can be bad, and PubMed against a parser."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.documents import jsoncut, xmlcut
from kriss.documents.problems import Deleted
from kriss.documents.registry import detect_format, read_file
from kriss.documents.sources import find_files
from kriss.errors import InputError
from kriss.files import Problems
from kriss.records import Document

TEXT = Path(__file__).parent / "fixtures" / "text"
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'


def read(path: Path, stripe: int = 0, stripes: int = 1) -> tuple[list[Document | Deleted], Problems]:
    problems = Problems()
    return list(read_file(path, problems, stripe=stripe, stripes=stripes)), problems


def texts(path: Path) -> list[str]:
    found, problems = read(path)
    assert not problems.shown
    return [document.text for document in found if isinstance(document, Document)]


def save(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def article(title: str, *sections: str, pmid: str = "7", before: str = "", after: str = "") -> str:
    abstract = "".join(f"<AbstractText>{section}</AbstractText>" for section in sections)
    return (
        f'<PubmedArticle><MedlineCitation Owner="NLM"><PMID Version="1">{pmid}</PMID>{before}<Article>'
        f"<ArticleTitle>{title}</ArticleTitle>{f'<Abstract>{abstract}</Abstract>' if sections else ''}</Article>"
        f"{after}</MedlineCitation></PubmedArticle>"
    )


def pubmed(folder: Path, *records: str, head: str = HEAD) -> Path:
    return save(folder / "p.xml", f"{head}<PubmedArticleSet>\n" + "\n".join(records) + "\n</PubmedArticleSet>\n")


# --- Every format -----------------------------------------------------------------------------

EXPECTED: dict[str, tuple[str, list[Document | Deleted]]] = {
    "pubmed.xml": (
        "pubmed",
        [
            Document(
                "10704411",
                "Dopamine modulates acute responses to cocaine & ethanol in Drosophila.\n"
                "Drugs of abuse release dopamine (p < 0.05).\nCa2+ and H2O rose twofold.",
                ordinal=0,
            ),
            Document("20029614", "Fit of R2 in asthma.", ordinal=1),
            Document("20301425", "BRCA1-Associated Cancer\nA high risk for breast cancer.", ordinal=3),
            Deleted("31688362"),
            Deleted("31764432"),
        ],
    ),
    "bioc.xml": (
        "bioc-xml",
        [Document("1000475", "Naloxone & hypertension\nRats were treated.\n  Pressure fell.", ordinal=0)],
    ),
    "bioc.json": (
        "bioc-json",
        [
            Document("PMC1", 'Naloxone "and" hypertension\nRats were treated.', ordinal=0),
            Document("PMC2", "\n  Later.", ordinal=1),
        ],
    ),
    "pubtator3.json": ("bioc-json", [Document("29355051", "The Microphthalmia genes.\nCancer β.", ordinal=0)]),
    "mini.pubtator": (
        "pubtator",
        [
            Document("1000475", "Naloxone reverses hypertension.\nIn rats, naloxone|nalorphine was given.", ordinal=0),
            Document("1000476", "\nNo title here.", ordinal=1),
            Document("1000477", "Asthma only.", ordinal=2),
        ],
    ),
    "abstracts.jsonl": (
        "jsonl",
        [
            Document("elife-00003-v1", "Lipid droplets\nHistones bound to droplets.", ordinal=0),
            Document("399296", "Contamination\nBeef and sheep.", ordinal=1),
            Document("abstracts:3", "Without an id.", ordinal=3),
        ],
    ),
    "note.txt": ("text", [Document("note", "Die Lungenentzündung\nist heilbar.\n", ordinal=0)]),
}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("how", ["plain", "gzip", "bom", "renamed"])
def test_every_format_is_told_and_read(name: str, how: str, tmp_path: Path) -> None:
    kind, expected = EXPECTED[name]
    content = (TEXT / name).read_bytes()
    renamed = name if kind in ("text", "jsonl") else f"{Path(name).stem}.txt"
    path = tmp_path / {"plain": name, "gzip": f"{name}.gz", "bom": name, "renamed": renamed}[how]
    save(path, {"gzip": gzip.compress(content), "bom": b"\xef\xbb\xbf" + content}.get(how, content))
    assert detect_format(path).name == kind
    found, problems = read(path)
    assert repr(found) == repr(expected)  # with their ordinals
    assert not problems.count


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("stripes", [2, 3])
def test_stripes_share_a_file_and_its_problems(name: str, stripes: int) -> None:
    parts = [read(TEXT / name, stripe, stripes)[0] for stripe in range(stripes)]
    assert all(d.ordinal % stripes == s for s, part in enumerate(parts) for d in part if isinstance(d, Document))
    assert not any(isinstance(document, Deleted) for part in parts[1:] for document in part)
    assert sorted(repr(document) for part in parts for document in part) == sorted(map(repr, EXPECTED[name][1]))


def test_a_bad_document_is_reported_by_its_own_stripe_alone(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", '{"text": "a"}\n{bad\n{"text": "c"}\n')
    assert [read(path, stripe, 2)[1].count for stripe in range(2)] == [0, 1]


def test_stripes_must_make_sense() -> None:
    with pytest.raises(ValueError, match="stripe 2 of 2"):
        list(read_file(TEXT / "note.txt", Problems(), stripe=2, stripes=2))


@pytest.mark.parametrize("name", ["pubmed.xml", "bioc.xml", "bioc.json", "pubtator3.json"])
@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_records_may_be_split_between_blocks_anywhere(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlcut, "_BLOCK", block)
    monkeypatch.setattr(jsoncut, "_BLOCK", block)
    assert read(TEXT / name)[0] == EXPECTED[name][1]


# --- PubMed against a parser ------------------------------------------------------------------


def by_parser(path: Path) -> list[Document | Deleted]:
    """Read PubMed XML the slow and certain way."""

    def flat(element: ET.Element | None) -> str:
        return "" if element is None else re.sub(r"[ \t\r\n]+", " ", "".join(element.itertext())).strip()

    found: list[Document | Deleted] = []
    root = ET.parse(path).getroot()
    for ordinal, record in enumerate(root.findall("PubmedArticle")):
        citation = record.find("MedlineCitation")
        assert citation is not None
        sections = [flat(section) for section in citation.findall("Article/Abstract/AbstractText")]
        parts = [flat(citation.find("Article/ArticleTitle")), "\n".join(filter(None, sections))]
        if any(parts):
            found.append(Document(flat(citation.find("PMID")), "\n".join(filter(None, parts)), ordinal=ordinal))
    return found + [Deleted(flat(pmid)) for pmid in root.findall("DeleteCitation/PMID")]


words = st.text(st.sampled_from("ab βé𝒳\u202eא\u2009<>&\"'-!?]"), max_size=8).map(
    lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
)
spaces = st.sampled_from(["", " ", "\n      ", "\t", "\r\n", "  "])
oddities = st.sampled_from(
    [
        "&#946;", "&#x3b2;", "&quot;", "&apos;", "&#10;", "<!-- a -->", "<!--\n<ArticleTitle>x</ArticleTitle>\n-->",
        "<!-- </PubmedArticle> -->", "<![CDATA[a < b & </PubmedArticle>]]>", "<![CDATA[]]>", "<?pi?>", "<sub/>",
        '<m:math xmlns:m="x"><m:mi>R</m:mi> <m:mn>2</m:mn></m:math>', "<i class='a'>k</i>",
        "<DispFormula>x</DispFormula>",
    ]
)  # fmt: skip
marked = st.recursive(
    words | oddities,
    lambda inner: st.builds("<{0}>{1}</{0}>".format, st.sampled_from(["i", "b", "u", "sub", "sup"]), inner),
    max_leaves=3,
)
content = st.lists(words | spaces | marked, max_size=4).map("".join)
labels = st.sampled_from(["", ' Label="A"', ' Label="P>0" NlmCategory="METHODS"', " Label='b'", ' Label="&gt;" '])
pmids = st.integers(1, 99).map(str)
others = st.sampled_from(
    [
        "",
        '<CommentsCorrectionsList><CommentsCorrections><PMID Version="1">5</PMID></CommentsCorrections>'
        "</CommentsCorrectionsList>",
        '<OtherAbstract Type="x"><AbstractText>no</AbstractText></OtherAbstract>',
        "<MeshHeadingList><MeshHeading>Abattoirs</MeshHeading></MeshHeadingList>",
        "<!-- <PMID>3</PMID> -->",
    ]
)


@st.composite
def records(draw: st.DrawFn) -> str:
    gap = draw(spaces)
    sections = [
        f"{gap}<AbstractText{draw(labels)}/>"
        if draw(st.booleans()) and draw(st.booleans())
        else f"{gap}<AbstractText{draw(labels)}>{draw(content)}</AbstractText>"
        for _ in range(draw(st.integers(0, 3)))
    ]
    note = draw(st.sampled_from(["", "<CopyrightInformation>Copyright</CopyrightInformation>"]))
    abstract = f"<Abstract>{''.join(sections)}{gap}{note}{gap}</Abstract>" if sections else draw(others)[:0]
    title = draw(st.sampled_from(["<ArticleTitle/>", "", "<ArticleTitle>{}</ArticleTitle>"])).format(draw(content))
    vernacular = draw(st.sampled_from(["", "<VernacularTitle>no</VernacularTitle>"]))
    version = draw(st.sampled_from(["", ' Version="1"', " Version='2'"]))
    return (
        f'<PubmedArticle>{gap}<MedlineCitation Status="MEDLINE" Owner="NLM">{gap}<PMID{version}>{draw(pmids)}</PMID>'
        f"{gap}<Article>{gap}<Journal><Title>J</Title></Journal>{title}{gap}{abstract}{vernacular}</Article>{draw(others)}"
        f"</MedlineCitation>{gap}<PubmedData><ReferenceList><Reference><ArticleIdList>"
        '<ArticleId IdType="pubmed">8</ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData>'
        "</PubmedArticle>"
    )


@given(st.lists(records(), max_size=5), spaces, st.lists(pmids, max_size=2), st.sampled_from([1, 50, 1 << 18]))
def test_pubmed_equals_a_parser(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], gap: str, deleted: list[str], block: int
) -> None:
    if deleted:
        parts = [*parts, "<DeleteCitation>" + "".join(f"<PMID>{p}</PMID>" for p in deleted) + "</DeleteCitation>"]
    path = pubmed(tmp_path_factory.mktemp("pubmed"), *(f"{gap}{part}" for part in parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xmlcut, "_BLOCK", block)
        found, problems = read(path)
    assert found == by_parser(path)
    assert not problems.count


# --- PubMed, one oddity at a time -------------------------------------------------------------


def test_the_id_is_the_citations_own_and_a_repeated_one_comes_twice(tmp_path: Path) -> None:
    reference = (
        "<CommentsCorrectionsList><CommentsCorrections><PMID>1</PMID></CommentsCorrections></CommentsCorrectionsList>"
    )
    path = pubmed(tmp_path, article("a", after=reference), article("b"), article("c", before=reference, pmid="8"))
    assert [document.id for document in read(path)[0]] == ["7", "7", "8"]


@pytest.mark.parametrize("block", range(1, 90))
def test_a_comment_is_seen_wherever_a_block_begins(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlcut, "_BLOCK", block)
    path = pubmed(tmp_path, article("!!a!!<!-- </PubmedArticle> -->!b<![CDATA[!</PubmedArticle>]]>!"))
    assert texts(path) == ["!!a!!!b!</PubmedArticle>!"]


def test_name_spaces_of_the_root_reach_the_records(tmp_path: Path) -> None:
    record = article("<m:mi>x</m:mi>")
    path = save(tmp_path / "p.xml", f'<PubmedArticleSet\nxmlns:m="urn:m">{record}</PubmedArticleSet>')
    assert texts(path) == ["x"]


def test_a_doctype_with_declarations_is_passed_over(tmp_path: Path) -> None:
    head = HEAD + '<!DOCTYPE PubmedArticleSet [\n<!ENTITY a "b>">\n<!-- ]> -->\n]>\n'
    found, problems = read(pubmed(tmp_path, article("one"), article("&a;"), article("two"), head=head))
    assert [document.text for document in found if isinstance(document, Document)] == ["one", "two"]
    assert problems.shown[0].endswith("not well-formed XML in UTF-8: undefined entity; mend it")
    assert "p.xml:8: document '7'" in problems.shown[0]


def test_an_empty_set_has_no_documents(tmp_path: Path) -> None:
    assert texts(save(tmp_path / "a.xml", f"{HEAD}<PubmedArticleSet/>")) == []
    assert texts(save(tmp_path / "b.xml", f"{HEAD}<PubmedArticleSet></PubmedArticleSet>")) == []


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (article("R&D"), "not well-formed XML"),
        (article("<i>x</j>"), "not well-formed XML in UTF-8: mismatched tag"),
        (article("a\0b"), "it holds a NUL character"),
        (article("x").replace('<PMID Version="1">7</PMID>', ""), "the record has no PMID"),
        ("<PubmedArticle></PubmedArticle>", "the record has no PMID"),
    ],
)
def test_a_bad_record_is_counted_and_named(record: str, message: str, tmp_path: Path) -> None:
    found, problems = read(pubmed(tmp_path, article("one"), "<!--\n\n-->", record, article("two")))
    assert [document.text for document in found if isinstance(document, Document)] == ["one", "two"]
    assert problems.count == 1
    assert message in problems.shown[0]
    assert f"{tmp_path / 'p.xml'}:7: " in problems.shown[0]


def test_a_byte_that_is_not_utf8_makes_one_record_bad(tmp_path: Path) -> None:
    path = pubmed(tmp_path, article("one"), article("@"), article("two"))
    found, problems = read(save(path, path.read_bytes().replace(b"@", b"\xe9")))
    assert len(found) == 2
    assert "p.xml:4: document '7': not well-formed XML" in problems.shown[0]


ONE = article("one")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (f"<PubmedArticleSet>\n{ONE}\n", 3, "cut off, </PubmedArticleSet> is missing"),
        (f"<PubmedArticleSet>\n{ONE}\n</PubmedArt", 3, "cut off"),
        (f"<PubmedArticleSet>\n{ONE}\n{ONE[:-30]}", 3, "cut off inside the <PubmedArticle> that begins here"),
        (f"<PubmedArticleSet>\n{ONE}\n{ONE[:-16]}\n{ONE}</PubmedArticleSet>", 3, "is not closed"),
        (f"<PubmedArticleSet>\n{ONE}\n{ONE[:-16]}</PubmedArticleSet>", 3, "is not closed"),
        (f"<PubmedArticleSet>\n{ONE}\nx{ONE}</PubmedArticleSet>", 3, "where a record should begin"),
        (f"<PubmedArticleSet>\n{ONE}\n{ONE[15:]}</PubmedArticleSet>", 3, "where a record should begin"),
        (f"<PubmedArticleSet>\n{ONE}</PubmedArticleSet>\n<x/>", 3, "'<x/>' stands after </PubmedArticleSet>"),
        (f"<PubmedArticleSet>\n{ONE}\n<!-- \n</PubmedArticleSet>", 3, "where a record should begin"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?><PubmedArticleSet/>', 1, "in ISO-8859-1; convert it to UTF-8"),
        ("<html><body>404</body></html>", None, "root element <html>"),
    ],
)
def test_a_broken_pubmed_file_stops_with_its_line(content: str, line: int | None, message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "p.xml", content)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read(path)
    assert error.value.place is not None
    assert (error.value.place.file, error.value.place.line) == (path, line)


# --- Files that are bad in any format ---------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED)
def test_a_truncated_or_damaged_gzip_is_one_sentence(name: str, tmp_path: Path) -> None:
    whole = gzip.compress((TEXT / name).read_bytes() * (50 if name.endswith(("jsonl", "txt", "tor")) else 1))
    path = save(tmp_path / f"{name}.gz", whole[:-9])
    with pytest.raises(InputError, match="the gzip file is truncated"):
        read(path)
    save(path, whole[:-8] + b"\0\0\0\0" + whole[-4:])
    with pytest.raises(InputError, match="the gzip file is damaged"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "the file is empty"),
        ("a.xml.gz", gzip.compress(b"", mtime=0), "nothing but white space"),
        ("a.txt", b" \n\n", "nothing but white space"),
        ("a.pdf", b"%PDF-1.7 \0\1", "no format that kriss knows"),
        ("data", b"\x7fELF\0\0", "no format that kriss knows"),
        ("a.json", b'[\n1,\n2]', "neither BioC nor one object on each line"),
        ("a.txt", "x".encode("utf-16"), "the file is in UTF-16"),
    ],
)  # fmt: skip
def test_a_file_of_no_known_format(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read(save(tmp_path / name, content))


@pytest.mark.parametrize("kind", ["jsonl", "xml", "json", "txt", "pubtator"])
def test_a_line_of_10_megabytes(kind: str, tmp_path: Path) -> None:
    long = "heart " * (10_000_000 // 6)
    path = save(
        tmp_path / f"long.{kind}",
        {
            "jsonl": f'{{"id": 7, "text": "{long}"}}',
            "xml": f"<PubmedArticleSet>{article('', long)}</PubmedArticleSet>",
            "json": f'{{"documents": [{{"id": "7", "passages": [{{"offset": 0, "text": "{long}"}}]}}]}}',
            "txt": long,
            "pubtator": f"7|t|{long}",
        }[kind],
    )
    assert [len(text.strip()) for text in texts(path)] == [len(long.strip())]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """That of the other formats, with their mentions, is in test_link_documents."""
    whole = "<PubmedArticleSet>" + article("t", "heart failure " * 400) * 2000 + "</PubmedArticleSet>"
    path = save(tmp_path / "a.xml.gz", gzip.compress(whole.encode(), 1))
    tracemalloc.start()
    count = sum(1 for _ in read_file(path, Problems()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000
    assert peak < 4_000_000  # of 11,000,000


# --- JSON lines, plain text, PubTator ---------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": ', "not valid JSON (Expecting value at column 10); mend it"),
        (b'{"id": "x"}', "document 'x': the record has no text"),
        (b'{"id": 1, "text": "caf\xe9"}', "byte 23 of the line is 0xe9, which is not UTF-8"),
        (b'{"id": 1, "text": "a\\ud800b"}', "document '1': it holds half of a surrogate pair, U+D800"),
        (b"[" * 100_000, "not valid JSON (nested too deep)"),
        (b'{"id": ' + b"9" * 5000 + b', "text": "a"}', "Exceeds the limit"),
    ],
)
def test_a_bad_line_is_counted_and_reading_goes_on(line: bytes, message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", b'{"text": "one"}\r\n\r\n' + line + b'\r\n{"text": "two"}')
    found, problems = read(path)
    assert found == [Document("a:0", "one", ordinal=0), Document("a:2", "two", ordinal=2)]
    assert problems.count == 1
    assert f"{path}:3: " in problems.shown[0]
    assert message in problems.shown[0]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"id": 12.0, "text": "a"}, Document("12", "a", ordinal=0)),
        ({"id": 0, "text": "a"}, Document("0", "a", ordinal=0)),
        ({"id": "", "text": "a"}, Document("a:0", "a", ordinal=0)),
        ({"pmid": "3", "title": None, "abstract": "a"}, Document("3", "a", ordinal=0)),
        ({"id": "3", "title": "t"}, Document("3", "t", ordinal=0)),
        ({"id": "3", "title": "t", "text": "  "}, Document("3", "t", ordinal=0)),
        ({"id": "3", "text": None}, None),
        ({"id": "3", "text": "שלום \u202eabc 𝒳 \\ud83d"}, Document("3", "שלום \u202eabc 𝒳 \\ud83d", ordinal=0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("escaped", [True, False])
def test_fields_of_a_json_line(record: object, expected: Document | None, escaped: bool, tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", json.dumps(record, ensure_ascii=escaped))
    assert read(path)[0] == ([expected] if expected else [])


def test_only_the_first_problems_are_kept(tmp_path: Path) -> None:
    for path in (save(tmp_path / "a.jsonl", "{\n" * 25), pubmed(tmp_path, *[article("&x;")] * 25)):
        problems = read(path)[1]
        assert problems.count == 25
        assert len(problems.shown) == 10


def test_plain_text_keeps_every_character(tmp_path: Path) -> None:
    assert texts(save(tmp_path / "a.b.txt.gz", gzip.compress("\ufeffאב\r\nβ\t 𝒳\u2028".encode()))) == [
        "אב\r\nβ\t 𝒳\u2028"
    ]
    assert read(tmp_path / "a.b.txt.gz")[0][0].id == "a.b"


@pytest.mark.parametrize(
    ("content", "message"), [(b"a\nb\0", "NUL"), (b"a\n\xff", "byte 1 of the line is 0xff, which is not UTF-8")]
)
def test_plain_text_that_is_none(content: bytes, message: str, tmp_path: Path) -> None:
    found, problems = read(save(tmp_path / "a.txt", content))
    assert not found
    assert f"{tmp_path / 'a.txt'}:2: document 'a': " in problems.shown[0]
    assert message in problems.shown[0]


@pytest.mark.parametrize(
    ("record", "line", "message"),
    [
        (b"2|t|a\n2|t|b\n2|a|c", 4, "a second line of '2|t|'"),
        (b"2|t|a\nlost line", 4, "neither a title, nor an abstract, nor an annotation"),
        (b"2|t|caf\xe9", 3, "byte 8 of the line is 0xe9, which is not UTF-8"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_bad_pubtator_document(record: bytes, line: int, message: str, end: bytes, tmp_path: Path) -> None:
    content = b"1|t|one\n\n" + record + b"\n\n3|t|three\n3|a|x\n4|t|four, no blank line before\n"
    found, problems = read(save(tmp_path / "a.txt", content.replace(b"\n", end)))
    assert found == [
        Document("1", "one", ordinal=0),
        Document("3", "three\nx", ordinal=2),
        Document("4", "four, no blank line before", ordinal=3),
    ]
    assert problems.count == 1
    assert f"{tmp_path / 'a.txt'}:{line}: document '2': " in problems.shown[0]
    assert message in problems.shown[0]


# --- BioC -------------------------------------------------------------------------------------

GOOD = '{"id": "1", "passages": [{"offset": 0, "text": "one"}]}'


@pytest.mark.parametrize(
    "content",
    [
        f"[{GOOD},\n{GOOD}]",
        f"{GOOD}\n{GOOD}\n",
        f'{{"documents": [{GOOD}], "infons": {{}}}}\n{{"documents": [{GOOD}]}}',
        f'{{"documents": []}}{{"documents": [{GOOD},{GOOD}]}}' + " " * 9000,
        f'{{"infons": {{"a": "}} ] \\" {{"}}, "documents": [{GOOD},{GOOD}]}}',
    ],
)
def test_every_wrapping_of_bioc_json(content: str, tmp_path: Path) -> None:
    assert read(save(tmp_path / "a.json", content))[0] == [
        Document("1", "one", ordinal=0),
        Document("1", "one", ordinal=1),
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"id": "2", "passages": [{"offset": 99999999, "text": "a"}]}', "lies 99,999,999 characters after"),
        ('{"id": "2", "passages": {"offset": 0}}', "'passages' is not a list of objects"),
        ('{"id": "2", "passages": [{"offset": 0, "text": "@"}]}', "byte 0xe9, which is not UTF-8"),
        ('{"id": "2", "passages": [,"a}]}"]}', "not valid JSON"),
    ],
)
def test_a_bad_bioc_json_document(document: str, message: str, tmp_path: Path) -> None:
    content = f'{{"documents": [\n{GOOD},\n{document},\n{GOOD}]}}'
    path = save(tmp_path / "a.json", content.encode().replace(b"@", b"\xe9"))
    found, problems = read(path)
    assert [document.id for document in found] == ["1", "1"]
    assert f"{path}:3: " in problems.shown[0]
    assert message in problems.shown[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f'{{"documents": [\n{GOOD},\n{GOOD[:-5]}', "the document that begins here is cut off"),
        (f'{{"documents": [\n{GOOD}\n', "cut off within a list of documents"),
        (f'{{"documents": [\n{GOOD}\n]', "cut off after a list of documents"),
        (f"[\n{GOOD}\n", "cut off within a list of documents"),
        (f'{{"documents": [\n{GOOD},\nnull]}}', "'n' stands where a document should begin"),
    ],
)
def test_a_broken_bioc_json_file_stops_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "a.json", content)
    with pytest.raises(InputError, match=re.escape(f"{path}:3: ") + ".*" + re.escape(message)):
        read(path)


def test_bioc_passages_that_overlap_follow_each_other(tmp_path: Path) -> None:
    passages = '[{"offset": 0, "text": "one"}, {"offset": 0, "text": "two"}, {"offset": 9, "text": "three"}]'
    assert texts(save(tmp_path / "a.json", f'{{"id": 1, "passages": {passages}}}')) == ["one\ntwo\n three"]


def test_a_bad_bioc_xml_document(tmp_path: Path) -> None:
    good = "<document><id>1</id><passage><offset>0</offset><text>one</text></passage></document>"
    bad = [good.replace("one", "R&D"), good.replace(">0<", ">zero<")]
    content = f"<collection><source>x</source><date/>\n{good}\n{bad[0]}\n{bad[1]}\n{good}</collection>"
    found, problems = read(save(tmp_path / "a.xml", content))
    assert found == [Document("1", "one", ordinal=0), Document("1", "one", ordinal=3)]
    assert "a.xml:3: not well-formed XML" in problems.shown[0]
    assert "a.xml:4: document '1': the offset of a passage is 'zero'" in problems.shown[1]


# --- Which files ------------------------------------------------------------------------------


def test_folders_globs_and_files_in_an_order_of_their_own(tmp_path: Path) -> None:
    for name in (
        "n10.xml.gz",
        "n2.xml.gz",
        "n2.xml.gz.md5",
        "n10.html",
        ".hidden.txt",
        "b/a.txt",
        "b/a.ann",
        ".c/x.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save(tmp_path / name, "x")
    expected = [tmp_path / "b" / "a.txt", tmp_path / "n2.xml.gz", tmp_path / "n10.xml.gz"]
    assert find_files([tmp_path]) == expected
    sources: list[Path | str] = [f"{tmp_path}/n2*", tmp_path / "b" / "a.txt", str(tmp_path), f"{tmp_path}/**/*.gz"]
    assert find_files(sources) == find_files(sources[::-1]) == expected
    assert find_files([tmp_path / "n10.html"]) == [tmp_path / "n10.html"]
    assert find_files([f"{tmp_path}/b*"]) == [tmp_path / "b" / "a.txt"]
    (tmp_path / "link.txt").symlink_to(tmp_path / "b" / "a.txt")
    assert find_files([tmp_path]) == expected


def test_a_name_with_the_signs_of_a_glob_is_a_name_first(tmp_path: Path) -> None:
    path = save(tmp_path / "a[1].txt", "x")
    assert find_files([path]) == [path]


def test_a_brat_folder_gives_its_texts_alone() -> None:
    assert find_files([TEXT / "brat"]) == [TEXT / "brat" / "case1.txt"]


def test_sources_that_name_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    save(tmp_path / "other" / "a.md5", "x")
    for source, message in (
        ("empty", "there is nothing in the folder; kriss looks for .xml"),
        ("other", "there is no text in the folder; kriss looks for .xml"),
        ("*.xml", "no file matches the pattern"),
        ("missing.xml", "no such file or folder"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            find_files([tmp_path / source])
    with pytest.raises(InputError, match="no text was given"):
        find_files([])
