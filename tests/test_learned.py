"""Lazy learning: an example counts at once and everywhere, and can be taken back."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kriss.encoder.session import OnnxEncoder
from kriss.errors import InputError, UnknownEntityError
from kriss.link import learned as learned_module
from kriss.link import linker as linker_module
from kriss.link.linker import Linker
from kriss.records import Candidate, Entity, Evidence, Excerpt
from tests.train_fixtures import one_thread  # noqa: F401 - fixtures

COLD = Excerpt("who had a ", "strange cold", " of the lung.")
QUERIES = [
    COLD,
    Excerpt("the heart of this ", "gastrosis", " was acute pain."),
    Excerpt.bare("shared alias"),
    Excerpt("who had kidney ", "neuritis", ""),
    Excerpt.bare("brand new thing"),
]
PLAIN = {"context": 1.0, "references": 0.0, "spelling": 0.0, "match": 0.0, "children": 0.0, "learned": 0.0}
EVERY = 100
"""More candidates than there are entities."""


def load(path: Path, **options: object) -> Linker:
    """Return a linker that scores by mentions alone, unless a test says otherwise."""
    return Linker.load(path, threads=1, **{"weights": PLAIN, "shared_names": False} | options)


def candidate(linker: Linker, mention: Excerpt, entity: str) -> Candidate:
    """Return how a mention sees an entity."""
    [link] = linker.link([mention], top=EVERY)
    [found] = [one for one in link.candidates if one.entity == entity]
    return found


def run_python(code: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


# --- an example ----------------------------------------------------------------------------------


def test_an_example_is_evidence_at_once_and_everywhere(taught: Path) -> None:
    linker, other = load(taught), load(taught)
    assert other.link(QUERIES)
    before = candidate(linker, COLD, "X:001")
    example = linker.add(COLD, "X:001", document="note 7")
    expected = Evidence("gold", "strange cold", COLD.left, COLD.right, "note 7", 10, 22, example)
    for one in (linker, other, load(taught), linker.with_options(mode="supervised")):
        found = candidate(one, COLD, "X:001")
        assert found.evidence == expected
        assert found.score > before.score
    assert [(e.id, e.entity, e.evidence) for e in other.examples()] == [(example, "X:001", expected)]
    code = """if True:
        import sys, kriss
        [link] = kriss.Linker.load(sys.argv[1], mode="supervised").link_text("who had a [[strange cold]] of the lung.")
        print(link.entity, link.candidates[0].evidence.example, link.candidates[0].evidence.document)
        """
    assert run_python(code, taught).stdout == f"X:001 {example} note 7\n"
    other.remove(example)
    assert candidate(linker, COLD, "X:001") == before
    assert linker.examples() == []
    with pytest.raises(InputError, match=f"there is no example '{example}' in .*; see 'kriss learn list'"):
        linker.remove(example)


def test_ids_are_never_given_twice(taught: Path) -> None:
    linker = load(taught)
    first, second = linker.add_all([(COLD, "X:001"), (COLD, "X:001")])  # the same mention twice
    linker.remove(first, second)
    third = linker.add(COLD, "X:001")
    linker.undo()
    fourth = load(taught).add(COLD, "X:001")
    assert len({first, second, third, fourth}) == 4
    assert [example.id for example in linker.examples()] == [fourth]


def test_removing_is_all_or_nothing(taught: Path) -> None:
    linker = load(taught)
    example = linker.add(COLD, "X:001")
    with pytest.raises(InputError, match="there is no example 'g77'"):
        linker.remove(example, "g77")
    assert [one.id for one in linker.examples()] == [example]


def test_a_learned_vector_is_that_of_the_query(taught: Path, tiny_encoder: Path) -> None:
    linker, encoder = load(taught, abbreviations=False), OnnxEncoder.load(tiny_encoder, threads=1)
    long = Excerpt("pain " * 300, "cold", " left" * 300)
    linker.add_all([(COLD, "X:003"), (long, "X:004"), (COLD, "NEW")], names={"NEW": "brand new thing"})
    now = linker.learned.now()
    [reference] = encoder.references([Entity("NEW", "brand new thing")])
    np.testing.assert_allclose(now.entities["NEW"][1], reference, atol=1e-5)
    learned = encoder.mentions([Excerpt.bare("brand new thing"), COLD, long, COLD])
    np.testing.assert_allclose(now.vectors, learned, atol=1e-5)
    owners = ["NEW", "X:003", "X:004", "NEW"]
    for query, link in zip(
        encoder.mentions(QUERIES), linker.with_options(mode="supervised").link(QUERIES, EVERY), strict=True
    ):
        products = [float(query @ vector) for vector in learned]
        scores = {one: max(p for p, owner in zip(products, owners, strict=True) if owner == one) for one in owners}
        found = {candidate.entity: candidate.score for candidate in link.candidates}
        assert found == pytest.approx(scores, abs=1e-5)


def test_many_examples_are_encoded_in_batches_and_learned_at_once(
    taught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linker_module, "_LEARNED_AT_ONCE", 4)
    linker, seen = load(taught), list[int]()
    ids = linker.add_all([(QUERIES[n % 5], f"X:{n:03d}") for n in range(10)], who="ann", progress=seen.append)
    assert seen == [4, 4, 2]
    [change] = linker.history()
    assert (change.action, list(change.examples), change.who) == ("add", ids, "ann")
    assert linker.undo() == change
    assert linker.examples() == []
    assert linker.add_all([]) == []


def test_a_learned_example_has_a_bonus_fourfold_if_spelled_alike(taught: Path) -> None:
    linker = load(taught)
    linker.add(QUERIES[1], "X:003")
    other = replace(QUERIES[0], surface="attack of " + QUERIES[1].surface)
    same = replace(QUERIES[0], surface=QUERIES[1].surface.upper())
    for mention, times in ((other, 1), (same, 4)):
        plain = candidate(linker.with_options(mode="supervised"), mention, "X:003").score
        options = {"mode": "supervised", "weights": PLAIN | {"learned": 0.1}}
        found = candidate(linker.with_options(**options), mention, "X:003").score
        assert found == pytest.approx(plain + times * 0.1 * abs(plain), rel=1e-5)


def test_offsets_are_those_of_the_document(taught: Path) -> None:
    linker = load(taught)
    linker.add(("pain " * 100 + "cold fever", 500, 504), "X:001", document="d", offset=1000)
    [example] = linker.examples()
    assert (example.evidence.start, example.evidence.end) == (1500, 1504)
    assert example.evidence.left == ("pain " * 100)[-256:]


# --- which entity --------------------------------------------------------------------------------


def test_an_unknown_entity_needs_a_name(taught: Path) -> None:
    linker = load(taught)
    sentence = rf"no entity 'NEW' in {taught}; give it a name to add it"
    with pytest.raises(UnknownEntityError, match=sentence):
        linker.add(COLD, "NEW")
    with pytest.raises(UnknownEntityError, match=sentence):
        linker.add_all([(COLD, "X:001"), (COLD, "NEW"), (COLD, "X:002")])
    with pytest.raises(UnknownEntityError, match=sentence):
        linker.add(COLD, "NEW", name=" \n")
    assert not (taught / "learned").exists()


@pytest.mark.parametrize("entity", ["", " ", "-1", "MESH:-1", "NIL", " X9", "a\0b", "\ud800"])
def test_some_ids_cannot_be_new(taught: Path, entity: str) -> None:
    with pytest.raises(InputError, match="cannot be the id of an entity"):
        load(taught).add(COLD, entity, name="something")
    assert not (taught / "learned").exists()


@pytest.mark.parametrize("text", ["a \0cold", "a \ud83dcold"])
def test_what_no_file_could_hold_is_not_learned(taught: Path, text: str) -> None:
    with pytest.raises(InputError, match="the text of an example cannot be stored: it holds"):
        load(taught).add((text, 2, len(text)), "X:001")


@pytest.mark.parametrize("mention", [("cold", 0, 0), ("cold", 2, 9), (" cold", 0, 1), Excerpt("a", "", "b")])
def test_a_mention_without_text_is_not_learned(taught: Path, mention: Excerpt) -> None:
    with pytest.raises(InputError):
        load(taught).add(mention, "X:001")


def test_a_new_entity_is_found_by_its_name_and_its_example(taught: Path) -> None:
    linker, other = load(taught), load(taught)
    example = linker.add(COLD, "NEW", name="  brand new\tthing ")
    options: list[dict[str, object]] = [{"ids": ["NEW"]}, {"mode": "supervised"}, {"ids": ["NEW", "X:001"]}]

    def check(one: Linker) -> None:
        assert one.find_id("NEW") == "NEW"
        assert one.added_name("NEW") == "brand new thing"
        by_name, by_example = (candidate(one, mention, "NEW") for mention in (QUERIES[-1], COLD))
        assert (by_name.name, by_example.name) == ("brand new thing", "brand new thing")
        assert (by_name.evidence.kind, by_name.evidence.surface) == ("name", "brand new thing")
        assert (by_example.evidence.kind, by_example.evidence.example) == ("gold", example)
        assert {e.evidence.kind for e in one.examples()} == {"name", "gold"}
        for chosen in options:
            assert candidate(one.with_options(**chosen), COLD, "NEW") == by_example
        assert one.with_options(ids=["NEW"]).link([COLD])[0].entity == "NEW"
        assert not one.with_options(types=["Thing"], ids=["NEW"]).link([COLD])[0].candidates
        [link] = one.with_options(types=["Thing"]).link([COLD], EVERY)
        assert "NEW" not in [c.entity for c in link.candidates]

    for one in (linker, other, load(taught)):
        check(one)
    second = other.add(QUERIES[1], "NEW")  # it needs no name any more
    assert candidate(linker, QUERIES[1], "NEW").evidence.example == second
    linker.add(QUERIES[3], "NEW", name="another name")
    assert load(taught).added_name("NEW") == "brand new thing"


def test_a_retired_id_means_its_successor(ward: Path) -> None:
    linker = load(ward)
    linker.add(COLD, "D999999", name="not needed")
    assert [(e.entity, e.evidence.kind) for e in linker.examples()] == [("D009103", "gold")]
    assert linker.find_id("MESH:D999999") == "D009103"
    assert candidate(linker.with_options(ids=["D999999"]), COLD, "D009103").evidence.kind == "gold"


def test_types_hold_for_examples_too(ward: Path) -> None:
    linker = load(ward, types=["Procedure"])
    linker.add_all([(COLD, "D009103"), (COLD, "D013058")])
    assert [c.entity for c in linker.link([COLD], EVERY)[0].candidates] == ["D013058"]
    [link] = linker.with_options(mode="supervised", types=["Chemical"]).link([COLD])
    assert (link.entity, link.candidates) == (None, ())


def test_a_new_entity_that_nothing_speaks_for_can_be_named_again(taught: Path) -> None:
    linker = load(taught)
    linker.add(COLD, "NEW", name="brand gnu thing")
    linker.undo()
    assert linker.find_id("NEW") is None
    with pytest.raises(UnknownEntityError):
        linker.add(COLD, "NEW")
    linker.add(COLD, "NEW", name="brand new thing")
    for one in (linker, load(taught)):
        assert one.added_name("NEW") == "brand new thing"
        assert {example.evidence.surface for example in one.examples()} == {"brand new thing", "strange cold"}


# --- folding -------------------------------------------------------------------------------------


def test_folding_changes_no_answer(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linker, draw = load(taught), Random(3)
    words = "heart lung cold fever pain cell gene".split()
    examples = [
        (Excerpt(" ".join(draw.choices(words, k=4)), draw.choice(words), " was."), f"X:{draw.randrange(38):03d}")
        for _ in range(40)
    ]
    ids = linker.add_all(examples)
    linker.add(COLD, "NEW", name="brand new thing")
    linker.remove(*ids[::7])
    ways: list[dict[str, object]] = [{}, {"mode": "supervised"}, {"ids": ["NEW", "X:003"]}, {"weights": {}}]
    before = [load(taught, **way).link(QUERIES, EVERY) for way in ways]
    assert before[0] != load(taught, mode="self-supervised").link(QUERIES, EVERY)
    monkeypatch.setattr(learned_module, "TAIL", 3)
    for _ in range(2):  # made, and found
        found = [load(taught, **way) for way in ways]
        assert [one.link(QUERIES, EVERY) for one in found] == before
        assert all(one.learned.now().indexed == 42 for one in found)
    other = linker.add_all(examples[:2])  # some in the index, some not
    assert linker.link(QUERIES, EVERY) == load(taught).link(QUERIES, EVERY)
    linker.remove(*other, ids[1])
    taken = load(taught).link(QUERIES, EVERY)
    assert linker.link(QUERIES, EVERY) == taken
    assert ids[1] not in {c.evidence.example for link in taken for c in link.candidates}
