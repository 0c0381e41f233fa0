"""Building a linker: which prototypes, which vectors, what is left behind when it fails."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kriss.artifacts import open_artifact, verify
from kriss.cli import run
from kriss.encoder.session import OnnxEncoder
from kriss.errors import DamagedError
from kriss.index import encode
from kriss.index.prototypes import Prototypes
from kriss.index.vectors import Index
from kriss.link.build import build_linker
from kriss.link.linker import Linker
from kriss.ontology import Ontology
from kriss.records import Excerpt
from tests.conftest import contents
from tests.train_fixtures import BARE, MINED, one_thread, world  # noqa: F401 - fixtures

QUERIES = [
    Excerpt("the heart of this ", "gastrosis", " was acute pain."),
    Excerpt("", "shared alias", ""),
    Excerpt("who had kidney ", "neuritis", ""),
    Excerpt("", "unheard", " of"),
]


def inputs(encoder: Path) -> tuple[Ontology, Path, Path]:
    """Return what a linker of the miniature world is built of."""
    return world().ontology, world().mentions, encoder


def build(encoder: Path, out: Path, *, force: bool = False, **options: Any) -> Path:
    """Build a linker of the miniature world."""
    build_linker(*inputs(encoder), out, threads=1, force=force, **options)
    return out


# --- the equation -------------------------------------------------------------------------------


@pytest.mark.parametrize("references", [1.0, 0.0, 0.25])
def test_a_search_scores_the_papers_equation(tiny_encoder: Path, tmp_path: Path, references: float) -> None:
    folder = build(tiny_encoder, tmp_path / "l")
    weights = {"context": 1.0, "references": references, "spelling": 0.0, "match": 0.0, "children": 0.0}
    linker = Linker.load(folder, weights=weights, abbreviations=False, shared_names=False)
    encoder, ontology = OnnxEncoder.load(tiny_encoder, threads=1), world().ontology
    table = Prototypes(tmp_path / "l" / "prototypes.arrow")
    c_p, r_e = encoder.mentions(table.mentions(0, len(table))), encoder.references([*ontology])
    for query, link in zip(encoder.mentions(QUERIES), linker.link(QUERIES, top=10), strict=True):
        scores = {
            ontology.id_at(row): max(
                float(query @ (c_p[p] + references * r_e[row])) for p in np.flatnonzero(table.entity == row)
            )
            for row in ontology.rows()
        }
        best = sorted(scores, key=lambda entity: -scores[entity])[:10]
        assert [candidate.entity for candidate in link.candidates] == best
        np.testing.assert_allclose([c.score for c in link.candidates], [scores[entity] for entity in best], atol=1e-5)
        assert (link.entity, link.score) == (link.candidates[0].entity, link.candidates[0].score)


# --- which prototypes ---------------------------------------------------------------------------


def test_every_entity_can_be_reached(built: Path) -> None:
    facts = open_artifact(built, "linker").facts
    assert facts["entities"] == facts["reachable"] == MINED + BARE
    table = Prototypes(built / "prototypes.arrow")
    assert len(table) == len(Index.open(built / "vectors"))
    for row in world().ontology.rows():
        own = [table.evidence(at) for at in np.flatnonzero(table.entity == row).tolist()]
        assert [e.surface for e in own if e.kind == "name"] == world().ontology.names_at(row)
        assert len([e for e in own if e.kind == "mined"]) <= 16


def test_evidence_stands_where_it_says(built: Path) -> None:
    import json

    texts = {}
    with (world().folder / "text.jsonl").open() as lines:
        for line in lines:
            record = json.loads(line)
            texts[record["id"]] = record["text"]
    table = Prototypes(built / "prototypes.arrow")
    mined = [e for e in map(table.evidence, range(len(table))) if e.kind == "mined"]
    assert mined
    for evidence in mined:
        text = texts[evidence.document]
        assert text[evidence.start : evidence.end] == evidence.surface
        assert text[: evidence.start].endswith(evidence.left)
        assert text[evidence.end :].startswith(evidence.right)


def test_names_for_those_without_mentions_alone(tiny_encoder: Path, tmp_path: Path) -> None:
    table = Prototypes(build(tiny_encoder, tmp_path / "l", names="missing", per_entity=3) / "prototypes.arrow")
    for row in world().ontology.rows():
        kinds = [table.evidence(at).kind for at in np.flatnonzero(table.entity == row).tolist()]
        assert set(kinds) in ({"mined"}, {"name"})
        assert kinds.count("mined") <= 3
    assert open_artifact(tmp_path / "l").facts["reachable"] == MINED + BARE


def test_train_mentions_fill_up(tiny_encoder: Path, tmp_path: Path) -> None:
    out = build(tiny_encoder, tmp_path / "l", splits=("prototypes", "train"), names="none", per_entity=5)
    table, ontology = Prototypes(out / "prototypes.arrow"), world().ontology
    mined = pq.read_table(world().mentions / "mentions.parquet").to_pylist()
    for row in ontology.rows():
        places = [
            (m["document"], m["start"])
            for split in ("prototypes", "train")
            for m in mined
            if m["entity"] == ontology.id_at(row) and m["split"] == split
        ]
        own = [table.evidence(at) for at in np.flatnonzero(table.entity == row).tolist()]
        assert [(e.document, e.start) for e in own] == places[:5]


def test_a_build_repeats_to_the_byte(tiny_encoder: Path, built: Path, tmp_path: Path) -> None:
    assert contents(build(tiny_encoder, tmp_path / "again")) == contents(built)
    verify(built)


# --- interrupted, moved, on a cluster -----------------------------------------------------------


def test_it_goes_on_where_it_stopped(
    tiny_encoder: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "BLOCK", 32)
    encoded: list[int] = []

    def stop_after_five(event: dict[str, Any]) -> None:
        if event["event"] == "encoded":
            encoded.append(event["count"])
            if len(encoded) == 5:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_linker(*inputs(tiny_encoder), tmp_path / "out", threads=1, progress=stop_after_five)
    assert not (tmp_path / "out").exists()
    events: list[dict[str, Any]] = []
    build_linker(*inputs(tiny_encoder), tmp_path / "out", threads=1, progress=events.append)
    [start] = [event for event in events if event["event"] == "encode"]
    assert start["done"] == sum(encoded)
    assert start["total"] - start["done"] == sum(event["count"] for event in events if event["event"] == "encoded")
    assert contents(tmp_path / "out") == contents(built)
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_block_is_made_anew(tiny_encoder: Path, tmp_path: Path) -> None:
    def spoil(event: dict[str, Any]) -> None:
        if event["event"] == "encoded":
            for file in tmp_path.rglob("*.npy"):
                file.write_bytes(b"\x93NUMPY")

    with pytest.raises(DamagedError, match="is damaged and was removed; run the command again"):
        build_linker(*inputs(tiny_encoder), tmp_path / "out", threads=1, progress=spoil)
    with suppress(DamagedError):  # one damaged block a run
        build(tiny_encoder, tmp_path / "out")
    verify(build(tiny_encoder, tmp_path / "out", force=True))


def test_ray_gives_the_same(tiny_encoder: Path, built: Path, tmp_path: Path) -> None:
    here = world()
    folders = [str(here.ontology.artifact.path), str(here.mentions), str(tiny_encoder)]
    assert run(["index", *folders, "--out", str(tmp_path / "ray"), "--engine", "ray"]) == 0
    assert contents(tmp_path / "ray") == contents(built)


def test_the_folder_stands_alone(built: Path, tmp_path: Path) -> None:
    before = Linker.load(built, threads=1).link(QUERIES)
    moved = shutil.copytree(built, tmp_path / "elsewhere")
    assert Linker.load(moved, threads=1).link(QUERIES) == before


# --- wrong input --------------------------------------------------------------------------------


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `kriss index`: it must fail with one line and write nothing."""

    def check(*arguments: object) -> str:
        capsys.readouterr()
        assert run(["index", *map(str, arguments), "--out", str(tmp_path / "out")]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob(".out*"))
        return line.removeprefix("kriss: error: ")

    return check


def test_wrong_input_is_one_sentence(tiny_encoder: Path, mesh: Any, tmp_path: Path, refused: Any) -> None:
    here = world()
    ontology, mentions = here.ontology.artifact.path, here.mentions
    assert "holds mentions; this command needs an ontology" in refused(mentions, mentions, tiny_encoder)
    assert "holds an ontology; this command needs mentions" in refused(ontology, ontology, tiny_encoder)
    assert "holds mentions; this command needs an encoder" in refused(ontology, mentions, mentions)
    assert "was not mined with the ontology" in refused(mesh.artifact.path, mentions, tiny_encoder)
    good = (ontology, mentions, tiny_encoder)
    assert "must be one of auto, flat" in refused(*good, "--index", "best")
    assert "must be one of train, dev, prototypes, not 'test'" in refused(*good, "--split", "test")
    assert "calibrate the linker" in refused(*good, "--split", "dev")
    assert "nothing would be in the index" in refused(*good, "--per-entity", 0, "--names", "none")
    assert "take '--backend onnx' for int8" in refused(*good, "--backend", "torch", "--precision", "int8")
    assert "--engine is local or ray" in refused(*good, "--engine", "spark")


def test_what_was_learned_is_not_thrown_away(
    tiny_encoder: Path, taught: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Linker.load(taught).add(("the cold of", 4, 8), "X:001")
    here = world()
    folders = [str(here.ontology.artifact.path), str(here.mentions), str(tiny_encoder)]
    assert run(["index", *folders, "--out", str(taught), "--force"]) == 1
    assert "has learned examples, which a new index would lose" in capsys.readouterr().err
    assert len(Linker.load(taught).examples()) == 1
