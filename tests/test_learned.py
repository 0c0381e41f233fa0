"""Lazy learning: an example counts at once and everywhere, stays through crashes and folds, and can be taken back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kriss.encoder.session import OnnxEncoder
from kriss.errors import InputError, UnknownEntityError
from kriss.index.config import Choice, IndexConfig
from kriss.link import learned as learned_module
from kriss.link.build import build_linker
from kriss.link.linker import Linker
from kriss.records import Candidate, Entity, Evidence, Excerpt
from tests.train_fixtures import one_thread, world  # noqa: F401 - fixtures

COLD = Excerpt("who had a ", "strange cold", " of the lung.")
QUERIES = [
    COLD,
    Excerpt("the heart of this ", "gastrosis", " was acute pain."),
    Excerpt.bare("shared alias"),
    Excerpt("who had kidney ", "neuritis", ""),
    Excerpt.bare("brand new thing"),
]
EVERY = 100
"""More candidates than there are entities."""


def load(path: Path, **options: object) -> Linker:
    """Return a linker that scores by the equation alone, unless a test says otherwise."""
    return Linker.load(path, threads=1, **{"ngrams": 0.0, "broader": 0.0, "ties": False} | options)


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
    linker, other = load(taught, context=1.0), load(taught, context=1.0)
    assert other.link(QUERIES)
    before = candidate(linker, COLD, "X:001")
    example = linker.add(COLD, "X:001", document="note 7")
    expected = Evidence("gold", "strange cold", COLD.left, COLD.right, "note 7", 10, 22, example)
    for one in (linker, other, load(taught, context=1.0), linker.with_options(mode="supervised")):
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
    assert first != second
    linker.remove(first, second)
    third = linker.add(COLD, "X:001")
    linker.learned.fold()
    linker.remove(third)
    linker.learned.fold()
    fourth = load(taught).add(COLD, "X:001")
    assert len({first, second, third, fourth}) == 4
    assert [example.id for example in linker.examples()] == [fourth]


def test_removing_is_all_or_nothing(taught: Path) -> None:
    linker = load(taught)
    example = linker.add(COLD, "X:001")
    with pytest.raises(InputError, match="there is no example 'g77'"):
        linker.remove(example, "g77")
    assert [one.id for one in linker.examples()] == [example]


@pytest.mark.parametrize("weight", [1.0, 0.25, 0.0])
def test_a_learned_vector_is_mention_plus_reference(weight: float, tiny_encoder: Path, tmp_path: Path) -> None:
    here, path = world(), tmp_path / "linker"
    config = IndexConfig(references=weight, ngrams=False)
    build_linker(config, here.ontology, here.mentions, tiny_encoder, path, threads=1)
    linker, encoder = load(path, context=1.0, abbreviations=False, gold=0.0), OnnxEncoder.load(tiny_encoder, threads=1)
    long = Excerpt("pain " * 300, "cold", " left" * 300)
    linker.add_all([(COLD, "X:003"), (long, "X:004"), (COLD, "NEW")], names={"NEW": "brand new thing"})
    new = encoder.references([Entity("NEW", "brand new thing")])[0]
    [cold, far, bare] = encoder.mentions([COLD, long, Excerpt.bare("brand new thing")])
    r3, r4 = encoder.references([world().ontology["X:003"], world().ontology["X:004"]])
    expected = {
        "X:003": [cold + weight * r3],
        "X:004": [far + weight * r4],
        "NEW": [c + weight * new for c in (bare, cold)],
    }
    now = linker.learned.now()
    for entity, vectors in expected.items():
        places = [place for place, example in enumerate(now.tail) if example.entity == entity]
        np.testing.assert_allclose(now.vectors[places], vectors, atol=1e-5)
    for query, link in zip(
        encoder.mentions(QUERIES), linker.with_options(mode="supervised").link(QUERIES, EVERY), strict=True
    ):
        scores = {entity: max(float(query @ vector) for vector in vectors) for entity, vectors in expected.items()}
        assert [c.entity for c in link.candidates] == sorted(scores, key=lambda entity: -scores[entity])
        np.testing.assert_allclose([c.score for c in link.candidates], sorted(scores.values(), reverse=True), atol=1e-5)


def test_what_a_person_said_of_the_same_word_counts_most(taught: Path) -> None:
    linker = load(taught, context=1.0, gold=0.0)
    linker.add(QUERIES[1], "X:003")
    other = replace(QUERIES[0], surface="attack of " + QUERIES[1].surface)
    same = replace(QUERIES[0], surface=QUERIES[1].surface.upper())
    for mention, times in ((other, 1), (same, 4)):
        plain = candidate(linker.with_options(mode="supervised"), mention, "X:003").score
        found = candidate(linker.with_options(mode="supervised", gold=0.1), mention, "X:003").score
        assert found == pytest.approx(plain + times * 0.1 * abs(plain), rel=1e-5)


def test_what_a_person_said_counts_more(taught: Path) -> None:
    linker = load(taught, context=1.0, gold=0.0)
    linker.add(QUERIES[1], "X:003")
    plain = candidate(linker.with_options(mode="supervised"), QUERIES[0], "X:003").score
    for gold in (0.05, 3.0):
        preferred = linker.with_options(gold=gold)
        found = candidate(preferred.with_options(mode="supervised"), QUERIES[0], "X:003").score
        assert found == pytest.approx(plain + gold * abs(plain), rel=1e-5)
    assert preferred.link([QUERIES[0]])[0].entity == "X:003"  # four times its score beats any other
    assert linker.link([QUERIES[0]]) == linker.with_options(mode="self-supervised").link([QUERIES[0]])


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
    linker, other = load(taught, context=1.0), load(taught, context=1.0)
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

    for one in (linker, other):
        check(one)
    linker.learned.fold()
    for one in (linker, other, load(taught, context=1.0)):
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


# --- folding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_folding_changes_no_answer(
    kind: Choice, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, path = world(), tmp_path / "linker"
    build_linker(IndexConfig(index=kind), here.ontology, here.mentions, tiny_encoder, path, threads=1)
    fold_and_compare(Path(shutil.copytree(path, tmp_path / "copy")))
    monkeypatch.setattr(learned_module, "_FEW", 0)  # a segment of the same kind, as many examples have
    if kind != "flat":
        fold_and_compare(path)


def fold_and_compare(path: Path) -> None:
    linker, draw = load(path), Random(3)
    words = "heart lung cold fever pain cell gene".split()
    examples = [
        (Excerpt(" ".join(draw.choices(words, k=4)), draw.choice(words), " was."), f"X:{draw.randrange(38):03d}")
        for _ in range(40)
    ]
    ids = linker.add_all(examples)
    linker.add(COLD, "NEW", name="brand new thing")
    linker.remove(*ids[::7])
    ways = [linker, linker.with_options(mode="supervised"), linker.with_options(ngrams=0.5, ids=["NEW", "X:003"])]
    before = [one.link(QUERIES, EVERY) for one in ways]
    assert before[0] != load(path, mode="self-supervised").link(QUERIES, EVERY)
    for _ in range(2):  # also with everything in an index already
        linker.learned.fold()
        assert [one.link(QUERIES, EVERY) for one in ways] == before
        assert load(path).link(QUERIES, EVERY) == before[0]
    linker.remove(ids[1])
    taken = load(path).link(QUERIES, EVERY)
    assert ids[1] not in {c.evidence.example for link in taken for c in link.candidates}
    linker.learned.fold()
    assert load(path).link(QUERIES, EVERY) == taken


def test_it_folds_by_itself(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_module, "TAIL", 3)
    linker, other = load(taught), load(taught)
    ids = []
    for number in range(12):
        ids.append(linker.add(COLD, f"X:{number:03d}"))
        assert [example.id for example in other.examples()] == ids
        assert len(linker.learned.now().tail) <= 3
    assert linker.learned.now().generation == 3
    assert sorted(file.name for file in (taught / "learned").iterdir()) == ["lock", "segment-000003", "state.json"]
