from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.results_figure import SHOWN, main, pictures, tables

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "results.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def test_a_page_has_its_tables_below_their_headings() -> None:
    found = tables(
        "# Page\n\n## one, 3 mentions\n|  | strict |\n|---|:---:|\n| **a** | 1.0 |\n\ntext\n| x |\n|---|\n| y |\n"
    )
    assert found == {"one": [[{"": "a", "strict": "1.0"}], [{"x": "y"}]]}


def test_the_pictures_that_stand_in_docs_are_those_of_its_tables() -> None:
    for name, content in pictures(PAGE):
        assert (DOCS / name).read_text(encoding="utf-8") == content, f"make {name} again; see the benchmark's docstring"


def test_a_changed_figure_changes_the_picture(tmp_path: Path) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| **kriss, self-supervised** |"))
    share = row.split("|")[2].strip()
    (tmp_path / "page.md").write_text(PAGE.replace(row, row.replace(share, "12.3", 1)), encoding="utf-8")
    assert main([str(tmp_path / "page.md"), "--out", str(tmp_path)]) == 0
    drawn = ElementTree.parse(tmp_path / "results-systems.svg").getroot()
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert "12.3" in texts
    assert texts.count("kriss, no labels") == 3
    assert {text for text in texts if text} >= {SHOWN[name] for name in ("QuickUMLS", "SapBERT", "BLINK, bi-encoder")}


def test_a_page_without_a_corpus_is_told() -> None:
    with pytest.raises(SystemExit, match="'ncbi-disease'"):
        list(pictures("# nothing\n"))
