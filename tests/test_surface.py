"""What everybody touches: exported names, imports that stay light, help on every command."""

from __future__ import annotations

import subprocess
import sys

import kriss


def test_exported_names() -> None:
    assert sorted(kriss.__all__) == [
        "Candidate",
        "Entity",
        "Evidence",
        "IndexConfig",
        "KrissError",
        "Link",
        "Linker",
        "Excerpt",
        "Ontology",
        "OntologyConfig",
        "__version__",
        "build_linker",
        "build_ontology",
    ]
    for name in kriss.__all__:
        assert getattr(kriss, name) is not None


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
