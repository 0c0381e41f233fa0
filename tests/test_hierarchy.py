"""What narrower candidates say for broader ones: the gain by its equation, and when it counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.errors import ConfigError
from kriss.index.vectors import Index
from kriss.link.linker import Linker
from kriss.rank.calibrate import BROADER, Calibration, Question, calibrate, name_questions, usable
from kriss.rank.hierarchy import LOOKED_AT, Hierarchy
from kriss.rank.search import Hit
from kriss.records import Excerpt


def hierarchy(parents: dict[int, tuple[int, ...]]) -> Hierarchy:
    ontology = SimpleNamespace(
        parents_at=lambda row: list(parents.get(row, ())),
        names_at=lambda row: (f"Name  {row}", "other"),
    )
    return Hierarchy(cast(Any, ontology))


def brute(above: Any, entities: list[int | str], scores: list[float]) -> list[float]:
    """The equation, candidate by candidate."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])[:LOOKED_AT]
    best = scores[order[0]]
    gains = [0.0] * len(scores)
    for x in order:
        for y in order:
            narrower = entities[y]
            if isinstance(narrower, int) and entities[x] in above(narrower):
                gains[x] += abs(best) * float(np.exp((scores[y] - best) / (0.07 * abs(best))))
    return gains


@given(
    st.dictionaries(st.integers(0, 25), st.lists(st.integers(-2, 25), max_size=3).map(tuple), max_size=20),
    st.lists(st.integers(0, 25), min_size=1, max_size=24, unique=True),
    st.randoms(use_true_random=False),
)
def test_the_gain_is_that_of_the_equation(parents: dict[int, tuple[int, ...]], rows: list[int], draw: Any) -> None:
    tree = hierarchy(parents)
    entities: list[int | str] = [row if draw.random() > 0.1 else f"new {row}" for row in rows]
    scores = [draw.uniform(-0.5, 2.0) for _ in rows]
    found = tree.support(entities, np.array(scores))
    np.testing.assert_allclose(found, brute(tree.above, entities, scores), rtol=1e-9)


def test_ancestors_of_ancestors_count_and_circles_end() -> None:
    tree = hierarchy({1: (0,), 2: (1,), 3: (4,), 4: (3,)})
    assert tree.above(2) == {0, 1}
    assert tree.above(3) == {4}
    assert hierarchy({4: (4,)}).above(4) == frozenset()
    gains = tree.support([2, 1, 0], np.array([1.0, 0.9, 0.5]))
    assert gains[0] == 0
    assert gains[1] == pytest.approx(1.0)
    assert gains[2] == pytest.approx(1.0 + np.exp(-0.1 / 0.07))


def test_the_length_of_vectors_does_not_matter() -> None:
    tree = hierarchy({1: (0,), 2: (0,), 3: (0,)})
    scores = np.array([0.8, 0.85, 0.9, 0.82])
    np.testing.assert_allclose(tree.support([0, 1, 2, 3], 300 * scores), 300 * tree.support([0, 1, 2, 3], scores))
    assert tree.support([0, 1], np.zeros(2)).tolist() == [0, 0]
    assert tree.support([], np.zeros(0)).tolist() == []


def test_a_name_is_known_whatever_its_case_and_spaces() -> None:
    tree = hierarchy({})
    assert tree.is_named(7, "name 7")
    assert tree.is_named(7, "OTHER")
    assert not tree.is_named(7, "name 8")
    assert not tree.is_named("name 7", "name 7")


# --- in a linker ----------------------------------------------------------------------------------


@pytest.fixture
def family(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Linker, int, int]:
    """A linker, and an entity with one above it."""
    linker = Linker.load(clinic, threads=1, broader=0.05)
    narrow, broad = (linker.ontology.row_of(entity) for entity in ("D003110", "D009369"))
    assert narrow is not None
    assert broad is not None
    monkeypatch.setattr(linker.hierarchy, "above", lambda row: frozenset({broad} if row == narrow else ()))
    return linker, narrow, broad


def hits(*entities: int, rows: tuple[int, ...] | None = None) -> list[Hit]:
    scores = np.linspace(1.0, 0.99, len(entities)).tolist()
    return [
        Hit(entity, row, score, score)
        for entity, row, score in zip(entities, rows or (0,) * len(entities), scores, strict=True)
    ]


def test_the_broader_of_two_near_candidates_comes_first(family: tuple[Linker, int, int]) -> None:
    linker, narrow, broad = family
    found = linker.search._broadened(hits(narrow, broad), "a word that nobody has")
    assert [hit.entity for hit in found] == [broad, narrow]
    assert found[0].dense == pytest.approx(0.99)  # what probabilities go by stays
    assert found[0].score == pytest.approx(0.99 + 0.05)


def test_a_name_that_is_spelled_so_or_a_person_is_not_overruled(family: tuple[Linker, int, int]) -> None:
    linker, narrow, broad = family
    named = linker.ontology.name_at(narrow).upper()
    assert linker.search._broadened(hits(narrow, broad), named) == hits(narrow, broad)
    learned = hits(narrow, broad, rows=(len(linker._index), 0))
    assert linker.search._broadened(learned, "a word that nobody has") == learned


def test_answers_do_not_depend_on_how_many_are_asked_for(built: Path) -> None:
    linker = Linker.load(built, threads=1, ngrams=0.0, broader=0.06)
    mentions = [Excerpt.bare(text) for text in ("fits and turns", "an odd gait", "trouble of the kidney", "weak")]
    one, many = linker.link(mentions, top=1), linker.link(mentions, top=40)
    assert [link.entity for link in one] == [link.entity for link in many]
    assert [link.score for link in one] == [link.score for link in many]


def test_its_weight_is_refused_if_it_makes_no_sense(built: Path) -> None:
    with pytest.raises(ConfigError, match="'broader' is a weight that is not negative, not -1"):
        Linker.load(built, broader=-1.0)


class Told(Hierarchy):
    """A hierarchy that speaks for the right answer, or against it."""

    def __init__(self, linker: Linker, questions: list[Question], *, helpful: bool) -> None:
        super().__init__(linker.ontology)
        self._gold = {question.entity for question in questions}
        self._helpful = helpful

    def support(self, entities: Any, scores: Any) -> Any:
        return np.array([10.0 * ((entity in self._gold) == self._helpful) for entity in entities])

    def is_named(self, entity: int | str, surface: str) -> bool:
        return False


def test_it_has_a_weight_where_it_helps(built: Path) -> None:
    linker = Linker.load(built, threads=1)
    first = usable(linker.prototypes, name_questions(linker.prototypes, 200, 0))[0]
    questions = [first] * 20  # one entity: who speaks for it is always right
    index = Index.open(built / "vectors")

    def chosen(tree: Hierarchy | None) -> Calibration:
        return calibrate(linker.encoder, index, linker.prototypes, questions, (0.0, 1.0), None, tree)

    without = chosen(None)
    assert without.broader == 0.0
    assert without.fit(0.0).unseen < 1.0  # else nothing could be seen to help
    helped, misled = (chosen(Told(linker, questions, helpful=helpful)) for helpful in (True, False))
    assert helped.broader == BROADER[1]  # the least that is enough
    assert helped.fit(0.0).unseen == 1.0
    assert misled.broader == 0.0
