"""`kriss baseline`: the systems that kriss is compared with; each writes predictions for the scorer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kriss.cli.console import StageProgress
from kriss.cli.extras import need_training
from kriss.records import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kriss.evaluate.predictions import Prediction

_STYLE: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
app = typer.Typer(help="Link by the systems that the paper compares with.", **_STYLE)
sapbert_app = typer.Typer(help="SapBERT: the nearest name, by an encoder that learned from synonyms.", **_STYLE)
blink_app = typer.Typer(help="BLINK: the nearest description, by a mention in its context.", **_STYLE)
app.add_typer(sapbert_app, name="sapbert")
app.add_typer(blink_app, name="blink")

OntologyFolder = Annotated[
    Path, typer.Argument(metavar="ONTOLOGY", help="An ontology written by 'kriss ontology build'.")
]
Gold = Annotated[
    str, typer.Argument(metavar="GOLD", help="A dataset and its split, as ncbi-disease:test, or documents by path.")
]
EncoderPath = Annotated[
    str,
    typer.Argument(metavar="ENCODER", help="What kriss wrote, minilm, a folder, or a name on the Hugging Face hub."),
]
Out = Annotated[Path, typer.Option(metavar="FILE", help="Where to write the predictions, JSON lines; .gz packs them.")]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where the datasets are.  [default: the variable KRISS_DATA]")
]
Abbreviations = Annotated[
    bool, typer.Option("--abbreviations", help="Read abbreviations as the document defines them.")
]
Pooling = Annotated[
    str | None,
    typer.Option(metavar="HOW", help="cls, mean or mention, for a model that kriss did not write.  [default: cls]"),
]
Precision = Annotated[
    Literal["fp32", "int8"],
    typer.Option(metavar="BITS", help="int8 is faster; it needs what 'kriss export --int8' writes."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file at --out.")]


@app.command()
def exact(
    ontology: OntologyFolder,
    gold: Gold,
    *,
    out: Out,
    data: Data = None,
    abbreviations: Abbreviations = False,
    force: Force = False,
) -> None:
    """Link to the entities that have the mention as a name, in any case; several are a tie."""
    from kriss.evaluate.baselines.names import link_exact
    from kriss.ontology import Ontology

    documents = _documents(gold, data)
    _write(link_exact(Ontology.load(ontology), documents, abbreviations=abbreviations), out, force=force)


@app.command()
def mention(ontology: OntologyFolder, gold: Gold, *, out: Out, data: Data = None, force: Force = False) -> None:
    """Predict the mention as it is: its surface, a name that one, several or no entities have."""
    from kriss.evaluate.baselines.names import link_as_is
    from kriss.ontology import Ontology

    documents = _documents(gold, data)
    _write(link_as_is(Ontology.load(ontology), documents), out, force=force)


@sapbert_app.command()
def train(
    ontology: OntologyFolder,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the encoder.")],
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="minilm, a folder, or a name on the Hugging Face hub.")
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Batches to train on.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Draws other batches.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the encoder at --out.")] = False,
) -> None:
    """Train an encoder on the synonyms of an ontology."""
    from kriss.config import from_mapping, parse_settings
    from kriss.evaluate.baselines.settings import SapbertConfig, check

    options = {"model": model, "steps": steps, "seed": seed}
    values = parse_settings(settings or []) | {key: value for key, value in options.items() if value is not None}
    config = from_mapping(SapbertConfig, values, "kriss baseline sapbert train")
    check(config)
    need_training("training SapBERT")
    from kriss.cli.train_progress import TrainProgress
    from kriss.evaluate.baselines.sapbert import train_sapbert
    from kriss.ontology import Ontology

    with TrainProgress() as progress:
        report = train_sapbert(config, Ontology.load(ontology), out, force=force, progress=progress)
    typer.echo(
        f"{out}: trained {report.steps:,} steps on {report.pairs:,} pairs of names of {report.entities:,} entities; "
        f"loss at last {report.loss:.3f}"
    )


@sapbert_app.command("link")
def link_sapbert(
    encoder: EncoderPath,
    ontology: OntologyFolder,
    gold: Gold,
    *,
    out: Out,
    data: Data = None,
    abbreviations: Abbreviations = False,
    pooling: Pooling = None,
    precision: Precision = "fp32",
    force: Force = False,
) -> None:
    """Link to the entities that own the nearest name; context is not read."""
    from kriss.evaluate.baselines.encoders import NameEncoder, load_encoder
    from kriss.evaluate.baselines.nearest import link_nearest_name
    from kriss.evaluate.baselines.settings import SapbertConfig
    from kriss.ontology import Ontology

    documents = _documents(gold, data)
    opened = Ontology.load(ontology)
    loaded, marked = load_encoder(encoder, SapbertConfig().encoder(), {"pooling": pooling}, precision)
    names = NameEncoder(loaded, marked=marked)
    with Encoded() as progress:
        found = link_nearest_name(opened, documents, names, abbreviations=abbreviations, progress=progress)
        _write(found, out, force=force)


@blink_app.command("link")
def link_blink(
    encoder: EncoderPath,
    ontology: OntologyFolder,
    gold: Gold,
    *,
    out: Out,
    data: Data = None,
    cross: Annotated[
        Path | None,
        typer.Option(metavar="RERANKER", help="Let it order the first of them; trained with --set shown=reference."),
    ] = None,
    top: Annotated[int, typer.Option(metavar="K", min=2, help="How many it orders.")] = 16,
    abbreviations: Abbreviations = False,
    pooling: Pooling = None,
    precision: Precision = "fp32",
    force: Force = False,
) -> None:
    """Link mentions in context to descriptions. It is trained by 'kriss train'; docs/baselines.md says how."""
    from kriss.encoder.config import EncoderConfig
    from kriss.evaluate.baselines.blink import link_description
    from kriss.evaluate.baselines.encoders import load_encoder
    from kriss.ontology import Ontology

    documents = _documents(gold, data)
    opened = Ontology.load(ontology)
    loaded, _ = load_encoder(encoder, EncoderConfig(fields=("names", "definition")), {"pooling": pooling}, precision)
    reader = None
    if cross:
        from kriss.artifacts import open_artifact
        from kriss.encoder.cross import OnnxCrossEncoder
        from kriss.rank.rerank import Blend

        reader = OnnxCrossEncoder(open_artifact(cross, "reranker").path, Blend.load(cross).precision)
    with Encoded() as progress:
        found = link_description(
            opened, documents, loaded, cross=reader, top=top, abbreviations=abbreviations, progress=progress
        )
        _write(found, out, force=force)


@app.command()
def medlinker(
    ontology: OntologyFolder,
    gold: Gold,
    *,
    train: Annotated[list[str], typer.Option(metavar="GOLD", help="What the classifier learns from; may be repeated.")],
    out: Out,
    data: Data = None,
    model: Annotated[
        str, typer.Option(metavar="ENCODER", help="What kriss wrote, minilm, a folder, or a name on the hub.")
    ] = "minilm",
    abbreviations: Abbreviations = False,
    epochs: Annotated[int, typer.Option(metavar="N", help="How often the classifier sees each example.")] = 30,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws other batches.")] = 0,
    precision: Precision = "fp32",
    force: Force = False,
) -> None:
    """Link by a classifier over the entities of a training set, joined with approximate names."""
    from kriss.encoder.config import EncoderConfig
    from kriss.evaluate.baselines.settings import MedlinkerConfig, check
    from kriss.ontology import Ontology

    config = MedlinkerConfig(epochs=epochs, seed=seed)
    check(config)
    need_training("MedLinker's classifier")
    documents = _documents(gold, data)
    examples = [document for source in train for document in _documents(source, data)]
    from kriss.evaluate.baselines.encoders import load_encoder
    from kriss.evaluate.baselines.medlinker import link_medlinker

    opened = Ontology.load(ontology)
    loaded, _ = load_encoder(model, EncoderConfig(pooling="mention"), precision=precision)
    found = link_medlinker(opened, documents, examples, loaded, config, abbreviations=abbreviations)
    _write(found, out, force=force)


def _documents(source: str, data: Path | None) -> list[Document]:
    from kriss.evaluate.datasets import gold

    return gold(source, data)


def _write(predictions: Iterable[Prediction], out: Path, *, force: bool) -> None:
    from kriss.evaluate.predictions import write_predictions

    linked = tied = 0

    def counted() -> Iterator[Prediction]:
        nonlocal linked, tied
        for prediction in predictions:
            linked += bool(prediction.entities)
            tied += len(prediction.entities) > 1
            yield prediction

    total = write_predictions(out, counted(), force=force)
    typer.echo(f"{out}: {linked:,} of {total:,} mentions linked, {tied:,} of them to a tie of several entities")


class Encoded(StageProgress):
    """The progress bar of linking: names or entities encoded."""

    def __init__(self) -> None:
        super().__init__("encoding", "")

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event."""
        if event["event"] == "encode":
            self._bar.update(self._task, total=event["total"])
        else:
            self._bar.update(self._task, advance=event["count"])
