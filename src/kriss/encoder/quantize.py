"""Graphs that calculate in eight bits, with scales that are fixed when the graph is written.

ONNX Runtime's own dynamic quantization takes the scale of each layer's input from the batch at hand, so that
a mention gets other vectors in other company (cosines down to 0.986). Here the scales come once
from sequences that are like those to be encoded: as near to the original, the same in any batch, and faster,
since nothing is measured again and product, scale and bias are one operation.

Before that, channels are evened out: a few of a Transformer's hidden states are many times as large as the rest, and
one scale for all would leave the rest few of its 256 steps. As weights have a scale for each channel of the output, not
of the input, part of the difference can be moved into them (SmoothQuant, Xiao et al. 2023):

    x W = (x / s) (s W),   s_j = max |x_j| ^ 0.8 / max |W_j| ^ 0.2

which changes nothing before rounding. On MiniLM the error that eight bits make in a vector (one less the cosine) is a
quarter of what it was: 0.0018 instead of 0.0070, by powers of 0.5, 0.6, 0.7, 0.8, 0.9 and 1: 0.0086, 0.0035, 0.0019,
0.0018, 0.0021 and 0.0029.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process

from kriss.encoder.session import open_session
from kriss.encoder.windows import Sequences

_OWN = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
_LEVELS = 255
_POWER = 0.8
"""How much of the difference between channels the weights take over."""
_SMOOTHED = "_smoothed"
Floats = NDArray[np.float32]
Range = tuple[Floats, Floats]


def quantize(source: Path, target: Path, sequences: Sequence[Sequences]) -> None:
    """Write a graph with weights of eight bits, each channel with its own scale."""
    with tempfile.TemporaryDirectory() as folder:
        prepared, dynamic = Path(folder) / "prepared.onnx", Path(folder) / "dynamic.onnx"
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        evened = onnx.load(prepared)
        smooth(evened, sequences)
        onnx.save(evened, prepared)
        quantize_dynamic(prepared, dynamic, weight_type=QuantType.QInt8, per_channel=True)
        model = onnx.load(dynamic)
        measured = [node.input[0] for node in model.graph.node if node.op_type == "DynamicQuantizeLinear"]
        ranges = _measured(model, measured, sequences)
    scales = _fix_scales(model, ranges)
    _fuse(model, scales)
    onnx.save(model, target)


def smooth(model: Any, sequences: Iterable[Sequences]) -> None:  # noqa: ANN401 - protobuf
    """Divide the inputs of products with fixed weights by what their channels reach on some sequences."""
    weights = {one.name: one for one in model.graph.initializer if len(one.dims) == 2}
    products: dict[str, list[Any]] = {}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            products.setdefault(node.input[0], []).append(node)
    uses = [name for node in model.graph.node for name in node.input]
    smoothed = {
        name: nodes for name, nodes in products.items() if all(uses.count(node.input[1]) == 1 for node in nodes)
    }
    if not smoothed:
        return
    channels = _measured(model, list(smoothed), sequences, axis=0)
    divisions: dict[str, Any] = {}
    for name, nodes in smoothed.items():
        arrays = [numpy_helper.to_array(weights[node.input[1]]) for node in nodes]
        scale = _scale(
            np.maximum(-channels[name][0], channels[name][1]),
            np.max([np.abs(array).max(axis=1) for array in arrays], axis=0),
        )
        for node, array in zip(nodes, arrays, strict=True):
            weights[node.input[1]].CopyFrom(numpy_helper.from_array(array * scale[:, None], node.input[1]))
            node.input[0] = name + _SMOOTHED
        factor = numpy_helper.from_array(np.float32(1) / scale, f"{name}{_SMOOTHED}_by")
        model.graph.initializer.append(factor)
        divisions[nodes[0].name] = helper.make_node("Mul", [name, factor.name], [name + _SMOOTHED], name + _SMOOTHED)
    nodes = [one for node in model.graph.node for one in (divisions.get(node.name), node) if one is not None]
    _replace(model, nodes)


def _scale(inputs: Floats, weights: Floats) -> Floats:
    """Return what to divide each channel by; one that is never reached, or has no weight, stays as it is."""
    used = (inputs > 0) & (weights > 0)
    found = np.where(used, inputs, 1) ** _POWER / np.where(used, weights, 1) ** (1 - _POWER)
    return np.where(used, found, 1).astype(np.float32)


def _measured(
    model: Any,  # noqa: ANN401 - protobuf
    names: list[str],
    sequences: Iterable[Sequences],
    axis: int | None = None,
) -> dict[str, Range]:
    """Return the least and the greatest number that each of some tensors holds, or each of its channels (axis 0)."""
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    watched.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    session = open_session(watched.SerializeToString())
    found: dict[str, Range] = {}
    for some in sequences:
        for _, batch in some.batches(1):
            tensors = session.run(names, {"ids": batch.ids, "mask": batch.mask, "pool": batch.pool})
            for name, tensor in zip(names, tensors, strict=True):
                values = tensor.reshape(-1, tensor.shape[-1])
                least, greatest = found.get(name, (np.float32(0), np.float32(0)))
                found[name] = np.minimum(least, values.min(axis)), np.maximum(greatest, values.max(axis))
    return found


def _fix_scales(model: Any, ranges: Mapping[str, Range]) -> set[str]:  # noqa: ANN401 - protobuf
    """Put constants in the place of what is measured anew for every batch; return the names of the scales."""
    nodes, scales = [], set()
    for node in model.graph.node:
        if node.op_type != "DynamicQuantizeLinear":
            nodes.append(node)
            continue
        quantized, scale, zero = node.output
        least, greatest = (float(value) for value in ranges[node.input[0]])
        step = np.float32(max((greatest - least) / _LEVELS, 1e-9))
        point = np.uint8(np.clip(round(-least / float(step)), 0, _LEVELS))
        model.graph.initializer.append(numpy_helper.from_array(np.array(step), scale))
        model.graph.initializer.append(numpy_helper.from_array(np.array(point), zero))
        nodes.append(helper.make_node("QuantizeLinear", [node.input[0], scale, zero], [quantized], name=node.name))
        scales.add(scale)
    _replace(model, nodes)
    return scales


def _fuse(model: Any, scales: set[str]) -> None:  # noqa: ANN401 - protobuf
    """Make one operation of product, conversion, scale and bias, where they follow one another."""
    users: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    makers = {name: node for node in model.graph.node for name in node.output}
    vectors = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 1}
    fused: dict[str, Any] = {}
    gone: set[str] = set()
    for node in model.graph.node:
        chain = _chain(node, users, makers, scales) if node.op_type == "MatMulInteger" else None
        if chain is None:
            continue
        cast, scaling, factor, own, others = chain
        inputs, output = [*node.input[:2], own, others, *node.input[2:]], scaling.output[0]
        [after, *more] = users[output]
        bias = [name for name in after.input if name in vectors] if after.op_type == "Add" and not more else []
        if bias:
            inputs, output = [*inputs, bias[0]], after.output[0]
            gone.add(after.output[0])
        gone |= {cast.output[0], scaling.output[0], factor.output[0]}
        fused[node.output[0]] = helper.make_node("MatMulIntegerToFloat", inputs, [output], name=node.name, domain=_OWN)
    kept = (fused.get(node.output[0], node) for node in model.graph.node if node.output[0] not in gone)
    _replace(model, list(kept))
    if fused and all(one.domain != _OWN for one in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_OWN, 1))


def _chain(node: Any, users: Mapping[str, list[Any]], makers: Mapping[str, Any], scales: set[str]) -> Any:  # noqa: ANN401
    """Return what follows an integer product, and the two scales in it; None if it is not what is expected."""
    [cast, *more] = users.get(node.output[0], [None])
    [scaling, *others] = users.get(cast.output[0], [None]) if cast is not None and cast.op_type == "Cast" else [None]
    if scaling is None or scaling.op_type != "Mul" or more or others or len(node.input) != 4:
        return None
    factor = makers.get(next(name for name in scaling.input if name != cast.output[0]))
    if factor is None or factor.op_type != "Mul" or len(users[factor.output[0]]) != 1:
        return None
    own = [name for name in factor.input if name in scales]
    return (cast, scaling, factor, own[0], next(n for n in factor.input if n != own[0])) if len(own) == 1 else None


def _replace(model: Any, nodes: list[Any]) -> None:  # noqa: ANN401 - protobuf
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
