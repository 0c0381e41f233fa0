"""`kriss train` and `kriss export`: an encoder trained on mined mentions, its score, and its graphs for linking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kriss.cli.console import Display, show_training
from kriss.cli.options import with_settings
from kriss.cli.shared import DefaultGroup, Force, MentionsFolder, OntologyFolder, Out, Resume, group, need_training
from kriss.encoder.config import EncoderConfig
from kriss.train.config import TrainConfig

app = group("Train an encoder: kriss train ONTOLOGY MENTIONS --out DIR.", DefaultGroup)


@app.command()
@with_settings
def run(
    ontology: OntologyFolder,
    mentions: MentionsFolder,
    *,
    out: Out,
    resume: Resume = False,
    force: Force = False,
    settings: TrainConfig,
) -> None:
    """Train an encoder. On several GPUs: torchrun --nproc-per-node 8 --no-python kriss train ..."""
    need_training("training", "accelerate", "matplotlib")
    from kriss.train.run import train

    with Display("preparing") as progress:
        report = train(ontology, mentions, out, settings, resume=resume, force=force, progress=progress)
    if report:  # else it is one process of several, and not the first
        show_training(report, f"{report.mentions:,} mentions of {report.entities:,} entities")


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

    known, sizes = Ontology.load(ontology), {"queries": queries, "entities": entities}
    score, dev = score_encoder(encoder, known, mentions, **sizes, references=references, untrained=untrained)
    for kind, found in dev.queries.items():
        figures = "  ".join(f"top-{top} {score.figures[f'{kind}@{top}']:.3f}" for top in TOP)
        typer.echo(f"{kind:<8} {len(found):>6,} queries  {figures}")
    typer.echo(f"against {len(dev.rows):,} entities with {len(dev.prototypes):,} prototypes")


@with_settings
def export(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="An encoder that kriss wrote, minilm, a folder, or a name on the hub."),
    ],
    *,
    out: Out,
    int8: Annotated[bool, typer.Option(help="Write graphs with weights of eight bits as well.")] = False,
    force: Force = False,
    settings: EncoderConfig,
    given: Mapping[str, Any],
) -> None:
    """Write an encoder with ONNX graphs, which link without torch; each is compared with torch first."""
    need_training("kriss export", "onnx", "onnxscript")
    from kriss.encoder.export import export_encoder

    facts = export_encoder(model, out, int8=int8, force=force, settings=given)
    for precision, parts in facts["onnx"].items():
        least = min(part["min_cosine"] for part in parts.values())
        typer.echo(f"{out}: {precision} graphs, cosine with torch at least {least:.4f}")
