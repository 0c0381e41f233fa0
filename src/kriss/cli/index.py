"""`kriss index`: from ontology, mentions and encoder to a linker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kriss.cli.console import Display
from kriss.cli.options import with_settings
from kriss.index.config import IndexConfig


@with_settings
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
    threads: Annotated[int, typer.Option(metavar="N", help="Threads that encode; 0 for all cores.")] = 0,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray for a cluster.")] = "local",
    ray_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="ray: the cluster to join; default: start one here.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the linker at --out.")] = False,
    settings: IndexConfig,
) -> None:
    """Build a linker. Interrupted, the same command goes on where it stopped."""
    from kriss.stages import build
    from kriss.work import engine_named

    with Display("reading") as progress:
        report = build(
            ontology,
            mentions,
            encoder,
            out,
            settings,
            threads=threads,
            engine=engine_named(engine, ray_address),
            force=force,
            progress=progress,
        )
    facts = report.facts
    counts = ", ".join(
        f"{count:,} {'names' if kind == 'name' else kind}" for kind, count in facts["prototypes"].items()
    )
    typer.echo(
        f"{out}: {facts['reachable']:,} of {facts['entities']:,} entities can be linked to, {facts['mined']:,} of them "
        f"by mined mentions; prototypes: {counts}"
    )
    chosen = " (chosen by size)" if settings.index == "auto" else ""
    typer.echo(f"index: {facts['index']['kind']}{chosen}, recall@64 {facts['recall_at_64']:.3f} against exact search")
    weights = report.weights
    if weights.queries:
        chosen = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.weights.items())
        right = ", ".join(f"{name} {share:.3f}" for name, share in weights.accuracy.items())
        typer.echo(f"weights, chosen on {weights.queries:,} unlabeled mentions: {chosen}; accuracy on those: {right}")
    else:
        typer.echo(
            "note: nothing to choose weights by, so probabilities mean little: no entity has two names", err=True
        )
