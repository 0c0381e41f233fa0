"""Ranking: equal to brute force over all prototypes, whatever is hidden, and every feature in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.errors import ConfigError
from kriss.link.linker import Linker
from kriss.names import folded, name_key
from kriss.rank import features, tune
from kriss.rank.candidates import Candidates
from kriss.rank.decide import Ranking, facts_of
from kriss.rank.features import Asked, Feature
from kriss.rank.hierarchy import Hierarchy
from kriss.rank.queries import Hidden, Queries
from kriss.records import Excerpt
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

MENTIONS = [
    Excerpt("pain of the ", "shared alias", " was acute."),
    Excerpt("", "gastrosis", ""),
    Excerpt("the chest ", "neuritis of the heart", " and cold"),
    Excerpt("a ", "cardiosises", "."),
    Excerpt("who had ", "unheard", " fever"),
]
WEIGHTS = {"context": 0.25, "references": 0.5, "spelling": 0.3, "match": 0.2, "learned": 0.05}


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    return Linker.load(built, threads=1)


def queries(linker: Linker, hidden: list[Hidden] | None = None, mentions: list[Excerpt] = MENTIONS) -> Queries:
    return Queries.of(linker.encoder, mentions, context=True, hidden=hidden or ())


def brute(linker: Linker, mention: Excerpt, hidden: Hidden, weights: dict[str, float]) -> dict[int, float]:
    """Return the weighted sum of every entity that has a prototype which is not hidden, by the definitions."""
    parts, found = linker.parts, dict[int, float]()
    whole, bare = linker.encoder.mentions([mention, Excerpt.bare(mention.surface)]).astype(np.float64)
    context = weights.get("context", 0.0)
    query = context * whole + (1 - context) * bare
    vectors = parts.index.vectors(np.arange(len(parts.index))).astype(np.float64)
    likeness = parts.spelling.likeness(mention.surface)
    for row in parts.ontology.rows():
        own = [
            vectors[at] @ query
            for at in np.flatnonzero(parts.prototypes.entity == row).tolist()
            if not hidden.hides(parts.prototypes.surface(at), parts.prototypes.document(at))
        ]
        if own:
            names = [name for name in parts.ontology.names_at(row) if name_key(name) not in hidden.keys]
            found[row] = max(own) + weights.get("references", 0.0) * float(parts.references[row] @ query)
            found[row] += weights.get("spelling", 0.0) * max(map(likeness.to, names), default=0.0)
            exact = not hidden.keys and folded(mention.surface) in map(folded, names)
            found[row] += weights.get("match", 0.0) * exact
    return found


@given(st.fixed_dictionaries({name: st.sampled_from([0.0, 0.1, 0.5, 1.0]) for name in WEIGHTS}), st.booleans())
def test_the_order_is_that_of_the_weighted_sum(linker: Linker, weights: dict[str, float], hide: bool) -> None:
    hidden = [Hidden(frozenset({name_key(one.surface)}), "3-1") if hide else Hidden() for one in MENTIONS]
    ranking = Ranking(linker.parts, weights, shared_names=False)
    asked, candidates = ranking.gathered(queries(linker, hidden if hide else None), top=100)
    for place, ranked in enumerate(ranking.decided(asked, candidates, weights)):
        expected = brute(linker, MENTIONS[place], hidden[place], weights)
        assert sorted(ranked.entities.tolist()) == sorted(expected)
        sums = [expected[entity] for entity in ranked.entities.tolist()]
        np.testing.assert_allclose(ranked.sums, sums, atol=1e-5)
        assert (np.diff(ranked.sums) <= 0).all()
        np.testing.assert_allclose(sum(ranked.contributions.values()), ranked.sums, atol=1e-9)


def test_the_first_candidates_are_the_same_however_many_are_wanted(linker: Linker) -> None:
    few, many = (linker.ranking(queries(linker), top=top) for top in (1, 100))
    for one, other in zip(few, many, strict=True):
        assert (one.entities[0], one.sums[0], one.probability) == (other.entities[0], other.sums[0], other.probability)


def test_no_query_depends_on_another(linker: Linker) -> None:
    together = linker.ranking(queries(linker), top=5)
    for place, mention in enumerate(MENTIONS):
        [alone] = linker.ranking(queries(linker, mentions=[mention]), top=5)
        assert alone.entities.tolist() == together[place].entities.tolist()
        assert alone.sums.tolist() == together[place].sums.tolist()
        assert alone.probability == together[place].probability


def test_what_probabilities_are_read_from() -> None:
    assert facts_of(np.array([0.9, 0.5, 0.6]), np.array([1.0, 0, 0])).tolist() == pytest.approx([0.9, 0.3, 1.0])
    assert facts_of(np.array([0.5, 0.6]), np.array([0.0, 1.0])).tolist() == pytest.approx([0.5, -0.1, 0.0])
    assert facts_of(np.array([0.5]), np.zeros(1)).tolist() == [0.5, 0.5, 0.0]
    assert facts_of(np.array([0.9, 0.8, 0.7]), np.array([1.0, 0, 1.0])).tolist() == pytest.approx([0.9, 0.1, 0.5])
    assert len(facts_of(np.empty(0), np.empty(0))) == 0


# --- a feature of one's own ---------------------------------------------------------------------------


def test_a_feature_is_tuned_used_saved_and_shown(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What docs/how-to shows: a function and a line, and the whole of kriss knows it."""
    linker = Linker.load(built, threads=1)
    cases = tune.usable(linker.prototypes, tune.name_cases(linker.prototypes, 60, 0))
    gold = {case.entity for case in cases[:1]}

    def told(asked: Asked, candidates: Candidates) -> features.Floats:
        """Whether it is the entity that we are thinking of."""
        return np.isin(candidates.entity, list(gold)).astype(np.float64)

    monkeypatch.setattr(features, "FEATURES", (*features.FEATURES, Feature("told", told, (0.0, 5.0, 10.0))))
    ranking = Ranking(linker.parts, {})
    before = tune.tune(ranking, linker.encoder, cases[:1] * 30, names=())
    tuned = tune.tune(ranking, linker.encoder, cases[:1] * 30, names=("told",))
    assert before.accuracy["hidden"] < 1.0
    assert (tuned.weights["told"], tuned.accuracy["hidden"]) == (5.0, 1.0)  # the smallest that is enough
    tuned.save(tmp_path)
    assert tune.Weights.load(tmp_path) == tuned
    linker.tuned = tuned
    same = linker.with_options()
    [link] = same.link([Excerpt.bare("zzz")])
    assert link.entity == linker.ontology.id_at(next(iter(gold)))
    assert link.candidates[0].features["told"] == 5.0
    assert "told" not in link.candidates[1].features
    [plain] = linker.with_options(weights={"told": 0.0}).link([Excerpt.bare("zzz")])
    assert "told" not in plain.candidates[0].features


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"telepathy": 1.0}, "no feature 'telepathy' to weigh; there are context, references"),
        ({"spelling": -1.0}, "must be at least 0, not -1"),
        ({"match": float("nan")}, "not nan"),
        ({"context": 1.5}, "weight of 'context' is from 0 to 1"),
    ],
)
def test_weights_that_make_no_sense_are_refused(built: Path, weights: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Linker.load(built, threads=1, weights=weights)


# --- shared names --------------------------------------------------------------------------------------

PARENTS: dict[int, list[int]] = {0: [], 1: [0], 2: [1], 3: [], 4: [4]}
ROWS = [  # entity, whether a name, surface, vector
    (0, True, "Aniridia", (1.0, 0.0)),
    (1, False, "aniridia 2", (0.0, 1.0)),
    (1, True, "ANIRIDIA", (1.0, 0.0)),
    (2, True, "aniridia", (1.0, 0.0)),
    (3, False, "other", (0.6, -0.8)),
    (3, False, "other", (0.0, -1.0)),
    (3, True, "aniridia", (1.0, 0.0)),
    (4, True, "something else", (0.9, 0.1)),
]


def meant(rows: list[int], seen: tuple[float, float] | None = (0.0, 1.0), learned: int | None = None) -> int | None:
    """Return which entity is meant where these rows were found, the best first."""
    vectors = np.array([row[3] for row in ROWS], dtype=np.float32)
    prototypes = SimpleNamespace(
        surface=lambda row: ROWS[row][2],
        is_name=lambda row: ROWS[row][1],
        mined_of=lambda entity: np.array(
            [at for at, row in enumerate(ROWS) if row[0] == entity and not row[1]], dtype=np.int64
        ),
    )
    index = SimpleNamespace(vectors=lambda rows: vectors[rows])
    hierarchy = Hierarchy(cast(Any, SimpleNamespace(parents_at=PARENTS.__getitem__)))
    parts: Any = SimpleNamespace(prototypes=prototypes, index=index, hierarchy=hierarchy)
    context = np.array([seen] if seen else [], dtype=np.float32).reshape(-1, 2)
    asked: Any = SimpleNamespace(
        learned=lambda row: 0 if row == learned else None, queries=SimpleNamespace(context=context)
    )
    entity = np.array([ROWS[row][0] for row in rows], dtype=np.int64)
    candidates = Candidates(entity, np.array(rows, dtype=np.int64), np.array([0, len(rows)]), [None])
    return Ranking(parts, {})._meant(asked, candidates, np.arange(len(rows)), 0, in_context=seen is not None)


def test_a_parent_of_all_others_is_meant_whatever_the_context_says() -> None:
    assert meant([3, 2, 0, 7], None) == 0
    assert meant([3, 2], None) == 1


def test_else_the_likest_mined_mention_decides() -> None:
    assert meant([2, 6], (0.0, 1.0)) == 1
    assert meant([2, 6], (0.0, -1.0)) == 3
    assert meant([2, 6], None) is None  # the context does not count
    assert meant([0, 6], (0.0, 1.0)) == 3  # entity 0 was never mined


def test_what_was_not_found_by_a_shared_name_is_left_alone() -> None:
    for rows, learned in (([0, 7], None), ([1, 6], None), ([6], None), ([], None), ([2, 6], 2), ([2, 6], 6)):
        assert meant(rows, (0.0, 1.0), learned) is None


# --- the hierarchy -------------------------------------------------------------------------------------


def brute_boost(above: Any, entities: list[int], scores: list[float]) -> list[float]:
    """The equation, candidate by candidate."""
    best = scores[0]
    boosts = [0.0] * len(scores)
    for parent in range(len(scores)):
        for child in range(len(scores)):
            if entities[child] >= 0 and entities[parent] in above(entities[child]):
                boosts[parent] += abs(best) * float(np.exp((scores[child] - best) / (0.07 * abs(best))))
    return boosts


@given(
    st.dictionaries(st.integers(0, 25), st.lists(st.integers(0, 25), max_size=3), max_size=20),
    st.lists(st.integers(-3, 25), min_size=1, max_size=24, unique=True),
    st.randoms(use_true_random=False),
)
def test_the_boost_of_children_is_that_of_the_equation(
    parents: dict[int, list[int]], entities: list[int], draw: Any
) -> None:
    tree = Hierarchy(cast(Any, SimpleNamespace(parents_at=lambda row: parents.get(row, []))))
    scores = sorted((draw.uniform(-0.5, 2.0) for _ in entities), reverse=True)
    found = tree.support(entities, np.array(scores))
    np.testing.assert_allclose(found, brute_boost(tree.above, entities, scores), rtol=1e-9)


def test_ancestors_of_ancestors_count_and_circles_end() -> None:
    parents = {1: [0], 2: [1], 3: [4], 4: [3], 5: [5]}
    tree = Hierarchy(cast(Any, SimpleNamespace(parents_at=lambda row: parents.get(row, []))))
    assert [set(tree.above(entity)) for entity in (2, 3, 5)] == [{0, 1}, {4}, set()]
    assert tree.support([0, 1], np.zeros(2)).tolist() == [0, 0]


def test_a_parent_overtakes_its_child_but_not_an_exact_match(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linker = Linker.load(clinic, threads=1)
    child, parent = (linker.ontology.row_of(entity) for entity in ("D003110", "D009369"))
    monkeypatch.setattr(linker.parts.hierarchy, "above", lambda row: frozenset({parent} if row == child else ()))
    weights = {"children": 50.0}
    for surface, first in (("colonic neoplasmz", "D009369"), ("COLONIC neoplasms", "D003110")):
        ranked = replace(linker.ranking, weights=weights)(queries(linker, mentions=[Excerpt.bare(surface)]))
        assert linker.ontology.id_at(int(ranked[0].entities[0])) == first
