"""Dependencies point one way; modules stay small and quiet."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kriss

SOURCE = Path(kriss.__file__).parent
GROUND = ("records", "names", "abbreviations", "errors", "config", "artifacts", "files", "work")
STAGES = ("documents", "ontology", "mine", "encoder", "train", "index", "rank", "link", "rerank", "evaluate", "serve")
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


def imports_of(module: Path) -> set[str]:
    """Return the kriss modules that a file imports, anywhere in it, also for type checking only."""
    tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
    package = ["kriss", *module.with_suffix("").parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{start}.{alias.name}" for alias in node.names)
            found.add(start)
    return {name for name in found if name == "kriss" or name.startswith("kriss.")}


def part_of(name: str) -> str:
    """Return the stage or top module that a dotted kriss name belongs to."""
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("module", [path for path in MODULES if path.stem in GROUND and len(path.parts) == 1], ids=str)
def test_the_ground_imports_no_stage(module: Path) -> None:
    assert not {part_of(name) for name in imports_of(module)} & {*STAGES, "cli", "demo"}


@pytest.mark.parametrize("module", [path for path in MODULES if path.parts[0] in STAGES], ids=str)
def test_a_stage_imports_earlier_stages_only(module: Path) -> None:
    later = STAGES[STAGES.index(module.parts[0]) + 1 :]
    assert not {part_of(name) for name in imports_of(module)} & {*later, "cli", "demo"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_nothing_imports_the_command_line(module: Path) -> None:
    if module.parts[0] in ("cli", "cli.py", "demo.py"):
        return
    assert "cli" not in {part_of(name) for name in imports_of(module)}


@pytest.mark.parametrize("module", [path for path in MODULES if path.parts[0] != "documents"], ids=str)
def test_only_documents_knows_one_format_from_another(module: Path) -> None:
    formats = ("bioc", "brat", "jsonl", "pubmed", "pubtator", "xmlcut", "jsoncut", "corpora.clinical")
    assert not imports_of(module) & {f"kriss.documents.{name}" for name in formats}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_modules_are_small_and_quiet(module: Path) -> None:
    text = (SOURCE / module).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert not any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_says_what_it_is_for(module: Path) -> None:
    assert ast.get_docstring(ast.parse((SOURCE / module).read_text(encoding="utf-8")))


def test_the_parser_of_imports_sees_what_it_should() -> None:
    assert "kriss.cli.run" in imports_of(Path("demo.py"))
    assert "kriss.ontology.store.Ontology" in imports_of(Path("ontology/search.py"))
