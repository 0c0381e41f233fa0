"""Linkers in miniature; conftest has them as fixtures."""

from __future__ import annotations

import json
from pathlib import Path

from kriss.cli import run
from kriss.index.config import IndexConfig
from kriss.link.build import build_linker
from kriss.ontology import Ontology
from tests.train_fixtures import world

CLINIC = [
    {"id": "D001241", "name": "aspirin", "aliases": ["acetylsalicylic acid"], "types": ["Chemical"]},
    {"id": "D003110", "name": "colonic neoplasms", "aliases": ["colon cancer"], "types": ["Disease"]},
    {"id": "D009103", "name": "multiple sclerosis", "aliases": ["MS", "MS test"], "types": ["Disease"]},
    {"id": "D009369", "name": "neoplasms", "aliases": ["cancer", "tumor"], "types": ["Disease"]},
    {"id": "D013058", "name": "mass spectrometry", "aliases": ["MS", "MS test"], "types": ["Procedure"]},
]
_TEXTS = [
    "Patients with multiple sclerosis relapsed.",
    "By mass spectrometry the protein was found.",
    "Chronic neoplasms of the liver, and colon cancer.",
    "A dose of aspirin for chest pain.",
]


def build_world(encoder: Path, out: Path) -> Path:
    """Build a linker of the miniature world that models train on."""
    here = world()
    build_linker(here.ontology, here.mentions, encoder, out, IndexConfig(), threads=1)
    return out


def build_clinic(encoder: Path, folder: Path) -> Path:
    """Build a linker with ids, types and a retired id as MeSH has them."""
    (folder / "entities.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CLINIC), encoding="utf-8")
    (folder / "retired.tsv").write_text("D999999\tD009103\n", encoding="utf-8")
    (folder / "text.jsonl").write_text(
        "".join(json.dumps({"id": f"pm{n}", "text": text}) + "\n" for n, text in enumerate(_TEXTS)), encoding="utf-8"
    )
    entities, retired, ontology, mentions = (
        str(folder / name) for name in ("entities.jsonl", "retired.tsv", "ontology", "mentions")
    )
    assert run(["ontology", "build", "jsonl", entities, "--retired", retired, "--out", ontology]) == 0
    assert run(["mine", ontology, str(folder / "text.jsonl"), "--train", "0", "--dev", "0", "--out", mentions]) == 0
    out = folder / "linker"
    build_linker(Ontology.load(ontology), Path(mentions), encoder, out, IndexConfig(), threads=1)
    return out
