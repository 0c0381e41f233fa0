"""`kriss rerank`: train a re-ranker of a linker's candidates, and put it into the linker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kriss.cli.console import Display, shares, show_training
from kriss.cli.options import with_settings
from kriss.cli.shared import Data, Force, LinkerFolder, MentionsFolder, Out, Resume, Threads, group, need_training
from kriss.rerank.config import RerankConfig

app = group("Re-rank a linker's candidates.")


@app.command()
@with_settings
def train(
    linker: LinkerFolder,
    mentions: MentionsFolder,
    *,
    out: Out,
    gold: Annotated[
        list[str] | None,
        typer.Option(metavar="GOLD", help="Labeled documents to learn from as well: a file, or ncbi-disease:train."),
    ] = None,
    data: Data = None,
    threads: Threads = 0,
    resume: Resume = False,
    force: Force = False,
    settings: RerankConfig,
) -> None:
    """Train a re-ranker on mined mentions, each with the candidates that the linker finds for it."""
    need_training("training", "accelerate", "matplotlib", "onnx", "onnxscript")
    from kriss.documents.read import read
    from kriss.errors import InputError
    from kriss.link.linker import Linker
    from kriss.rerank.examples import labeled_by_hand
    from kriss.rerank.run import train_reranker

    opened = Linker.load(linker, threads=threads)
    labeled = labeled_by_hand(read(gold, data=data), opened) if gold else []
    if gold and not labeled:
        raise InputError(f"{', '.join(gold)}: no mention of an entity that {linker} has; leave out --gold")
    with Display("preparing") as progress:
        report = train_reranker(
            settings, opened, mentions, out, gold=labeled, resume=resume, force=force, progress=progress
        )
    left = f" ({report.skipped:,} more have no other evidence)" if report.skipped else ""
    show_training(report, f"{report.examples:,} mentions{left}")
    tuned = report.tuning
    typer.echo(f"its weight in the linker is {tuned['weight']:g}, by {tuned['mentions']:,} dev mentions")
    typer.echo(f"right without it: {shares(tuned['linker'])}; with it: {shares(tuned['reranked'])}")
    typer.echo(f"put it into the linker: kriss rerank attach {linker} {out}")


@app.command()
def attach(
    linker: LinkerFolder,
    reranker: Annotated[Path, typer.Argument(metavar="RERANKER", help="What 'kriss rerank train' wrote for it.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace the re-ranker that the linker has.")] = False,
) -> None:
    """Put a re-ranker into the linker that it was trained for: 'kriss link --rerank' then uses it."""
    from kriss.rank.rerank import attach as put_in

    typer.echo(f"{put_in(linker, reranker, force=force)}: use it with 'kriss link {linker} ... --rerank'")
