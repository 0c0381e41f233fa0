"""The encoder in ONNX Runtime: the same vectors without torch, and refusals where they would not be."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from kriss.artifacts import open_artifact
from kriss.cli import run
from kriss.encoder import export
from kriss.encoder.config import EncoderConfig, Precision
from kriss.encoder.model import Encoder
from kriss.encoder.quantize import quantize
from kriss.encoder.samples import sample_entities, sample_mentions
from kriss.encoder.session import OnnxEncoder, open_session
from kriss.encoder.windows import Sequences
from kriss.errors import ArtifactError, ConfigError, DamagedError, DriftError, KrissError
from tests.conftest import contents, write_tsv

MENTIONS, ENTITIES = sample_mentions(), sample_entities()


@pytest.fixture
def copied(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let exports take the graphs of the tiny encoder, for tracing takes seconds."""
    monkeypatch.setattr(
        export, "trace", lambda tower, example, positions, file: shutil.copy(tiny_encoder / "onnx" / file.name, file)
    )


# --- the same vectors ---------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_fp32_is_torch(tiny_encoder: Path, threads: int) -> None:
    torch_encoder, onnx_encoder = Encoder.load(tiny_encoder), OnnxEncoder.load(tiny_encoder, threads=threads)
    assert onnx_encoder.config == torch_encoder.config == EncoderConfig(pooling="mean", window=24, normalize=True)
    for more in (1, 3, 32):
        found, expected = onnx_encoder.mentions(MENTIONS[:more]), torch_encoder.mentions(MENTIONS[:more])
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
        found, expected = onnx_encoder.references(ENTITIES[-more:]), torch_encoder.references(ENTITIES[-more:])
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(onnx_encoder.mentions([])) == len(onnx_encoder.references([])) == 0


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_vector_does_not_depend_on_its_company(tiny_encoder: Path, precision: Precision) -> None:
    encoder = OnnxEncoder.load(tiny_encoder, precision, threads=2)
    together = encoder.mentions(MENTIONS)
    alone = np.concatenate([encoder.mentions([mention]) for mention in MENTIONS])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(encoder.mentions(MENTIONS[::-1]), together[::-1])
    np.testing.assert_array_equal(
        encoder.references(ENTITIES), np.concatenate([encoder.references([entity]) for entity in ENTITIES])
    )


def test_eight_bit_products_do_not_overflow() -> None:
    # Two products of 255 and 127 are more than 16 bits hold, and without VNNI they are added in 16 bits.
    draw = np.random.default_rng(0)
    rows, weights = draw.integers(200, 256, (5, 64), np.uint8), draw.integers(100, 128, (64, 32), np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulIntegerToFloat", ["x", "w", "one", "one"], ["y"], domain="com.microsoft")],
        "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["rows", 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array(1, np.float32), "one")],
    )
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    [found] = open_session(model.SerializeToString()).run(None, {"x": rows})
    np.testing.assert_array_equal(found, rows.astype(np.float32) @ weights.astype(np.float32))


def test_int8_is_close(tiny_encoder: Path) -> None:
    whole, small = OnnxEncoder.load(tiny_encoder, threads=1), OnnxEncoder.load(tiny_encoder, "int8", threads=1)
    for first, second in (
        (whole.mentions(MENTIONS), small.mentions(MENTIONS)),
        (whole.references(ENTITIES), small.references(ENTITIES)),
    ):
        assert export.cosines(first, second).min() > 0.95
        assert not np.array_equal(first, second)


def test_the_sample_has_many_lengths(tiny_encoder: Path) -> None:
    windows = OnnxEncoder.load(tiny_encoder, threads=1).windows
    assert len(MENTIONS) == len(ENTITIES) == 32
    assert len({len(ids) for ids in windows.mentions(MENTIONS).ids}) > 5
    assert len({len(ids) for ids in windows.references(ENTITIES).ids}) > 10


def test_it_travels_as_its_path_and_options(tiny_encoder: Path) -> None:
    encoder = OnnxEncoder.load(tiny_encoder, "int8", threads=1)
    data = pickle.dumps(encoder)
    assert len(data) < 1000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.mentions(MENTIONS), encoder.mentions(MENTIONS))
    assert again.__reduce__() == encoder.__reduce__()


def test_threads_may_share_it(tiny_encoder: Path) -> None:
    encoder = OnnxEncoder.load(tiny_encoder, threads=1)
    expected = encoder.mentions(MENTIONS)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(encoder.mentions, [MENTIONS] * 12):
            np.testing.assert_array_equal(found, expected)


def test_it_needs_neither_torch_nor_transformers(tiny_encoder: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from kriss.encoder.session import OnnxEncoder\n"
        "from kriss.records import Entity, Excerpt\n"
        f"encoder = OnnxEncoder.load(pathlib.Path({str(tiny_encoder)!r}), 'int8', 1)\n"
        "assert encoder.mentions([Excerpt.bare('cold')] * 3).shape == (3, 32)\n"
        "assert encoder.references([Entity('1', 'cold')]).shape == (1, 32)\n"
        "heavy = {'torch', 'transformers', 'onnx', 'sentence_transformers'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


# --- the artifact -------------------------------------------------------------------------------


def test_the_artifact(tiny_encoder: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = open_artifact(tiny_encoder, "encoder")
    assert {name for name in artifact.files if name.startswith("onnx/")} == {
        f"onnx/{part}{precision}.onnx" for part in ("mention", "references") for precision in ("", "-int8")
    }
    assert artifact.config["model"] == tiny_model.name
    assert artifact.config["pooling"] == "mean"
    assert [given["name"] for given in artifact.inputs] == ["model.safetensors"]
    figures = artifact.facts["onnx"]
    assert all(figures["fp32"][part]["min_cosine"] > 0.99999 for part in ("mention", "references"))
    assert all(0.95 < figures["int8"][part]["min_cosine"] < 1 for part in ("mention", "references"))
    assert run(["verify", str(tiny_encoder)]) == 0
    assert "encoder" in capsys.readouterr().out
    here = [str(path).encode() for path in (tiny_encoder, tiny_model, Path(sys.prefix), Path(export.__file__).parent)]
    assert not [name for name, data in contents(tiny_encoder).items() if any(path in data for path in here)]


def test_graphs_say_what_they_take(tiny_encoder: Path) -> None:
    import onnxruntime

    for name in ("mention", "references-int8"):
        session = onnxruntime.InferenceSession(tiny_encoder / f"onnx/{name}.onnx")
        inputs = {node.name: (node.type, node.shape) for node in session.get_inputs()}
        assert inputs == {
            "ids": ("tensor(int64)", ["batch", "tokens"]),
            "mask": ("tensor(int64)", ["batch", "tokens"]),
            "pool": ("tensor(float)", ["batch", "tokens"]),
        }
        assert [(node.name, node.shape) for node in session.get_outputs()] == [("vectors", ["batch", 32])]


@pytest.mark.usefixtures("copied")
def test_an_encoder_keeps_its_settings_and_facts(
    tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run(["export", str(tiny_encoder), "--out", str(first)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{first}: fp32 graphs, cosine with torch at least 1.0000\n"
    before, after = open_artifact(tiny_encoder), open_artifact(first)
    assert after.config == before.config
    assert after.inputs == ({"name": tiny_encoder.name, "sha256": before.digest},)
    assert not (first / "onnx/mention-int8.onnx").exists()
    np.testing.assert_array_equal(
        OnnxEncoder.load(first).mentions(MENTIONS), OnnxEncoder.load(tiny_encoder).mentions(MENTIONS)
    )
    manifest = json.loads((first / "manifest.json").read_text(encoding="utf-8"))
    manifest["facts"]["step"] = 250
    (first / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert run(["export", str(first), "--out", str(second), "--int8"]) == 0
    assert open_artifact(second).facts["step"] == 250
    (first / "manifest.json").unlink()  # what a stage may have within its own folder
    assert run(["export", str(first), "--out", str(second), "--force"]) == 0
    own = {key: value for key, value in before.config.items() if key not in ("model", "markers")}
    assert open_artifact(second).config == own
    capsys.readouterr()
    for option in (["--pooling", "cls"], ["--window", "32"], ["--no-normalize"]):
        assert run(["export", str(tiny_encoder), "--out", str(tmp_path / "third"), *option]) == 1
        name = option[0].replace("--no-", "--")
        assert f"is an encoder with settings of its own: leave out {name}" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


# --- refusals -----------------------------------------------------------------------------------


def onnx_files(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "onnx").iterdir())


@pytest.mark.usefixtures("copied")
def test_an_int8_graph_that_drifts_is_refused(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = Encoder.load(tiny_encoder)
    monkeypatch.setitem(export._NEEDED, "int8", (0.98, 0.999999))
    with pytest.raises(DriftError) as error:
        export.export_onnx(encoder, tmp_path / "folder", int8=True)
    assert str(error.value).startswith("the int8 graph 'mention' drifts from the encoder: cosines of 0.9")
    assert str(error.value).endswith("where 0.98 and 0.999999 are needed; give --no-int8")
    assert onnx_files(tmp_path / "folder") == ["mention.onnx", "references.onnx"]
    assert run(["export", str(tiny_encoder), "--out", str(tmp_path / "out"), "--int8"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("kriss: error: the int8 graph")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.usefixtures("copied")
def test_a_half_written_precision_is_removed(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_second(source: Path, target: Path, sequences: Sequence[Sequences]) -> None:
        if "references" in target.name:
            target.write_bytes(b"half")
            raise OSError("disk full")
        quantize(source, target, sequences)

    monkeypatch.setattr(export, "quantize", fail_second)
    with pytest.raises(OSError, match="disk full"):
        export.export_onnx(Encoder.load(tiny_encoder), tmp_path, int8=True)
    assert onnx_files(tmp_path) == ["mention.onnx", "references.onnx"]


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_graph_of_another_encoder_is_refused(tiny_encoder: Path, tmp_path: Path, value: float) -> None:
    import torch

    encoder = Encoder.load(tiny_encoder)
    with torch.no_grad():
        encoder.reference.backbone.encoder.layer[1].output.LayerNorm.weight.mul_(value)
    with pytest.raises(DriftError, match="the fp32 graph 'references' drifts from the encoder"):
        export.export_onnx(encoder, tmp_path, int8=False)
    assert onnx_files(tmp_path) == []


def test_what_a_session_cannot_open(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, folder)

    def refusal(kind: type[KrissError], **options: Any) -> str:
        with pytest.raises(kind) as error:
            OnnxEncoder.load(folder, **options).open("mention")
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "fp32 or int8, not 'fp16'" in refusal(ConfigError, precision="fp16")
    assert "'threads' must be at least 1" in refusal(ConfigError, threads=-1)
    (folder / "onnx/references-int8.onnx").unlink()
    assert refusal(ArtifactError, precision="int8").endswith(f"write it with 'kriss export {folder} --out DIR --int8'")
    (folder / "onnx/mention.onnx").write_bytes(b"no graph")
    assert "mention.onnx is no graph that ONNX Runtime reads" in refusal(DamagedError)
    shutil.rmtree(folder / "onnx")
    assert refusal(ArtifactError).endswith(f"write it with 'kriss export {folder} --out DIR'")
    (folder / "encoder.json").unlink()
    assert "holds no encoder" in refusal(DamagedError)


def test_what_export_refuses(
    tiny_model: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make_ontology: Callable[[], Path],
) -> None:
    def refusal(*arguments: object) -> str:
        capsys.readouterr()
        assert run(["export", *map(str, arguments)]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        [line] = printed.err.splitlines()
        assert not (tmp_path / "out").exists()
        return line.removeprefix("kriss: error: ")

    out = ["--out", tmp_path / "out"]
    assert refusal("no-such/model", *out).startswith("no usable model 'no-such/model'")
    assert "must be one of cls, mean, mention, not 'max'" in refusal(tiny_model, *out, "--pooling", "max")
    assert "a window of 3 tokens has no room" in refusal(tiny_model, *out, "--window", 3)
    assert "reads at most 128 tokens" in refusal(tiny_model, *out, "--window", 512)
    assert "holds an ontology; this command needs an encoder" in refusal(make_ontology(), *out)
    assert "exists; give --force" in refusal(tiny_model, "--out", tiny_encoder)
    assert "not a folder that kriss wrote" in refusal(tiny_model, "--out", tiny_model, "--force")


@pytest.fixture
def make_ontology(tmp_path: Path) -> Callable[[], Path]:
    def make() -> Path:
        table = write_tsv(tmp_path / "table.tsv", ["id", "name"], ["1", "cold"])
        out = tmp_path / "ontology"
        assert run(["ontology", "build", "tsv", str(table), "--out", str(out), "--default-type", "Disease"]) == 0
        return out

    return make


@pytest.mark.parametrize("package", ["torch", "transformers", "onnx", "onnxscript"])
def test_without_the_extra_one_sentence_tells_it(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert run(["export", "minilm", "--out", str(tmp_path / "out")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"kriss: error: kriss export needs the package '{package}': pip install 'kriss[train]'"
