"""The HTML report: what stands in it, that nothing in it runs, and that plots are as long as their figures."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html.parser import HTMLParser
from math import isnan
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kriss.errors import ExistsError
from kriss.evaluate import html
from kriss.evaluate.gold import GoldMention, Key
from kriss.evaluate.html import write_html
from kriss.evaluate.kinds import kind_of
from kriss.evaluate.knowledge import Knowledge
from kriss.evaluate.metrics import percent
from kriss.evaluate.predictions import Prediction, Scored
from kriss.evaluate.score import DEPTHS, Evaluation, evaluate
from tests.conftest import build, write_jsonl

EVIL = '<script>alert("1")</script>\'&amp;'
HEBREW = "סרטן"
VOID = {"meta", "br", "input"}


# --- a page as a tree ---------------------------------------------------------------------------


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str, **attributes: str) -> Iterator[Node]:
        for child in self.children:
            if isinstance(child, Node):
                wanted = attributes.items() <= child.attributes.items()
                if tag in (child.tag, "*") and wanted:
                    yield child
                yield from child.all(tag, **attributes)

    def one(self, tag: str, **attributes: str) -> Node:
        [found] = self.all(tag, **attributes)
        return found


class Tree(HTMLParser):
    """Builds nodes, and fails where an end tag does not match its start."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        assert len(node.attributes) == len(attrs)
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(path: Path) -> Node:
    tree = Tree()
    tree.feed(path.read_text(encoding="utf-8"))
    tree.close()
    assert tree.open == [tree.root]
    return tree.root


# --- a corpus in miniature ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    folder = tmp_path_factory.mktemp("html")
    rows = write_jsonl(
        folder / "entities.jsonl",
        {"id": "D1", "name": "neoplasms", "aliases": ["cancer"]},
        {"id": "D2", "name": "colonic neoplasms", "aliases": ["colon cancer"], "parents": ["D1"]},
        {"id": "D3", "name": "multiple sclerosis", "aliases": ["MS"]},
        {"id": "D4", "name": f"mass spectrometry {EVIL}", "aliases": ["MS"]},
    )
    return Knowledge(build(folder / "out", "jsonl", rows), prototypes={"D1": 20, "D2": 1})


Case = tuple[str, str, tuple[str, ...], tuple[str, ...] | None, tuple[Scored, ...]]
CASES: list[Case] = [
    ("a", "cancer", ("D1",), ("D1",), (Scored("D1", 0.9, "cancer"),)),
    ("a", "colon cancer", ("D2",), ("D1",), (Scored("D1", 0.8, "cancer", "of [[cancer]] here"), Scored("D2", 0.7))),
    ("a", "Colon Cancer", ("D2",), ("D1",), (Scored("D1", math.inf, "cancer"), Scored("D2"))),
    ("b", "bowel cancer", ("D2",), ("D1",), (Scored("D1", 0.5, "cancer"),)),
    ("b", "MS", ("D3",), ("D4",), (Scored("D4", 0.6, "MS"), Scored("D3", 0.5, "MS"))),
    ("b", EVIL, ("D3",), ("D1",), (Scored("D1", 0.6, EVIL, f"a [[{EVIL}]] b"),)),
    ("c", HEBREW, ("D1", "D2"), ("D4",), (Scored("D4", 0.6), Scored("D3"), Scored("D2", 0.1, "x"))),
    ("c", "odd \x01\x85\ud800 text", ("D9",), ("D4",), (Scored("D4", 0.6),)),
    ("c", "nothing", ("D3",), (), (Scored("D3", 0.1, "MS"),)),
    ("c", "silence", ("D3",), None, ()),
]


def scored(knowledge: Knowledge, cases: Sequence[Case] = CASES) -> Evaluation:
    gold, predictions = [], dict[Key, Prediction]()
    for number, (document, surface, right, given, candidates) in enumerate(cases):
        start = number * 1000
        mention = GoldMention(document, start, start + len(surface), surface, right, "", f"{EVIL} of ", " seen")
        gold.append(mention)
        if given is not None:
            predictions[mention.key] = Prediction(*mention.key, given, candidates)
    return evaluate(gold, predictions, knowledge)


@pytest.fixture(scope="module")
def evaluation(knowledge: Knowledge) -> Evaluation:
    return scored(knowledge)


@pytest.fixture
def page(tmp_path: Path, evaluation: Evaluation, knowledge: Knowledge) -> Node:
    path = tmp_path / "report.html"
    others = [(f"other {EVIL}", evaluation)]
    write_html(path, f"title {EVIL}", evaluation, knowledge, protocol=[f"line {EVIL}", "ids: MEDIC"], others=others)
    return parse(path)


def table(page: Node, caption: str) -> list[list[str]]:
    [found] = [one for one in page.all("table") if one.one("caption").text == caption]
    return [[cell.text for cell in row.children if isinstance(cell, Node)] for row in found.all("tr")]


# --- figures ------------------------------------------------------------------------------------


def test_the_table_has_the_figures_of_the_evaluation(page: Node, evaluation: Evaluation) -> None:
    head, *rows = table(page, "Accuracy by slice")
    assert head == [
        *["slice", "mentions", "strict", "95%\xa0interval", "lenient (inflated)"],
        *(f"R@{depth}" for depth in DEPTHS),
    ]
    assert len(rows) == len(evaluation.rows) > 5
    for shown, row in zip(rows, evaluation.rows, strict=True):
        assert shown[0] == f"{row.name} {row.meaning}"
        interval = "–" if isnan(row.low) else f"{percent(row.low)} – {percent(row.high)}"
        assert shown[1:] == [str(row.mentions), *map(percent, [row.strict]), interval, *map(percent, [row.lenient])] + [
            f"{100 * share:.1f}" for share in row.recall
        ]


def test_the_headline_counts_every_mention(page: Node) -> None:
    header = page.one("header")
    assert header.one("strong").text == "10.0%"  # 1 of 10: written out, not asked of the evaluation
    facts = {one.one("dt").text: one.one("dd").text for one in header.one("dl").all("div")}
    assert facts["mentions"] == "10"
    assert facts["documents"] == "3"
    assert facts["wrong"] == "9"
    assert facts["without a prediction"] == "1"
    assert [line.text for line in header.all("li")] == [f"line {EVIL}", "ids: MEDIC"]


def test_ties_have_a_column_only_where_there_are_some(tmp_path: Path, knowledge: Knowledge) -> None:
    tie: Case = ("d", "MS", ("D3",), ("D3", "D4"), (Scored("D3", 0.5, "MS"), Scored("D4", 0.5, "MS")))
    write_html(tmp_path / "ties.html", "t", scored(knowledge, [*CASES, tie]), knowledge)
    page = parse(tmp_path / "ties.html")
    head, first, *_ = table(page, "Accuracy by slice")
    assert first[head.index("strict")] == "9.1"  # 1 of 11, and 1.5 of 11
    assert first[head.index("ties at random")] == "13.6"
    assert "D3 multiple sclerosis; D4 mass" in page.one("details", id="kind-tie").one("h4").text


def test_a_perfect_system_has_no_errors(tmp_path: Path, knowledge: Knowledge) -> None:
    write_html(tmp_path / "report.html", "t", scored(knowledge, CASES[:1]), knowledge)
    page = parse(tmp_path / "report.html")
    assert "There are none." in page.text
    assert not list(page.all("form"))


# --- errors -------------------------------------------------------------------------------------


def test_each_kind_has_its_errors(page: Node, evaluation: Evaluation, knowledge: Knowledge) -> None:
    counts = Counter(kind for one in evaluation.outcomes if (kind := kind_of(one, knowledge)))
    assert {"too general", "shared name", "not in the ontology", "no link", "no prediction"} <= set(counts)
    boxes = [one for one in page.all("details") if "data-kind" in one.attributes]
    assert {box.attributes["data-kind"]: len(list(box.all("li"))) for box in boxes} == counts
    assert [int(row[1]) for row in table(page, "Errors by kind")[1:]] == sorted(counts.values(), reverse=True)
    assert [box.attributes["id"] for box in boxes] == [
        str(link.attributes["href"]).removeprefix("#") for link in page.all("a")
    ]
    options = page.one("select").all("option")
    assert [one.attributes["value"] for one in options] == ["", *(box.attributes["data-kind"] for box in boxes)]


def test_the_most_frequent_confusion_comes_first_whatever_its_case(page: Node) -> None:
    heads = [one.text for one in page.one("details", id="kind-too-general").all("h4")]
    assert heads == ["colon cancer → D1 neoplasms × 2", "bowel cancer → D1 neoplasms"]


def test_an_error_shows_its_context_gold_answer_evidence_and_rank(page: Node) -> None:
    first = next(page.one("details", id="kind-too-general").all("li"))
    assert first.one("p").text == f"{EVIL} of colon cancer seen"
    facts = dict(
        zip([one.text for one in first.all("dt")], [one.text for one in first.all("dd")], strict=True),
    )
    assert facts == {
        "gold": "D2 colonic neoplasms rank 2 of 2, score 0.700",
        "given": "D1, score 0.800, by “cancer”",
        "evidence": "of cancer here",
        "document": "a, characters 1000 to 1012",
    }
    assert [one.text for one in first.all("mark")] == ["colon cancer", "cancer"]
    assert "not among 1 candidates" in page.one("details", id="kind-too-general").text
    assert "rank 3 of 3, score 0.100" in next(one for one in page.all("li") if HEBREW in one.text).text


def test_no_answer_and_no_prediction_are_said(page: Node) -> None:
    assert page.one("details", id="kind-no-link").one("h4").text == "nothing → no link"
    assert "nearest" in page.one("details", id="kind-no-link").text
    assert page.one("details", id="kind-no-prediction").one("h4").text == "silence → no prediction"


def test_a_list_that_is_cut_says_so_and_keeps_some_of_each_kind(
    tmp_path: Path, evaluation: Evaluation, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = html.errors_by_kind(evaluation, knowledge)
    monkeypatch.setattr(html, "MOST", len(kinds))
    write_html(tmp_path / "report.html", "t", evaluation, knowledge)
    page = parse(tmp_path / "report.html")
    assert f"{len(kinds)} of the 9 errors are listed" in page.text
    boxes = [one for one in page.all("details") if "data-kind" in one.attributes]
    assert [len(list(box.all("li"))) for box in boxes] == [1] * len(kinds)
    assert "Only the 1 most frequent are listed." in page.one("details", id="kind-too-general").text


@pytest.mark.parametrize(
    ("sizes", "most", "shares"),
    [([5, 1, 9], 100, [5, 1, 9]), ([10, 2, 30], 12, [5, 2, 5]), ([7, 7], 5, [2, 3]), ([4], 3, [3]), ([], 3, [])],
)
def test_small_kinds_are_whole_and_large_ones_share_the_rest(sizes: list[int], most: int, shares: list[int]) -> None:
    assert html._shares(sizes, most) == shares


# --- safety -------------------------------------------------------------------------------------


def test_text_is_shown_and_never_run(page: Node) -> None:
    script, style = page.one("script"), page.one("style")
    assert "alert" not in script.text
    assert page.one("head").one("title").text == f"title {EVIL}"
    assert EVIL in [one.text for one in page.all("mark")]
    policy = str(page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"])
    for source in (script, style):
        assert f"'sha256-{b64encode(sha256(source.text.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy
    assert not [name for one in page.all("*") for name in one.attributes if name.startswith("on") or name == "style"]


def test_nothing_comes_from_elsewhere(page: Node) -> None:
    names = [(name, value) for one in page.all("*") for name, value in one.attributes.items()]
    assert not [name for name, _ in names if name in ("src", "srcset", "action", "xlink:href", "data")]
    assert all(str(value).startswith("#") for name, value in names if name == "href")
    assert not re.search(r"url\(|@import|//[a-z]", page.one("style").text)
    assert not re.search(r"fetch|XMLHttp|import\(|https?:", page.one("script").text)


def test_ids_are_unique_and_controls_have_labels(page: Node) -> None:
    ids = [one.attributes["id"] for one in page.all("*") if "id" in one.attributes]
    assert len(set(ids)) == len(ids)
    assert len([one for label in page.all("label") for one in label.all("*") if one.tag in ("select", "input")]) == 2
    assert all(one.attributes.get("scope") in ("row", "col") for one in page.all("th"))
    assert "hidden" in page.one("form").attributes  # without a script, no control that does nothing


def test_text_from_right_to_left_turns_nothing_round(page: Node) -> None:
    assert any(one.text == HEBREW for one in page.all("bdi"))
    [item] = [one for one in page.all("li") if HEBREW in one.text]
    assert item.one("p").attributes["dir"] == "auto"


def test_what_html_cannot_hold_is_replaced(page: Node) -> None:
    assert "odd \ufffd\ufffd\ufffd text" in page.one("details", id="kind-not-in-the-ontology").text


def test_a_report_is_not_replaced_unasked(tmp_path: Path, evaluation: Evaluation, knowledge: Knowledge) -> None:
    path = tmp_path / "report.html"
    write_html(path, "first", evaluation, knowledge)
    with pytest.raises(ExistsError):
        write_html(path, "second", evaluation, knowledge)
    write_html(path, "third", evaluation, knowledge, force=True)
    assert parse(path).one("head").one("title").text == "third"


# --- plots --------------------------------------------------------------------------------------


def test_plots_are_well_formed_and_as_long_as_their_figures(tmp_path: Path, page: Node, evaluation: Evaluation) -> None:
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    plots = [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    [curves] = [plot for plot in plots if plot.get("role") == "img"]
    points = [str(line.get("points")).split() for line in curves.findall(".//polyline")]
    assert len(points) == 2
    heights = [float(point.split(",")[1]) for point in points[0]]
    labels = {str(one.text): float(str(one.get("y"))) - 4 for one in curves.findall("text[@text-anchor='end']")}
    per_point = (labels["20"] - labels["100"]) / 80
    expected = [labels["100"] + per_point * (100 - 100 * share) for _, share in evaluation.curve]
    assert heights == pytest.approx(expected, abs=0.05)
    assert [one.text for one in page.one("ul", **{"class": "legend"}).all("bdi")] == [f"title {EVIL}", f"other {EVIL}"]
    bars = [float(str(plot.findall("rect")[0].get("width"))) for plot in plots if plot is not curves]
    assert bars == pytest.approx([10.0, 10.0, *(100 * row.strict for row in evaluation.rows)], abs=0.01)


def test_probabilities_stand_beside_how_often_they_are_right(tmp_path: Path, knowledge: Knowledge) -> None:
    mention = GoldMention("a", 0, 6, "cancer", ("D1",))
    prediction = Prediction("a", 0, 6, ("D1",), (Scored("D1"),), probability=0.75)
    write_html(tmp_path / "p.html", "t", evaluate([mention], {mention.key: prediction}, knowledge), knowledge)
    page = parse(tmp_path / "p.html")
    assert table(page, "Right by probability")[1] == ["75.0", "100.0", "1"]
    assert "expected calibration error0.250" in page.text
