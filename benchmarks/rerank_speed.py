"""What re-ranking costs, and how it compares with a CrossEncoder of sentence-transformers.

    KRISS_DATA=... python benchmarks/rerank_speed.py LINKER RERANKER [--mentions 300] [--repeat 2]

LINKER has RERANKER in it (`kriss rerank attach`). The mentions are those of NCBI-disease's develop set, each in its
document. In one run, each measurement in a process of its own, those that are compared taking turns; the best of
each counts:

- `Linker.link` without re-ranking and with it;
- the same pairs alone, by kriss and by `sentence_transformers.CrossEncoder` in torch, which loads the same weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kriss.records import Excerpt, Mention

if TYPE_CHECKING:
    from benchmarks.figures import Figure, main_step, report, run_step

    from kriss import Linker
    from kriss.encoder.pairs import Option
    from kriss.encoder.session import OnnxCrossEncoder
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, main_step, report, run_step

_WARM = 16


def read_mentions(given: dict[str, Any]) -> list[Mention]:
    """Return mentions at even distances, so that many documents are among them."""
    from kriss.documents.read import read
    from kriss.records import Mention

    found = [
        Mention(document, span.start, span.end)
        for document in read([given["gold"]], data=Path(given["data"]))
        for span in document.spans
    ]
    return found[:: max(len(found) // given["mentions"], 1)][: given["mentions"]]


def step_link(given: dict[str, Any]) -> dict[str, Any]:
    """Time linking in one way of asking."""
    from kriss import Linker

    linker, mentions = Linker.load(given["linker"], **given["options"]), read_mentions(given)
    linker.link(mentions[:_WARM])
    began = time.perf_counter()
    linker.link(mentions)
    return {"seconds": time.perf_counter() - began, "mentions": len(mentions)}


def pairs_of(given: dict[str, Any]) -> tuple[list[Excerpt], list[list[Option]]]:
    """Return mentions with the candidates that are re-ranked."""
    from kriss import Linker
    from kriss.artifacts import open_artifact
    from kriss.encoder.pairs import Option

    linker: Linker = Linker.load(given["linker"], abbreviations=False)
    mentions = read_mentions(given)
    options = []
    for link in linker.link(mentions, top=open_artifact(Path(given["reranker"])).config["candidates"]):
        shown = [(linker.ontology.row_of(one.entity), one.evidence) for one in link.candidates]
        options.append(
            [
                Option(linker.ontology.at(row), Excerpt(one.left, one.surface, one.right))
                for row, one in shown
                if row is not None
            ]
        )
    return [mention.excerpt() for mention in mentions], options


def cross_encoder(given: dict[str, Any]) -> OnnxCrossEncoder:
    """Open the re-ranker as a linker does."""
    from kriss.artifacts import open_artifact
    from kriss.encoder.session import OnnxCrossEncoder
    from kriss.rank.rerank import precision_of

    artifact = open_artifact(Path(given["reranker"]), "reranker")
    return OnnxCrossEncoder(artifact.path, precision_of(artifact))


def step_pairs(given: dict[str, Any]) -> dict[str, Any]:
    """Time kriss on the pairs alone, from text to scores."""
    mentions, options = pairs_of(given)
    cross = cross_encoder(given)
    cross.scores(mentions[:4], options[:4])
    began = time.perf_counter()
    scores = cross.scores(mentions, options)
    return {"seconds": time.perf_counter() - began, "pairs": len(scores)}


def step_peer(given: dict[str, Any]) -> dict[str, Any]:
    """Time sentence-transformers on the same pairs, as texts with their markers written out."""
    from sentence_transformers import CrossEncoder

    pairs = cross_encoder(given).pairs(*pairs_of(given))
    model = CrossEncoder(given["reranker"], device="cpu")
    decode = model.tokenizer.decode
    texts = [
        (decode(ids[1 : first - 1]), decode(ids[first:-1]))
        for ids, (first, _) in zip(pairs.ids, pairs.spans, strict=True)
    ]
    model.predict(texts[:32], show_progress_bar=False)
    began = time.perf_counter()
    model.predict(texts, show_progress_bar=False)
    return {"seconds": time.perf_counter() - began, "pairs": len(texts)}


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {"link": step_link, "pairs": step_pairs, "peer": step_peer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("linker")
    parser.add_argument("reranker")
    parser.add_argument("--gold", default="ncbi-disease:dev")
    parser.add_argument("--mentions", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "KRISS_DATA" not in os.environ:
        sys.exit("set KRISS_DATA to the folder with gold/ncbi-disease")
    given = {key: getattr(options, key) for key in ("linker", "reranker", "gold", "mentions")}
    given["data"] = os.environ["KRISS_DATA"]
    ways: dict[str, dict[str, Any]] = {"plain": {}, "reranked": {"rerank": True}}
    script = Path(__file__)
    rounds = [
        {way: run_step(script, "link", given | {"options": asked}) for way, asked in ways.items()}
        | {name: run_step(script, name, given) for name in ("pairs", "peer")}
        for _ in range(options.repeat)
    ]
    best = {name: min(found[name]["seconds"] for found in rounds) for name in rounds[0]}
    count = rounds[0]["plain"]["mentions"]
    figures = [
        Figure("linking without re-ranking", count / best["plain"], "mentions/s"),
        Figure("with re-ranking", best["reranked"] / best["plain"], "times", 6),
        Figure("kriss on the pairs alone", rounds[0]["pairs"]["pairs"] / best["pairs"], "pairs/s"),
        Figure("of sentence-transformers' CrossEncoder", best["peer"] / best["pairs"], "times", 3, at_least=True),
    ]
    facts = json.loads((Path(options.reranker) / "manifest.json").read_text(encoding="utf-8"))["facts"]
    report(f"re-ranking, {facts['onnx']['precision']}", figures, {"rounds": rounds, "facts": facts}, options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        main_step(STEPS, sys.argv[2:])
    else:
        main()
