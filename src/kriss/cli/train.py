"""`kriss train`: train an encoder on mined mentions, and score one on the dev set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kriss.cli.extras import need_training
from kriss.cli.groups import DefaultGroup

if TYPE_CHECKING:
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
Preset = Annotated[str, typer.Option(metavar="NAME", help="mini (MiniLM, a CPU) or paper (section 4.2).")]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; may be repeated.")]


@app.command()
def run(
    ontology: OntologyFolder,
    mentions: MentionsFolder,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the encoder.")],
    preset: Preset = "mini",
    config: ConfigFile = None,
    settings: Settings = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="minilm, a folder, or a name on the Hugging Face hub.")
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Batches to train on.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Draws other batches.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the encoder at --out.")] = False,
) -> None:
    """Train an encoder. On several GPUs: torchrun --nproc-per-node 8 --no-python kriss train ..."""
    chosen = _config(preset, config, settings, {"model": model, "steps": steps, "seed": seed})
    need_training("training", "accelerate", "matplotlib")
    from kriss.cli.console import Display
    from kriss.ontology import Ontology
    from kriss.train.run import train

    with Display("preparing") as progress:
        report = train(chosen, Ontology.load(ontology), mentions, out, resume=resume, force=force, progress=progress)
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


def _config(preset_name: str, file: Path | None, settings: list[str] | None, options: dict[str, Any]) -> TrainConfig:
    """Return the preset with what a file, then --set, then options say instead."""
    from kriss.config import from_mapping, parse_settings, read_toml, to_mapping
    from kriss.train.config import TrainConfig, check, preset

    values = (read_toml(file) if file else {}) | parse_settings(settings or [])
    values |= {key: value for key, value in options.items() if value is not None}
    if "epochs" in values:  # whoever asks for epochs does not want the preset's steps
        values.setdefault("steps", 0)
    config = from_mapping(TrainConfig, to_mapping(preset(preset_name)) | values, "kriss train")
    check(config)
    return config
