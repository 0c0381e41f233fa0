"""`kriss index`: from ontology, mentions and encoder to a linker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

def index(
    ontology: Annotated[
        Path, typer.Argument(metavar="ONTOLOGY", help="An ontology written by 'kriss ontology build'.")
    ],
    mentions: Annotated[Path, typer.Argument(metavar="MENTIONS", help="Mentions written by 'kriss mine'.")],
    encoder: Annotated[
        Path, typer.Argument(metavar="ENCODER", help="An encoder written by 'kriss train' or 'kriss export'.")
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the linker.")],
    per_entity: Annotated[int, typer.Option(metavar="N", help="Mined mentions an entity has as prototypes.")] = 16,
    splits: Annotated[
        str, typer.Option(metavar="LIST", help="Which mined mentions: prototypes, or prototypes,train.")
    ] = "prototypes",
    names: Annotated[
        str, typer.Option(metavar="WHICH", help="Names as prototypes: all, missing as in the paper, or none.")
    ] = "all",
    references: Annotated[
        float | None,
        typer.Option(
            metavar="W", help="Weight of the entity's reference: 1 for Eq. 4.  [default: best on dev mentions]"
        ),
    ] = None,
    kind: Annotated[str, typer.Option("--index", metavar="KIND", help="auto, flat, fp16, sq8, hnsw or ivf.")] = "auto",
    ngrams: Annotated[bool, typer.Option(help="Index names by their character n-grams too.")] = True,
    precision: Annotated[
        str, typer.Option(metavar="HOW", help="fp32, or int8: faster and a little less exact.")
    ] = "fp32",
    backend: Annotated[str, typer.Option(metavar="NAME", help="onnx, or torch for a GPU.")] = "onnx",
    threads: Annotated[int, typer.Option(metavar="N", help="Threads that encode; 0 for all cores.")] = 0,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray for a cluster.")] = "local",
    ray_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="ray: the cluster to join; default: start one here.")
    ] = "",
    seed: Annotated[int, typer.Option(metavar="N", help="Draws other mentions to calibrate with.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the linker at --out.")] = False,
) -> None:
    """Build a linker. Interrupted, the same command goes on where it stopped."""
    from kriss.cli.index_progress import IndexProgress
    from kriss.config import from_mapping
    from kriss.link.build import build_linker
    from kriss.index.config import IndexConfig
    from kriss.ontology import Ontology
    from kriss.work import engine_named

    config = from_mapping(
        IndexConfig,
        {
            "per_entity": per_entity,
            "splits": [split.strip() for split in splits.split(",")],
            "names": names,
            "references": references,
            "index": kind,
            "ngrams": ngrams,
            "precision": precision,
            "backend": backend,
            "seed": seed,
        },
        "kriss index",
    )
    with IndexProgress() as progress:
        report = build_linker(
            config,
            Ontology.load(ontology),
            mentions,
            encoder,
            out,
            threads=threads,
            engine=engine_named(engine, ray_address),
            force=force,
            progress=progress,
        )
    facts, calibration = report.facts, report.calibration
    counts = ", ".join(
        f"{count:,} {'names' if kind == 'name' else kind}" for kind, count in facts["prototypes"].items()
    )
    typer.echo(
        f"{out}: {facts['reachable']:,} of {facts['entities']:,} entities can be linked to, {facts['mined']:,} of them "
        f"by mined mentions; prototypes: {counts}"
    )
    chosen = " (chosen by size)" if kind == "auto" else ""
    typer.echo(f"index: {facts['index']['kind']}{chosen}, recall@64 {facts['recall_at_64']:.3f} against exact search")
    if calibration.queries:
        best = calibration.fit(calibration.context)
        typer.echo(
            f"calibrated on {calibration.queries:,} unlabeled mentions: context weighs {calibration.context:.2f}, "
            f"references {facts['references']:.2f}, spelling {calibration.ngrams:.2f}, "
            f"what narrower entities say for a broader one {calibration.broader:.2f}; "
            f"accuracy {best.known:.3f} where the name is in the index, {best.unseen:.3f} where it is not"
        )
    else:
        typer.echo("note: nothing to calibrate with, so every probability is 0.5: no entity has two names", err=True)
