"""What batches consist of, what training never sees, and the dev set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kriss.encoder.model import Encoder
from kriss.encoder.windows import Windows
from kriss.names import name_key
from kriss.records import Entity, Excerpt
from kriss.train.batches import Sampler
from kriss.train.config import TrainConfig
from kriss.train.dev import DevSet
from kriss.train.examples import TrainingSet, divide, kept_keys
from tests.train_fixtures import BARE, one_thread, tiny_config, world

__all__ = ["one_thread"]


def made(model: Path, **settings: Any) -> tuple[TrainConfig, TrainingSet, Sampler]:
    config = tiny_config(model, **settings)
    examples = TrainingSet(world().ontology, world().mentions, config)
    return config, examples, Sampler(examples, config)


@pytest.fixture(scope="module")
def windows(tiny_model: Path) -> Windows:
    config = tiny_config(tiny_model)
    return Encoder.from_pretrained(config.model, config.encoder()).windows


def batch_of(sampler: Sampler, step: int) -> tuple[list[int], list[Excerpt], list[Entity]]:
    rows = sampler.entities_at(step)
    return rows, sampler.mentions_at(step, rows, 0), sampler.references_at(step, rows, 0)


# --- entities ------------------------------------------------------------------------------------


def test_a_batch_depends_on_seed_and_step_alone(tiny_model: Path) -> None:
    _, _, sampler = made(tiny_model)
    _, _, again = made(tiny_model)
    _, _, other = made(tiny_model, seed=1)
    forwards = [batch_of(sampler, step) for step in range(9)]
    backwards = [batch_of(again, step) for step in reversed(range(9))]
    assert forwards == backwards[::-1]
    assert all(batch_of(other, step) != batch for step, batch in enumerate(forwards))
    assert len({str(batch) for batch in forwards}) == 9


def test_two_processes_draw_the_halves_of_one_batch(tiny_model: Path, windows: Windows) -> None:
    _, _, sampler = made(tiny_model)
    for step in range(4):
        whole = sampler.batch(windows, step)
        halves = [sampler.batch(windows, step, rank, 2) for rank in range(2)]
        assert whole.mentions.ids == [ids for half in halves for ids in half.mentions.ids]
        assert whole.references is not None
        references = [half.references for half in halves if half.references is not None]
        assert whole.references.ids == [ids for half in references for ids in half.ids]


@pytest.mark.parametrize("name_only", [0.0, 0.25])
def test_entities_are_distinct_and_none_comes_twice_in_a_round(tiny_model: Path, name_only: float) -> None:
    config, examples, sampler = made(tiny_model, name_only=name_only)
    assert sampler.entities == config.batch // 2
    assert sampler.bare == round(sampler.entities * name_only)
    assert len(examples.name_only) >= (BARE if name_only else 0)
    mined, bare = set(examples.mentions.rows.tolist()), set(examples.name_only.tolist())
    assert not mined & bare
    a_round = len(mined) // sampler.mined
    assert a_round > 2
    for first in (0, a_round, 5 * a_round):
        rows = [row for step in range(first, first + a_round) for row in sampler.entities_at(step)]
        counts = Counter(row for row in rows if row in mined)
        assert set(counts.values()) == {1}
        assert len(counts) == a_round * sampler.mined
    for step in range(20):
        rows = sampler.entities_at(step)
        assert len(set(rows)) == len(rows) == sampler.entities
        assert sum(row in bare for row in rows) == sampler.bare
    visits = Counter(row for step in range(60 * a_round) for row in sampler.entities_at(step) if row in mined)
    assert set(visits) == mined  # those left over in one round come in another
    assert min(visits.values()) > 30


def test_few_entities_make_a_smaller_batch(tiny_model: Path) -> None:
    _, examples, sampler = made(tiny_model, batch=500)
    assert sampler.mined == len(examples.mentions.rows)
    assert sampler.bare == len(examples.name_only)
    assert sorted(sampler.entities_at(3)) == sorted([*examples.mentions.rows, *examples.name_only])


def test_entities_with_more_names_come_more_often_if_names_are_drawn(tiny_model: Path) -> None:
    _, examples, sampler = made(tiny_model, draw="names", name_only=0.25, batch=16)
    tickets = {int(row): min(int(examples.name_counts[row]), 16) for row in examples.mentions.rows}
    assert len(set(tickets.values())) > 1
    a_round = sum(tickets.values()) // sampler.mined
    visits = Counter(row for step in range(20 * a_round) for row in sampler.entities_at(step) if row in tickets)
    for step in range(3 * a_round):
        rows = sampler.entities_at(step)
        assert len(set(rows)) == len(rows) == sampler.entities
    rate = {row: visits[row] / count for row, count in tickets.items()}
    assert min(rate.values()) > 0.8 * max(rate.values())


def test_an_entity_with_most_of_the_names_fills_no_batch(tiny_model: Path) -> None:
    _, examples, sampler = made(tiny_model, draw="names", name_only=0.0)
    examples.name_counts[examples.mentions.rows] = 1
    examples.name_counts[examples.mentions.rows[0]] = 16
    again = Sampler(
        examples, tiny_config(tiny_model, draw="names", name_only=0.0, batch=2 * len(examples.mentions.rows))
    )
    rows = again.entities_at(0)
    assert sorted(rows) == sorted(examples.mentions.rows.tolist())
    assert sampler.entities_at(5) == made(tiny_model, draw="names", name_only=0.0)[2].entities_at(5)


@pytest.mark.parametrize("name_only", [0.75, 0.99])
def test_bare_names_never_take_the_whole_batch(tiny_model: Path, name_only: float) -> None:
    _, _, sampler = made(tiny_model, batch=4, name_only=name_only)
    assert (sampler.mined, sampler.bare) == (1, 1)
    assert len(set(sampler.entities_at(0))) == 2


# --- mentions ------------------------------------------------------------------------------------


def test_pairs_are_two_mentions_of_one_entity(tiny_model: Path) -> None:
    _, examples, sampler = made(tiny_model, p_mask=0.0, p_replace=0.0, p_bare=0.0)
    place = {int(row): number for number, row in enumerate(examples.mentions.rows)}
    counts = examples.mentions.counts()
    assert 2 <= counts.max() <= 3
    for step in range(15):
        rows, mentions, _ = batch_of(sampler, step)
        assert len(mentions) == 2 * len(rows)
        for row, one, other in zip(rows, mentions[::2], mentions[1::2], strict=True):
            if row in place:
                own = [examples.mentions.get(place[row], number) for number in range(counts[place[row]])]
                assert one in own
                assert other in own
                assert one != other or len(own) == 1
            else:
                names = examples.names(row).seen
                assert {one, other} <= {Excerpt.bare(name) for name in names}
                assert one != other or len(names) == 1


@given(
    st.sampled_from(
        [(0.2, 0.2, 0.0), (0.5, 0.0, 0.3), (0.0, 0.6, 0.5), (0.4, 0.6, 0.25), (0.0, 0.0, 0.0), (1.0, 0, 0.5)]
    )
)
def test_masking_replacement_and_bareness_come_as_often_as_asked(tiny_model: Path, rates: tuple[float, ...]) -> None:
    p_mask, p_replace, p_bare = rates
    _, examples, sampler = made(tiny_model, p_mask=p_mask, p_replace=p_replace, p_bare=p_bare, name_only=0.0)
    texts = {
        (mention.left, mention.right): mention.surface
        for place, count in enumerate(examples.mentions.counts())
        for mention in (examples.mentions.get(place, number) for number in range(count))
    }
    total = masked = bare = in_context = replaced = 0
    for step in range(150):
        for mention in batch_of(sampler, step)[1]:
            total += 1
            if not mention.left and not mention.right:
                assert not mention.masked
                bare += 1
                continue
            in_context += 1
            masked += mention.masked
            replaced += mention.surface != texts[mention.left, mention.right]
            assert not mention.masked or mention.surface == texts[mention.left, mention.right]
    near = 4 * 0.5 / total**0.5
    assert bare / total == pytest.approx(p_bare, abs=near)
    assert masked / in_context == pytest.approx(p_mask, abs=2 * near)
    assert replaced / in_context == pytest.approx(p_replace, abs=2 * near)


def test_what_comes_ahead_of_time_is_what_would_come(tiny_model: Path, windows: Windows) -> None:
    _, _, sampler = made(tiny_model)
    for steps in (range(0), range(1), range(2), range(3, 9)):
        assert list(sampler.batches(windows, steps)) == [sampler.batch(windows, step) for step in steps]
    _, _, mentions_alone = made(tiny_model, beta=0.0)
    assert mentions_alone.batch(windows, 0).references is None


def test_an_error_in_the_thread_reaches_the_loop(
    tiny_model: Path, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, examples, sampler = made(tiny_model)
    monkeypatch.setattr(examples.mentions, "get", lambda place, number: [][place])
    with pytest.raises(IndexError):
        list(sampler.batches(windows, range(5)))


# --- names that training never sees ----------------------------------------------------------------


def test_training_never_sees_a_held_out_name(tiny_model: Path) -> None:
    _, examples, sampler = made(tiny_model, p_replace=0.6, p_bare=0.3, name_only=0.25)
    held = frozenset[str]().union(*examples.held_out.values())
    assert len(held) > 20
    seen: set[str] = set()
    for step in range(200):
        _, mentions, references = batch_of(sampler, step)
        seen.update(name_key(mention.surface) for mention in mentions)
        seen.update(name_key(name) for entity in references for name in entity.names)
    assert len(seen) > 80
    assert not seen & held


def test_swapped_queries_are_new_and_documents_of_splits_apart(tiny_model: Path) -> None:
    config, examples, sampler = made(tiny_model)
    dev = DevSet(examples, world().mentions, config)
    training = {name_key(name) for row in world().ontology.rows() for name in examples.names(row).seen}
    training |= {name_key(m.surface) for step in range(40) for m in batch_of(sampler, step)[1]}
    swapped = dev.queries["swapped"]
    assert len(swapped) > 15
    for mention, gold in swapped:
        assert mention.surface in world().ontology.names_at(dev.rows[gold])
        assert name_key(mention.surface) not in training
        assert not mention.masked
    assert all(mention.masked for mention, _ in dev.queries["masked"])
    assert not {name_key(mention.surface) for mention in dev.prototypes} & {
        name_key(mention.surface) for mention, _ in swapped
    }
    rows = pq.read_table(world().mentions / "mentions.parquet").to_pylist()
    documents = {
        split: {row["document"] for row in rows if row["split"] == split} for split in ("train", "dev", "prototypes")
    }
    assert all(documents.values())
    assert sum(map(len, documents.values())) == len(set().union(*documents.values()))
    contexts = {split: {row["left"] + row["right"] for row in rows if row["split"] == split} for split in documents}
    assert {mention.left + mention.right for queries in dev.queries.values() for mention, _ in queries} <= contexts[
        "dev"
    ]
    assert {mention.left + mention.right for mention in dev.prototypes} <= contexts["prototypes"]


@given(st.lists(st.text("abs ,-", min_size=1, max_size=8), min_size=1, max_size=8), st.floats(0, 1), st.integers(0, 5))
def test_names_are_divided_whole_and_the_preferred_one_stays(names: list[str], share: float, seed: int) -> None:
    kept = kept_keys(["sab"], share, seed)
    found = divide(names, share, seed, kept)
    assert sorted(found.seen + found.unseen) == sorted(names)
    assert found.seen[0] == names[0]
    keys = set(map(name_key, found.seen))
    assert not keys & set(map(name_key, found.unseen))
    assert name_key("Sab") not in set(map(name_key, found.unseen))
    if share == 1:
        assert keys <= {name_key(names[0]), name_key("sab")}


def test_an_alias_that_another_entity_is_called_by_is_not_held_out(tiny_model: Path) -> None:
    _, examples, _ = made(tiny_model, held_out=1.0)
    preferred = {name_key(world().ontology.at(row).name) for row in world().ontology.rows()}
    for row in world().ontology.rows():
        assert not preferred & set(map(name_key, examples.names(row).unseen))
    assert any(len(examples.names(row).seen) == 2 for row in world().ontology.rows())


# --- dev -------------------------------------------------------------------------------------------


class Table:
    """An encoder that looks vectors up; of few whole numbers, so that there are ties."""

    def __init__(self, seed: int, width: int, *, spoiled: bool = False) -> None:
        self._seed, self._width, self._spoiled = seed, width, spoiled

    def vector(self, thing: object) -> NDArray[np.float32]:
        draw = np.random.default_rng([self._seed, *str(thing).encode()])
        found = draw.integers(-2, 3, size=self._width).astype(np.float32)
        return found * np.float32("nan") if self._spoiled else found

    def mentions(self, mentions: Sequence[Excerpt], size: int = 64) -> NDArray[np.float32]:
        return np.stack([self.vector(mention) for mention in mentions])

    def references(self, entities: Sequence[Entity], size: int = 64) -> NDArray[np.float32]:
        return np.stack([self.vector(entity) for entity in entities])


@pytest.fixture(scope="module")
def dev(tiny_model: Path) -> DevSet:
    config, examples, _ = made(tiny_model)
    return DevSet(examples, world().mentions, config)


@given(st.integers(0, 1000), st.integers(1, 6), st.booleans())
def test_the_dev_score_equals_a_loop_over_eq_4(dev: DevSet, seed: int, width: int, references: bool) -> None:
    table = Table(seed, width)
    found = dev.score(table, references=references)
    stored = [
        (table.vector(prototype), table.vector(dev._references[owner]), int(owner))
        for prototype, owner in zip(dev.prototypes, dev.owners, strict=True)
    ]
    for kind, queries in dev.queries.items():
        right = {1: 0, 5: 0}
        for mention, gold in queries:
            best = dict.fromkeys(range(len(dev.rows)), float("-inf"))
            c = table.vector(mention)
            for prototype, reference, owner in stored:
                score = float(np.dot(c, prototype)) + (float(np.dot(c, reference)) if references else 0.0)
                best[owner] = max(best[owner], score)
            not_beaten = sum(score >= best[gold] for owner, score in best.items() if owner != gold)
            for top in right:
                right[top] += not_beaten < top
        for top, count in right.items():
            assert found.figures[f"{kind}@{top}"] == pytest.approx(count / len(queries))


def test_an_encoder_gone_astray_links_nothing(dev: DevSet) -> None:
    assert dev.score(Table(0, 3, spoiled=True), references=True).mean == 0

    class Same(Table):
        def vector(self, thing: object) -> NDArray[np.float32]:
            return np.ones(3, dtype=np.float32)

    assert dev.score(Same(0, 3), references=False).mean == 0  # all tied: none right


def test_the_size_of_the_dev_set_is_as_asked(tiny_model: Path) -> None:
    config, examples, _ = made(tiny_model)
    small = DevSet(examples, world().mentions, replace(config, dev_queries=5, dev_entities=12))
    assert {kind: len(queries) for kind, queries in small.queries.items()} == {"masked": 5, "swapped": 5}
    assert len(small.rows) == 12
    assert sorted(set(small.owners.tolist())) == list(range(12))
    assert max(Counter(small.owners.tolist()).values()) == 2


def test_the_best_step_is_chosen_by_the_mean_over_the_kinds(dev: DevSet) -> None:
    score = dev.score(Table(1, 4), references=True)
    assert score.mean == pytest.approx((score.figures["masked@1"] + score.figures["swapped@1"]) / 2)
