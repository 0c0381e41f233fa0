"""`kriss rerank`: train a re-ranker of a linker's candidates, and put it into the linker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kriss.cli.extras import need_training
from kriss.cli.link import Data

if TYPE_CHECKING:
    from kriss.link.linker import Linker
    from kriss.rerank.examples import Labeled

app = typer.Typer(help="Re-rank a linker's candidates.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Re-rank a linker's candidates."""


@app.command()
def train(
    linker: Annotated[Path, typer.Argument(metavar="LINKER", help="A linker written by 'kriss index'.")],
    mentions: Annotated[Path, typer.Argument(metavar="MENTIONS", help="Mentions written by 'kriss mine'.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the re-ranker.")],
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="mini (short sequences, 4 candidates, a CPU) or full.")
    ] = "mini",
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; may be repeated.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="minilm, a folder, or a name on the Hugging Face hub.")
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Batches to train on.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Draws other examples.")] = None,
    gold: Annotated[
        list[str] | None,
        typer.Option(metavar="GOLD", help="Labeled documents to learn from as well: a file, or ncbi-disease:train."),
    ] = None,
    data: Data = None,
    threads: Annotated[int, typer.Option(metavar="N", min=0, help="Threads of the linker; 0 for all cores.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the re-ranker at --out.")] = False,
) -> None:
    """Train a re-ranker on mined mentions, each with the candidates that the linker finds for it."""
    from kriss.config import from_mapping, parse_settings, read_toml, to_mapping
    from kriss.rerank.config import RerankConfig, check
    from kriss.rerank.config import preset as preset_of

    values = (read_toml(config) if config else {}) | parse_settings(settings or [])
    options = {"model": model, "steps": steps, "seed": seed}
    values |= {key: value for key, value in options.items() if value is not None}
    if "epochs" in values:  # whoever asks for epochs does not want the preset's steps
        values.setdefault("steps", 0)
    chosen = from_mapping(RerankConfig, to_mapping(preset_of(preset)) | values, "kriss rerank train")
    check(chosen)
    need_training("training", "accelerate", "matplotlib", "onnx", "onnxscript")
    from kriss.cli.train_progress import TrainProgress
    from kriss.link.linker import Linker
    from kriss.rerank.run import train_reranker

    opened = Linker.load(linker, threads=threads)
    labeled = _labeled(gold, data, opened) if gold else []
    with TrainProgress() as progress:
        report = train_reranker(
            chosen, opened, mentions, out, gold=labeled, resume=resume, force=force, progress=progress
        )
    kept = (
        f"best on dev at step {report.best_step:,}" if report.after else "no dev mentions, so the last weights are kept"
    )
    left = f" ({report.skipped:,} more have no other evidence)" if report.skipped else ""
    typer.echo(f"{out}: trained {report.steps:,} steps on {report.examples:,} mentions{left}; {kept}")
    for label, score in (("before", report.before), ("after", report.after)):
        if score:
            typer.echo(f"dev {label:<7}" + "  ".join(f"{key} {value:.3f}" for key, value in score.flat().items()))
    tuned = report.tuning
    typer.echo(
        f"in use, with and without names of their spelling: {tuned['linker']:.3f} of the dev mentions right before, "
        f"{tuned['reranked']:.3f} after, {tuned['recall']:.3f} among the {tuned['candidates']} candidates that are read"
    )
    typer.echo(
        f"the linker alone answers for {tuned['spared']:.0%} of them, being sure; asked about all it would be "
        f"{tuned['always']:.3f}"
    )
    typer.echo(f"put it into the linker: kriss rerank attach {linker} {out}")


def _labeled(sources: list[str], data: Path | None, linker: Linker) -> list[Labeled]:
    from kriss.errors import InputError
    from kriss.evaluate.datasets import documents
    from kriss.rerank.examples import labeled_by_hand

    found = labeled_by_hand(documents(sources, None, data), linker)
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
    from kriss.rerank.attach import attach as put_in

    typer.echo(f"{put_in(linker, reranker, force=force)}: use it with 'kriss link {linker} ... --rerank'")
