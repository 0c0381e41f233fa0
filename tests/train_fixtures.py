"""A world in miniature to train on: entities that text speaks of in words of their own."""

from __future__ import annotations

import atexit
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch

from kriss.cli import run
from kriss.config import to_mapping
from kriss.ontology import Ontology
from kriss.train.config import PAPER, TrainConfig

_STEMS = "gastr cardi neur hepat nephr derm arthr myel".split()
_ENDINGS = "osis itis emia pathy".split()
_TELLTALE = """patient disease syndrome acute chronic heart attack kidney liver lung renal failure cold fever pain chest
    blood pressure drug dose cell gene protein left right side""".split()
_FILLER = "the of in with for from that was were by this who had at on and to".split()
MINED, BARE = 30, 8


@dataclass(frozen=True)
class World:
    """An ontology and the mentions mined with it."""

    ontology: Ontology
    mentions: Path
    no_dev: Path
    """The same, without a dev split: what is trained on them are the last weights, never those of step 0."""
    folder: Path


@cache
def world() -> World:
    """Build an ontology, write text about it, and mine that; once for all tests of a session."""
    folder = Path(mkdtemp(prefix="kriss-train-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    draw = random.Random(5)
    names = [f"{stem}{ending}" for stem in _STEMS for ending in _ENDINGS][:MINED]
    rows: list[dict[str, Any]] = []
    for number in range(MINED + BARE):
        name = names[number] if number < MINED else f"unheard {_word(draw)}"
        aliases = [f"{_word(draw)} {_word(draw)}s", f"{_word(draw)}, {_word(draw)}", _word(draw), _word(draw)]
        if number % 5 == 0:  # what another entity is called by
            aliases.append(names[(number + 1) % MINED])
        if number % 5 == 2:  # an alias of two
            aliases.append("shared alias")
        rows.append({"id": f"X:{number:03d}", "name": name, "aliases": aliases, "types": ["Thing"],
                     "definition": f"What {_word(draw)} is."})  # fmt: skip
    (folder / "ontology.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run(["ontology", "build", "jsonl", str(folder / "ontology.jsonl"), "--out", str(folder / "ontology")]) == 0
    with (folder / "text.jsonl").open("w", encoding="utf-8") as lines:
        for number, row in enumerate(rows[:MINED]):
            own = [_TELLTALE[number % 13], _TELLTALE[13 + number // 2 % 13]]
            for document in range(2 if number == 7 else 30):
                # names that only one entity has: others are not mined
                surface = draw.choice([row["name"], *row["aliases"][:4]]) if number % 5 != 1 else row["aliases"][0]
                left, right = (draw.choices(_FILLER, k=draw.randint(3, 6)) + draw.choices(own, k=4) for _ in range(2))
                draw.shuffle(left)
                draw.shuffle(right)
                text = f"{' '.join(left)} {surface} {' '.join(right)}."
                lines.write(json.dumps({"id": f"{number}-{document}", "text": text}) + "\n")
    for name, dev in (("mentions", "0.2"), ("no-dev", "0")):
        source, out = [str(folder / "ontology"), str(folder / "text.jsonl")], str(folder / name)
        assert run(["mine", *source, "--train", "0.4", "--dev", dev, "--out", out]) == 0
    return World(Ontology.load(folder / "ontology"), folder / "mentions", folder / "no-dev", folder)


def _word(draw: random.Random) -> str:
    return "".join(draw.choice("bcdfglmnprtvz") + draw.choice("aeiou") for _ in range(4))


def tiny_config(model: Path, **settings: Any) -> TrainConfig:
    """Return settings for runs of a second."""
    small = replace(
        PAPER, model=str(model), window=24, reference_window=24, pooling="mean", normalize=True, batch=16, steps=6,
        learning_rate=1e-3, dropout=0.0, p_bare=0.25, name_only=0.25, tau=0.05, pi=0.05, chunk=7, cache=False,
        held_out=0.3, dev_queries=40, dev_entities=60, dev_every=3, save_every=2,
    )  # fmt: skip
    return replace(small, **settings)


def arguments(config: TrainConfig, out: Path, *more: str, mentions: Path | None = None) -> list[str]:
    """Return the words of `kriss train` that ask for these settings; they are written to a file beside `out`."""
    file = out.with_suffix(".toml")
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in to_mapping(config).items()))
    here = world()
    folders = (here.ontology.artifact.path, mentions or here.mentions)
    return ["train", *map(str, folders), "--out", str(out), "--config", str(file), *more]


def weights(out: Path) -> tuple[bytes, bytes]:
    """Return both files of weights that an encoder consists of."""
    first, second = (out / name for name in ("model.safetensors", "references/model.safetensors"))
    return first.read_bytes(), second.read_bytes()


def work_of(out: Path) -> Path:
    """Return where a training keeps its checkpoints."""
    return out.parent / f".{out.name}.training"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Make sums come in one order, here as in processes started with OMP_NUM_THREADS=1."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
