"""Linkers that are damaged, of another version, or patched together: one sentence, and never a wrong answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pytest

from kriss.artifacts import MANIFEST, file_digest
from kriss.cli import run
from kriss.errors import ArtifactError, DamagedError, KrissError, NotAnArtifactError, VersionError, WrongKindError
from kriss.link.linker import Linker
from tests.train_fixtures import one_thread  # noqa: F401 - fixture

Damage = Callable[[Path], object]


def mend(folder: Path) -> None:
    """Make the manifest agree with the files, so that only a look into them shows the damage."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    for name in manifest["files"]:
        file = folder / name
        manifest["files"][name] = {"bytes": file.stat().st_size, "sha256": file_digest(file)}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def fails(folder: Path, kind: type[KrissError], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that neither the library nor the command answers."""
    with pytest.raises(kind, match=sentence) as caught:
        Linker.load(folder, threads=1, weights={"spelling": 0.1}).link([("who had a cold", 10, 14)])
    assert "\n" not in str(caught.value)
    note = folder.parent / "note.txt"
    note.write_text("who had a [[cold]]")
    capsys.readouterr()
    assert run(["link", str(folder), str(note), "--weight", "spelling=0.1"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert line.startswith("kriss: error: ")


def truncated(name: str) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-40])


def garbage(name: str) -> Damage:
    return lambda folder: (folder / name).write_bytes(b"\x07" * (folder / name).stat().st_size)


def missing(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def content(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text)


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


def manifest(**changes: object) -> Damage:
    def change(folder: Path) -> None:
        values = json.loads((folder / MANIFEST).read_bytes()) | changes
        (folder / MANIFEST).write_text(json.dumps(values))

    return change


def owners(change: Callable[[list[int]], list[int]]) -> Damage:
    """Write other entities into the table of prototypes."""

    def rewrite(folder: Path) -> None:
        file = folder / "prototypes.arrow"
        table = pa.ipc.open_file(pa.OSFile(str(file)).read()).read_all()
        column = pa.array(change(table.column("entity").to_pylist()), pa.int32())
        changed = table.slice(0, len(column)).set_column(0, "entity", column)
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(changed)

    return rewrite


GRAPH = "encoder/onnx/mention.onnx"


def other_encoder(folder: Path) -> None:
    """Put a graph there with other weights, as the same model has after another training; it has the same size."""
    model, size = onnx.load(folder / GRAPH), (folder / GRAPH).stat().st_size
    for weights in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weights)
        if values.ndim == 2 and values.dtype == np.float32:
            weights.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(values[::-1]), weights.name))
    onnx.save(model, folder / GRAPH)
    assert (folder / GRAPH).stat().st_size == size


def narrow_encoder(folder: Path) -> None:
    """Put a graph there that gives vectors of width 3."""
    names = {"ids": onnx.TensorProto.INT64, "mask": onnx.TensorProto.INT64, "pool": onnx.TensorProto.FLOAT}
    inputs = [onnx.helper.make_tensor_value_info(name, kind, ["n", "l"]) for name, kind in names.items()]
    output = onnx.helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, ["n", 3])
    ones = onnx.helper.make_tensor("ones", onnx.TensorProto.FLOAT, [1, 3], [1.0, 1.0, 1.0])
    axes = onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])
    nodes = [
        onnx.helper.make_node("ReduceSum", ["pool", "axes"], ["sums"], keepdims=1),
        onnx.helper.make_node("MatMul", ["sums", "ones"], ["vectors"]),
    ]
    graph = onnx.helper.make_graph(nodes, "narrow", inputs, [output], [ones, axes])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / GRAPH)


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


PLAIN: list[tuple[Damage, type[KrissError], str]] = [
    (gone, NotAnArtifactError, "does not exist"),
    (missing(MANIFEST), NotAnArtifactError, "it has no manifest.json"),
    (content(MANIFEST, "{"), DamagedError, "manifest.json cannot be read"),
    (manifest(version=99), VersionError, "of format 99, newer than this kriss: upgrade kriss"),
    (manifest(version=0), VersionError, "of format 0; this kriss reads"),
    (manifest(kind="encoder"), WrongKindError, "holds an encoder; this command needs a linker"),
    (manifest(config={"precision": "fp4"}), KrissError, "precision"),
    (manifest(config={}), KrissError, "precision"),
    (truncated("vectors/vectors.npy"), DamagedError, r"vectors\.npy has \d+ bytes where \d+ were written"),
    (truncated("prototypes.arrow"), DamagedError, r"prototypes\.arrow has \d+ bytes"),
    (truncated("ontology/entities.arrow"), DamagedError, r"entities\.arrow has \d+ bytes"),
    (missing("references.npy"), DamagedError, r"references\.npy is missing"),
    (missing("weights.json"), DamagedError, r"weights\.json is missing"),
    (missing(GRAPH), DamagedError, r"mention\.onnx is missing"),
    (missing("encoder/tokenizer.json"), DamagedError, r"tokenizer\.json is missing"),
]
MENDED: list[tuple[Damage, type[KrissError], str]] = [
    (truncated("vectors/vectors.npy"), DamagedError, r"vectors\.npy has \d+ bytes where"),
    (garbage("vectors/vectors.npy"), DamagedError, r"vectors\.npy is no array"),
    (content("vectors/index.json", "[]"), DamagedError, "does not describe an index"),
    (array("references.npy", lambda r: r[:-1]), DamagedError, r"references\.npy has float32 of the shape \(37, 32\)"),
    (array("references.npy", lambda r: r[:, :-1]), DamagedError, r"of the shape \(38, 31\)"),
    (array("references.npy", lambda r: r.astype(int)), DamagedError, "int64"),
    (garbage("references.npy"), DamagedError, r"references\.npy cannot be read"),
    (content("references.npy", ""), DamagedError, r"references\.npy cannot be read"),
    (truncated("prototypes.arrow"), DamagedError, r"prototypes\.arrow cannot be read"),
    (garbage("prototypes.arrow"), DamagedError, r"prototypes\.arrow cannot be read"),
    (content("prototypes.arrow", ""), DamagedError, r"prototypes\.arrow cannot be read"),
    (owners(lambda rows: [row + 1 for row in rows]), DamagedError, "prototypes of entities that there are not"),
    (owners(lambda rows: rows[::-1]), DamagedError, "prototypes of entities that there are not"),
    (owners(lambda rows: rows[:-5]), DamagedError, r"vectors for \d+ prototypes; build it again"),
    (content("weights.json", "no"), DamagedError, r"weights\.json cannot be read"),
    (content("weights.json", "[]"), DamagedError, r"weights\.json cannot be read"),
    (garbage("encoder/tokenizer.json"), DamagedError, r"tokenizer\.json is no tokenizer"),
    (content("encoder/encoder.json", "{}"), ArtifactError, r"encoder\.json"),
    (garbage(GRAPH), DamagedError, r"mention\.onnx is no graph that ONNX Runtime reads"),
    (other_encoder, DamagedError, "is not the encoder that the linker was built with; put that back, or build"),
    (narrow_encoder, DamagedError, "is not the encoder that the linker was built with"),
    (array("spelling/owners.npy", lambda values: values[:-1]), DamagedError, "do not belong together"),
    (garbage("spelling/idf.npy"), DamagedError, "cannot be read"),
]


@pytest.mark.parametrize(
    ("damage", "kind", "sentence"), PLAIN, ids=lambda given: given if isinstance(given, str) else ""
)
def test_damage_that_the_manifest_shows(
    taught: Path, damage: Damage, kind: type[KrissError], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(taught)
    fails(taught, kind, sentence, capsys)


@pytest.mark.parametrize(
    ("damage", "kind", "sentence"), MENDED, ids=lambda given: given if isinstance(given, str) else ""
)
def test_damage_that_only_a_look_shows(
    taught: Path, damage: Damage, kind: type[KrissError], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(taught)
    mend(taught)
    fails(taught, kind, sentence, capsys)


def test_what_was_learned_can_be_saved_from_a_linker_with_another_encoder(
    taught: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Linker.load(taught).add(("who had a cold", 10, 14), "X:001")
    other_encoder(taught)
    assert run(["learn", "export", str(taught)]) == 0
    assert json.loads(capsys.readouterr().out)["entity"] == "X:001"
    with pytest.raises(DamagedError, match="is not the encoder"):
        Linker.load(taught).add(("who had a cold", 10, 14), "X:001")
