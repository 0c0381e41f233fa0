"""Bottom-k samples: exact against a plain reading of the definition, and mergeable."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.mine.config import SPLITS, MineConfig
from kriss.mine.matcher import Hits
from kriss.mine.pages import Page
from kriss.mine.sample import Limits, Texts, document_number, draw, keep, likeness, split_of

Sampled = set[tuple[int, int, int, int]]


def sample(
    documents: list[tuple[str, str, list[tuple[int, int]]]], config: MineConfig, limits: list[Limits] | None = None
) -> Sampled:
    """Sample (id, text, [(start, entity)]) documents; every hit is three characters long. Limits are added to."""
    limits = limits or [Limits.none(config.per_entity)]
    rows = [(number, start, entity) for number, (_, _, hits) in enumerate(documents) for start, entity in hits]
    columns = np.array(rows, dtype=np.int32).reshape(-1, 3)
    hits = Hits(columns[:, 0], columns[:, 1], columns[:, 1] + 3, columns[:, 2])
    texts = Texts.of([name for name, _, _ in documents], Page.of([text for _, text, _ in documents]), config.seed)
    kept = keep(hits, columns[:, 2], texts, config, limits[-1])
    limits.append(limits[-1].after(kept))
    entities = columns[kept.index, 2].tolist()
    return set(zip(entities, kept.split.tolist(), kept.number.tolist(), kept.likeness.tolist(), strict=True))


def likeness_at(text: str, start: int, end: int) -> int:
    return likeness(text[max(start - 60, 0) : start].encode(), text[end : end + 60].encode())


def plainly(documents: list[tuple[str, str, list[tuple[int, int]]]], config: MineConfig) -> Sampled:
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for name, text, hits in documents:
        number = np.array([document_number(name, config.seed)], dtype=np.uint64)
        split = int(split_of(number, config)[0])
        drawn = sorted((int(draw(number, np.array([s], dtype=np.int32))[0]), s, e) for s, e in hits)
        used: dict[int, int] = {}
        for value, start, entity in drawn:
            used[entity] = used.get(entity, 0) + 1
            if used[entity] <= config.per_document:
                groups.setdefault((entity, split), []).append((value, likeness_at(text, start, start + 3)))
    result: Sampled = set()
    for (entity, split), found in groups.items():
        best: dict[int, int] = {}
        for value, alike in sorted(found):
            best.setdefault(alike, value)
        for alike, value in sorted(best.items(), key=lambda item: item[1])[: config.per_entity]:
            result.add((entity, split, value, alike))
    return result


words = st.sampled_from(["aaa", "bbb", "ccc", "AAA", "a1a", "a2a", "ddd", "eee"])
texts = st.lists(words, min_size=1, max_size=12).map(" ".join)


@st.composite
def corpora(draw_: st.DrawFn) -> list[tuple[str, str, list[tuple[int, int]]]]:
    found = []
    for number in range(draw_(st.integers(0, 12))):
        text = draw_(texts)
        hits = [(start, draw_(st.integers(0, 2))) for start in range(0, len(text), 4) if draw_(st.booleans())]
        found.append((f"doc-{number}", text, hits))
    return found


@settings(max_examples=200, deadline=None)
@given(corpora(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_is_what_the_definition_says(
    documents: list[tuple[str, str, list[tuple[int, int]]]],
    per_entity: int,
    per_document: int,
    seed: int,
) -> None:
    config = MineConfig(per_entity=per_entity, per_document=per_document, seed=seed)
    assert sample(documents, config) == plainly(documents, config)


def merged(parts: Sampled, most: int) -> Sampled:
    result: Sampled = set()
    for entity, split in {row[:2] for row in parts}:
        best: dict[int, int] = {}
        for _, _, value, alike in sorted(row for row in parts if row[:2] == (entity, split)):
            best.setdefault(alike, value)
        result |= {(entity, split, v, a) for a, v in sorted(best.items(), key=lambda item: item[1])[:most]}
    return result


@settings(max_examples=100, deadline=None)
@given(corpora(), st.integers(0, 12))
def test_samples_of_parts_hold_the_sample_of_the_whole(
    documents: list[tuple[str, str, list[tuple[int, int]]]], cut: int
) -> None:
    config = MineConfig(per_entity=2)
    parts = sample(documents[:cut], config) | sample(documents[cut:], config)
    assert merged(parts, 2) == sample(documents, config)


@settings(max_examples=200, deadline=None)
@given(corpora(), st.lists(st.integers(0, 12), max_size=4), st.integers(1, 3))
def test_limits_leave_out_only_what_the_whole_would_displace(
    documents: list[tuple[str, str, list[tuple[int, int]]]], cuts: list[int], per_entity: int
) -> None:
    config = MineConfig(per_entity=per_entity)
    limits = [Limits.none(per_entity)]
    edges = [0, *sorted(cuts), len(documents)]
    parts: Sampled = set()
    for start, stop in pairwise(edges):
        parts |= sample(documents[start:stop], config, limits)
    assert merged(parts, per_entity) == sample(documents, config)


def test_limits_spare_the_work_on_what_comes_too_late() -> None:
    config = MineConfig(per_entity=2, train=1.0, dev=0.0)
    documents = [(f"d{i}", f"{'x' * i} aaa {'y' * i}", [(i + 1, 0)]) for i in range(1, 400)]
    limits = [Limits.none(2)]
    first = sample(documents[:300], config, limits)
    later = sample(documents[300:], config, limits)
    assert len(first) == 2
    assert all(row[2] < max(row[2] for row in first) for row in later)
    before = limits[-1]
    sample([("e", "aaa", [(0, 7)]), ("f", "aaa b", [(0, 7)])], config, limits)
    group = np.array([7 * len(SPLITS)])
    assert before.admit(group, np.array([2**64 - 1], dtype=np.uint64)).all()
    assert not limits[-1].admit(group, np.array([2**64 - 1], dtype=np.uint64)).any()


def test_splits_follow_the_shares_and_documents_never_cross() -> None:
    config = MineConfig(train=0.5, dev=0.1)
    numbers = np.array([document_number(f"d{i}", 0) for i in range(20_000)], dtype=np.uint64)
    shares = np.bincount(split_of(numbers, config), minlength=len(SPLITS)) / len(numbers)
    assert np.allclose(shares, [0.5, 0.1, 0.4], atol=0.02)
    assert (split_of(numbers, config) == split_of(numbers, config)).all()


def test_another_seed_draws_another_sample() -> None:
    documents = [(f"d{i}", f"{'x' * i} aaa {'y' * i}", [(i + 1, 0)]) for i in range(1, 60)]
    assert sample(documents, MineConfig(per_entity=3)) != sample(documents, MineConfig(per_entity=3, seed=1))


def test_contexts_alike_but_for_case_and_digits_count_once() -> None:
    one, two = "Of 12 patients, flu was seen in 3.", "of 47 PATIENTS flu was seen in 9"
    assert likeness_at(one, 16, 19) == likeness_at(two, 15, 18)
    assert likeness_at(one, 16, 19) != likeness_at("of many children flu was seen", 17, 20)
