"""Several ways to ask, linked in one go: each writes what it would write alone."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from benchmarks.link_variants import main, variant

from kriss.cli import run
from kriss.errors import ConfigError
from tests.conftest import write_jsonl


def test_each_variant_is_what_kriss_link_writes(clinic: Path, tmp_path: Path) -> None:
    rows = [
        {
            "id": str(n),
            "text": f"{n} had MS and aspirin.",
            "mentions": [{"start": 7, "end": 9}, {"start": 14, "end": 21}],
        }
        for n in range(10, 50)
    ]
    gold = str(write_jsonl(tmp_path / "gold.jsonl", *rows))
    asked = {"bare": ["--context", "0"], "other": ["--no-ties", "--context", "1", "--ngrams", "0"], "plain": []}
    variants = ["bare:context=0", "other:ties=false,context=1,ngrams=0", "plain"]
    assert main([str(clinic), gold, *variants, "--out", str(tmp_path / "many"), "--top", "3"]) == 0
    for name, options in asked.items():
        alone = str(tmp_path / f"{name}.jsonl")
        assert run(["link", str(clinic), gold, *options, "--top", "3", "--to", "predictions", "--out", alone]) == 0
        together = gzip.decompress((tmp_path / "many" / f"{name}.jsonl.gz").read_bytes())
        assert together == Path(alone).read_bytes()
    assert (tmp_path / "bare.jsonl").read_bytes() != (tmp_path / "other.jsonl").read_bytes()


def test_what_is_no_variant_is_told(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert variant("a:mode=lazy,ngrams=0.5") == ("a", {"mode": "lazy", "ngrams": 0.5})
    for text in (":context=0", "a:context"):
        with pytest.raises(ConfigError, match="is not NAME:KEY=VALUE"):
            variant(text)
    gold = str(write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": "MS", "mentions": [{"start": 0, "end": 2}]}))
    assert main([str(clinic), gold, "a:contxt=0", "--out", str(tmp_path / "out")]) == 1
    assert "did you mean 'context'" in capsys.readouterr().err
