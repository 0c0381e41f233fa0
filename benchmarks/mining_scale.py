"""How much memory and time the tables of names take with as many names as UMLS has.

    python benchmarks/mining_scale.py                      # 4 million names: some five minutes
    python benchmarks/mining_scale.py --names 400000       # a quick look

The names are made up, in the likeness of MeSH's: one to six words, some 30 characters (MeSH: 26), as
many different words among them, one name in five inverted; a name adds 17 nodes to a trie (MeSH: 15).
One seed gives the same names. They are prepared as in `kriss mine`: one process groups them by
key and writes them, and starts another that builds the tables; the peak is that of both
together, a page that they share counted once.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from benchmarks.figures import Figure, Watch, main_step, report, run_step
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, Watch, main_step, report, run_step

HERE = Path(__file__).resolve().parent
SEED, CHUNK = 11, 1 << 18
Ints = NDArray[np.int64]

WORDS_A_NAME = {1: 0.26, 2: 0.36, 3: 0.22, 4: 0.09, 5: 0.04, 6: 0.03}
INVERTED = 0.2
RARE = 0.12
"""The share of words that are made up anew from parts; the others come from a list, the first ones most often."""
STARTS = (
    "hyper hypo peri endo epi sub supra intra inter trans poly oligo mono hemi pseudo neo para meta micro macro "
    "dys anti auto allo iso cyclo fluoro chloro bromo methyl ethyl propyl butyl phenyl benzyl hydroxy amino oxo "
    "sulfo phospho glyco lipo keto nitro acetyl carboxy cyano thio aza oxa"
).split()
MIDDLES = (
    "cardi nephr hepat gastr enter col pulmon bronch rhin ot ophthalm retin kerat derm oste arthr chondr my ten "
    "neur encephal mening myel cerebr thyr adren pancreat splen lymph hemat leuk erythr thromb angi phleb arteri "
    "aort cyst prostat ovar hyster cervic mast cran spondyl pelv cost femor odont gloss laryng trache pleur chol "
    "lith sarc carcin aden fibr lip melan glob kin prote pept nucle rib gluc fruct stear palmit ole purin pyrid "
    "thiaz imid quinol indol piperid morphol pyrrol benzod xanth cumar flav terp ster"
).split()
ENDS = (
    "itis osis oma pathy ectomy otomy plasty scopy graphy emia uria algia megaly sclerosis malacia trophy plegia "
    "stenosis genesis lysis ine ol ate ide ase in one amide azole statin cillin mycin mab tinib sartan dipine "
    "virus coccus bacter ella yl ylene oic anone enal onium idine"
).split()
COMMON = (
    "acid protein syndrome disease human receptor factor acute chronic type familial deficiency cell mouse "
    "antigen gene complex virus sodium kinase binding related carcinoma primary congenital growth hormone "
    "inhibitor membrane muscle nuclear ligand domain transcription alpha beta gamma delta sulfate chloride "
    "disorder tumor neoplasm infection dwarf tissue bone heart liver kidney brain skin lung optic renal vascular "
    "cardiac cerebral autosomal dominant recessive Type II III IV 1 2 3 4 A B C D1 E2 X-linked"
).split()


def parts_at(values: list[str], index: Ints) -> pa.Array:
    """Return the values of these numbers."""
    return pa.array(values, pa.string()).take(pa.array(index))


def made_words(count: int, rng: np.random.Generator) -> pa.Array:
    """Return words of a chemist or a pathologist, hardly any of them twice."""

    def drawn(values: list[str]) -> pa.Array:
        return parts_at(values, rng.integers(0, len(values), count))

    digits = [str(number) for number in range(1, 20)]
    locants = [*[""] * 90, *(f"{place}-" for place in digits), *(f"{place},{place}'-" for place in digits)]
    tails = [*[""] * 60, *(f"-{place}" for place in digits), *(f"({place})" for place in digits[:6])]
    seldom = [*[""] * 100, *STARTS]
    return pc.binary_join_element_wise(
        *(drawn(values) for values in (locants, seldom, STARTS, MIDDLES, ENDS, tails)), ""
    )


def common_words(rng: np.random.Generator) -> list[str]:
    """Return the list of words that come back, the most frequent first."""
    made = made_words(30_000, rng).to_pylist()
    return COMMON + list(dict.fromkeys(word.split("-")[-1] for word in made))


def names(count: int) -> pa.Table:
    """Return names, each once, and their entities, two or so to an entity."""
    words = common_words(np.random.default_rng(SEED))
    texts: list[pa.Array] = []
    for start in range(0, count * 3 // 2, CHUNK):
        rng = np.random.default_rng((SEED, start))
        lengths = rng.choice(list(WORDS_A_NAME), CHUNK, p=list(WORDS_A_NAME.values()))
        inverted = rng.random(CHUNK) < INVERTED
        columns: list[pa.Array] = []
        for place in range(max(WORDS_A_NAME)):
            often = parts_at(words, (len(words) * rng.random(CHUNK) ** 12).astype(np.int64))
            # A name of one word must be one that no other has.
            rare = (rng.random(CHUNK) < RARE) | ((lengths == 1) & (place == 0))
            word = pc.if_else(pa.array(rare), made_words(CHUNK, rng), often)
            if place == 0:
                word = pc.if_else(pa.array(rng.random(CHUNK) < 0.6), pc.utf8_capitalize(word), word)
            comma = pa.array(inverted & (lengths > 1) & (place == 0))
            word = pc.if_else(comma, pc.binary_join_element_wise(word, ",", ""), word)
            columns.append(pc.if_else(pa.array(lengths > place), word, pa.scalar(None, pa.string())))
        texts.append(pc.binary_join_element_wise(*columns, " ", null_handling="skip"))
    distinct = pc.unique(pa.chunked_array(texts).cast(pa.large_string())).slice(0, count)
    if len(distinct) < count:
        raise ValueError(f"only {len(distinct):,} of the names differ")
    return pa.table({"text": distinct, "entity": pa.array((np.arange(count) * 5 // 11).astype(np.int32))})


# Steps: each runs in a process of its own and prints one JSON object.


def step_make(argument: dict[str, Any]) -> dict[str, Any]:
    """Make the names and write them to a file."""
    table = names(argument["names"])
    file = Path(argument["file"])
    file.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    text = table.column("text")
    lengths = pc.utf8_length(text)
    return {"characters": pc.mean(lengths).as_py(), "names": len(text)}


def step_prepare(argument: dict[str, Any]) -> dict[str, Any]:
    """Group the names by key, then have the tables built, as `kriss mine` does."""
    from kriss.mine.config import MineConfig
    from kriss.mine.names import write_names

    folder = Path(argument["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Watch(0.1) as watch:
        began = time.perf_counter()
        with pa.memory_map(argument["file"]) as source:
            write_names(pa.ipc.open_file(source).read_all(), MineConfig(), folder)
        written = time.perf_counter()
        own = _peak()
        command = [sys.executable, __file__, "--step", "build", json.dumps(str(folder))]
        built = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        ended = time.perf_counter()
    return {
        "names_seconds": written - began,
        "names_rss": own,
        "seconds": ended - began,
        "peak": max(watch.peak, own),
        **built,
    }


def step_build(folder: str) -> dict[str, Any]:
    """Build the tables."""
    from kriss.mine.config import MineConfig
    from kriss.mine.matcher import Matcher
    from kriss.mine.names import Names

    began = time.perf_counter()
    known = Names(Path(folder), MineConfig())
    matcher = Matcher(known)
    seconds = time.perf_counter() - began
    hits = len(matcher.find(["A dose of methylcarditis-free water."]))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    after = int(status["VmRSS"].split()[0]) / 1024
    return {"build_seconds": seconds, "build_rss": _peak(), "after_rss": after, "keys": len(known.keys()), "hits": hits}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "make": step_make,
    "prepare": step_prepare,
    "build": step_build,
}


def main() -> None:
    """Read the arguments, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parent / "out" / "bench", help="where the names lie")
    parser.add_argument("--names", type=int, default=4_000_000)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--step", nargs=2, metavar=("NAME", "ARGUMENT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        main_step(STEPS, given.step)
        return
    file, folder = (given.work / f"names-{given.names}{end}" for end in (".arrow", ""))
    made = run_step(Path(__file__), "make", {"names": given.names, "file": str(file)})
    done = run_step(Path(__file__), "prepare", {"file": str(file), "folder": str(folder)})
    figures = [
        Figure("names, all of them different", made["names"], "names"),
        Figure("characters of a name, on average", made["characters"], "characters"),
        Figure("keys: what is looked for", done["keys"], "keys"),
        Figure("names grouped and written: time", done["names_seconds"], "s"),
        Figure("names grouped and written: peak memory", done["names_rss"], "MB"),
        Figure("tables built: time", done["build_seconds"], "s"),
        Figure("tables built: peak memory", done["build_rss"], "MB"),
        Figure("memory that is left when it is built", done["after_rss"], "MB"),
        Figure("all in: time", done["seconds"], "s", 180),
        Figure("all in: peak memory of both processes", done["peak"], "MB", 4096),
    ]
    report(f"{given.names:,} synthetic names", figures, {"make": made, "prepare": done}, given.json)


if __name__ == "__main__":
    main()
