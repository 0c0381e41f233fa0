"""How fast kriss links, starts and learns.

    KRISS_DATA=... python benchmarks/link_speed.py LINKER ENCODER [--mentions 2000] [--repeat 2] [--scispacy]

LINKER is what `kriss index` wrote, ENCODER the encoder it was built with, with its torch weights. The
mentions are those of MedMentions ST21pv's test split, each in its sentence. In one run, each measurement in
a process of its own, those that are compared taking turns; the best of each counts:

- `Linker.link`, from text and spans to entities with evidence, abbreviations and all;
- sentence-transformers with the same encoder on the same windows of text, and FAISS `IndexFlatIP` over
  the same vectors: what one would write by hand;
- scispaCy's candidate generator on the names of the same ontology, in an environment of its own;
- a single mention at a time; the time from the start of a process to its first answer;
- learning against bare encoding of the same mentions, in context and without, as examples are kept;
- a single mention after those examples were learned, against before.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.figures import Figure, main_step, peer_python, report, run_step

    from kriss import Linker
    from kriss.records import Excerpt
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, main_step, peer_python, report, run_step

HERE = Path(__file__).resolve().parent
_SINGLE = 200
_FIRST = "from kriss import Linker; print(Linker.load({linker!r}).link_text('the boy had [[seizures]]')[0].entity)"


def read_mentions(given: dict[str, Any]) -> list[Excerpt]:
    """Return the first mentions of MedMentions' test split."""
    from kriss.records import Excerpt

    found: list[Excerpt] = []
    with gzip.open(Path(given["data"]) / "gold/medmentions-st21pv/test.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            tokens, start, end = row["tokens"], row["start"], row["end"]
            left, right = " ".join(tokens[:start]), " ".join(tokens[end:])
            found.append(Excerpt(left + " " * bool(left), " ".join(tokens[start:end]), " " * bool(right) + right))
            if len(found) == given["mentions"]:
                break
    return found


def step_kriss(given: dict[str, Any]) -> dict[str, Any]:
    """Time linking: all at once, then one at a time."""
    from kriss import Linker

    linker, mentions = Linker.load(given["linker"]), read_mentions(given)
    linker.link(mentions[:32])
    began = time.perf_counter()
    linker.link(mentions, top=5)
    seconds = time.perf_counter() - began
    single = one_by_one(linker, mentions[-_SINGLE:])
    weights = {"context": 1.0, "spelling": 0.0, "children": 0.0, "match": 0.0}
    paper = linker.with_options(weights=weights, shared_names=False, abbreviations=False)
    began = time.perf_counter()
    paper.link(mentions, top=5)
    one_view = time.perf_counter() - began
    p50, p99 = (1000 * float(np.quantile(single, share)) for share in (0.5, 0.99))
    return {"seconds": seconds, "one_view": one_view, "mentions": len(mentions), "p50": p50, "p99": p99}


def one_by_one(linker: Linker, mentions: Sequence[Excerpt]) -> list[float]:
    """Return the seconds that each mention takes alone."""
    seconds = []
    for mention in mentions:
        began = time.perf_counter()
        linker.link([mention])
        seconds.append(time.perf_counter() - began)
    return seconds


def step_peer(given: dict[str, Any]) -> dict[str, Any]:
    """Time sentence-transformers and a flat FAISS index on the same windows and vectors."""
    import faiss
    from sentence_transformers import SentenceTransformer

    from kriss.encoder.session import OnnxEncoder
    from kriss.index.vectors import Index

    windows = OnnxEncoder.load(Path(given["linker"]) / "encoder", given["precision"]).windows
    model = SentenceTransformer(given["encoder"], device="cpu")
    model.max_seq_length = windows.config.window
    sequences = windows.mentions(read_mentions(given))
    texts = model.tokenizer.batch_decode([ids[1:-1] for ids in sequences.ids])  # the windows, as text
    stored = Index.open(Path(given["linker"]) / "vectors")
    index = faiss.IndexFlatIP(stored.width)
    for first in range(0, len(stored), 1 << 16):
        index.add(stored.vectors(np.arange(first, min(first + (1 << 16), len(stored)))))
    index.search(model.encode(texts[:32], batch_size=32, show_progress_bar=False), 64)
    began = time.perf_counter()
    vectors = model.encode(texts, batch_size=32, show_progress_bar=False)
    index.search(vectors, 64)
    return {"seconds": time.perf_counter() - began, "mentions": len(texts)}


def step_learn(given: dict[str, Any]) -> dict[str, Any]:
    """Time bare encoding, then learning the same mentions as examples of entities in turn, and linking then."""
    from kriss import Linker
    from kriss.link.learn import learn
    from kriss.rank.queries import Queries, Remembering
    from kriss.records import Document, Span

    folder = Path(given["work"]) / "taught"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(given["linker"], folder)
    linker, mentions = Linker.load(folder), read_mentions(given)
    entities = [linker.ontology.id_at(row) for row in range(len(linker.ontology))]
    documents = [
        Document(
            str(number),
            f"{m.left}{m.surface}{m.right}",
            (Span(len(m.left), len(m.left) + len(m.surface), (entities[number * 7919 % len(entities)],)),),
        )
        for number, m in enumerate(mentions)
    ]
    linker.encoder.mentions(mentions[:32])
    began = time.perf_counter()
    for first in range(0, len(mentions), 1024):  # both views of an example, a name that comes again once
        Queries.of(Remembering(linker.encoder), mentions[first : first + 1024], context=linker.ranking.context > 0)
    bare = time.perf_counter() - began
    before = one_by_one(linker, mentions[-_SINGLE:])
    began = time.perf_counter()
    report = learn(linker, documents)
    seconds = time.perf_counter() - began
    after = one_by_one(linker, mentions[-_SINGLE:])
    shutil.rmtree(folder)
    grown = float(np.median(after) / np.median(before))
    return {"bare": bare, "learn": seconds, "examples": report.examples, "grown": grown}


def first_answer(linker: str) -> float:
    """Return the seconds from the start of a process to its first answer."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST.format(linker=linker)], check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - began


def scispacy(given: dict[str, Any], work: Path) -> dict[str, Any]:
    """Run scispaCy's candidate generator on the linker's names, in its environment, made now unless it is there."""
    from kriss.ontology import Ontology

    names = work / "names.jsonl"
    with names.open("w", encoding="utf-8") as lines:
        for entity in Ontology.load(Path(given["linker"]) / "ontology"):
            row = {"concept_id": entity.id, "canonical_name": entity.name, "aliases": list(entity.aliases), "types": []}
            lines.write(json.dumps(row) + "\n")
    surfaces = work / "surfaces.json"
    surfaces.write_text(json.dumps([mention.surface for mention in read_mentions(given)]), encoding="utf-8")
    python = peer_python("candidates", work)
    command = [python, str(HERE / "peers" / "candidates" / "run.py"), str(names), str(surfaces)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"scispacy: {answer}", file=sys.stderr)
    return answer


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "kriss": step_kriss,
    "peer": step_peer,
    "learn": step_learn,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("linker")
    parser.add_argument("encoder")
    parser.add_argument("--work", type=Path, default=Path("out/benchmarks"))
    parser.add_argument("--mentions", type=int, default=2000)
    parser.add_argument("--learned", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--start", metavar="LINKER", help="the linker whose first answer is timed; default: LINKER")
    parser.add_argument("--scispacy", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "KRISS_DATA" not in os.environ:
        sys.exit("set KRISS_DATA to the folder with gold/medmentions-st21pv")
    options.work.mkdir(parents=True, exist_ok=True)
    config = json.loads((Path(options.linker) / "manifest.json").read_text(encoding="utf-8"))["config"]
    given = {
        "linker": options.linker,
        "encoder": options.encoder,
        "data": os.environ["KRISS_DATA"],
        "work": str(options.work),
        "precision": config["precision"],
        "mentions": options.mentions,
    }
    script = Path(__file__)
    rounds = [
        {name: run_step(script, name, given) for name in ("kriss", "peer")}
        | {"start": {"seconds": first_answer(options.start or options.linker)}}
        for _ in range(options.repeat)
    ]
    rate = {
        name: max(found[name]["mentions"] / found[name]["seconds"] for found in rounds) for name in ("kriss", "peer")
    }
    one_view = max(found["kriss"]["mentions"] / found["kriss"]["one_view"] for found in rounds)
    learned = [run_step(script, "learn", given | {"mentions": options.learned}) for _ in range(options.repeat)]
    figures = [
        Figure("kriss, from text to entities", rate["kriss"], "mentions/s"),
        Figure("of sentence-transformers and FAISS flat", rate["kriss"] / rate["peer"], "times", 1.8, at_least=True),
        Figure(
            "of the same, doing what it does: one view, no spelling, hierarchy or long forms",
            one_view / rate["peer"],
            "times",
        ),
        Figure("one mention, p50", min(found["kriss"]["p50"] for found in rounds), "ms"),
        Figure("one mention, p99", min(found["kriss"]["p99"] for found in rounds), "ms"),
        Figure("process start to first answer", min(found["start"]["seconds"] for found in rounds), "s", 1.5),
        Figure(
            "learning, of bare encoding",
            max(one["bare"] / one["learn"] for one in learned),
            "times",
            0.9,
            at_least=True,
        ),
        Figure("one mention after learning, of before", min(one["grown"] for one in learned), "times", 1.2),
    ]
    raw: dict[str, Any] = {"rounds": rounds, "learned": learned}
    if options.scispacy:
        raw["scispacy"] = scispacy(given, options.work)
        peer = raw["scispacy"]["mentions"] / raw["scispacy"]["seconds"]
        figures.append(Figure("scispaCy's candidate generator", peer, "mentions/s"))
    report(f"linking, {config['precision']}", figures, raw, options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        main_step(STEPS, sys.argv[2:])
    else:
        main()
