"""`kriss train`: train an encoder on mined mentions, and score one on the dev set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kriss.cli.console import Display
from kriss.cli.extras import need_training
from kriss.cli.groups import DefaultGroup
from kriss.cli.options import with_settings
from kriss.train.config import TrainConfig

app = typer.Typer(
    cls=DefaultGroup,
    help="Train an encoder: kriss train ONTOLOGY MENTIONS --out DIR.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OntologyFolder = Annotated[
    Path, typer.Argument(metavar="ONTOLOGY", help="An ontology written by 'kriss ontology build'.")
]
MentionsFolder = Annotated[Path, typer.Argument(metavar="MENTIONS", help="Mentions written by 'kriss mine'.")]


@app.command()
@with_settings
def run(
    ontology: OntologyFolder,
    mentions: MentionsFolder,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the encoder.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the encoder at --out.")] = False,
    settings: TrainConfig,
) -> None:
    """Train an encoder. On several GPUs: torchrun --nproc-per-node 8 --no-python kriss train ..."""
    need_training("training", "accelerate", "matplotlib")
    from kriss.stages import train

    with Display("preparing") as progress:
        report = train(ontology, mentions, out, settings, resume=resume, force=force, progress=progress)
    if report is None:  # one process of several, and not the first
        return
    kept = (
        f"best on dev at step {report.best_step:,}" if report.after else "no dev mentions, so the last weights are kept"
    )
    typer.echo(
        f"{out}: trained {report.steps:,} steps on {report.mentions:,} mentions of {report.entities:,} entities; {kept}"
    )
    for label, score in (("before", report.before), ("after", report.after)):
        if score:
            typer.echo(f"dev {label:<7}" + "  ".join(f"{key} {value:.3f}" for key, value in score.figures.items()))


@app.command()
def score(
    encoder: Annotated[Path, typer.Argument(metavar="ENCODER", help="An encoder written by 'kriss train'.")],
    ontology: OntologyFolder,
    mentions: MentionsFolder,
    queries: Annotated[int, typer.Option(metavar="N", min=1, help="Queries of each kind.")] = 1000,
    entities: Annotated[int, typer.Option(metavar="N", min=1, help="Candidates.")] = 2000,
    references: Annotated[bool, typer.Option(help="Add the entity's reference to a prototype (Eq. 4).")] = True,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Score the model that the training started from instead.")
    ] = False,
) -> None:
    """Score an encoder on the self-supervised dev set: masked mentions, and names it never saw."""
    need_training("training", "accelerate", "matplotlib")
    from kriss.ontology import Ontology
    from kriss.train.dev import TOP, score_encoder

    score, dev = score_encoder(
        encoder,
        Ontology.load(ontology),
        mentions,
        queries=queries,
        entities=entities,
        references=references,
        untrained=untrained,
    )
    for kind, asked in dev.queries.items():
        shares = "  ".join(f"top-{top} {score.figures[f'{kind}@{top}']:.3f}" for top in TOP)
        typer.echo(f"{kind:<8} {len(asked):>6,} queries  {shares}")
    typer.echo(f"against {len(dev.rows):,} entities with {len(dev.prototypes):,} prototypes")
