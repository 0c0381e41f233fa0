"""Several ways to ask, linked in one go: each writes what it would write alone."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from benchmarks.link_variants import main, variant
from benchmarks.results_table import predictions

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
    asked = {
        "bare": ["--weight", "context=0"],
        "other": ["--no-shared-names", "--weight", "context=1", "--weight", "spelling=0"],
        "plain": [],
    }
    variants = ["bare:weight.context=0", "other:shared_names=false,weight.context=1,weight.spelling=0", "plain"]
    assert main([str(clinic), gold, *variants, "--out", str(tmp_path / "many"), "--top", "3"]) == 0
    for name, options in asked.items():
        alone = str(tmp_path / f"{name}.jsonl")
        assert run(["link", str(clinic), gold, *options, "--top", "3", "--to", "predictions", "--out", alone]) == 0
        together = gzip.decompress((tmp_path / "many" / f"{name}.jsonl.gz").read_bytes())
        assert together == Path(alone).read_bytes()
    assert (tmp_path / "bare.jsonl").read_bytes() != (tmp_path / "other.jsonl").read_bytes()


def test_what_is_no_variant_is_told(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert variant("a:mode=lazy,weight.spelling=0.5") == ("a", {"mode": "lazy", "weights": {"spelling": 0.5}})
    for text in (":context=0", "", ":", "../a:context=0"):
        with pytest.raises(ConfigError, match="is not NAME:KEY=VALUE"):
            variant(text)
    gold = str(write_jsonl(tmp_path / "gold.jsonl", {"id": "1", "text": "MS", "mentions": [{"start": 0, "end": 2}]}))
    for variants, said in (
        (["a:shared_name=0"], "did you mean 'shared_names'"),
        (["a:weight.contxt=0"], "contxt"),
        (["a:mode"], "expected KEY=VALUE"),
        (["a:shared_names=False"], "shared_names"),
        (["a", "a:mode=lazy"], "two variants have the same name"),
    ):
        assert main([str(clinic), gold, *variants, "--out", str(tmp_path / "out")]) == 1
        assert said in capsys.readouterr().err


def test_the_table_reads_links_wherever_a_stage_wrote_them(tmp_path: Path) -> None:
    assert predictions(tmp_path, "bare") is None
    files = [tmp_path / place / "bare.jsonl.gz" for place in (".switches.before", "switches", ".")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.touch()
        if file.parent.name == "switches":  # what a killed run put aside is not looked at
            assert predictions(tmp_path, "bare") == file
    with pytest.raises(SystemExit, match="are both of bare"):
        predictions(tmp_path, "bare")
