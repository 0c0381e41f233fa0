"""Likeness in spelling: equal to a brute-force cosine, the same bytes each time, and damage is seen."""

from __future__ import annotations

import pickle
import random
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import log, sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.errors import DamagedError
from kriss.rank.spelling import FILES, Spelling, build, plain_words

Names = list[tuple[str, int]]


def table(names: Names) -> pa.Table:
    return pa.table(
        {
            "text": pa.array([text for text, _ in names], pa.large_string()),
            "entity": pa.array([row for _, row in names], pa.int32()),
        }
    )


def opened(folder: Path, names: Names) -> Spelling:
    build(folder, table(names))
    return Spelling(folder)


def grams(text: str) -> set[str]:
    words = [f"##{word}##" for word in plain_words(text).split()]
    return {word[i : i + 3] for word in words for i in range(len(word) - 2)}


def brute_force(names: Names, surface: str) -> dict[int, float]:
    """Return the likeness of every entity, by the definition."""
    bags = [(bag, row) for key, row in {(plain_words(text), row) for text, row in names} if (bag := grams(key))]
    frequency = Counter(gram for bag, _ in bags for gram in bag)

    def vector(bag: set[str]) -> dict[str, float]:
        weights = {gram: log((1 + len(bags)) / (1 + frequency[gram])) + 1 for gram in bag}
        length = sqrt(sum(weight**2 for weight in weights.values()))
        return {gram: weight / length for gram, weight in weights.items()}

    query = vector(grams(surface))
    best: dict[int, float] = {}
    for bag, row in bags:
        likeness = sum(weight * query.get(gram, 0.0) for gram, weight in vector(bag).items())
        best[row] = max(best.get(row, 0.0), round(min(likeness, 1.0), 6))
    return best


NAMES = st.lists(st.tuples(st.text("aab-β 1", max_size=9), st.integers(0, 9)), max_size=30)


@settings(deadline=None, max_examples=60)
@given(names=NAMES, surface=st.text("aabcβ -", max_size=12))
def test_likeness_equals_brute_force(names: Names, surface: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        likeness = opened(Path(folder), names).likeness(surface)
        truth = brute_force(names, surface)
        rows = np.array([-1, *range(11), 10**6, 3])
        expected = [truth.get(row, 0.0) for row in rows.tolist()]
        assert likeness.of(rows).tolist() == pytest.approx(expected, abs=2e-6)
        one_by_one = {row: max(likeness.to(text) for text, owner in names if owner == row) for _, row in names}
        assert [one_by_one.get(row, 0.0) for row in rows.tolist()] == pytest.approx(expected, abs=2e-6)


def made_up_names(count: int, seed: int) -> Names:
    draw = random.Random(seed)
    parts = ["".join(draw.choices("bcdfglmnprst", k=1) + draw.choices("aeiou", k=1)) for _ in range(40)]
    words = ["".join(draw.choices(parts, k=draw.randint(1, 4))) for _ in range(count)]
    return [(" ".join(draw.choices(words, k=draw.randint(1, 3))), draw.randrange(count // 3)) for _ in range(count)]


def test_the_order_of_words_case_and_punctuation_do_not_count(tmp_path: Path) -> None:
    spelling = opened(tmp_path, [("Neoplasms, Breast", 4), ("β-Catenin", 7), ("Ménière's disease", 9)])
    for surface, row in (
        ("breast  NEOPLASMS", 4),
        ("breast-neoplasms", 4),
        ("beta catenin", 7),
        ("Meniere's Disease", 9),
    ):
        found = spelling.likeness(surface).of(np.array([4, 7, 9]))
        assert found.max() == found[[4, 7, 9].index(row)] == 1.0


def test_what_no_name_has_counts_against_a_match(tmp_path: Path) -> None:
    spelling = opened(tmp_path, [("syndrome", 0), ("disease", 1)])
    assert spelling.likeness("syndrome").of(np.array([0]))[0] == 1.0
    assert spelling.likeness("xqz syndrome").of(np.array([0]))[0] < 0.95


@pytest.mark.parametrize("surface", ["", "  ", "+-/", "zzz", "😀", "\ud800", "a" * 100_000])
def test_odd_mentions_are_like_nothing_and_break_nothing(tmp_path: Path, surface: str) -> None:
    spelling = opened(tmp_path, [("multiple sclerosis", 0), ("", 1), ("--", 2)])
    assert spelling.likeness(surface).of(np.arange(3)).tolist() == [0, 0, 0]
    assert spelling.likeness(surface).to("multiple sclerosis") == 0


def test_no_names_at_all(tmp_path: Path) -> None:
    assert build(tmp_path, table([])) == {"names": 0, "grams": 0}
    assert Spelling(tmp_path).likeness("ms").of(np.array([0])).tolist() == [0]


def test_the_same_names_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(made_up_names(400, 2), key=lambda name: name[1])
    facts = build(tmp_path / "a", table(names))
    monkeypatch.setattr("kriss.rank.spelling._BATCH", 100)
    assert build(tmp_path / "b", table(names)) == facts
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(FILES)
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in FILES)


def test_it_can_be_pickled_and_shared_by_threads(tmp_path: Path) -> None:
    names = made_up_names(300, 3)
    spelling = opened(tmp_path, names)
    assert len(pickle.dumps(spelling)) < 500
    copy = pickle.loads(pickle.dumps(spelling))
    rows = np.arange(100)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: copy.likeness(text).of(rows).tolist(), [text for text, _ in names[:80]]))
    assert found == [spelling.likeness(text).of(rows).tolist() for text, _ in names[:80]]


@pytest.mark.parametrize("name", FILES)
def test_damage_is_seen(tmp_path: Path, name: str) -> None:
    opened(tmp_path, made_up_names(60, 4))
    whole = (tmp_path / name).read_bytes()
    for damaged in (b"", whole[:50], whole[:-4], b"\0" * len(whole), whole.replace(b"<", b">", 1)):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DamagedError, match="build it again"):
            Spelling(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DamagedError, match="missing"):
        Spelling(tmp_path)


def test_files_of_two_builds_do_not_mix(tmp_path: Path) -> None:
    opened(tmp_path / "a", made_up_names(60, 5))
    opened(tmp_path / "b", made_up_names(61, 6))
    (tmp_path / "a" / "grams.npy").replace(tmp_path / "b" / "grams.npy")
    with pytest.raises(DamagedError, match="belong together"):
        Spelling(tmp_path / "b")
