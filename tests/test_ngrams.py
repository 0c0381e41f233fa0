"""Candidates by 3-grams: equal to a brute-force cosine, the same bytes each time, and damage is seen."""

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
from kriss.rank.ngram_files import spelling_key
from kriss.rank.ngrams import FILES, NgramIndex, build

Names = list[tuple[str, int]]


def table(names: Names) -> pa.Table:
    return pa.table(
        {
            "text": pa.array([text for text, _ in names], pa.large_string()),
            "entity": pa.array([row for _, row in names], pa.int32()),
        }
    )


def opened(folder: Path, names: Names) -> NgramIndex:
    build(folder, table(names))
    return NgramIndex.open(folder)


def counted(text: str) -> Counter[str]:
    words = [f"##{word}##" for word in spelling_key(text).split()]
    return Counter(word[i : i + 3] for word in words for i in range(len(word) - 2))


def brute_force(names: Names, surface: str) -> dict[int, float]:
    """Return the similarity of every entity that has a 3-gram of the surface, by the definition."""
    bags = [(bag, row) for key, row in {(spelling_key(text), row) for text, row in names} if (bag := counted(key))]
    frequency = Counter(gram for bag, _ in bags for gram in bag)

    def vector(bag: Counter[str]) -> dict[str, float]:
        weights = {
            gram: (1 + log(count)) * (log((1 + len(bags)) / (1 + frequency[gram])) + 1) for gram, count in bag.items()
        }
        length = sqrt(sum(weight**2 for weight in weights.values()))
        return {gram: weight / length for gram, weight in weights.items()}

    query = vector(counted(surface))
    best: dict[int, float] = {}
    for bag, row in bags:
        if bag.keys() & query.keys():
            similarity = sum(weight * query.get(gram, 0.0) for gram, weight in vector(bag).items())
            best[row] = max(best.get(row, 0.0), round(min(similarity, 1.0), 6))
    return best


def expected(names: Names, surface: str, k: int) -> tuple[list[int], list[float]]:
    ranked = sorted(brute_force(names, surface).items(), key=lambda item: (-item[1], item[0]))[:k]
    return [row for row, _ in ranked], [similarity for _, similarity in ranked]


def check(index: NgramIndex, names: Names, surface: str, k: int) -> None:
    rows, similarity = index.search(surface, k)
    want_rows, want_similarity = expected(names, surface, k)
    assert rows.tolist() == want_rows
    assert similarity.tolist() == pytest.approx(want_similarity, abs=1e-6)
    assert rows.dtype == np.int64
    assert similarity.dtype == np.float32


NAMES = st.lists(st.tuples(st.text("aab-β 1", max_size=9), st.integers(0, 9)), max_size=30)


@settings(deadline=None, max_examples=60)
@given(names=NAMES, surface=st.text("aabcβ -", max_size=12), k=st.integers(0, 12))
def test_a_search_equals_brute_force(names: Names, surface: str, k: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = opened(Path(folder), names)
        check(index, names, surface, k)
        truth = brute_force(names, surface)
        rows = [-1, *range(11), 10**6, 3]
        similarity = index.similarity(surface)
        assert similarity.of(rows).tolist() == pytest.approx([truth.get(r, 0.0) for r in rows], abs=1e-6)
        one_by_one = {row: max(similarity.to(text) for text, owner in names if owner == row) for _, row in names}
        assert [one_by_one.get(r, 0.0) for r in rows] == pytest.approx([truth.get(r, 0.0) for r in rows], abs=1e-6)


def made_up_names(count: int, seed: int) -> Names:
    """Return names of common and rare syllables: long posting lists beside short ones."""
    draw = random.Random(seed)
    parts = ["".join(draw.choices("bcdfglmnprst", k=1) + draw.choices("aeiou", k=1)) for _ in range(40)]
    weights = [1 / (i + 1) for i in range(40)]
    words = ["".join(draw.choices(parts, weights, k=draw.randint(1, 4))) for _ in range(count)]
    return [(" ".join(draw.choices(words, k=draw.randint(1, 3))), draw.randrange(count // 3)) for _ in range(count)]


def test_leaving_common_ngrams_unread_changes_nothing(tmp_path: Path) -> None:
    names = made_up_names(800, 1)
    index = opened(tmp_path, names)
    surfaces = [*(text for text, _ in names[:8]), *(text[1:-1] + "x" for text, _ in names[8:14]), "ba", "qqq"]
    for surface in surfaces:
        for k in (1, 64):
            check(index, names, surface, k)


def test_the_order_of_words_case_and_punctuation_do_not_count(tmp_path: Path) -> None:
    index = opened(tmp_path, [("Neoplasms, Breast", 4), ("β-Catenin", 7), ("Ménière's disease", 9)])
    for surface, row in (
        ("breast  NEOPLASMS", 4),
        ("breast-neoplasms", 4),
        ("beta catenin", 7),
        ("Meniere's Disease", 9),
    ):
        rows, similarity = index.search(surface, 1)
        assert (rows.tolist(), similarity.tolist()) == ([row], [1.0])


def test_ngrams_that_no_name_has_count_against_a_match(tmp_path: Path) -> None:
    index = opened(tmp_path, [("syndrome", 0), ("disease", 1)])
    assert index.search("syndrome", 1)[1][0] == 1.0
    assert index.search("xqz syndrome", 1)[1][0] < 0.95


def test_ties_go_to_the_smaller_row(tmp_path: Path) -> None:
    index = opened(tmp_path, [("same", row) for row in (8, 3, 5, 3, 8)])
    assert index.search("same", 2)[0].tolist() == [3, 5]


@pytest.mark.parametrize("surface", ["", "  ", "+-/", "zzz", "😀", "\ud800", "a" * 100_000])
def test_odd_mentions_find_nothing_and_break_nothing(tmp_path: Path, surface: str) -> None:
    index = opened(tmp_path, [("multiple sclerosis", 0), ("", 1), ("--", 2)])
    rows, similarity = index.search(surface, 5)
    assert len(rows) == len(similarity) == 0
    assert index.similarity(surface).of([0, 1, 2]).tolist() == [0, 0, 0]


def test_an_index_of_no_names(tmp_path: Path) -> None:
    assert build(tmp_path, table([])) == {"names": 0, "grams": 0, "postings": 0}
    index = NgramIndex.open(tmp_path)
    assert index.search("ms", 3)[0].tolist() == []
    assert index.similarity("ms").of([0]).tolist() == [0]


def test_the_same_names_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(made_up_names(400, 2), key=lambda name: name[1])
    facts = build(tmp_path / "a", table(names))
    monkeypatch.setattr("kriss.rank.ngram_files._BATCH", 100)
    monkeypatch.setattr("kriss.rank.ngram_files._BLOCK", 1000)
    assert build(tmp_path / "b", table(names)) == facts
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(FILES)
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in FILES)


def test_it_can_be_pickled_and_shared_by_threads(tmp_path: Path) -> None:
    names = made_up_names(300, 3)
    index = opened(tmp_path, names)
    assert len(pickle.dumps(index)) < 500
    copy = pickle.loads(pickle.dumps(index))
    surfaces = [text for text, _ in names[:80]]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: copy.search(text, 5)[0].tolist(), surfaces))
    assert found == [index.search(text, 5)[0].tolist() for text in surfaces]


@pytest.mark.parametrize("name", FILES)
def test_damage_is_seen(tmp_path: Path, name: str) -> None:
    opened(tmp_path, made_up_names(60, 4))
    whole = (tmp_path / name).read_bytes()
    for damaged in (b"", whole[:50], whole[:-4], b"\0" * len(whole), whole.replace(b"<", b">", 1)):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DamagedError, match="build it again"):
            NgramIndex.open(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DamagedError, match="missing"):
        NgramIndex.open(tmp_path)


def test_files_of_two_builds_do_not_mix(tmp_path: Path) -> None:
    opened(tmp_path / "a", made_up_names(60, 5))
    opened(tmp_path / "b", made_up_names(61, 6))
    (tmp_path / "a" / "grams.npy").replace(tmp_path / "b" / "grams.npy")
    with pytest.raises(DamagedError, match="belong together"):
        NgramIndex.open(tmp_path / "b")
