"""Learned examples that are spelled as a mention: all of them have a say, and the last word on a mention holds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss import Excerpt, Linker
from kriss.link.given import as_mention
from kriss.link.learned import Example, Snapshot
from kriss.names import folded
from kriss.rank import votes as votes_module
from kriss.rank.votes import NEAR, Said, votes, what_was_said
from kriss.records import Evidence, Mention

COLD = Excerpt("the patient had a ", "cold", " and pain")
Row = tuple[str, int, float] | tuple[str, int, float, str]


def learned(*rows: Row) -> Snapshot:
    """Return examples by surface, owner, score for the query (1,) and what stands before the surface."""
    examples, spelled = [], dict[str, tuple[int, ...]]()
    for place, (surface, owner, _, *rest) in enumerate(rows):
        [left] = rest or [""]
        evidence = Evidence("gold", surface, left)
        examples.append(Example(f"g{place}", f"E{owner}", evidence))
        spelled[folded(surface)] = (*spelled.get(folded(surface), ()), place)
    return Snapshot(
        tail=tuple(examples),
        vectors=np.array([[row[2]] for row in rows], dtype=np.float32).reshape(-1, 1),
        owner=np.array([row[1] for row in rows], dtype=np.int32),
        standing=np.ones(len(rows), dtype=bool),
        spelled=spelled,
    )


def said(taught: Snapshot, mention: Excerpt = COLD, surface: str | None = None, without: int = -1) -> Said | None:
    read = mention.surface if surface is None else surface
    return what_was_said(
        np.ones(1, np.float32), read, as_mention(mention), taught, taught.standing & (taught.owner != without)
    )


def first(taught: Snapshot, mention: Excerpt = COLD, surface: str | None = None, without: int = -1) -> int | None:
    found = said(taught, mention, surface, without)
    return found.first if found else None


def test_many_who_say_one_thing_outvote_one_who_is_a_little_nearer() -> None:
    assert first(learned(("cold", 7, 1.0), *[("cold", 8, 0.99)] * 2)) == 8
    assert first(learned(("cold", 7, 1.0), *[("cold", 8, 1.0 - 3 * NEAR)] * 10)) == 7  # ten of e^-3 are not one


def test_who_has_a_vote() -> None:
    others = [("colds", 8, 1.0), ("+", 8, 1.0), ("old c", 8, 1.0)]
    assert first(learned(("cold", 7, 1.0), *others)) == 7
    assert first(learned(("COLD", 7, 1.0), *[("Cold", 8, 0.99)] * 3)) == 8
    assert said(learned(*others)) is None
    assert said(learned(("cold", 7, 1.0)), surface="") is None  # masked: nobody sees what it is spelled as
    assert said(Snapshot()) is None


def test_what_was_removed_or_is_out_of_scope_has_no_vote() -> None:
    taught = learned(("cold", 7, 1.0), ("cold", 9, 0.98), *[("cold", 8, 0.99)] * 2)
    assert first(taught) == 8
    assert first(taught, without=8) == 7
    taught.standing[2:] = False
    assert first(taught) == 7


def test_only_the_last_ones_vote_where_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes_module, "MOST", 3)
    taught = learned(*[("cold", 7, 1.0)] * 5, *[("cold", 8, 1.0)] * 2)
    found = said(taught)
    assert found
    assert (found.first, len(found.places)) == (8, 3)


def test_the_last_word_on_a_mention_holds_against_any_number() -> None:
    others: list[Row] = [("cold", 8, 1.0, "elsewhere ")] * 20
    here = Excerpt("here ", "cold", "")
    assert first(learned(("cold", 7, 0.1, "here "), *others), here) == 7
    assert first(learned(("cold", 7, 1.0, "here "), *others, ("cold", 8, 1.0, "here ")), here) == 8
    # Also where the mention is read as something else, which is what the others speak of.
    spelled_out: list[Row] = [("common cold", 8, 1.0)] * 3
    found = said(learned(("cold", 7, 0.1, "here "), *spelled_out), here, "common cold")
    assert found
    assert (found.first, found.certain, len(found.places)) == (7, True, 4)
    assert first(learned(("cold", 7, 0.1, "there "), *spelled_out), here, "common cold") == 8


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 4), st.sampled_from(["", "a", "b"])), min_size=1, max_size=20)
)
def test_votes_are_the_formula(examples: list[tuple[float, int, str]]) -> None:
    scores = np.array([score for score, _, _ in examples], dtype=np.float32)
    best = float(scores.max())
    weights = [math.exp((score - best) / (NEAR * abs(best) or 1.0)) for score in scores.tolist()]
    found = votes(scores, np.array([owner for _, owner, _ in examples]), [document for *_, document in examples])
    rows = [(weight, owner, document) for weight, (_, owner, document) in zip(weights, examples, strict=True)]
    assert found.keys() == {owner for _, owner, _ in rows}
    for one, vote in found.items():
        alone = [weight for weight, owner, document in rows if owner == one and not document]
        named = {document for _, owner, document in rows if owner == one and document}
        heaviest = [max(weight for weight, owner, at in rows if (owner, at) == (one, document)) for document in named]
        assert vote == pytest.approx(sum(alone) + sum(heaviest), rel=1e-6)


# --- in a linker --------------------------------------------------------------------------------

TAIL = " and fever in the chest of a patient"
ELSEWHERE = [Excerpt(f"{word} patients with a ", "cold", TAIL) for word in ("acute", "chronic", "left", "right")]
ASKED = Excerpt("acute patients with a ", "cold", " and fever in the chest of the patient")


@pytest.fixture
def linker(taught: Path) -> Linker:
    found = Linker.load(taught, threads=1)
    found.add_all([(ELSEWHERE[0], "X:003"), *((one, "X:004") for one in ELSEWHERE[1:])])
    return found


def test_a_linker_asks_all_that_it_was_taught(linker: Linker) -> None:
    assert linker.link([ASKED])[0].entity == "X:004"
    assert linker.with_options(ties=False).link([ASKED])[0].entity == "X:003"  # the nearest, by Eq. 4
    assert linker.link([ELSEWHERE[0]])[0].entity == "X:003"  # this very one
    assert linker.with_options(ids=("X:003", "X:007")).link([ASKED])[0].entity == "X:003"


def test_a_document_is_one_voice_however_often_it_says_a_word(linker: Linker) -> None:
    for example in linker.examples():
        linker.remove(example.id)
    repeated = [(Excerpt(f"{n} patients with a ", "cold", TAIL), "X:004") for n in range(5)]
    linker.add_all(repeated, documents=["one"] * 5)
    linker.add_all([(one, "X:003") for one in ELSEWHERE[:2]], documents=["two", "three"])
    assert linker.link([ASKED])[0].entity == "X:003"
    linker.add_all(repeated, documents=["four", "five", "six", "seven", "eight"])
    assert linker.link([ASKED])[0].entity == "X:004"


@pytest.mark.parametrize("top", [1, 5, 30])
def test_the_answer_does_not_depend_on_how_much_is_shown_or_what_is_folded(linker: Linker, top: int) -> None:
    near = [Excerpt("acute patients with a ", "cold", f" and {word}") for word in ("pain", "fever", "dose", "blood")]
    linker.add_all([(one, f"X:{number:03d}") for number, one in enumerate(near * 5, 10)])
    linker.add_all([(Excerpt("no such ", "cold", f" {n}"), "X:001") for n in range(40)])
    for mode in ("lazy", "supervised"):
        asked = linker.with_options(mode=mode, ngrams=0.0, broader=0.0)
        before = asked.link([ASKED], 30)[0]
        assert asked.link([ASKED], top)[0].candidates == before.candidates[:top]
        linker.learned.fold()
        again = asked.link([ASKED], top)[0]
        assert [one.entity for one in again.candidates] == [one.entity for one in before.candidates[:top]]


def test_a_correction_holds_where_the_document_explains_the_word(linker: Linker) -> None:
    text = "Renal failure (RF) is acute. Who had RF relapsed."
    place = text.rindex("RF")
    mention = Mention.at(text, place, place + 2)
    assert linker.link([mention])[0].expanded == "Renal failure"
    linker.add(mention, "X:005")
    assert linker.link([mention])[0].entity == "X:005"


def test_the_name_of_an_added_entity_is_nobodys_word_on_a_mention(linker: Linker) -> None:
    linker.add(Excerpt("this is ", "the flu", ""), "NEW", name="cold")
    for _ in range(3):
        linker.add(Excerpt.bare("cold"), "X:003")
    assert linker.link([Excerpt.bare("cold")])[0].entity == "X:003"
