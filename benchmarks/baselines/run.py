"""The systems that kriss is compared with, on the same ontology and scorer; docs/reference/baselines.md describes them.

    python benchmarks/baselines/run.py exact     ONTOLOGY GOLD --out P.jsonl.gz [--abbreviations]
    python benchmarks/baselines/run.py mention   ONTOLOGY GOLD --out P.jsonl.gz
    python benchmarks/baselines/run.py sapbert   ONTOLOGY GOLD --encoder DIR --out P.jsonl.gz [--abbreviations]
    python benchmarks/baselines/run.py blink     ONTOLOGY GOLD --encoder DIR --out P.jsonl.gz [--cross RERANKER]
    python benchmarks/baselines/run.py medlinker ONTOLOGY GOLD --encoder DIR --train GOLD --out P.jsonl.gz
    python benchmarks/baselines/run.py quickumls ONTOLOGY GOLD --out P.jsonl.gz
    python benchmarks/baselines/run.py scispacy  ONTOLOGY GOLD --out P.jsonl.gz
    python benchmarks/baselines/run.py sapbert-train ONTOLOGY --out DIR [--set KEY=VALUE]

GOLD is a dataset and its split (`ncbi-disease:test`, in the folder that KRISS_DATA names) or files with marked
mentions. What is written is scored by `kriss evaluate`. An encoder is what `kriss export` wrote, of any model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, `benchmarks` is not found by itself

from kriss.config import from_mapping, parse_settings
from kriss.documents.read import gold
from kriss.encoder.session import OnnxEncoder
from kriss.errors import KrissError
from kriss.evaluate.predictions import Prediction, write_predictions
from kriss.ontology import Ontology
from kriss.records import Document


def links(given: argparse.Namespace) -> Iterator[Prediction]:
    """Link the mentions of gold by one of the systems."""
    ontology, documents = Ontology.load(given.ontology), gold(given.gold, given.data)
    match given.system:
        case "exact" | "mention":
            from benchmarks.baselines.exact import link_as_is, link_exact

            if given.system == "mention":
                return link_as_is(ontology, documents)
            return link_exact(ontology, documents, abbreviations=given.abbreviations)
        case "quickumls" | "scispacy":
            from benchmarks.baselines.packages import link_by_package

            return link_by_package(given.system, ontology, documents, given.work)
        case "sapbert":
            from benchmarks.baselines.encoders import NameEncoder
            from benchmarks.baselines.sapbert import link_nearest_name

            names = NameEncoder(given.encoder, given.precision)
            return link_nearest_name(ontology, documents, names, abbreviations=given.abbreviations)
        case "blink":
            from benchmarks.baselines.blink import link_description, open_cross

            cross = open_cross(given.cross) if given.cross else None
            encoder = OnnxEncoder.load(given.encoder, given.precision)
            return link_description(ontology, documents, encoder, cross=cross, abbreviations=given.abbreviations)
    from benchmarks.baselines.medlinker import link_medlinker

    examples: list[Document] = [one for source in given.train for one in gold(source, given.data)]
    encoder = OnnxEncoder.load(given.encoder, given.precision)
    return link_medlinker(
        ontology, documents, examples, encoder, epochs=given.epochs, abbreviations=given.abbreviations
    )


def train(given: argparse.Namespace) -> None:
    """Train SapBERT's encoder."""
    from benchmarks.baselines.sapbert_train import SapbertConfig, train_sapbert

    config = from_mapping(SapbertConfig, parse_settings(given.set), "sapbert-train")
    loss = train_sapbert(config, Ontology.load(given.ontology), given.out, force=given.force)
    print(f"{given.out}: trained; loss at last {loss:.3f}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = found.add_subparsers(dest="system", required=True)
    systems = ("exact", "mention", "sapbert", "blink", "medlinker", "quickumls", "scispacy")
    for name in (*systems, "sapbert-train"):
        one = commands.add_parser(name)
        one.add_argument("ontology", type=Path, help="what 'kriss ontology build' wrote")
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--force", action="store_true", help="replace what is there")
        if name == "sapbert-train":
            one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a field of SapbertConfig")
            continue
        one.add_argument("gold", help="a dataset and its split, or files")
        one.add_argument("--data", type=Path, help="where the datasets are; default KRISS_DATA")
        if name in ("quickumls", "scispacy"):
            one.add_argument("--work", type=Path, default=Path("out/benchmarks"), help="keeps its environment")
        elif name != "mention":
            one.add_argument("--abbreviations", action="store_true", help="read them as the document defines them")
        if name in ("sapbert", "blink", "medlinker"):
            one.add_argument("--encoder", type=Path, required=True, help="what 'kriss export' wrote")
            one.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
        if name == "blink":
            one.add_argument("--cross", type=Path, help="a re-ranker that puts the first in order")
        if name == "medlinker":
            one.add_argument("--train", action="append", required=True, metavar="GOLD", help="what it learns from")
            one.add_argument("--epochs", type=int, default=30)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Link or train."""
    given = parser().parse_args(arguments)
    try:
        if given.system == "sapbert-train":
            train(given)
        else:
            print(f"{given.out}: {write_predictions(given.out, links(given), force=given.force):,} mentions")
    except KrissError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
