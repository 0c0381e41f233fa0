"""Learned examples with one spelling and several meanings: all of them have a say."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kriss import Linker
from kriss.link.search import Hit
from kriss.link.votes import NEAR, voted, votes
from kriss.records import Evidence, Mention

KNOWN = 100
COLD = Mention("the patient had a ", "cold", " and pain")


def learned(*examples: tuple[str, int, float, str]) -> Any:
    """Surfaces, owners, scores for the query (1,) and what stands before the surface."""
    spelled: dict[str, tuple[int, ...]] = {}
    for place, (surface, *_) in enumerate(examples):
        spelled[surface.casefold()] = (*spelled.get(surface.casefold(), ()), place)

    def example(place: int) -> Any:
        surface, owner, _, left = examples[place]
        return SimpleNamespace(entity=f"E{owner}", evidence=Evidence("gold", surface, left))

    vectors = np.array([[score] for _, _, score, _ in examples], dtype=np.float32)
    standing = np.ones(len(examples), dtype=bool)

    def spelled_as(surface: str) -> Any:
        places = np.array(spelled.get(surface.casefold(), ()), dtype=np.int64)
        return places[standing[places]] if len(places) else places

    return SimpleNamespace(
        spelled_as=spelled_as,
        standing=standing,
        owner=np.array([owner for _, owner, _, _ in examples], dtype=np.int32),
        example=example,
        vectors_at=vectors.__getitem__,
    )


def order(hits: list[Hit], taught: Any, mention: Mention = COLD) -> list[int | str]:
    return [hit.entity for hit in voted(hits, np.ones(1, np.float32), mention, cast(Any, taught), KNOWN)]


NEAREST = [Hit(7, KNOWN, 1.0, 1.0), Hit(8, KNOWN + 1, 0.99, 0.99), Hit(9, 5, 0.5, 0.5)]


def test_many_who_say_one_thing_outvote_one_who_is_a_little_nearer() -> None:
    near = [("cold", 8, 0.99, "")] * 2
    assert order(NEAREST, learned(("cold", 7, 1.0, ""), *near)) == [8, 7, 9]
    far = [("cold", 8, 1.0 - 3 * NEAR, "")] * 10  # ten of e^-3 are not one
    assert order(NEAREST, learned(("cold", 7, 1.0, ""), *far)) == [7, 8, 9]


def test_another_spelling_has_no_vote_and_case_is_no_other() -> None:
    others = [("colds", 8, 1.0, "")] * 3
    assert order(NEAREST, learned(("cold", 7, 1.0, ""), *others)) == [7, 8, 9]
    assert order(NEAREST, learned(("COLD", 7, 1.0, ""), *[("Cold", 8, 0.99, "")] * 3)) == [8, 7, 9]


def test_what_was_found_otherwise_is_left_alone() -> None:
    taught = learned(("cold", 7, 1.0, ""), *[("cold", 8, 0.99, "")] * 3)
    mined_first = [Hit(9, 5, 1.2, 1.2), *NEAREST[:2]]
    assert order(mined_first, taught) == [9, 7, 8]
    assert order([], taught) == []
    assert order(NEAREST, learned(("flu", 7, 1.0, ""), ("cold", 8, 0.9, ""))) == [7, 8, 9]


def test_a_removed_example_has_no_vote() -> None:
    taught = learned(("cold", 7, 1.0, ""), *[("cold", 8, 0.99, "")] * 2)
    taught.standing[1:] = False
    assert order(NEAREST, taught) == [7, 8, 9]


def test_the_last_word_on_a_mention_holds_against_any_number() -> None:
    others = [("cold", 8, 1.0, "elsewhere ")] * 20
    said = ("cold", 7, 1.0, "here ")
    here = Mention("here ", "cold", "")
    assert order(NEAREST, learned(said, *others), here) == [7, 8, 9]
    assert order(NEAREST, learned(said, *others, ("cold", 8, 1.0, "here ")), here) == [8, 7, 9]


def test_an_added_entity_is_known_by_its_id() -> None:
    hits = [Hit(7, KNOWN, 1.0, 1.0), Hit("E8", KNOWN + 1, 0.99, 0.99)]
    assert order(hits, learned(("cold", 7, 1.0, ""), *[("cold", 8, 0.99, "")] * 3)) == ["E8", 7]


def test_an_entity_that_may_not_be_linked_to_is_not_elected() -> None:
    taught = learned(("cold", 7, 1.0, ""), ("cold", 9, 0.98, ""), *[("cold", 8, 0.99, "")] * 3)
    assert order([NEAREST[0], NEAREST[2]], taught) == [7, 9]


@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 4)), min_size=1, max_size=20))
def test_votes_are_the_formula(examples: list[tuple[float, int]]) -> None:
    scores = np.array([score for score, _ in examples], dtype=np.float32)
    best = float(scores.max())
    expected: dict[int, float] = {}
    for score, (_, owner) in zip(scores.tolist(), examples, strict=True):
        expected[owner] = expected.get(owner, 0.0) + math.exp((score - best) / (NEAR * abs(best) or 1.0))
    found = votes(scores, np.array([owner for _, owner in examples], dtype=np.int32))
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[owner] for owner in expected], list(expected.values()), rtol=1e-6)


def test_a_linker_asks_all_that_it_was_taught(taught: Path) -> None:
    linker = Linker.load(taught, threads=1)
    tail = " and fever in the chest of a patient"
    elsewhere = [Mention(f"{word} patients with a ", "cold", tail) for word in ("acute", "chronic", "left", "right")]
    linker.add_all([(elsewhere[0], "X:003"), *((one, "X:004") for one in elsewhere[1:])])
    asked = Mention("acute patients with a ", "cold", " and fever in the chest of the patient")
    assert linker.link([asked])[0].entity == "X:004"
    assert linker.with_options(ties=False).link([asked])[0].entity == "X:003"  # the nearest, by Eq. 4
    assert linker.link([elsewhere[0]])[0].entity == "X:003"  # this very one
    linker.learned.fold()
    again = Linker.load(taught, threads=1)
    assert again.link([asked]) == linker.link([asked])
    assert again.link([asked])[0].entity == "X:004"
