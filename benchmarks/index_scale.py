"""How an index of millions of vectors holds up: memory, recall, speed against an exact search.

    python benchmarks/index_scale.py                      # 4 million vectors: some forty minutes, 16 GB of disk
    python benchmarks/index_scale.py --vectors 200000     # a quick look
    python benchmarks/index_scale.py --sweep              # also recall and speed by lists read and refinement

Vectors are synthetic, and lie as those of an encoder do (see synthetic_vectors.py, whose --compare shows
it); they are written under --work, or those there are used. Each step runs in a process of its own.

Memory is what the searching process has resident after all queries, from /proc: RSS, which has every
page of the mapped index that was touched, and PSS, which divides what others map too; pages of the exact
vectors of an ivf index are handed back at once and in neither. Recall is against the rows that
the flat index finds, and tells how much of the exact best 64 was found; a query is a mention. The
speed of both is by batches of 64 with all cores, and for one query at a time; processor time is told
too, for it holds on a machine that does other work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.figures import Figure, main_step, report, run_step
    from benchmarks.synthetic_vectors import FORMAT, WIDTH, write
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, main_step, report, run_step
    from synthetic_vectors import FORMAT, WIDTH, write

HERE = Path(__file__).resolve().parent
QUERIES, TOP, BATCH, BATCHED, SINGLE, SLOW = 2000, 64, 64, 1024, 512, 10
PROBES, REFINE = (32, 64, 96, 128, 192, 256), (2, 3, 4, 6, 10)


def memory() -> dict[str, float]:
    """Return this process's resident memory in MB: all of it, shared pages divided, and what no file backs."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    size = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return {"rss": size["Rss"], "pss": size["Pss"], "anonymous": size["Anonymous"]}


class Clock:
    """Wall clock and processor time since it was made: the second is the steadier one on a shared machine."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def each(self, count: int) -> dict[str, float]:
        """Return milliseconds of both for each of so many."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"milliseconds": wall / count * 1000, "cpu": cpu / count * 1000}


# Steps: each runs in a process of its own and prints one JSON object.


def step_generate(argument: dict[str, Any]) -> dict[str, Any]:
    """Write vectors and queries."""
    folder = Path(argument["folder"])
    began = time.perf_counter()
    write(folder / "vectors.f32", folder / "queries.npy", argument["vectors"], QUERIES)
    stamp = {"format": FORMAT, "vectors": argument["vectors"]}
    (folder / "synthetic.json").write_text(json.dumps(stamp))
    return {"seconds": time.perf_counter() - began}


def step_build(argument: dict[str, Any]) -> dict[str, Any]:
    """Build one kind of index; of memory, tell the peak of what no file backs."""
    from kriss.index.vectors import build

    folder, kind = Path(argument["folder"]), argument["kind"]
    vectors = np.memmap(folder / "vectors.f32", dtype=np.float32, mode="r").reshape(-1, WIDTH)
    (folder / kind).mkdir(exist_ok=True)
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            peak[0] = max(peak[0], memory()["anonymous"])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    began = time.perf_counter()
    facts = build(folder / kind, vectors, kind)
    seconds = time.perf_counter() - began
    done.set()
    answer = {"seconds": seconds, "anonymous": peak[0], "facts": facts}
    (folder / f"{kind}-build.json").write_text(json.dumps(answer))
    return answer


def step_search(argument: dict[str, Any]) -> dict[str, Any]:
    """Open an index and search it, in batches and then for single queries; leave the rows found in a file."""
    from kriss.index.vectors import Index

    folder = Path(argument["folder"])
    queries = np.load(folder / "queries.npy")
    before = memory()
    began = time.perf_counter()
    index = Index.open(Path(argument["index"]))
    opened = time.perf_counter() - began
    held = memory()
    index.search(queries[:BATCH], TOP)  # what is mapped is touched, as in a service that has run for a while
    clock = Clock()
    for at in range(0, argument["batched"], BATCH):
        index.search(queries[at : at + BATCH], TOP)
    batches = clock.each(argument["batched"])
    clock = Clock()
    for query in queries[: argument["single"]]:
        index.search(query[None], TOP)
    single = clock.each(argument["single"])
    np.save(folder / f"{argument['out']}.npy", index.search(queries, TOP)[1])
    return {
        "open": opened,
        "before": before,
        "opened": held,
        "rate": 1000 / batches["milliseconds"],
        "single": 1000 / single["milliseconds"],
        "cpu": batches["cpu"],
        "single_cpu": single["cpu"],
        **memory(),
    }


def step_filters(argument: dict[str, Any]) -> dict[str, Any]:
    """Search with filters that keep few rows and many, scattered and clumped; tell milliseconds a query and recall."""
    from kriss.index.vectors import Index

    folder = Path(argument["folder"])
    queries = np.load(folder / "queries.npy")[:32]
    index = Index.open(Path(argument["index"]))
    draw, answer = np.random.default_rng(3), {}
    side = np.load(index.folder / "vectors.npy", mmap_mode="r")[:, 0].astype(np.float32)
    for name, share, values in (
        ("50 rows", 50 / len(index), draw.random(len(index))),
        ("1% scattered", 0.01, draw.random(len(index))),
        ("10% scattered", 0.1, draw.random(len(index))),
        ("1% clumped", 0.01, side),
        ("10% clumped", 0.1, side),
    ):
        keep = values > np.partition(values, -round(share * len(index)) - 1)[-round(share * len(index)) - 1]
        index.search(queries[:1], TOP, keep)
        began = time.perf_counter()
        scores, _ = index.search(queries, TOP, keep)
        seconds = time.perf_counter() - began
        rows = np.flatnonzero(keep)
        exact = -np.sort(-(queries @ index.vectors(rows).T), axis=1)[:, : min(TOP, len(rows))]
        share_found = float(np.mean(scores[:, : exact.shape[1]] >= exact[:, -1:] - 1e-6))
        answer[name] = {"milliseconds": seconds / len(queries) * 1000, "recall": share_found}
    return answer


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "generate": step_generate,
    "build": step_build,
    "search": step_search,
    "filters": step_filters,
}


def step(name: str, **argument: object) -> dict[str, Any]:
    """Run a step in a process of its own."""
    return run_step(Path(__file__), name, argument)


def synthetic(folder: Path, vectors: int) -> None:
    """See to it that vectors and queries are there."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "synthetic.json"
    if not stamp.is_file() or json.loads(stamp.read_text()) != {"format": FORMAT, "vectors": vectors}:
        step("generate", folder=str(folder), vectors=vectors)


def share_found(folder: Path, name: str) -> float:
    """Return the mean share of what the flat index found that another found too."""
    truth, found = np.load(folder / "flat.npy"), np.load(folder / f"{name}.npy")
    return float(np.mean([np.isin(best, rows).mean() for best, rows in zip(truth, found, strict=True)]))


def sweep(folder: Path) -> list[dict[str, Any]]:
    """Search with other settings than those stored; tell recall and speed of each."""
    settings, told = json.loads((folder / "ivf" / "index.json").read_text()), []
    trial = folder / "trial"
    trial.mkdir(exist_ok=True)
    for name in ("lists.faiss", "vectors.npy"):
        if not (trial / name).exists():
            (trial / name).symlink_to(folder / "ivf" / name)
    stored = settings["search"]
    pairs = [(probes, stored["refine"]) for probes in PROBES if probes <= stored["lists"]]
    pairs += [(stored["probes"], refine) for refine in REFINE]
    for probes, refine in pairs:
        changed = {**settings, "search": {**stored, "probes": probes, "refine": refine}}
        (trial / "index.json").write_text(json.dumps(changed))
        found = step("search", folder=str(folder), index=str(trial), out="trial", batched=SINGLE, single=BATCH)
        told.append({"probes": probes, "refine": refine, "recall": share_found(folder, "trial"), **found})
        row = f"| {probes} | {refine} | {told[-1]['recall']:.4f} | {found['rate']:.0f} | {found['single']:.0f} |"
        print(row, file=sys.stderr)
    return told


def measure(folder: Path, vectors: int, *, reuse: bool, trials: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Do all of it; return the table, and everything measured."""
    synthetic(folder, vectors)
    built = {}
    for kind in ("flat", "ivf"):
        before = folder / f"{kind}-build.json"
        there = reuse and before.is_file()
        built[kind] = json.loads(before.read_text()) if there else step("build", folder=str(folder), kind=kind)
    flat = step("search", folder=str(folder), index=str(folder / "flat"), out="flat", batched=2 * BATCH, single=SLOW)
    ivf = step("search", folder=str(folder), index=str(folder / "ivf"), out="ivf", batched=BATCHED, single=SINGLE)
    filters = step("filters", folder=str(folder), index=str(folder / "ivf"))
    on_disk = {kind: sum(file.stat().st_size for file in (folder / kind).iterdir()) / 2**20 for kind in ("flat", "ivf")}
    codes = (folder / "ivf" / "lists.faiss").stat().st_size / 2**20
    figures = [
        Figure(f"ivf: recall of the exact best {TOP}", share_found(folder, "ivf"), "", 0.97, at_least=True),
        Figure("ivf: open", ivf["open"], "s", 2),
        Figure(
            f"ivf: resident memory (RSS) after {BATCH + BATCHED + SINGLE + QUERIES:,} queries", ivf["rss"], "MB", 1200
        ),
        Figure("ivf: the same, shared pages divided (PSS)", ivf["pss"], "MB"),
        Figure("ivf: of it, not backed by files", ivf["anonymous"], "MB"),
        Figure("ivf: of it, before the index was opened (RSS)", ivf["before"]["rss"], "MB"),
        Figure(f"ivf: queries in batches of {BATCH}", ivf["rate"], "a second"),
        Figure("ivf: queries one at a time", ivf["single"], "a second"),
        Figure(f"flat: queries in batches of {BATCH}", flat["rate"], "a second"),
        Figure("flat: queries one at a time", flat["single"], "a second"),
        Figure("flat: resident memory (RSS)", flat["rss"], "MB"),
        Figure(f"ivf against flat, batches of {BATCH}", ivf["rate"] / flat["rate"], "times"),
        Figure("ivf against flat, one query at a time", ivf["single"] / flat["single"], "times"),
        Figure(f"ivf: processor time of a query, batches of {BATCH}", ivf["cpu"], "ms"),
        Figure(f"flat: processor time of a query, batches of {BATCH}", flat["cpu"], "ms"),
        Figure("ivf: processor time of a query, one at a time", ivf["single_cpu"], "ms"),
        Figure("flat: processor time of a query, one at a time", flat["single_cpu"], "ms"),
        Figure("ivf on disk", on_disk["ivf"], "MB"),
        Figure("ivf: of it, what is mapped", codes, "MB"),
        Figure("flat on disk", on_disk["flat"], "MB"),
    ]
    for kind, told in built.items():
        figures.append(Figure(f"{kind}: build", told["seconds"], "s"))
        figures.append(Figure(f"{kind}: build, peak of memory not backed by files", told["anonymous"], "MB"))
    for name, told in filters.items():
        figures.append(Figure(f"ivf: a query that keeps {name}", told["milliseconds"], "ms"))
        figures.append(Figure(f"ivf: a query that keeps {name}: recall", told["recall"], ""))
    raw = {"built": built, "flat": flat, "ivf": ivf, "filters": filters}
    if trials:
        raw["sweep"] = {"trials": sweep(folder)}
    return figures, raw


def main() -> None:
    """Read the arguments, measure, print the table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parent / "out" / "bench", help="where the data lies")
    parser.add_argument("--vectors", type=int, default=4_000_000)
    parser.add_argument("--reuse", action="store_true", help="search the indexes that are there already")
    parser.add_argument("--sweep", action="store_true", help="also try other numbers of lists and of candidates")
    parser.add_argument("--json", type=Path, help="write the figures to this file, not to index-N.json under --work")
    parser.add_argument("--step", nargs=2, metavar=("NAME", "ARGUMENT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        main_step(STEPS, given.step)
        return
    print(f"load {os.getloadavg()[0]:.1f} before", file=sys.stderr)
    folder = given.work / f"index-{given.vectors}"
    figures, raw = measure(folder, given.vectors, reuse=given.reuse, trials=given.sweep)
    title = f"{given.vectors:,} vectors of width {WIDTH}"
    report(title, figures, raw, given.json or given.work / f"index-{given.vectors}.json")


if __name__ == "__main__":
    main()
