"""`kriss rerank`: train a re-ranker of a linker's candidates, and put it into the linker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.console import Display
from kriss.cli.extras import need_training
from kriss.cli.link import Data
from kriss.cli.options import with_settings
from kriss.rerank.config import RerankConfig

if TYPE_CHECKING:
    from kriss.link.linker import Linker
    from kriss.rank.tune import Case

app = typer.Typer(help="Re-rank a linker's candidates.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Re-rank a linker's candidates."""


@app.command()
@with_settings
def train(
    linker: Annotated[Path, typer.Argument(metavar="LINKER", help="A linker written by 'kriss index'.")],
    mentions: Annotated[Path, typer.Argument(metavar="MENTIONS", help="Mentions written by 'kriss mine'.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the re-ranker.")],
    gold: Annotated[
        list[str] | None,
        typer.Option(metavar="GOLD", help="Labeled documents to learn from as well: a file, or ncbi-disease:train."),
    ] = None,
    data: Data = None,
    threads: Annotated[int, typer.Option(metavar="N", min=0, help="Threads of the linker; 0 for all cores.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the re-ranker at --out.")] = False,
    settings: RerankConfig,
) -> None:
    """Train a re-ranker on mined mentions, each with the candidates that the linker finds for it."""
    need_training("training", "accelerate", "matplotlib", "onnx", "onnxscript")
    from kriss.link.linker import Linker
    from kriss.rerank.run import train_reranker

    opened = Linker.load(linker, threads=threads)
    labeled = _labeled(gold, data, opened) if gold else []
    with Display("preparing") as progress:
        report = train_reranker(
            settings, opened, mentions, out, gold=labeled, resume=resume, force=force, progress=progress
        )
    kept = (
        f"best on dev at step {report.best_step:,}" if report.after else "no dev mentions, so the last weights are kept"
    )
    left = f" ({report.skipped:,} more have no other evidence)" if report.skipped else ""
    typer.echo(f"{out}: trained {report.steps:,} steps on {report.examples:,} mentions{left}; {kept}")
    for label, score in (("before", report.before), ("after", report.after)):
        if score:
            typer.echo(f"dev {label:<7}" + "  ".join(f"{key} {value:.3f}" for key, value in score.figures.items()))
    tuned = report.tuning
    typer.echo(f"its weight in the linker is {tuned['weight']:g}, by {tuned['mentions']:,} dev mentions")
    for label, shares in (("without", tuned["linker"]), ("with", tuned["reranked"])):
        typer.echo(f"right {label:<8}" + "  ".join(f"{name} {share:.3f}" for name, share in shares.items()))
    typer.echo(f"put it into the linker: kriss rerank attach {linker} {out}")


def _labeled(sources: list[str], data: Path | None, linker: Linker) -> list[Case]:
    from kriss.documents.read import read
    from kriss.errors import InputError
    from kriss.rerank.examples import labeled_by_hand

    found = labeled_by_hand(read(sources, data=data), linker)
    if not found:
        raise InputError(
            f"{', '.join(sources)}: no mention of an entity that {linker.artifact.path} has; leave out --gold"
        )
    return found


@app.command()
def attach(
    linker: Annotated[Path, typer.Argument(metavar="LINKER", help="A linker written by 'kriss index'.")],
    reranker: Annotated[Path, typer.Argument(metavar="RERANKER", help="What 'kriss rerank train' wrote for it.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace the re-ranker that the linker has.")] = False,
) -> None:
    """Put a re-ranker into the linker that it was trained for: 'kriss link --rerank' then uses it."""
    from kriss.rank.rerank import attach as put_in

    typer.echo(f"{put_in(linker, reranker, force=force)}: use it with 'kriss link {linker} ... --rerank'")
