"""Linkers in miniature, built once a session; tests that teach one something take a copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kriss.cli import run
from kriss.index.build import build_linker
from kriss.index.config import IndexConfig
from kriss.ontology import Ontology
from tests.train_fixtures import world


@pytest.fixture(scope="session")
def built(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a linker of the miniature world; nobody writes to it."""
    out = tmp_path_factory.mktemp("linker") / "tiny"
    here = world()
    build_linker(IndexConfig(), here.ontology, here.mentions, tiny_encoder, out, threads=1)
    return out


@pytest.fixture
def taught(built: Path, tmp_path: Path) -> Path:
    """Return a copy of the linker that a test may teach."""
    return Path(shutil.copytree(built, tmp_path / "linker"))


CLINIC = [
    {"id": "D003110", "name": "colonic neoplasms", "aliases": ["colon cancer"], "types": ["Disease"]},
    {"id": "D009103", "name": "multiple sclerosis", "aliases": ["MS", "disseminated sclerosis"], "types": ["Disease"]},
    {"id": "D009369", "name": "neoplasms", "aliases": ["cancer", "tumor"], "types": ["Disease"]},
    {"id": "D013058", "name": "mass spectrometry", "aliases": ["MS"], "types": ["Procedure"]},
    {"id": "D001241", "name": "aspirin", "aliases": ["acetylsalicylic acid"], "types": ["Chemical"]},
]
_TEXTS = [
    "Patients with multiple sclerosis relapsed.",
    "By mass spectrometry the protein was found.",
    "Chronic neoplasms of the liver, and colon cancer.",
    "A dose of aspirin for chest pain.",
]


@pytest.fixture(scope="session")
def clinic(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a linker with ids, types and a retired id as MeSH has them; nobody writes to it."""
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "entities.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CLINIC), encoding="utf-8")
    (folder / "retired.tsv").write_text("D999999\tD009103\n", encoding="utf-8")
    (folder / "text.jsonl").write_text(
        "".join(json.dumps({"id": f"pm{n}", "text": text}) + "\n" for n, text in enumerate(_TEXTS)), encoding="utf-8"
    )
    entities, retired, ontology, mentions, out = (
        str(folder / name) for name in ("entities.jsonl", "retired.tsv", "ontology", "mentions", "linker")
    )
    assert run(["ontology", "build", "jsonl", entities, "--retired", retired, "--out", ontology]) == 0
    assert run(["mine", ontology, str(folder / "text.jsonl"), "--train", "0", "--dev", "0", "--out", mentions]) == 0
    build_linker(IndexConfig(), Ontology.load(ontology), Path(mentions), tiny_encoder, Path(out), threads=1)
    return Path(out)


@pytest.fixture
def ward(clinic: Path, tmp_path: Path) -> Path:
    """Return a copy of that linker that a test may teach."""
    return Path(shutil.copytree(clinic, tmp_path / "clinic"))
