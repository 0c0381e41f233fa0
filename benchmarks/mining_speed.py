"""How fast `kriss mine` is: against a bare automaton, with two workers, and against other libraries.

    KRISS_DATA=... python benchmarks/mining_speed.py          # 248 MB of text: some twenty minutes
    python benchmarks/mining_speed.py --data DIR --limit-mb 10   # a quick look

All of it is done in one run, on eLife's articles and two files of PubMed with the names of MeSH
2024, and each measurement in a process of its own. MB are 10^6 bytes of decoded text, in UTF-8.
The measurements that are compared take turns, --repeat times, and the best of each counts: other
work on the machine only ever makes one slower. Processor time, which it disturbs less, stands beside.

The bare scan is `ahocorasick_rs` alone, over the same text, decoded and in memory, with every form
written out and the automaton built before the clock starts: no reading, no word boundaries, no
entities, no sample, no file written. Mining is timed from the first byte read to the artifact in
its place; making the tables of names is counted apart, for it does not grow with the text.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from kriss.records import Document

if TYPE_CHECKING:
    from benchmarks.figures import Figure, Watch, main_step, peer_python, report, run_step
    from benchmarks.mining_text import MEGA, TEXTS, batches, build_ontology, cut_files, peak, step_forms, texts_of
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, Watch, main_step, peer_python, report, run_step
    from mining_text import MEGA, TEXTS, batches, build_ontology, cut_files, peak, step_forms, texts_of

HERE = Path(__file__).resolve().parent
PASSES = 2
"""Of so many passes over the sample the best counts, for kriss and for its peers."""
PEERS = {"spaCy PhraseMatcher": 10.0, "flashtext2": 1.0, "pyahocorasick loop": 1.0}
"""The peers of peers/matchers/run.py, and how many times as fast as each kriss should be."""
CLOSEST = "flashtext2"
"""The peer that takes turns with kriss; the others are far enough behind for one look."""


# Measurements.


def step_read(files: list[str]) -> dict[str, Any]:
    """Unzip and parse the files, and nothing more."""
    from kriss.documents.registry import read_file
    from kriss.files import Problems

    seconds, size, documents = 0.0, 0, 0
    for file in files:
        began = time.perf_counter()
        for record in read_file(Path(file), Problems()):
            if isinstance(record, Document):
                documents += 1
                size += len(record.text) if record.text.isascii() else len(record.text.encode())
        seconds += time.perf_counter() - began
    return {"seconds": seconds, "bytes": size, "documents": documents}


def step_bare(argument: dict[str, Any]) -> dict[str, Any]:
    """Scan documents in memory for the forms, with `ahocorasick_rs` alone."""
    from ahocorasick_rs import AhoCorasick, MatchKind

    forms = Path(argument["forms"]).read_text(encoding="utf-8").split("\n")
    texts = texts_of(argument["files"])
    began = time.perf_counter()
    automaton = AhoCorasick(forms, matchkind=MatchKind.LeftmostLongest, store_patterns=False)
    built, used = time.perf_counter(), time.process_time()
    found = 0
    for text in texts:
        found += len(automaton.find_matches_as_indexes(text))
    seconds, cpu = time.perf_counter() - built, time.process_time() - used
    return {"build": built - began, "seconds": seconds, "cpu": cpu, "matches": found, "rss": peak()}


def step_bare_keys(argument: dict[str, Any]) -> dict[str, Any]:
    """Scan keyed text for kriss's keys with an automaton, which is how kriss once found them, and with its tables."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

    from kriss.mine.casing import key
    from kriss.mine.config import MineConfig
    from kriss.mine.lookup import Lookup
    from kriss.mine.names import Names

    names = Names(Path(argument["names"]), MineConfig())
    began = time.perf_counter()
    patterns = [b" " + found for found in names.keys().to_pylist()]
    automaton = BytesAhoCorasick(patterns, matchkind=MatchKind.Standard, implementation=Implementation.ContiguousNFA)
    built = time.perf_counter()
    lookup = Lookup(names.keys())
    build_lookup = time.perf_counter() - built
    texts = batches(texts_of(argument["files"]))
    keyed = [bytearray(key(b"\0" + "\0".join(batch).encode() + b"\0")) for batch in texts]
    began_scan, used = time.perf_counter(), time.process_time()
    found = sum(len(automaton.find_matches_as_indexes(data, overlapping=True)) for data in keyed)
    scanned, used_scan = time.perf_counter(), time.process_time()
    whole_words = sum(len(lookup.find(data)[0]) for data in keyed)
    return {
        "build": built - began,
        "seconds": scanned - began_scan,
        "cpu": used_scan - used,
        "matches": found,
        "patterns": len(patterns),
        "lookup_build": build_lookup,
        "lookup_seconds": time.perf_counter() - scanned,
        "lookup_cpu": time.process_time() - used_scan,
        "lookup_matches": whole_words,
    }


def step_mine(argument: dict[str, Any]) -> dict[str, Any]:
    """Mine, and tell apart the time it takes to make the tables; `cpu` is what all processes used without that."""
    began = time.perf_counter()
    from kriss.mine import run
    from kriss.mine.names import write_names
    from kriss.work import Local

    builds: list[float] = []
    names: list[float] = []
    apart: list[float] = []  # processor time

    class Timed(Local):
        """Notes how long the tables were in the making."""

        @contextmanager
        def start(self, job: Any, folder: Path) -> Iterator[Any]:  # noqa: ANN401 - as in Local
            start, used = time.perf_counter(), cpu_of_all()
            with super().start(job, folder) as make:
                builds.append(time.perf_counter() - start)
                apart.append(cpu_of_all() - used)
                yield make

    def timed(*given: Any) -> Any:  # noqa: ANN401 - whatever write_names takes and returns
        start, used = time.perf_counter(), time.process_time()
        answer = write_names(*given)
        names.append(time.perf_counter() - start)
        apart.append(time.process_time() - used)
        return answer

    out, workers = Path(argument["out"]), argument["workers"]
    shutil.rmtree(out.with_name(f".{out.name}.mining"), ignore_errors=True)  # never take up an interrupted run
    with Watch(0.5) as watch, patch.object(run, "write_names", timed):
        done = run.mine(
            argument["ontology"],
            argument["files"],
            out,
            engine=Timed(workers),
            force=True,
        )
    seconds = time.perf_counter() - began
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of the processes beside this one the first has the lowest number and builds the tables; the workers are its forks.
    forks = sorted((which for which in watch.private if "kriss.work" in which[0]), key=lambda which: which[1])
    forks = forks[1 : 1 + workers]
    return {
        "seconds": seconds,
        "names": sum(names),
        "tables": sum(builds),
        "mining": seconds - sum(names) - sum(builds),
        "cpu": time.process_time() + children.ru_utime + children.ru_stime - sum(apart),
        "hits": done.hits,
        "mentions": done.mentions,
        "peak": watch.peak,
        "private": [watch.private[which] for which in forks],
        "shared": [watch.shared[which] for which in forks],
    }


def cpu_of_all() -> float:
    """Return the processor time that this process and those it has started have used."""
    processes = [
        os.getpid(),
        *(int(child) for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()),
    ]
    ticks = 0
    for pid in processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def step_names(argument: list[str]) -> dict[str, Any]:
    """Write the names as the miner does, for those steps that need only these."""
    from kriss.mine.config import MineConfig
    from kriss.mine.names import write_names
    from kriss.ontology import Ontology

    ontology, out = argument
    Path(out).mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    write_names(Ontology.load(ontology).names_table(), MineConfig(), Path(out))
    return {"seconds": time.perf_counter() - began}


def step_sample(argument: dict[str, Any]) -> dict[str, Any]:
    """Write every nth document to a file for the peers, so many MB in all."""
    texts = texts_of(argument["files"])
    sizes = [len(text.encode()) / MEGA for text in texts]
    chosen = texts[:: max(1, int(sum(sizes) / argument["mb"]))]
    Path(argument["out"]).write_text(json.dumps(chosen), encoding="utf-8")
    return {"documents": len(chosen), "bytes": sum(len(text.encode()) for text in chosen)}


def step_matcher(argument: dict[str, Any]) -> dict[str, Any]:
    """Find names in the sample with kriss's matcher."""
    from kriss.mine.config import MineConfig
    from kriss.mine.matcher import Matcher
    from kriss.mine.names import Names

    texts = json.loads(Path(argument["documents"]).read_text(encoding="utf-8"))
    began = time.perf_counter()
    matcher = Matcher(Names(Path(argument["names"]), MineConfig()))
    built = time.perf_counter()
    passes, cpu = [], []
    for _ in range(PASSES):  # the first also judges every surface that it has not met
        start, used = time.perf_counter(), time.process_time()
        hits = sum(len(matcher.find(batch)) for batch in batches(texts))
        passes.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    seconds = {"seconds": min(passes), "passes": passes, "cpu": min(cpu)}
    return {"build": built - began, **seconds, "hits": hits, "rss": peak()}


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "forms": step_forms,
    "names": step_names,
    "sample": step_sample,
    "read": step_read,
    "bare": step_bare,
    "bare_keys": step_bare_keys,
    "mine": step_mine,
    "matcher": step_matcher,
}


# Peers: each in an environment that has them and nothing of kriss.


def run_peer(python: str, peer: str, forms: str, documents: str) -> dict[str, Any]:
    """Run one peer."""
    command = [python, str(HERE / "peers" / "matchers" / "run.py"), peer, forms, documents]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{peer}: {answer}", file=sys.stderr)
    return answer


# All of it.


def measure(data: Path, work: Path, limit: float | None, peers_mb: float, repeat: int) -> dict[str, Any]:
    """Do everything; return what was measured, by step."""

    def step(name: str, argument: object) -> dict[str, Any]:
        return run_step(Path(__file__), name, argument)

    work.mkdir(parents=True, exist_ok=True)
    ontology, files = str(build_ontology(data, work)), cut_files(data, work, limit)
    forms, names, out = (str(work / name) for name in ("mesh2024-forms.txt", "mesh2024-names", "mined"))
    raw: dict[str, Any] = {"forms": step("forms", [ontology, forms]), "names": step("names", [ontology, names])}
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in ("read", "bare", "bare_keys", "one", "two")}
    for _ in range(repeat):
        rounds["read"].append(step("read", files))
        rounds["bare"].append(step("bare", {"forms": forms, "files": files}))
        rounds["bare_keys"].append(step("bare_keys", {"names": names, "files": files}))
        for name, workers in (("one", 1), ("two", 2)):
            given = {"ontology": ontology, "files": files, "out": out, "workers": workers}
            rounds[name].append(step("mine", given))
    for name, measured in rounds.items():
        raw[name] = min(measured, key=lambda answer: answer["mining" if "mining" in answer else "seconds"])
    raw["rounds"] = rounds
    documents = str(work / "peers-documents.json")
    raw["sample"] = step("sample", {"files": files, "out": documents, "mb": peers_mb})
    python = peer_python("matchers", work)
    close: dict[str, list[dict[str, Any]]] = {"matcher": [], CLOSEST: []}
    for _ in range(repeat):
        close["matcher"].append(step("matcher", {"names": names, "documents": documents}))
        close[CLOSEST].append(run_peer(python, CLOSEST, forms, documents))
    best = {name: min(measured, key=lambda answer: answer["seconds"]) for name, measured in close.items()}
    raw["close"], raw["matcher"] = close, best["matcher"]
    raw["peers"] = {peer: best.get(peer) or run_peer(python, peer, forms, documents) for peer in PEERS}
    return raw


def table(raw: dict[str, Any]) -> list[Figure]:
    """Return the figures and their targets."""
    size, small = raw["read"]["bytes"] / MEGA, raw["sample"]["bytes"] / MEGA
    bare, keys, one, two = (raw[name] for name in ("bare", "bare_keys", "one", "two"))
    figures = [
        Figure("text, decoded", size, "MB"),
        Figure("forms written out", raw["forms"]["forms"], "forms", 500_000, at_least=True),
        Figure("kriss's patterns for the same", keys["patterns"], "keys"),
        Figure("reading alone: unzip and parse", size / raw["read"]["seconds"], "MB/s"),
        Figure("bare scan with ahocorasick_rs", size / bare["seconds"], "MB/s"),
        Figure("bare scan for kriss's keys with an automaton", size / keys["seconds"], "MB/s"),
        Figure("the same with kriss's tables", size / keys["lookup_seconds"], "MB/s"),
        Figure("names written and tables built, once a run", one["names"] + one["tables"], "s"),
        Figure("one worker, from file to artifact", size / one["mining"], "MB/s"),
        Figure("one worker against the bare scan", bare["seconds"] / one["mining"], "times", 0.6, at_least=True),
        Figure("the same in processor time of all processes", bare["cpu"] / one["cpu"], "times"),
        Figure("one worker, tables and all", size / one["seconds"], "MB/s"),
        Figure("two workers, from file to artifact", size / two["mining"], "MB/s"),
        Figure("two workers against one", one["mining"] / two["mining"], "times", 1.8, at_least=True),
        Figure("two workers, tables and all", size / two["seconds"], "MB/s"),
        Figure("memory with one worker, at the peak", one["peak"], "MB"),
        Figure("memory with two workers, at the peak", two["peak"], "MB"),
        Figure("of it, shared by the two: the tables", min(two["shared"], default=0.0), "MB"),
        Figure("of it, private to a worker: its round of text", max(two["private"], default=0.0), "MB"),
        Figure(f"matching alone, on {small:,.1f} MB", small / raw["matcher"]["seconds"], "MB/s"),
    ]
    for peer, least in PEERS.items():
        found = raw["peers"][peer]
        what = f"{peer}: {small / found['seconds']:,.2f} MB/s, {found['hits']:,} hits, {found['rss']:,.0f} MB"
        ratio = found["seconds"] / raw["matcher"]["seconds"]
        figures.append(Figure(f"matching against {what}", ratio, "times", least, at_least=True))
    return figures


def main() -> None:
    """Read the arguments, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("KRISS_DATA"), help="default: $KRISS_DATA")
    parser.add_argument("--work", type=Path, default=HERE.parent / "out" / "bench", help="where results lie")
    parser.add_argument("--limit-mb", type=float, help="take only so much text")
    parser.add_argument("--peers-mb", type=float, default=20, help="text that the peers are given")
    parser.add_argument("--repeat", type=int, default=3, help="how often to measure what is compared")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--step", nargs=2, metavar=("NAME", "ARGUMENT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        main_step(STEPS, given.step)
        return
    if not given.data or not (Path(given.data) / TEXTS[0]).is_file():
        parser.error(f"give --data or KRISS_DATA: the folder that holds {TEXTS[0]}")
    raw = measure(given.data, given.work, given.limit_mb, given.peers_mb, given.repeat)
    report("mining with MeSH 2024", table(raw), raw, given.json)


if __name__ == "__main__":
    main()
