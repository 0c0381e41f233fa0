"""What a re-ranker is trained on: the linker's candidates, by evidence that does not give the answer away."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.link.linker import Linker
from kriss.names import name_key
from kriss.rank import decide
from kriss.rank.queries import Hidden
from kriss.rank.tune import Case
from kriss.rerank import examples as stage
from kriss.rerank.config import RerankConfig
from kriss.rerank.examples import Example, ExampleMaker, read_cases
from tests.test_rank_decide import brute
from tests.train_fixtures import one_thread, world

__all__ = ["one_thread"]

CONFIG = RerankConfig(candidates=6)


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    return Linker.load(built, threads=1)


def cases(linker: Linker, split: str = "prototypes", most: int = 2) -> list[Case]:
    """Return mined mentions; those of the split `prototypes` are themselves in the index."""
    return read_cases(world().mentions, linker.ontology, split, most, seed=0)


def made(linker: Linker, config: RerankConfig = CONFIG, *, training: bool = True, **more: Any) -> list[Example]:
    return ExampleMaker(linker, config, training=training)(cases(linker, **more))


def by_text(some: list[Case]) -> dict[tuple[str, str], Case]:
    """Return mentions by their contexts: whatever becomes of the mention, these stay as they are."""
    return {(one.excerpt.left, one.excerpt.right): one for one in some}


def case_of(example: Example, some: dict[tuple[str, str], Case]) -> Case:
    return some[example.mention.left, example.mention.right]


def keys_of(example: Example, case: Case) -> set[str]:
    return {name_key(case.excerpt.surface), name_key(example.mention.surface)}


def test_mentions_are_read_with_their_documents(linker: Linker) -> None:
    found = cases(linker, "train", 3)
    assert max(Counter(one.entity for one in found).values()) == 3
    for one in found:
        assert one.document.split("-")[0] == str(one.entity)
        assert one.excerpt.surface in linker.ontology.names_at(one.entity)
    assert {one.document for one in found}.isdisjoint(one.document for one in cases(linker, "dev", 99))


@given(
    seed=st.integers(0, 2**32 - 1),
    top=st.integers(2, 12),
    same=st.sampled_from([0.0, 0.5, 1.0]),
    training=st.booleans(),
)
def test_no_evidence_comes_from_the_mention_itself(
    linker: Linker, seed: int, top: int, same: float, training: bool
) -> None:
    config = RerankConfig(candidates=top, seed=seed, p_same_prototype=same, p_same_name=0.0)
    listening = linker.with_options(
        weights={"context": 1.0}
    )  # so that the mention itself would be its own best prototype
    found = made(listening, config, training=training)
    known = by_text(cases(linker))
    assert found
    shared = 0
    for example in found:
        case = case_of(example, known)
        entities = [entity for entity, _ in example.candidates]
        assert len(set(entities)) == len(entities) <= top
        assert training <= (example.gold >= 0)
        for entity, row in example.candidates:
            prototype = linker.prototypes.evidence(row)
            assert linker.prototypes.entity[row] == entity
            assert prototype.document != case.document
            shared += name_key(prototype.surface) in keys_of(example, case)
    assert bool(shared) == bool(same)


@pytest.mark.parametrize("top", [3, 30])
def test_candidates_are_the_linkers_own(linker: Linker, top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the weighted sum over all prototypes, without those that may not speak."""
    monkeypatch.setattr(decide, "DEPTH", len(linker.ontology))
    config = replace(CONFIG, candidates=top, p_same_prototype=0.0)
    weights = {name: weight for name, weight in linker.weights.items() if name != "children"}
    plain = linker.with_options(weights={"children": 0.0}, shared_names=False)
    some = cases(plain, most=1)
    found = [made(plain, config, training=training, most=1) for training in (False, True)]
    known = by_text(some)
    for example, for_training in zip(*found, strict=True):
        case = case_of(example, known)
        hidden = Hidden(frozenset(keys_of(example, case)), case.document)
        scores = brute(plain, example.mention, hidden, weights) if not example.mention.masked else {}
        if scores:
            order = sorted(scores, key=lambda entity: -scores[entity])
            best = [scores[entity] for entity, _ in example.candidates]
            np.testing.assert_allclose(best, [scores[entity] for entity in order[:top]], atol=1e-5)
        assert for_training.candidates[for_training.gold][0] == case.entity


def test_the_correct_entity_is_in_the_list_at_any_place(linker: Linker) -> None:
    known = by_text(cases(linker))
    config = replace(CONFIG, candidates=3)
    found, plain = made(linker, config), made(linker, config, training=False)
    assert len(found) == len(plain) > 20
    assert {example.gold for example in found} == {0, 1, 2}
    assert -1 in {example.gold for example in plain}
    assert all(one.candidates[one.gold][0] == case_of(one, known).entity for one in [*found, *plain] if one.gold >= 0)


def test_views_and_hidden_names(linker: Linker) -> None:
    known = by_text(cases(linker, most=9))
    found = made(linker, replace(CONFIG, p_mask=0.3, p_replace=0.3), most=9)
    masked = [one for one in found if one.mention.masked]
    replaced = [one for one in found if one.mention.surface != case_of(one, known).excerpt.surface]
    assert 0.15 < len(masked) / len(found) < 0.45
    assert 0.15 < len(replaced) / len(found) < 0.45
    for one in replaced:
        assert one.mention.surface in linker.ontology.names_at(case_of(one, known).entity)
    hiding = [one for one in found if one.hidden]
    assert 0.3 < len(hiding) / len(found) < 0.7
    for one in found:
        assert one.hidden in (frozenset(), keys_of(one, case_of(one, known)))
        options = one.options(linker)
        names = {name_key(name) for name in options[one.gold].entity.names}
        assert (name_key(one.mention.surface) in names) != bool(one.hidden)
        for (entity, row), option in zip(one.candidates, options, strict=True):
            assert option.entity.id == linker.ontology.id_at(entity)
            assert option.entity.names
            assert option.prototype.surface == linker.prototypes.surface(row)


def test_examples_are_the_same_in_any_batch(linker: Linker, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, Any]] = []
    some = cases(linker)[:50]
    whole = ExampleMaker(linker, CONFIG, training=True)(some)
    monkeypatch.setattr(stage, "_BATCH", 16)
    assert ExampleMaker(linker, CONFIG, training=True)(some, events.append) == whole
    assert [event["done"] for event in events] == [16, 32, 48, 50]
