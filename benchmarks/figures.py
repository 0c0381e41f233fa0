"""What the benchmarks share: a table of figures with their targets, steps in processes of their own, memory."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `limit` is the target: at most so much, or at least when `at_least`."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """PASS or MISS, or nothing where there is no target."""
        if self.limit is None:
            return ""
        return "PASS" if (self.value >= self.limit if self.at_least else self.value < self.limit) else "MISS"

    def line(self) -> str:
        """Return the figure as a line of a Markdown table."""
        target = "" if self.limit is None else f"{'≥' if self.at_least else '<'} {_number(self.limit)} {self.unit}"
        return f"| {self.what} | {_number(self.value)} {self.unit} | {target} | {self.verdict} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def report(title: str, figures: Sequence[Figure], raw: dict[str, Any], file: Path | None) -> None:
    """Print the table, write everything measured, and leave with status 1 if a target was missed."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.platform()}"
    machine += f", load {os.getloadavg()[0]:.1f} at the end"
    print(f"{title}; {machine}\n\n| figure | measured | target | |\n|---|---|---|---|")
    print("\n".join(figure.line() for figure in figures))
    if file:
        table = [{**asdict(figure), "verdict": figure.verdict} for figure in figures]
        told = {"title": title, "machine": machine, "figures": table, "raw": raw}
        file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    if any(figure.verdict == "MISS" for figure in figures):
        sys.exit("a target was missed")


def run_step(script: Path, name: str, argument: object, python: str = sys.executable) -> dict[str, Any]:
    """Run a step of a script (`--step NAME ARGUMENT`) in a process of its own; it prints one JSON object."""
    command = [python, str(script), "--step", name, json.dumps(argument)]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{name}: {answer}", file=sys.stderr)
    return answer


class Watch:
    """Follows the memory of a process and of all its descendants, in MB, while a block runs.

    with Watch() as watch:
        ...
    watch.peak  # of the sum over all of them; a page that several share counts once

    By command line and process id, `watch.private` has the peak of what a process shares with none, and
    `watch.shared` that of the rest.
    """

    def __init__(self, every: float = 0.25, root: int | None = None) -> None:
        self.peak = 0.0
        self.private: dict[tuple[str, int], float] = {}
        self.shared: dict[tuple[str, int], float] = {}
        self._every = every
        self._root = root or os.getpid()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._done.wait(self._every):
            total = 0.0
            for pid in _family(self._root):
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
                except OSError:  # it has just ended
                    continue
                size = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
                total += size.get("Pss", 0.0)
                own = size.get("Private_Clean", 0.0) + size.get("Private_Dirty", 0.0)
                for known, now in ((self.private, own), (self.shared, size.get("Rss", 0.0) - own)):
                    known[command, pid] = max(known.get((command, pid), 0.0), now)
            self.peak = max(self.peak, total)


def _family(root: int) -> list[int]:
    """Return a process and its descendants."""
    found = [root]
    for pid in found:
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def peer_python(peer: str, work: Path) -> str:
    """Return the Python of a peer's own environment, made now from `peers/PEER/requirements.txt` unless it is there."""
    requirements = Path(__file__).resolve().parent / "peers" / peer / "requirements.txt"
    folder = work / f"peers-{peer}-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
        subprocess.run(install, check=True, stdout=sys.stderr)
        stamp.touch()
    return str(python)


def main_step(steps: dict[str, Callable[[Any], dict[str, Any]]], given: Sequence[str]) -> None:
    """Answer a `--step`."""
    print(json.dumps(steps[given[0]](json.loads(given[1]))))
