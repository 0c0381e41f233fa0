"""The documentation: its commands exist, its examples run, and its walk through the modules is that of the code."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import typer.main

import kriss
from kriss.cli import app, run
from kriss.documents import registry, spans
from kriss.documents.format import Format
from kriss.documents.read import read
from kriss.errors import InputError
from kriss.link.linker import Linker
from kriss.rank import features
from kriss.rank.decide import Ranking
from kriss.rank.queries import Queries
from kriss.records import Document, Excerpt, Span

ROOT = Path(__file__).parent.parent
MADE = ROOT / "docs" / "reference" / "commands.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of kriss that stands in a block of code."""
    fenced = False
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            for part in re.split(r"\s\|\s|&&", line):
                words = part.strip().removeprefix("$ ")
                if re.match(r"kriss [a-z]+ ", words):
                    yield shlex.split(words, comments=True)[1:]


def fault(words: list[str]) -> str:
    """Return what is wrong with a command; its files are not looked at."""
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="kriss")
    while hasattr(command, "commands"):
        if not words or (words[0] not in command.commands and "run" not in command.commands):
            return f"there is no command '{' '.join(words[:1])}'"
        name = words.pop(0) if words[0] in command.commands else "run"
        command = command.commands[name]
        context = typer.Context(command, info_name=name, parent=context)
    try:
        _, rest, _ = command.make_parser(context).parse_args([word for word in words if word not in ("…", "...")])
    except Exception as error:  # noqa: BLE001 - click's usage errors, which typer hides
        return str(error)
    return f"it has no place for {rest}" if rest else ""


@pytest.mark.parametrize("page", [page for page in PAGES if page != MADE], ids=lambda page: page.stem)
def test_every_command_exists(page: Path) -> None:
    faults = {shlex.join(words): found for words in commands(page) if (found := fault(list(words)))}
    assert not faults


def test_a_command_that_does_not_exist_is_found() -> None:
    assert fault(["baseline", "exact"])
    assert fault(["link", "a", "b", "--ngrams", "1"])
    assert not fault(["mine", "a", "b", "--out", "c"])
    assert [*commands(ROOT / "README.md")]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.stem
)
def test_links_of_pages_outside_the_site(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), f"{page.name}: {target}"


def blocks(page: str) -> list[str]:
    """Return the blocks of Python of a page."""
    return re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_the_feature_that_the_page_adds(built: Path) -> None:
    names = dict(vars(features))
    exec(compile(blocks("how-to/add-a-feature.md")[0], "page", "exec"), names)
    linker = Linker.load(built, threads=1)
    queries = Queries.of(linker.encoder, [Excerpt.bare("gastrosis")], context=False)
    ranking = Ranking(linker.parts, {})
    column = names["frequency"](*ranking.gathered(queries))
    assert len(names["FEATURES"]) == len(features.FEATURES) + 1
    assert names["FEATURES"][-1].name == "frequency"
    assert np.isfinite(column).all()
    assert column.max() > 0


def test_the_format_that_the_page_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {**vars(registry), **vars(spans), "json": json, "Span": Span, "replace": replace}
    exec(compile(blocks("how-to/add-a-format.md")[0], "page", "exec"), names)
    added: Format = names["DOCCANO"]
    monkeypatch.setattr(registry, "FORMATS", {"doccano": added, **registry.FORMATS})
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 7, "text": "MS hurts.", "label": [[0, 2, "D009103"]]}\n')
    assert list(read([path])) == [Document("7", "MS hurts.", (Span(0, 2, ("D009103",)),))]
    path.write_text('{"id": 7, "text": "MS hurts.", "label": [[0, 20, "D009103"]]}\n')
    with pytest.raises(
        InputError, match=r"a\.jsonl:1: document '7': the mention from 0 to 20 does not lie in its text"
    ):
        list(read([path]))


def test_a_mention_goes_the_way_that_the_page_says(clinic: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## One mention")[2]
    walk = re.findall(r"^\d+\. `([\w/.]+)`, `([\w.]+)`", page, re.MULTILINE)
    assert len(walk) > 20
    assert len({module for module, _ in walk}) == len(walk)
    text = "Multiple sclerosis (MS) was confirmed, and the MS is severe."
    source, links = tmp_path / "note.xml", tmp_path / "links.jsonl"
    source.write_text(
        '<?xml version="1.0"?><collection><source/><date/><key/><document><id>7</id><passage><offset>0</offset>'
        f'<text>{text}</text><annotation id="1"><infon key="identifier">D009103</infon>'
        '<location offset="47" length="2"/>'
        "<text>MS</text></annotation></passage></document></collection>"
    )
    root, calls = Path(kriss.__file__).parent.as_posix() + "/", list[tuple[str, str]]()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := frame.f_code.co_filename).startswith(root):
            calls.append((file.removeprefix(root), frame.f_code.co_qualname))

    sys.setprofile(called)
    try:
        status = run(["link", str(clinic), str(source), "--to", "predictions", "--out", str(links)])
        status += run(
            ["evaluate", str(links), "--gold", str(source), "--linker", str(clinic), "--out", str(tmp_path / "r")]
        )
    finally:
        sys.setprofile(None)
    assert status == 0
    coming = iter(calls)
    for step in walk:
        assert step in coming, f"{step} is not called after the steps before it"


def test_the_tutorial(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Every command of it in order, in an empty folder; what a smaller encoder cannot change is said to the letter."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    files = re.findall(r"^```(?:text|json)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for name, content in zip(("clinic.tsv", "notes.jsonl", "today.txt", "raw.txt"), files, strict=True):
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "encoder").symlink_to(tiny_encoder)
    told = re.findall(r"^    \$ kriss (.*)\n((?:(?:    (?!\$).*)?\n(?!#|[A-Z`]))*)", page, re.MULTILINE)
    assert len(told) == 10
    for line, expected in told:
        words = shlex.split(line.partition(" | ")[0])
        if words[0] == "export":
            continue
        assert run(words) == 0, line
        printed = capsys.readouterr()
        if words[0] in ("ontology", "mine", "learn"):
            shown = [one.strip() for one in (printed.out + printed.err).splitlines() if one.strip()]
            assert shown == [one.strip() for one in expected.splitlines() if one.strip()], line
