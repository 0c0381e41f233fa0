"""The division of labour: which files there are, and into which shards they are cut.

A shard is a file or a stripe of a large one. The plan is written to the work folder before any
work is done; a run that finds the same plan there goes on where the last one stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kriss.artifacts import describe_inputs
from kriss.config import from_mapping, to_mapping
from kriss.documents.sources import Format, detect_format
from kriss.mine.config import MineConfig

SHARD_BYTES = 32 << 20
"""A file that is larger, as it is on disk, may be cut into stripes for several workers."""
_MOST_BYTES = 256 << 20
"""A file that is larger is cut even for one, so that an interrupted run has not all of it to do again."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One piece of work. `drop` are records (by ordinal) that another file's record replaces."""

    number: int
    file: Path
    stripe: int
    stripes: int
    drop: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a worker must know."""

    config: MineConfig
    ontology: str
    files: tuple[Path, ...]
    inputs: tuple[dict[str, Any], ...]
    skip_bad_files: bool
    shard_bytes: int

    def shards(self) -> list[Shard]:
        """Cut the files into shards; the cut has no influence on what is mined."""
        pieces = []
        for file in self.files:
            stripes = max(1, -(-file.stat().st_size // self.shard_bytes))
            if stripes > 1 and detect_format(file) is Format.PUBMED:
                stripes = 1  # records of one file may replace each other, and NLM's files are small
            pieces += [(file, stripe, stripes) for stripe in range(stripes)]
        return [Shard(number, *piece) for number, piece in enumerate(pieces)]

    def digest(self) -> str:
        """Name everything that decides the result, so that work done for another plan is not taken up."""
        told = {**asdict(self), "files": [str(file) for file in self.files], "config": to_mapping(self.config)}
        del told["shard_bytes"]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def write(self, path: Path) -> None:
        """Write the plan for workers to read."""
        told = {
            "config": to_mapping(self.config),
            "ontology": self.ontology,
            "files": [str(file) for file in self.files],
            "inputs": list(self.inputs),
            "skip_bad_files": self.skip_bad_files,
            "shard_bytes": self.shard_bytes,
        }
        path.write_text(json.dumps(told), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read what `write` wrote."""
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            from_mapping(MineConfig, told["config"], str(path)),
            told["ontology"],
            tuple(Path(file) for file in told["files"]),
            tuple(told["inputs"]),
            told["skip_bad_files"],
            told["shard_bytes"],
        )


def fair_share(files: Sequence[Path], workers: int) -> int:
    """Return into how large pieces to cut files: no more than keeps the workers busy.

    Each stripe of a zipped file unzips all of it, so that one worker had better take it whole.
    """
    total = sum(file.stat().st_size for file in files)
    return min(max(total // workers, SHARD_BYTES), _MOST_BYTES)


def make_plan(
    config: MineConfig,
    ontology_digest: str,
    files: Sequence[Path],
    excluded: Path | None,
    *,
    skip_bad_files: bool,
    shard_bytes: int,
) -> Plan:
    """Plan the mining of files; their digests are part of the plan."""
    inputs = describe_inputs([*files, *([excluded] if excluded else [])])
    resolved = tuple(file.resolve() for file in files)
    return Plan(config, ontology_digest, resolved, tuple(inputs), skip_bad_files, shard_bytes)
