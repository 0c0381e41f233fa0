"""From ontology, mentions and encoder to a linker: a folder that answers by itself, on any machine."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from kriss.artifacts import Artifact, check_target, create, open_artifact
from kriss.config import changed, to_mapping
from kriss.encoder.config import SETTINGS, TOKENIZER, Precision
from kriss.encoder.session import PARTS, OnnxEncoder, onnx_file
from kriss.errors import ExistsError, InputError, MissingExtraError
from kriss.files import Where
from kriss.index import vectors
from kriss.index.config import IndexConfig
from kriss.index.encode import Block, Encoding, Progress, blocks_of, joined
from kriss.index.prototypes import KINDS, Prototypes, write_prototypes
from kriss.link.annotate import LOOKED_FOR
from kriss.mine.names import write_names
from kriss.mine.store import open_mentions
from kriss.ontology import Ontology
from kriss.rank import spelling
from kriss.rank.decide import Ranking
from kriss.rank.parts import ENCODER, LEARNED, NAMES, ONTOLOGY, PROTOTYPES, REFERENCES, SPELLING, VECTORS, Parts
from kriss.rank.queries import Queries
from kriss.rank.short_forms import short_forms, write_short_forms
from kriss.rank.tune import Weights, dev_cases, name_cases, tune, usable
from kriss.work import Engine, Local, Work

_CASES, _ENOUGH = 1000, 50
"""Dev mentions that are linked, if there are so many, and the fewest that will do."""
_FOR_RECALL = 200
"""How many of them measure recall."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a linker was built of."""

    path: Path
    facts: dict[str, Any]
    """As in the manifest."""
    weights: Weights


def build_linker(
    ontology: Ontology | Where,
    mentions: Where,
    encoder: Where,
    out: Where,
    config: IndexConfig | None = None,
    *,
    threads: int = 0,
    engine: Engine | None = None,
    force: bool = False,
    progress: Progress = lambda event: None,
    **settings: Any,  # noqa: ANN401 - the fields of IndexConfig
) -> IndexReport:
    """Encode the prototypes of every entity, put them into an index and choose its weights.

    Interrupted, it goes on at the last finished block when it is started again with the same input.
    """
    config = changed(config or IndexConfig(), settings, "kriss.build")
    ontology, mentions, encoder, out = Ontology.load(ontology), Path(mentions), Path(encoder), Path(out)
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
    graphs = work.once(ENCODER, partial(_copy_encoder, source, config.precision))
    progress({"event": "choosing"})
    table = work.once(PROTOTYPES, partial(write_prototypes, ontology=ontology, mentions=mined, config=config))
    if not len(Prototypes(table)):
        raise InputError(f"{ontology.artifact.path} has no entity to link to")
    reads = encoder.resolve() if config.backend == "torch" else graphs
    job = Encoding(table, ontology.artifact.path.resolve(), reads, config.backend, config.precision, threads)
    blocks = blocks_of(table, ontology)
    total, missing = (sum(block.last - block.first for block in some) for some in (blocks, work.missing(blocks)))
    progress({"event": "encode", "total": total, "done": total - missing})
    with work.made_by(engine or Local(), job.open) as make:
        for _, figures in make(blocks):
            progress({"event": "encoded", **figures})
    with create(out, "linker", config=to_mapping(config), inputs=inputs, seed=config.seed, force=force) as draft_folder:
        folder = draft_folder.path
        shutil.copyfile(table, folder / PROTOTYPES)
        shutil.copytree(ontology.artifact.path, folder / ONTOLOGY)
        shutil.copytree(graphs, folder / ENCODER)
        facts = _counts(folder, ontology)
        facts["index"] = _write_vectors(
            blocks, work.folder, folder, (len(ontology), len(Prototypes(table))), config, progress
        )
        spelling.build(folder / SPELLING, ontology.names_table())
        (folder / NAMES).mkdir()
        with suppress(InputError):  # no name that could stand in text: then none are looked for
            write_names(ontology.names_table(), LOOKED_FOR, folder / NAMES)
        explained = short_forms(mentions, ontology)
        write_short_forms(explained, folder)
        facts["short_forms"] = len(explained)
        progress({"event": "tuning"})
        encoder_here = OnnxEncoder.load(folder / ENCODER, config.precision, threads)
        weights, recall = _tuned(Parts.open(folder), encoder_here, mined, config.seed)
        weights.save(folder)
        draft_folder.facts |= facts | {
            "recall_at_64": recall,
            "dev_mentions": weights.queries,
            "dev_accuracy": dict(weights.accuracy),
            "weights": dict(weights.weights),
        }
    work.remove()
    return IndexReport(out, draft_folder.facts, weights)


def _counts(folder: Path, ontology: Ontology) -> dict[str, Any]:
    """Return how many entities and prototypes there are."""
    prototypes = Prototypes(folder / PROTOTYPES)
    return {
        "entities": len(ontology),
        "reachable": len(np.unique(prototypes.entity)),
        "mined": len(np.unique(prototypes.entity[prototypes.kind == KINDS.index("mined")])),
        "prototypes": prototypes.counts(),
    }


def _write_vectors(
    blocks: list[Block], work: Path, folder: Path, counts: tuple[int, int], config: IndexConfig, progress: Progress
) -> dict[str, Any]:
    """Write the index of prototypes, and the references; return what is worth knowing of the index."""
    entities, count = counts
    width = next(joined(blocks, work, "vectors"))[1].shape[1]
    kind = vectors.choose(count, width) if config.index == "auto" else config.index
    progress({"event": "indexing", "kind": kind, "count": count})
    references = np.lib.format.open_memmap(
        folder / REFERENCES, "w+", np.float32 if kind == "flat" else np.float16, (entities, width)
    )
    for block, found in joined(blocks, work, "references"):
        references[block.first : block.last] = found
    references.flush()
    whole = np.lib.format.open_memmap(work / "whole.npy", "w+", np.float32, (count, width))
    for block, found in joined(blocks, work, "vectors"):
        whole[block.first : block.last] = found
    (folder / VECTORS).mkdir()
    return vectors.build(folder / VECTORS, whole, kind, seed=config.seed)


def _tuned(parts: Parts, encoder: OnnxEncoder, mined: pq.ParquetFile, seed: int) -> tuple[Weights, float]:
    """Choose weights on dev mentions, and measure on some the share of the 64 best prototypes that the index finds."""
    cases = usable(parts.prototypes, dev_cases(mined, parts.ontology, _CASES, seed))
    if len(cases) < _ENOUGH:
        cases = usable(parts.prototypes, name_cases(parts.prototypes, _CASES, seed))
    weights = tune(Ranking(parts, {}), encoder, cases)
    if parts.index.kind == "flat" or not cases:
        return weights, 1.0
    context = weights.weights["context"]
    excerpts = [case.excerpt for case in cases[:: max(1, len(cases) // _FOR_RECALL)]]
    queries = Queries.of(encoder, excerpts, context=context > 0)
    return weights, round(float(vectors.recall(parts.index, queries.vectors(context))), 4)


def _copy_encoder(encoder: Artifact, precision: Precision, folder: Path) -> None:
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
