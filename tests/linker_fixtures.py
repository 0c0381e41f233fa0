"""A linker in miniature, built once a session; tests that teach it something take a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kriss.index.build import build_linker
from kriss.index.config import IndexConfig
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
