"""What mining is measured on: MeSH 2024 as an ontology, the forms of its names, and the text."""

from __future__ import annotations

import gzip
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kriss.records import Document

if TYPE_CHECKING:
    from benchmarks.figures import run_step
else:  # beside a script, whose folder is where modules are looked for
    from figures import run_step

HERE = Path(__file__).resolve().parent
TEXTS = ("text/elife_body.jsonl.gz", "text/pubmed/pubmed20n0014.xml.gz", "text/pubmed/pubmed21n1298.xml.gz")
MESH = ("ontology/mesh2024_descriptors.tsv.gz", "ontology/mesh2024_supplementary.tsv.gz")
MEGA = 1e6
AT_ONCE = 2 << 20
"""Characters searched in one call, as in `kriss.mine.shard`."""


def build_ontology(data: Path, work: Path) -> Path:
    """Return MeSH 2024 as an ontology, built now unless it is there."""
    out = work / "mesh2024"
    if not out.is_dir():
        files = [str(data / name) for name in MESH]
        options = ["--column", "parents=mapped_to", "--separator", "parents=,", "--out", str(out)]
        kriss = "import sys; from kriss.cli import main; sys.argv[0] = 'kriss'; main()"
        subprocess.run([sys.executable, "-c", kriss, "ontology", "build", "tsv", *files, *options], check=True)
    return out


def cut_files(data: Path, work: Path, limit: float | None) -> list[str]:
    """Return the files of text, or copies with the first records of each, `limit` MB of text in all."""
    files = [data / name for name in TEXTS]
    if limit is None:
        return [str(file) for file in files]
    whole = run_step(HERE / "mining_speed.py", "read", [str(file) for file in files])["bytes"] / MEGA
    cut = []
    for file in files:
        target = work / f"text-{limit:g}MB" / file.name
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            content = gzip.decompress(file.read_bytes())
            mark, end = (b"\n", b"") if ".jsonl" in file.name else (b"</PubmedArticle>\n", b"</PubmedArticleSet>\n")
            at = content.find(mark, int(len(content) * min(limit / whole, 1.0))) + len(mark)
            target.write_bytes(gzip.compress(content[:at] + end, 6))
        cut.append(str(target))
    return cut


def step_forms(argument: list[str]) -> dict[str, Any]:
    """Write out the forms of all names: as they are, turned round, in lower case, with a capital letter."""
    from kriss.mine.casing import turned_round
    from kriss.mine.config import MineConfig
    from kriss.ontology import Ontology

    ontology, out = argument
    least = MineConfig().min_length
    names = dict.fromkeys(Ontology.load(ontology).names_table().column("text").to_pylist())
    names |= dict.fromkeys(turned for name in list(names) if (turned := turned_round(name)))
    forms = {form for name in names for form in written(name)}
    kept = sorted(form for form in forms if len(form) >= least and any(char.isalpha() for char in form))
    Path(out).write_text("\n".join(kept), encoding="utf-8")
    return {"names": len(names), "forms": len(kept)}


def written(name: str) -> Iterator[str]:
    """Yield a name as it is, with its words in lower case, and so with a capital first; symbols stay."""
    from kriss.mine.casing import is_symbol

    shouted = name.isupper() and any(len(run) > 5 for run in re.findall(r"[A-Za-z0-9]+", name))
    lower = re.sub(
        r"[A-Za-z0-9]+",
        lambda run: run[0] if is_symbol(run[0].encode(), shouted=shouted) else run[0].lower(),
        name,
    )
    yield name
    yield lower
    first = re.match(r"[^A-Za-z0-9]*([a-z]+)(?![A-Za-z0-9])", lower)
    if first:
        yield lower[: first.start(1)] + first[1].capitalize() + lower[first.end(1) :]


def texts_of(files: list[str]) -> list[str]:
    """Read all documents, as the miner does."""
    from kriss.documents.registry import read_file
    from kriss.files import Problems

    records = (record for file in files for record in read_file(Path(file), Problems()))
    return [record.text for record in records if isinstance(record, Document)]


def batches(texts: list[str]) -> Iterator[list[str]]:
    """Yield documents as many at a time as the miner searches at once."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= AT_ONCE:
            yield held
            held, size = [], 0
    if held:
        yield held


def peak() -> float:
    """Return the most memory, in MB, that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
