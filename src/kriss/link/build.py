"""From ontology, mentions and encoder to a linker: a folder that answers by itself, on any machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kriss.artifacts import Artifact, check_target, create, open_artifact
from kriss.config import to_mapping
from kriss.encoder.config import SETTINGS, TOKENIZER, Precision
from kriss.encoder.session import PARTS, OnnxEncoder, onnx_file
from kriss.errors import ExistsError, InputError, MissingExtraError
from kriss.index.config import IndexConfig
from kriss.index.encode import Encoding, Progress, blocks_of
from kriss.index.prototypes import Prototypes, write_prototypes
from kriss.link.assemble import Assembly
from kriss.mine.store import open_mentions
from kriss.ontology import Ontology
from kriss.rank.parts import ENCODER, LEARNED, ONTOLOGY, PROTOTYPES
from kriss.rank.short_forms import short_forms, write_short_forms
from kriss.rank.tune import Weights
from kriss.work import Engine, Local, Work


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a linker was built of."""

    path: Path
    facts: dict[str, Any]
    """As in the manifest."""
    weights: Weights


def build_linker(
    config: IndexConfig,
    ontology: Ontology,
    mentions: Path,
    encoder: Path,
    out: Path,
    *,
    threads: int = 0,
    engine: Engine | None = None,
    force: bool = False,
    progress: Progress = lambda event: None,
) -> IndexReport:
    """Encode the prototypes of every entity, put them into an index and choose its weights.

    Interrupted, it goes on at the last finished block when it is started again with the same input.
    """
    check_target(out, "linker", force=force)
    if any((out / LEARNED).glob("*")):
        raise ExistsError(
            f"{out} has learned examples, which a new index would lose; save them with 'kriss learn export {out} "
            f"--out FILE', and remove {out / LEARNED}"
        )
    mined = open_mentions(mentions, ontology)
    source = open_artifact(encoder, "encoder")
    inputs = [
        {"name": artifact.path.name, "sha256": artifact.digest}
        for artifact in (ontology.artifact, open_artifact(mentions, "mentions"), source)
    ]
    work = Work.open(out.parent / f".{out.name}.indexing", {"config": to_mapping(config), "inputs": inputs})
    graphs = work.once(ENCODER, lambda folder: _copy_encoder(source, folder, config.precision))
    progress({"event": "choosing"})
    table = work.once(PROTOTYPES, lambda path: write_prototypes(path, ontology, mined, config))
    if not len(Prototypes(table)):
        raise InputError(f"{ontology.artifact.path} has no entity to link to")
    reads = encoder.resolve() if config.backend == "torch" else graphs
    job = Encoding(table, ontology.artifact.path.resolve(), reads, config.backend, config.precision, threads)
    blocks = blocks_of(table, ontology)
    total, missing = (sum(block.last - block.first for block in some) for some in (blocks, work.missing(blocks)))
    progress({"event": "encode", "total": total, "done": total - missing})
    with work.made_by(engine or Local(), job) as make:
        for _, figures in make(blocks):
            progress({"event": "encoded", **figures})
    with create(out, "linker", config=to_mapping(config), inputs=inputs, seed=config.seed, force=force) as draft_folder:
        folder = draft_folder.path
        shutil.copyfile(table, folder / PROTOTYPES)
        shutil.copytree(ontology.artifact.path, folder / ONTOLOGY)
        shutil.copytree(graphs, folder / ENCODER)
        assembly = Assembly(
            work.folder, folder, config, ontology, OnnxEncoder.load(folder / ENCODER, config.precision, threads), blocks
        )
        weights = assembly.run(mined, progress)
        explained = short_forms(mentions, ontology)
        write_short_forms(explained, folder)
        facts = assembly.facts | {"short_forms": len(explained)}
        draft_folder.facts |= facts
    work.remove()
    return IndexReport(out, facts, weights)


def _copy_encoder(encoder: Artifact, folder: Path, precision: Precision) -> None:
    """Copy what linking needs of an encoder."""
    (folder / "onnx").mkdir(parents=True)
    for name in (SETTINGS, TOKENIZER):
        shutil.copyfile(encoder.path / name, folder / name)
    _copy_graphs(encoder.path, folder, precision)


def _copy_graphs(encoder: Path, folder: Path, precision: Precision) -> None:
    """Take the graphs that the encoder has, or make them where torch is installed."""
    if all(onnx_file(encoder, part, precision).is_file() for part in PARTS):
        for part in PARTS:
            shutil.copyfile(onnx_file(encoder, part, precision), onnx_file(folder, part, precision))
        return
    try:
        from kriss.encoder.export import export_onnx
        from kriss.encoder.model import Encoder
    except ModuleNotFoundError as error:
        purpose = f"{encoder} has no ONNX graphs in {precision}, and making them"
        raise MissingExtraError(str(error.name), "train", purpose) from None
    export_onnx(Encoder.load(encoder), folder, int8=precision == "int8")
    if precision == "int8":
        for part in PARTS:
            onnx_file(folder, part, "fp32").unlink()
