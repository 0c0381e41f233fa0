"""Evening out channels before eight bits: the same products, of inputs that eight bits hold better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.shape_inference import quant_pre_process

from kriss.encoder.quantize import smooth
from kriss.encoder.samples import sample_mentions
from kriss.encoder.session import OnnxEncoder
from kriss.encoder.windows import Sequences

TOKENS, WIDE = 6, 3
ROWS = Sequences([[1, 0, 500, 2, 1, 0], [0, 0, 800, 1, 3, 1]], [(1, 2), (1, 2)], 0)


def products(*weights: str) -> Any:
    """Return a graph that multiplies what it is given with these weights, and adds up what comes out."""
    rng = np.random.default_rng(0)
    matrices = {name: rng.normal(size=(TOKENS, WIDE)).astype(np.float32) for name in weights}
    nodes = [helper.make_node("Cast", ["ids"], ["x"], "cast", to=TensorProto.FLOAT)]
    nodes += [helper.make_node("MatMul", ["x", name], [f"y{n}"], f"product{n}") for n, name in enumerate(weights)]
    nodes += [helper.make_node("Sum", [f"y{n}" for n in range(len(weights))], ["vectors"], "sum")]
    kinds = {"ids": TensorProto.INT64, "mask": TensorProto.INT64, "pool": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info(name, kind, ["batch", TOKENS]) for name, kind in kinds.items()],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", WIDE])],
        [numpy_helper.from_array(matrix, name) for name, matrix in matrices.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def outputs(model: Any, sequences: Sequences) -> Any:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [
        session.run(None, {"ids": batch.ids, "mask": batch.mask, "pool": batch.pool})[0]
        for _, batch in sequences.batches(1)
    ]


def test_channels_come_nearer_and_products_stay() -> None:
    model = products("w", "v")
    before = outputs(model, ROWS)
    smooth(model, [ROWS])
    np.testing.assert_allclose(outputs(model, ROWS), before, rtol=1e-5)
    factors = [numpy_helper.to_array(one) for one in model.graph.initializer if one.name.endswith("_by")]
    assert len(factors) == 1  # both products read the same input
    reached = np.abs(np.array(ROWS.ids)).max(axis=0)
    evened = reached * factors[0]
    assert np.ptp(np.log(evened[evened > 0])) < 0.5 * np.ptp(np.log(reached[reached > 0]))
    assert factors[0][1] == 1  # a channel that nothing reached


def test_a_weight_of_two_products_is_left_alone() -> None:
    model = products("w", "w")
    before = model.SerializeToString()
    smooth(model, [ROWS])
    assert model.SerializeToString() == before


@pytest.mark.parametrize("part", ["mention", "references"])
def test_an_encoder_gives_the_same_vectors(tiny_encoder: Path, tmp_path: Path, part: str) -> None:
    encoder = OnnxEncoder.load(tiny_encoder, threads=1)
    sequences = encoder.windows.mentions(sample_mentions())
    [file] = (tiny_encoder / "onnx").glob(f"{part}.onnx")
    quant_pre_process(file, tmp_path / "prepared.onnx", skip_symbolic_shape=True)
    model = onnx.load(tmp_path / "prepared.onnx")
    before = outputs(model, sequences)
    smooth(model, [sequences])
    assert any(node.name.endswith("_smoothed") for node in model.graph.node)
    for first, second in zip(before, outputs(model, sequences), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
