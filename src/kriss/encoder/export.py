"""From torch to ONNX: two graphs that hold what `Tower.forward` does, pooling and length included.

    facts = export_onnx(encoder, folder, int8=True)              # beside an encoder saved there
    export_encoder("minilm", Path("out/minilm"))                 # an artifact of its own

A graph is compared with torch before anybody relies on it, on `samples` of many lengths.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from kriss.artifacts import MANIFEST, check_target, create, file_digest, open_artifact
from kriss.config import from_mapping, to_mapping
from kriss.encoder.config import SETTINGS, EncoderConfig, Precision
from kriss.encoder.model import Encoder, Tower
from kriss.encoder.pretrained import locate
from kriss.encoder.quantize import quantize
from kriss.encoder.samples import sample_entities, sample_mentions
from kriss.encoder.session import PARTS, Part, onnx_file, open_graph
from kriss.encoder.windows import Batch, Sequences
from kriss.errors import ConfigError, DriftError
from kriss.records import Excerpt

_NEEDED: dict[Precision, tuple[float, float]] = {"fp32": (0.9999, 0.9999), "int8": (0.98, 0.95)}
"""How like its original an exported encoder must be: the least mean and the least minimum of the cosines.

In fp32 only the order of sums differs. In int8 with a scale for each channel MiniLM keeps a mean of 0.991
and a minimum of 0.987; with one scale for a whole matrix it falls to 0.95 and 0.91. The limits lie between
the two: they let a model through that is a little harder to round, and none that was rounded badly."""
_SIZE = 5
"""Sequences in a batch of the check: 32 give seven batches of seven lengths."""


def export_onnx(encoder: Encoder, folder: Path, *, int8: bool) -> dict[str, Any]:
    """Write the graphs of both Transformers below `folder`, and return how like torch they are.

    A graph that is not like enough is refused and removed, with its twin of the same precision.
    """
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    towers: dict[Part, Tower] = {"mention": encoder.mention, "references": encoder.reference}
    sequences: dict[Part, Sequences] = {
        "mention": encoder.windows.mentions(sample_mentions()),
        "references": encoder.windows.references(sample_entities()),
    }
    bare = encoder.windows.mentions([Excerpt.bare(mention.surface) for mention in sample_mentions()])
    scaled: dict[Part, list[Sequences]] = {
        "mention": [sequences["mention"], bare],
        "references": [sequences["references"]],
    }
    expected = {part: towers[part].vectors(sequences[part], _SIZE) for part in PARTS}
    facts: dict[str, Any] = {}
    precisions: tuple[Precision, ...] = ("fp32", "int8") if int8 else ("fp32",)
    for precision in precisions:
        files = {part: onnx_file(folder, part, precision) for part in PARTS}
        facts[precision] = {}
        try:
            for part, file in files.items():
                if precision == "fp32":
                    _, example = next(sequences[part].batches(_SIZE))
                    positions = getattr(towers[part].backbone.config, "max_position_embeddings", None)
                    trace(towers[part], example, positions, file)
                else:
                    quantize(onnx_file(folder, part, "fp32"), file, scaled[part])
                found = sequences[part].encode(open_graph(file, torch.get_num_threads()), _SIZE)
                facts[precision][part] = _check(cosines(expected[part], found), part, precision)
        except BaseException:
            for file in files.values():
                file.unlink(missing_ok=True)
            raise
    return facts


def cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows; not a number where a row is zero or holds none."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: NDArray[np.float64] = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return found


def _check(found: NDArray[np.float64], part: Part, precision: Precision) -> dict[str, float]:
    mean, least = float(found.mean()), float(found.min())
    needed_mean, needed_least = _NEEDED[precision]
    if not (mean >= needed_mean and least >= needed_least):  # this way round, for "not a number" is no cosine
        advice = "give --no-int8" if precision == "int8" else "this torch and this ONNX Runtime do not go together"
        raise DriftError(
            f"the {precision} graph '{part}' drifts from the encoder: cosines of {mean:.4f} in the mean and "
            f"{least:.4f} at least, where {needed_mean} and {needed_least} are needed; {advice}"
        )
    return {"mean_cosine": round(mean, 6), "min_cosine": round(least, 6)}


def trace(module: torch.nn.Module, example: Batch, positions: int | None, file: Path) -> None:
    """Write the graph of what takes `ids`, `mask` and `pool`, for any number of sequences of up to `positions`."""
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens", max=positions)
    where = next(module.parameters()).device
    given = tuple(torch.from_numpy(array).to(where) for array in (example.ids, example.mask, example.pool))
    training = module.training
    module.eval()
    try:
        with _quiet(), torch.no_grad():
            program = torch.export.export(module, given, dynamic_shapes=({0: batch, 1: tokens},) * 3)
            exported = torch.onnx.export(
                program, input_names=["ids", "mask", "pool"], output_names=["vectors"], dynamo=True, verbose=False
            )
    finally:
        module.train(training)
    if exported is None:  # only the old exporter returns nothing
        raise TypeError("torch.onnx.export returned no program")
    named = zip(exported.model.graph.inputs[0].shape or (), ("batch", "tokens"), strict=True)
    exported.rename_axes({str(axis): name for axis, name in named})
    _without_traces(exported.model_proto, file)


def _without_traces(model: onnx.ModelProto, file: Path) -> None:
    """Save a graph without the stack trace of every node, which would tell paths of this machine."""
    for node in model.graph.node:
        del node.metadata_props[:]
    del model.graph.value_info[:]  # shapes of before the optimizer turned a matrix round; whoever needs them infers
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    onnx.save(model, file)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what torch's exporter says about itself, and nothing else."""
    registry = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registry.level
    registry.setLevel(logging.ERROR)  # it misses torchvision
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            yield
    finally:
        registry.setLevel(level)


def export_encoder(
    model: str, out: Path, *, int8: bool = False, force: bool = False, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Make an encoder artifact with ONNX graphs of `minilm`, a folder, a name on the hub, or an encoder.

    `settings` are values of `EncoderConfig`; an encoder that kriss wrote keeps its own, as other
    ones would change its vectors. Returns the facts that the manifest has.
    """
    check_target(out, "encoder", force=force)
    given = {key: value for key, value in (settings or {}).items() if value is not None}
    folder = Path(model)
    facts: dict[str, Any] = {}
    if (folder / SETTINGS).is_file() or (folder / MANIFEST).is_file():
        artifact = open_artifact(folder, "encoder") if (folder / MANIFEST).is_file() else None
        if given:
            raise ConfigError(f"{folder} is an encoder with settings of its own: leave out --{next(iter(given))}")
        encoder = Encoder.load(folder)
        config = dict(artifact.config) if artifact else to_mapping(encoder.config)
        facts |= artifact.facts if artifact else {}
        digest = artifact.digest if artifact else file_digest(folder / "model.safetensors")
        inputs = [{"name": folder.name, "sha256": digest}]
    else:
        encoder = Encoder.from_pretrained(model, from_mapping(EncoderConfig, given, "kriss export"))
        published = {"model": folder.name if folder.is_dir() else model, "markers": False}  # never saw them
        config = published | to_mapping(encoder.config)
        inputs = _weights(Path(locate(model)))
    with create(out, "encoder", config=config, inputs=inputs, force=force) as draft:
        encoder.save(draft.path)
        draft.facts |= facts | {"onnx": export_onnx(encoder, draft.path, int8=int8)}
        return draft.facts


def _weights(folder: Path) -> list[dict[str, Any]]:
    """Name the weights that an encoder starts from; those of the hub are not ours to find."""
    files = sorted(file for file in folder.glob("*") if file.name in ("model.safetensors", "pytorch_model.bin"))
    return [{"name": file.name, "bytes": file.stat().st_size, "sha256": file_digest(file)} for file in files]
