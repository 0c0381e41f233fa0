"""The paper's ambiguity, with a trained tiny model: one surface, several entities, and the context decides."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from kriss.cli import run
from kriss.index.config import IndexConfig
from kriss.link.build import build_linker
from kriss.link.linker import Linker
from kriss.records import Excerpt
from tests.train_fixtures import (  # noqa: F401 - fixture
    _FILLER,
    _TELLTALE,
    arguments,
    one_thread,
    tiny_config,
    world,
)

SHARERS = (2, 12, 17, 22, 27)
"""Entities that have the alias "shared alias", and mined mentions under their other names."""
_STEPS = 150
SEEN = {"context": 1.0, "spelling": 0.0, "match": 0.0}
"""Weights by which the mention in its sentence decides."""


@pytest.fixture(scope="module")
def trained(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a linker whose encoder has learned to read the words around a mention."""
    folder = tmp_path_factory.mktemp("trained")
    config = tiny_config(
        tiny_model, steps=_STEPS, save_every=_STEPS, mentions_per_entity=16, p_mask=0.5, p_bare=0.0, batch=32
    )
    here = world()
    assert run(arguments(config, folder / "encoder", mentions=here.no_dev)) == 0
    build_linker(here.ontology, here.no_dev, folder / "encoder", folder / "linker", IndexConfig(), threads=1)
    return folder / "linker"


def in_the_words_of(number: int, surface: str, draw: Random) -> Excerpt:
    """Return a mention in text as the world has it about an entity: two words that tell, and some that do not."""
    own = [_TELLTALE[number % 13], _TELLTALE[13 + number // 2 % 13]]
    sides = [draw.choices(_FILLER, k=4) + draw.choices(own, k=4) for _ in range(2)]
    left, right = (" ".join(draw.sample(side, len(side))) for side in sides)
    return Excerpt(f"{left} ", surface, f" {right}.")


def named(number: int) -> str:
    return f"X:{number:03d}"


def test_mined_mentions_decide_by_context(trained: Path) -> None:
    linker = Linker.load(trained, threads=1, weights=SEEN, ids=[*map(named, SHARERS)])
    for number in SHARERS:
        assert "shared alias" in linker.ontology[named(number)].names
    draw = Random(1)
    asked = [(number, in_the_words_of(number, "shared alias", draw)) for number in SHARERS for _ in range(6)]
    links = linker.link([mention for _, mention in asked])
    right = [link.entity == named(number) for (number, _), link in zip(asked, links, strict=True)]
    assert sum(right) >= 0.9 * len(right)
    # Without the context they are all the same mention, and all but one entity's are wrong.
    bare = linker.with_options(weights=SEEN | {"context": 0.0}).link([mention for _, mention in asked])
    assert len({link.entity for link in bare}) == 1


def test_learned_examples_decide_by_context(trained: Path, tmp_path: Path) -> None:
    """Entities that no text was mined of, called by a name that the ontology does not have."""
    path = shutil.copytree(trained, tmp_path / "linker")
    first, second = ("X:031", 0), ("X:032", 11)
    linker, draw = Linker.load(path, threads=1, weights=SEEN), Random(2)
    for entity, words in (first, second):
        for _ in range(3):
            linker.add(in_the_words_of(words, "zoppa", draw), entity)
    both = linker.with_options(ids=[first[0], second[0]])
    right = 0
    for entity, words in (first, second):
        for link in both.link([in_the_words_of(words, "zoppa", draw) for _ in range(10)]):
            right += link.entity == entity
            assert link.candidates[0].evidence.kind == "gold"
    assert right >= 18
    # One word in the words of each, with nothing forbidden: the example is what speaks for the link.
    for entity, words in (first, second):
        [link] = linker.with_options(mode="supervised").link([in_the_words_of(words, "zoppa", draw)])
        assert link.entity == entity


def test_one_correction_turns_the_next_link(trained: Path, tmp_path: Path) -> None:
    path = shutil.copytree(trained, tmp_path / "linker")
    linker, draw = Linker.load(path, threads=1, weights=SEEN), Random(3)
    mention = in_the_words_of(22, "zoppa", draw)
    [before] = linker.link([mention])
    assert before.entity != "X:033"
    example = linker.add(mention, "X:033", document="chart 5")
    [after] = linker.link([mention])
    assert (after.entity, after.candidates[0].evidence.example) == ("X:033", example)
    linker.remove(example)
    assert linker.link([mention]) == [before]
