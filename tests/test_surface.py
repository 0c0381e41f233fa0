"""What everybody touches: exported names, functions to call, imports that stay light, help on every command."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import kriss
from kriss.errors import ConfigError
from tests.conftest import FIXTURES, build, write_jsonl


def test_exported_names() -> None:
    classes = "Candidate Document Entity Evidence Excerpt KrissError Link Linker Mention Ontology Span"
    settings = "IndexConfig LinkConfig MineConfig OntologyConfig TrainConfig"
    functions = "build build_ontology evaluate link_documents mine train"
    assert sorted(kriss.__all__) == sorted(["__version__", *f"{classes} {settings} {functions}".split()])
    for name in kriss.__all__:
        assert getattr(kriss, name) is not None
    assert all(callable(getattr(kriss, name)) for name in functions.split())


def test_import_and_help_load_nothing_heavy() -> None:
    code = (
        "import sys, kriss, kriss.cli\n"
        "try: kriss.cli.app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'pyarrow', 'faiss', 'duckdb', 'numpy', 'onnxruntime', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_mine_is_a_package_and_a_function(tmp_path: Path) -> None:
    assert importlib.import_module("kriss.mine.config").MineConfig is kriss.MineConfig
    ontology = build(tmp_path / "o", "tsv", FIXTURES / "table.tsv")
    name = next(iter(kriss.Ontology.load(tmp_path / "o"))).name
    text = write_jsonl(tmp_path / "t.jsonl", *({"id": str(n), "text": f"A {name} was seen."} for n in range(8)))
    report = kriss.mine(tmp_path / "o", text, tmp_path / "m", per_document=1)
    again = kriss.mine(ontology, [str(text)], tmp_path / "again", kriss.MineConfig(per_document=1))
    assert (report.mentions, report.hits) == (again.mentions, again.hits)
    assert report.hits == 8
    with pytest.raises(ConfigError, match=r"kriss\.mine: unknown key 'per_docment'; did you mean 'per_document'"):
        kriss.mine(tmp_path / "o", text, tmp_path / "x", per_docment=1)
    with pytest.raises(ConfigError, match="'per_document' must be at least 1, not 0"):
        kriss.mine(tmp_path / "o", text, tmp_path / "x", per_document=0)


def test_link_documents_and_evaluate(clinic: Path, tmp_path: Path) -> None:
    text = "Patients with MS relapsed."
    mention = {"start": 14, "end": 16, "entity": "D009103"}
    gold = write_jsonl(tmp_path / "gold.jsonl", {"id": "7", "text": text, "mentions": [mention]})
    [(document, [link])] = kriss.link_documents(clinic, gold, threshold=0.0)
    linker = kriss.Linker.load(clinic)
    [(_, [same])] = kriss.link_documents(linker, [document])
    assert (document.id, link.entity, link.probability) == ("7", same.entity, same.probability)
    assert [*kriss.link_documents(linker, [gold, document], threshold=1)][1][1][0].entity is None
    line = {"document": "7", "start": 14, "end": 16, "entity": "D009103"}
    found = kriss.evaluate(write_jsonl(tmp_path / "p.jsonl", line), str(gold), ontology=clinic / "ontology")
    assert found.system == "p"
    assert found.evaluation.rows[0].mentions == 1
