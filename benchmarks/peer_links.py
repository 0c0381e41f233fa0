"""Link a corpus by another linker, so that its predictions can be scored as kriss's are.

    python benchmarks/peer_links.py quickumls ONTOLOGY GOLD --out PREDICTIONS.jsonl.gz
    python benchmarks/peer_links.py scispacy ONTOLOGY GOLD --out PREDICTIONS.jsonl.gz --long LONG.jsonl.gz

ONTOLOGY is what `kriss ontology build` wrote, GOLD a dataset and its split (`ncbi-disease:test`) or files with
marked mentions. The peer runs in an environment of its own, made now from its requirements unless it is there, on
the ontology's names in the form that it wants. It is given where the mentions are, and links each one that has an
entity. How the peers are set is told in `peers/quickumls_link.py` and `peers/scispacy_link.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kriss.errors import KrissError
from kriss.evaluate.predictions import write_predictions
from kriss.ontology import Ontology

if TYPE_CHECKING:
    from benchmarks.figures import peer_python
    from benchmarks.peers import export
else:  # run as a script, its folder is where modules are looked for
    from figures import peer_python
    from peers import export

PEERS = Path(__file__).resolve().parent / "peers"
ENVIRONMENTS = {"quickumls": "quickumls", "scispacy": "candidates"}
THRESHOLD = 0.7
"""What an answer must be above, by the defaults of both; QuickUMLS sees to it by itself, and means at least."""


def link(options: argparse.Namespace, work: Path) -> dict[Path, int]:
    """Run the peer, and return the files of predictions with how many each has."""
    ontology = Ontology.load(options.ontology)
    asked = export.queries(export.read_gold(options.gold, options.type, options.data))
    if not asked:
        sys.exit("no mention has an entity" + (" and one of the types asked for" if options.type else ""))
    queries, answers, long_answers = (work / name for name in ("queries.jsonl", "answers.jsonl", "long.jsonl"))
    export.write_queries(queries, asked)
    if options.peer == "quickumls":
        names, above = work / "rrf", 0.0
        export.write_rrf(names, ontology)
        wanted = [(answers, options.out)]
    else:
        names, above = work / "names.jsonl", options.threshold
        export.write_names(names, ontology)
        wanted = [(answers, options.out), (long_answers, options.long)]
    script = PEERS / f"{options.peer}_link.py"
    python = peer_python(ENVIRONMENTS[options.peer], options.work)
    command = [python, script, names, queries, *(file for file, _ in wanted), *(["--graph"] if options.graph else [])]
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)
    return {
        out: write_predictions(out, export.predictions(asked, export.read_answers(file), above), force=options.force)
        for file, out in wanted
        if out
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(ENVIRONMENTS))
    parser.add_argument("ontology", type=Path)
    parser.add_argument("gold")
    parser.add_argument("--data", type=Path, help="the folder with the datasets; KRISS_DATA")
    parser.add_argument("--type", action="append", default=[], help="link mentions of this type only; may be repeated")
    parser.add_argument("--out", type=Path, required=True, help="where the predictions go")
    parser.add_argument("--long", type=Path, help="scispaCy: where those with its abbreviation detector go")
    parser.add_argument("--threshold", type=float, help=f"scispaCy: link if the similarity is above; {THRESHOLD}")
    parser.add_argument(
        "--graph", action="store_true", help="scispaCy: look names up by its own graph, which takes long"
    )
    parser.add_argument("--work", type=Path, default=Path("out/benchmarks"))
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    options = parser.parse_args()
    if options.peer == "quickumls" and (options.long or options.graph or options.threshold is not None):
        parser.error("--long, --graph and --threshold are for scispacy")
    if options.threshold is None:
        options.threshold = THRESHOLD
    for out in (options.out, options.long):  # the answer would come minutes later
        if out and out.exists() and not options.force:
            parser.error(f"{out} is there already; choose another name, or add --force")
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=options.work, prefix=f"{options.peer}-") as work:
            written = link(options, Path(work))
    except KrissError as error:
        sys.exit(str(error))
    for out, count in written.items():
        print(f"{out}: {count:,} mentions")


if __name__ == "__main__":
    main()
