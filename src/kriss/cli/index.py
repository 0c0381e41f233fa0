"""`kriss index`: from ontology, mentions and encoder to a linker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kriss.cli.console import Display, shares
from kriss.cli.options import with_settings
from kriss.cli.shared import EngineName, Force, MentionsFolder, OntologyFolder, Out, RayAddress, Threads
from kriss.index.config import IndexConfig


@with_settings
def index(
    ontology: OntologyFolder,
    mentions: MentionsFolder,
    encoder: Annotated[
        Path, typer.Argument(metavar="ENCODER", help="An encoder written by 'kriss train' or 'kriss export'.")
    ],
    *,
    out: Out,
    threads: Threads = 0,
    engine: EngineName = "local",
    ray_address: RayAddress = "",
    force: Force = False,
    settings: IndexConfig,
) -> None:
    """Build a linker. Interrupted, the same command goes on where it stopped."""
    from kriss.link.build import build_linker
    from kriss.work import engine_named

    chosen = engine_named(engine, ray_address)
    with Display("reading") as progress:
        report = build_linker(
            ontology, mentions, encoder, out, settings, threads=threads, engine=chosen, force=force, progress=progress
        )
    facts, weights = report.facts, report.weights
    counts = (f"{count:,} {'names' if kind == 'name' else kind}" for kind, count in facts["prototypes"].items())
    typer.echo(
        f"{out}: {facts['reachable']:,} of {facts['entities']:,} entities can be linked to, {facts['mined']:,} of them "
        f"by mined mentions; prototypes: {', '.join(counts)}"
    )
    kind = facts["index"]["kind"] + (" (chosen by size)" if settings.index == "auto" else "")
    typer.echo(f"index: {kind}, recall@64 {facts['recall_at_64']:.3f} against exact search")
    if weights.queries:
        typer.echo(
            f"weights, chosen on {weights.queries:,} unlabeled mentions: {shares(weights.weights, 2)}; "
            f"accuracy on those: {shares(weights.accuracy)}"
        )
    else:
        typer.echo(
            "note: nothing to choose weights by, so probabilities mean little: no entity has two names", err=True
        )
