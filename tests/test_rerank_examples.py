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

from kriss.errors import ConfigError, DamagedError
from kriss.link.linker import Linker
from kriss.mine.store import open_mentions
from kriss.names import name_key
from kriss.rank.queries import Hidden
from kriss.rank.tune import Case
from kriss.rerank import examples as stage
from kriss.rerank.config import RerankConfig
from kriss.rerank.examples import Example, ExampleMaker, build_examples, chosen, read_cases
from tests.conftest import contents
from tests.test_rank_decide import brute
from tests.train_fixtures import one_thread, world

__all__ = ["one_thread"]

CONFIG = RerankConfig(candidates=6)


@pytest.fixture(scope="module")
def linker(built: Path) -> Linker:
    return Linker.load(built, threads=1)


def cases(linker: Linker, split: str = "prototypes", most: int = 2) -> list[Case]:
    """Return mined mentions; those of the split `prototypes` are themselves in the index."""
    return read_cases(open_mentions(world().mentions, linker.ontology), linker.ontology, split, most)


def made(linker: Linker, config: RerankConfig = CONFIG, *, training: bool = True, **more: Any) -> list[Example]:
    return list(ExampleMaker(linker, config, "train", training=training)(cases(linker, **more), 0))


def entity_of(example: Example) -> int:
    return example.candidates[example.gold].entity


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
    documents = {(one.excerpt.left, one.excerpt.right): one.document for one in cases(linker)}
    assert found
    shared = 0
    for example in found:
        assert len({seen.entity for seen in example.candidates}) == len(example.candidates) <= top
        assert training <= (example.gold >= 0)
        for seen in example.candidates:
            prototype = linker.prototypes.evidence(seen.prototype)
            assert linker.prototypes.entity[seen.prototype] == seen.entity
            assert prototype.document != documents[example.mention.left, example.mention.right]
            shared += name_key(prototype.surface) in example.spellings()
    assert bool(shared) == bool(same)


@pytest.mark.parametrize("top", [3, 30])
def test_candidates_are_the_linkers_own(linker: Linker, top: int) -> None:
    """By hand: the weighted sum over all prototypes, without those that may not speak."""
    config = replace(CONFIG, candidates=top, p_same_prototype=0.0)
    weights = {name: weight for name, weight in linker.weights.items() if name != "children"}
    plain = linker.with_options(weights={"children": 0.0}, shared_names=False)
    some = cases(plain, most=1)
    found = [made(plain, config, training=training, most=1) for training in (False, True)]
    documents = {(one.excerpt.left, one.excerpt.right): one for one in some}
    for example, shuffled in zip(*found, strict=True):
        case = documents[example.mention.left, example.mention.right]
        hidden = Hidden(frozenset(example.spellings()), case.document)
        scores = brute(plain, example.mention, hidden, weights) if not example.mention.masked else {}
        if scores:
            order = sorted(scores, key=lambda entity: -scores[entity])
            best = [scores[seen.entity] for seen in example.candidates]
            np.testing.assert_allclose(best, [scores[entity] for entity in order[:top]], atol=1e-5)
        assert shuffled.candidates[shuffled.gold].entity == case.entity


def test_the_correct_entity_is_in_the_list_at_any_place(linker: Linker) -> None:
    given = {(one.excerpt.left, one.excerpt.surface): one.entity for one in cases(linker)}
    config = replace(CONFIG, candidates=3)
    found, plain = made(linker, config), made(linker, config, training=False)
    assert len(found) == len(plain) > 20
    assert {example.gold for example in found} == {0, 1, 2}
    assert -1 in {example.gold for example in plain}
    for one, other in zip(found, plain, strict=True):
        assert entity_of(one) == given[one.mention.left, one.original]
        assert one.mention == other.mention
        kept = other.candidates if other.gold >= 0 else other.candidates[:-1]
        assert {*kept} <= {*one.candidates}


def test_views_and_hidden_names(linker: Linker) -> None:
    found = made(linker, replace(CONFIG, p_mask=0.3, p_replace=0.3), most=9)
    masked = [one for one in found if one.mention.masked]
    replaced = [one for one in found if one.mention.surface != one.original]
    assert 0.15 < len(masked) / len(found) < 0.45
    assert 0.15 < len(replaced) / len(found) < 0.45
    for one in replaced:
        assert one.excerpt.surface in linker.ontology.names_at(entity_of(one))
    hiding = [one for one in found if one.hides]
    assert 0.3 < len(hiding) / len(found) < 0.7
    table = build_of(linker, found)
    for number, one in enumerate(found):
        assert table.get(number) == one
        options = table.options(one)
        names = {name_key(name) for name in options[one.gold].entity.names}
        spelled = name_key(one.mention.surface) in names
        assert spelled != one.hides
        for seen, option in zip(one.candidates, options, strict=True):
            assert option.entity.id == linker.ontology.id_at(seen.entity)
            assert option.entity.names
            assert option.prototype.surface == linker.prototypes.surface(seen.prototype)


def build_of(linker: Linker, found: list[Example]) -> stage.Examples:
    return stage.Examples(stage._table(iter(found)), linker)


def test_blocks_are_made_once_and_do_not_depend_on_each_other(
    linker: Linker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_BLOCK", 16)
    some = chosen(cases(linker), 50, seed=3)
    assert len(some) == 50
    assert some == chosen(cases(linker), 50, seed=3) != chosen(cases(linker), 50, seed=4)
    maker = ExampleMaker(linker, CONFIG, "train", training=True)
    events: list[dict[str, Any]] = []
    whole = build_examples(tmp_path / "whole", some, maker, linker, {"a": 1}, events.append)
    assert [event["done"] for event in events] == [16, 32, 48, 50]
    calls = []

    def stopping(part: Any, first: int) -> Any:
        calls.append(first)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return maker(part, first)

    resumed = tmp_path / "resumed"
    with pytest.raises(KeyboardInterrupt):
        build_examples(resumed, some, stopping, linker, {"a": 1}, events.append)  # type: ignore[arg-type]
    again = build_examples(resumed, some, stopping, linker, {"a": 1}, events.append)  # type: ignore[arg-type]
    assert calls == [0, 16, 32, 32, 48]
    assert contents(resumed) == contents(tmp_path / "whole")
    assert [again.get(place) for place in range(len(again))] == [whole.get(place) for place in range(len(whole))]
    with pytest.raises(ConfigError, match="made with a = 1, not 2"):
        build_examples(resumed, some, maker, linker, {"a": 2}, events.append)
    (resumed / "block-000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamagedError, match="--resume makes it again"):
        build_examples(resumed, some, maker, linker, {"a": 1}, events.append)
