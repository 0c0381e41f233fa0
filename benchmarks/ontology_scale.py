"""How an ontology build holds up at the size of UMLS, and how fast the result is to read.

    python benchmarks/ontology_scale.py                        # 4 million concepts: some ten minutes, 8 GB of disk
    python benchmarks/ontology_scale.py --concepts 100000      # a quick look

It writes a synthetic UMLS (see synthetic_umls.py) under --work, or reuses the one there, and
measures each step in a process of its own, so that no step's memory is counted for another. The
plain read of the files comes first and leaves them in the page cache: the build's time is work,
not waiting for a disk. Memory is resident memory, pages of mapped files included.

Run it on a machine that does nothing else: times are wall clock, and other work on the same cores
doubles them. The load before is told first, that after stands above the table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.figures import Figure, main_step, report, run_step
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, main_step, report, run_step

HERE = Path(__file__).resolve().parent
BLOCK = 16 << 20
LOOKUPS, NAME_LOOKUPS, SEED = 100_000, 20_000, 7
BUILD = "import sys; from kriss.cli import main; sys.argv[0] = 'kriss'; main()"


def memory(pid: int | str = "self") -> dict[str, float]:
    """Return a process's resident memory now, in MB: all of it, and that which no file backs."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(fields[key].split()[0]) / 1024 for name, key in (("rss", "VmRSS"), ("anonymous", "RssAnon"))}


# Steps: each runs in a process of its own and prints one JSON object.


def step_read(files: list[str]) -> dict[str, Any]:
    """Read files from end to end in blocks and count their lines."""
    began, size, lines = time.perf_counter(), 0, 0
    for file in files:
        with Path(file).open("rb", buffering=0) as stream:
            while block := stream.read(BLOCK):
                size += len(block)
                lines += block.count(b"\n")
    return {"seconds": time.perf_counter() - began, "bytes": size, "lines": lines}


def step_open(folder: str) -> dict[str, Any]:
    """Open an ontology."""
    began = time.perf_counter()
    from kriss import Ontology

    imported = time.perf_counter()
    ontology = Ontology.load(folder)
    opened = time.perf_counter()
    return {"import": imported - began, "seconds": opened - imported, **memory(), "entities": len(ontology)}


def step_lookups(folder: str) -> dict[str, Any]:
    """Look up entities by random ids, then by random names; a second pass finds the pages mapped already."""
    from kriss import Ontology

    draw = random.Random(SEED)
    ontology = Ontology.load(folder)
    ids = [ontology.at(draw.randrange(len(ontology))).id for _ in range(LOOKUPS)]
    texts = [draw.choice(ontology.names_at(draw.randrange(len(ontology)))) for _ in range(NAME_LOOKUPS)]
    ontology = Ontology.load(folder)  # a fresh map: none of its pages has been touched
    first = _rate(ontology.__getitem__, ids)
    again = _rate(ontology.__getitem__, ids)
    held = memory()
    named = _rate(ontology.entities_named, texts)
    return {"first": first, "again": again, "named": named, **held}


def _rate(look_up: Callable[[str], object], keys: list[str]) -> float:
    began = time.perf_counter()
    for key in keys:
        look_up(key)
    return len(keys) / (time.perf_counter() - began)


def step_search(folder: str) -> dict[str, Any]:
    """Search for a name that one entity has, and for a word that very many have."""
    from kriss import Ontology

    ontology = Ontology.load(folder)
    rare = ontology.at(len(ontology) // 2).name
    return {
        "rare": 1 / _rate(ontology.search, [rare]),
        "common": 1 / _rate(ontology.search, ["nephritis"]),
        **memory(),
    }


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "read": step_read,
    "open": step_open,
    "lookups": step_lookups,
    "search": step_search,
}


def step(name: str, argument: object) -> dict[str, Any]:
    """Run a step in a process of its own."""
    return run_step(Path(__file__), name, argument)


def run_build(meta: Path, out: Path) -> dict[str, Any]:
    """Run `kriss ontology build umls`; return seconds, peaks of memory, and the peak of scratch on disk."""
    command = [sys.executable, "-c", BUILD, "ontology", "build", "umls", str(meta), "--out", str(out), "--force"]
    began = time.perf_counter()
    process = subprocess.Popen(command)
    peak = {"anonymous": 0.0, "scratch": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            try:
                peak["anonymous"] = max(peak["anonymous"], memory(process.pid)["anonymous"])
                scratch = sum(file.stat().st_size for file in out.parent.glob(f".{out.name}.building-*/**/*"))
            except (OSError, KeyError):  # it has just ended, or a file has just gone
                continue
            peak["scratch"] = max(peak["scratch"], scratch / 2**20)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the build failed with status {process.returncode}")
    answer = {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024, **peak}
    print(f"build: {answer}", file=sys.stderr)
    return answer


def synthetic_umls(work: Path, concepts: int) -> Path:
    """Return a folder with the synthetic UMLS, written now unless the one wanted is there."""
    meta = work / f"META-{concepts}"
    stamp = meta / "synthetic.json"
    version = next(line for line in (HERE / "synthetic_umls.py").read_text().splitlines() if line.startswith("FORMAT"))
    if stamp.is_file() and json.loads(stamp.read_text())["format"] == int(version.split("=")[1]):
        print(f"using {meta}", file=sys.stderr)
    else:
        command = [sys.executable, str(HERE / "synthetic_umls.py"), str(meta), "--concepts", str(concepts)]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return meta


def measure(work: Path, concepts: int) -> tuple[list[Figure], dict[str, Any]]:
    """Do all of it; return the table, and everything measured."""
    meta = synthetic_umls(work, concepts)
    files = sorted(str(file) for file in meta.glob("*.RRF"))
    step("read", files)  # into the page cache
    conso = step("read", [str(meta / "MRCONSO.RRF")])
    everything = step("read", files)
    out = work / f"umls-{concepts}"
    build = run_build(meta, out)
    opened, lookups, search = (step(name, str(out)) for name in ("open", "lookups", "search"))
    size = sum(file.stat().st_size for file in out.iterdir()) / 2**20
    figures = [
        Figure(
            f"plain read of MRCONSO ({conso['lines']:,} rows, {conso['bytes'] / 2**20:,.0f} MB)", conso["seconds"], "s"
        ),
        Figure(
            f"plain read of all files ({everything['lines']:,} rows, {everything['bytes'] / 2**20:,.0f} MB)",
            everything["seconds"],
            "s",
        ),
        Figure("build: time", build["seconds"], "s", 360),
        Figure("build: processor time", build["cpu"], "s"),
        Figure("build: peak memory", build["rss"], "MB", 4096),
        Figure("build: of it, not backed by files", build["anonymous"], "MB"),
        Figure("build: peak of scratch and result on disk", build["scratch"], "MB"),
        Figure("build: time against the plain read of all files", build["seconds"] / everything["seconds"], "times"),
        Figure("the ontology on disk", size, "MB"),
        Figure("open: time", opened["seconds"], "s", 1),
        Figure("open: memory of the process", opened["rss"], "MB", 300),
        Figure(f"look up {LOOKUPS:,} random ids, whole entities", lookups["first"], "a second", 20_000, at_least=True),
        Figure("look up the same again, pages mapped", lookups["again"], "a second"),
        Figure("memory of the process after these, mapped pages included", lookups["rss"], "MB"),
        Figure("of it, not backed by files", lookups["anonymous"], "MB"),
        Figure(f"look up {NAME_LOOKUPS:,} random names, whole entities", lookups["named"], "a second"),
        Figure("search for one whole name", search["rare"], "s"),
        Figure("search for a word that many names hold", search["common"], "s"),
    ]
    raw = {"read": conso, "read_all": everything, "build": build, "open": opened, "lookups": lookups, "search": search}
    return figures, raw


def main() -> None:
    """Read the arguments, measure, print the table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parent / "out" / "bench", help="where the data lies")
    parser.add_argument("--concepts", type=int, default=4_000_000)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--step", nargs=2, metavar=("NAME", "ARGUMENT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        main_step(STEPS, given.step)
        return
    print(f"load {os.getloadavg()[0]:.1f} before", file=sys.stderr)
    figures, raw = measure(given.work, given.concepts)
    report(f"{given.concepts:,} concepts", figures, raw, given.json)


if __name__ == "__main__":
    main()
