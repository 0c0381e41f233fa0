"""`kriss link` and `kriss annotate`: every format in and out, one line for what is wrong, quiet when nobody reads."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kriss.cli import run
from kriss.documents.read import read
from kriss.link.annotate import Dictionary, SpacyEntities
from kriss.link.documents import link_documents
from kriss.link.linker import Linker
from kriss.records import Document, Mention, Span
from tests.train_fixtures import one_thread  # noqa: F401 - fixture

TEXT = "Patients with MS relapsed.\nAcetylsalicylic acid for colon cancer."
SPANS = [(14, 16), (27, 47), (52, 64)]


def write_jsonl(folder: Path) -> list[str]:
    mentions = [{"start": start, "end": end} for start, end in SPANS]
    (folder / "a.jsonl").write_text(json.dumps({"id": "7", "text": TEXT, "mentions": mentions}) + "\n")
    return [str(folder / "a.jsonl")]


def write_pubtator(folder: Path) -> list[str]:
    title, body = TEXT.split("\n")
    rows = "".join(f"7\t{start}\t{end}\t{TEXT[start:end]}\tThing\t-1\n" for start, end in SPANS)
    (folder / "a.pubtator").write_text(f"7|t|{title}\n7|a|{body}\n{rows}\n")
    return [str(folder / "a.pubtator")]


def write_bioc_json(folder: Path) -> list[str]:
    marked = [
        {"id": "1", "infons": {}, "text": TEXT[a:b], "locations": [{"offset": a, "length": b - a}]} for a, b in SPANS
    ]
    passage = {"offset": 0, "infons": {}, "text": TEXT, "annotations": marked}
    (folder / "a.json").write_text(json.dumps({"documents": [{"id": "7", "passages": [passage]}]}))
    return [str(folder / "a.json")]


def write_bioc_xml(folder: Path) -> list[str]:
    marked = "".join(
        f'<annotation id="1"><location offset="{a}" length="{b - a}"/><text>{TEXT[a:b]}</text></annotation>'
        for a, b in SPANS
    )
    passage = f"<passage><offset>0</offset><text>{TEXT}</text>{marked}</passage>"
    content = f'<?xml version="1.0"?><collection><document><id>7</id>{passage}</document></collection>'
    (folder / "a.xml").write_text(content)
    return [str(folder / "a.xml")]


def write_brat(folder: Path) -> list[str]:
    (folder / "7.txt").write_text(TEXT)
    rows = "".join(f"T{n}\tThing {a} {b}\t{TEXT[a:b]}\n" for n, (a, b) in enumerate(SPANS, 1))
    (folder / "7.ann").write_text(rows)
    return [str(folder / "7.txt")]


def write_text(folder: Path) -> list[str]:
    marked = TEXT
    for start, end in reversed(SPANS):
        marked = f"{marked[:start]}[[{marked[start:end]}]]{marked[end:]}"
    (folder / "7.txt").write_text(marked)
    return [str(folder / "7.txt")]


WRITERS = [write_jsonl, write_pubtator, write_bioc_json, write_bioc_xml, write_brat, write_text]
FORMATS = ["jsonl", "pubtator", "bioc-json", "bioc-xml", "brat", "text"]


@pytest.fixture
def linked(clinic: Path) -> list[str]:
    """Return the entities that the mentions of the text should be linked to."""
    links = Linker.load(clinic, threads=1).link([Mention.at(TEXT, *span) for span in SPANS])
    assert links[2].entity
    return [str(link.entity) for link in links]


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must fail with one line."""

    def check(*words: object, status: int = 1) -> str:
        capsys.readouterr()
        assert run([*map(str, words)]) == status
        printed = capsys.readouterr()
        assert printed.out == ""
        if status == 1:
            [line] = printed.err.splitlines()
            assert line.startswith("kriss: error: ")
        return printed.err.removeprefix("kriss: error: ").strip()

    return check


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(("write", "format"), [*zip(WRITERS, FORMATS, strict=True)], ids=FORMATS)
def test_every_format_is_read(
    clinic: Path,
    linked: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[Path], list[str]],
    format: str,
    told: bool,
) -> None:
    options = ["--format", format] if told else []
    assert run(["link", str(clinic), *write(tmp_path), *options]) == 0
    printed = capsys.readouterr()
    [document] = map(json.loads, printed.out.splitlines())
    assert (document["id"], document["text"].rstrip("\n")) == ("7", TEXT)
    assert [(m["start"], m["end"], m["entity"]) for m in document["mentions"]] == [
        (*span, entity) for span, entity in zip(SPANS, linked, strict=True)
    ]
    assert printed.err == "3 of 3 mentions linked in 1 documents\n"


@pytest.mark.parametrize("to", ["jsonl", "pubtator", "bioc-xml", "bioc-json", "table"])
def test_every_format_is_written(
    clinic: Path, linked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    out = tmp_path / "links"
    source = write_jsonl(tmp_path)
    assert run(["link", str(clinic), *source, "--to", to, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"{out}: 3 of 3 mentions linked in 1 documents\n")
    assert run(["link", str(clinic), *source, "--to", to]) == 0
    assert capsys.readouterr().out == out.read_text()
    if to == "table":
        rows = [line.split("\t") for line in out.read_text().splitlines()]
        assert [row[rows[0].index("entity")] for row in rows[1:]] == linked
        assert [row[rows[0].index("evidence_kind")] for row in rows[1:]] != ["", "", ""]
    else:
        [document] = read([out])
        assert [span.entities for span in document.spans] == [(entity,) for entity in linked]
        if to == "jsonl":
            names = [Linker.load(clinic).ontology[entity].name for entity in linked]
            assert [span.name for span in document.spans] == names


def test_standard_input(
    clinic: Path, linked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = write_text(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(file).read_bytes())))
    assert run(["link", str(clinic), "-", "--to", "table"]) == 0
    assert [line.split("\t")[4] for line in capsys.readouterr().out.splitlines()[1:]] == linked


def test_documents_without_mentions_do_not_pile_up(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kriss.link.documents.BATCH", 3)
    read = 0

    def documents() -> Iterable[Document]:
        nonlocal read
        for number in range(100):
            read += 1
            yield Document(str(number), "nothing here", ())

    found = link_documents(Linker.load(clinic), documents())
    assert [next(found)[0].id for _ in range(4)] == ["0", "1", "2", "3"]
    assert read <= 6
    assert len(list(found)) == 96


def test_a_span_outside_its_document_is_named(clinic: Path) -> None:
    from kriss.errors import InputError

    with pytest.raises(InputError, match="document '5': the span from 2 to 9 does not lie in its text of 4 characters"):
        list(link_documents(Linker.load(clinic), [Document("5", "cold", (Span(2, 9),))]))


# --- options -------------------------------------------------------------------------------------


def test_options_reach_the_linker(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_jsonl(tmp_path)
    (tmp_path / "ids").write_text("\ufeffD009103\r\n\n D013058 \n")

    def entities(*options: str) -> list[list[str]]:
        capsys.readouterr()
        assert run(["link", str(clinic), *source, *options]) == 0
        [document] = map(json.loads, capsys.readouterr().out.splitlines())
        return [[c["entity"] for c in m["candidates"]] for m in document["mentions"]]

    assert [len(found) for found in entities("--top", "2")] == [2, 2, 2]
    assert [set(found) for found in entities("--type", "Disease", "--type", "Chemical")] == [
        {"D001241", "D003110", "D009103", "D009369"}
    ] * 3
    assert [set(found) for found in entities("--ids", str(tmp_path / "ids"))] == [{"D009103", "D013058"}] * 3
    assert entities("--mode", "supervised") == [[], [], []]
    plain = entities("--weight", "context=0", "--weight", "spelling=50", "--no-abbreviations", "--threads", "1")
    assert plain[2][0] == "D003110"
    assert run(["link", str(clinic), *source, "--threshold", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "0 of 3 mentions linked in 1 documents\n"
    assert '"entity": null' in printed.out


def test_wrong_options_are_one_line(clinic: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    [source] = write_jsonl(tmp_path)
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "ids").write_text("D009103\nD1\n")
    (tmp_path / "out").write_text("mine")
    command = ("link", clinic, source)
    formats = "brat, pubmed, bioc-xml, bioc-json, jsonl, pubtator, text"
    assert fails(*command, "--format", "word") == f"there is no format 'word' to read; there are {formats}"
    formats = "bioc-xml, bioc-json, jsonl, pubtator, predictions, table"
    assert fails(*command, "--to", "word") == f"there is no format 'word' to write; there are {formats}"
    assert "'mode' must be one of lazy, self-supervised, supervised, not 'eager'" in fails(*command, "--mode", "eager")
    assert "the weight of 'context' is from 0 to 1, not 1.5" in fails(*command, "--weight", "context=1.5")
    assert "'weights' must be at least 0, not -1.0" in fails(*command, "--weight", "spelling=-1")
    assert "there is no feature 'ngrams' to weigh" in fails(*command, "--weight", "ngrams=1")
    assert "--weight wants NAME=W with a number, not 'match=much'" in fails(*command, "--weight", "match=much")
    assert "--weight wants NAME=W, not 'match'" in fails(*command, "--weight", "match")
    assert "'threshold' is a number from 0 to 1, not 7.0" in fails(*command, "--threshold", "7")
    assert "'threads' must be at least 1, or 0 for all cores" in fails(*command, "--threads", "-1")
    assert "Weather" in fails(*command, "--type", "Weather")
    assert "empty has no line to read" in fails(*command, "--ids", tmp_path / "empty")
    assert "no entity 'D1' in" in fails(*command, "--ids", tmp_path / "ids")
    assert "no such file" in fails(*command, "--ids", tmp_path / "absent").lower()
    assert "exists; give --force to replace it" in fails(*command, "--out", tmp_path / "out")
    assert "is a folder; name a file" in fails(*command, "--out", tmp_path, "--force")
    assert (tmp_path / "out").read_text() == "mine"
    assert "no such file" in fails("link", clinic, tmp_path / "absent").lower()
    assert "does not exist" in fails("link", tmp_path / "absent", source)
    assert "holds an ontology; this command needs a linker" in fails("link", clinic / "ontology", source)
    assert "--top" in fails(*command, "--top", "0", status=2)
    assert "Missing argument" in fails("link", clinic, status=2)
    assert run([*map(str, command), "--out", str(tmp_path / "out"), "--force"]) == 0
    assert json.loads((tmp_path / "out").read_text())["id"] == "7"


def test_a_bad_document_stops_the_run_and_leaves_no_file(
    clinic: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    good = json.dumps({"text": TEXT, "mentions": [{"start": 14, "end": 16}]})
    (tmp_path / "a.jsonl").write_text(f'{good}\n{{"text": "cold", "mentions": [{{"start": 2, "end": 9}}]}}\n')
    line = fails("link", clinic, tmp_path / "a.jsonl", "--out", tmp_path / "out")
    assert "a.jsonl:2: document 'a:1': the mention from 2 to 9 does not lie in its text" in line
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("command", ["link", "annotate"])
def test_a_pipe_that_closes_is_no_error(clinic: Path, tmp_path: Path, command: str) -> None:
    mentions = [{"start": start, "end": end} for start, end in SPANS]
    lines = [json.dumps({"id": str(n), "text": TEXT, "mentions": mentions}) for n in range(200)]
    (tmp_path / "many.jsonl").write_text("\n".join(lines))
    program = f"{sys.executable} -m kriss.cli {command} {clinic} {tmp_path}/many.jsonl | head -c 100"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert len(done.stdout) == 100
    assert done.stderr == ""


# --- annotate ------------------------------------------------------------------------------------


def found_in(path: Path, file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[list[str]]:
    capsys.readouterr()
    assert run(["annotate", str(path), str(file), *options]) == 0
    return [[m["surface"] for m in json.loads(line)["mentions"]] for line in capsys.readouterr().out.splitlines()]


def test_annotate_finds_names(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.jsonl"
    texts = [
        "In MS test, Multiple sclerosis and colon cancer, not cancerous but cancer; MS in ms.",
        "Nothing at all.",
        "Aspirin.",
    ]
    file.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    expected = [["MS test", "Multiple sclerosis", "colon cancer", "cancer", "MS"], [], ["Aspirin"]]
    assert found_in(clinic, file, capsys) == expected
    assert run(["annotate", str(clinic), str(file), "--to", "pubtator", "--out", str(tmp_path / "o")]) == 0
    assert capsys.readouterr().err.endswith("6 of 6 mentions linked in 3 documents\n")
    spans = [[text[s.start : s.end] for s in d.spans] for text, d in zip(texts, read([tmp_path / "o"]), strict=True)]
    assert spans == expected


def test_annotate_finds_what_was_learned(ward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("A colon cancer of the left side, a dose of the patient, a cold, and strange new things.")
    linker = Linker.load(ward)
    assert found_in(ward, file, capsys) == [["colon cancer"]]
    linker.add(("--- +++", 0, 3), "D009103")  # nothing that could be looked for
    assert found_in(ward, file, capsys) == [["colon cancer"]]
    linker.add(("the cold", 4, 8), "D009103")
    linker.add(("a colon cancer of the left side", 2, 31), "D003110")  # longer than the name
    linker.add(("dose of", 0, 4), "NEW", name="strange new things")
    example = linker.add(("a patient", 2, 9), "D009103")
    expected = ["colon cancer of the left side", "dose", "patient", "cold", "strange new things"]
    assert found_in(ward, file, capsys) == [expected]
    linker.remove(example)
    assert found_in(ward, file, capsys) == [[name for name in expected if name != "patient"]]


def test_what_is_learned_while_text_is_annotated_is_found(ward: Path) -> None:
    here, other = Linker.load(ward), Linker.load(ward)
    find, text = Dictionary(here), "A dose of the patient."
    assert find([text]) == [[]]
    example = other.add((text, 2, 6), "D001241")
    assert find([text]) == [[(2, 6)]]
    command = [sys.executable, "-m", "kriss.cli", "learn", "add", str(ward), "The [[patient]].", "D009103"]
    subprocess.run(command, check=True, capture_output=True)
    assert find([text]) == [[(2, 6), (14, 21)]]
    other.remove(example)
    assert find([text]) == [[(14, 21)]]


def test_annotate_says_what_it_skips(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "MS"}\n{"id": "2"}\n{"id": "3", "text": "aspirin"}\n')
    assert run(["annotate", str(clinic), str(tmp_path / "a.jsonl")]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["id"] for line in printed.out.splitlines()] == ["1", "3"]
    assert "a.jsonl:2" in printed.err
    assert "skipped 1 bad documents in all" in printed.err


def test_annotate_refuses_in_one_line(clinic: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    (tmp_path / "a.txt").write_text("MS")
    assert "no such file" in fails("annotate", clinic, tmp_path / "absent").lower()
    assert "there is no format 'word' to write" in fails("annotate", clinic, tmp_path / "a.txt", "--to", "word")
    assert "'threshold' is" in fails("annotate", clinic, tmp_path / "a.txt", "--threshold", "2")


def test_spacy_is_an_extra(
    clinic: Path, tmp_path: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("MS")
    monkeypatch.setitem(sys.modules, "spacy", None)
    line = fails("annotate", clinic, tmp_path / "a.txt", "--spacy", "en_core_sci_sm")
    assert line == "--spacy needs the package 'spacy': pip install 'kriss[spacy]'"


class StubSpacy(ModuleType):
    """A spaCy whose pipeline takes every capitalised word for an entity."""

    @staticmethod
    def load(name: str) -> Any:
        if name != "stub":
            raise OSError(f"[E050] Can't find model '{name}'.\nIt doesn't seem to be a package.")

        def pipe(texts: Sequence[str]) -> Iterable[Any]:
            for text in texts:
                starts = [at for at, sign in enumerate(text) if sign.isupper() and not text[at - 1 : at].isalpha()]
                ends = [next((at for at in range(s, len(text)) if not text[at].isalpha()), len(text)) for s in starts]
                pairs = zip(starts, ends, strict=True)
                yield SimpleNamespace(ents=[SimpleNamespace(start_char=a, end_char=b) for a, b in pairs])

        return SimpleNamespace(pipe=pipe)


def test_spacy_finds_the_mentions(
    clinic: Path,
    tmp_path: Path,
    fails: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "spacy", StubSpacy("spacy"))
    assert SpacyEntities("stub")(["Dr Who", "", "no"]) == [[(0, 2), (3, 6)], [], []]
    (tmp_path / "a.txt").write_text("Dr Who had colon cancer.")
    assert found_in(clinic, tmp_path / "a.txt", capsys, "--spacy", "stub") == [["Dr", "Who"]]
    line = fails("annotate", clinic, tmp_path / "a.txt", "--spacy", "other")
    assert line.startswith("spaCy cannot load the pipeline 'other': [E050] Can't find model 'other'.")
