"""Indexes of vectors: every kind against brute force, whatever the batch, the filter, the size or the damage."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kriss.errors import ConfigError, DamagedError, InputError, VersionError
from kriss.index import exact
from kriss.index import vectors as module
from kriss.index.vectors import FILES, KINDS, Index, Kind, build, choose, recall

COUNT, WIDTH = 4000, 32

Vectors = NDArray[np.float32]
Answer = tuple[NDArray[np.float32], NDArray[np.int64]]
Data = tuple[Vectors, Vectors]
Made = dict[Kind, Index]


def clustered(count: int, width: int, seed: int = 0, *, queries: int = 60) -> Data:
    """Return vectors around centres, of lengths that differ by a factor of two, and noisy copies of some."""
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((max(count // 20, 1), width)) * np.linspace(2, 0.3, width)
    vectors = centres[draw.integers(0, len(centres), count)] + 0.4 * draw.standard_normal((count, width))
    vectors *= draw.uniform(0.7, 1.4, (count, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = vectors[draw.integers(0, count, queries)] + 0.05 * draw.standard_normal((queries, width))
    return vectors.astype(np.float32), asked.astype(np.float32)


def brute(kept: Vectors, queries: Vectors, k: int, keep: NDArray[np.bool_] | None = None) -> Answer:
    """Return the answer that is right by definition."""
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    among = np.arange(len(kept)) if keep is None else np.flatnonzero(keep)
    exact = kept[among].astype(np.float64)
    for which, query in enumerate(queries):
        found = (exact * query.astype(np.float64)).sum(axis=1).astype(np.float32)
        order = np.lexsort((among, -found))[:k]
        scores[which, : len(order)], rows[which, : len(order)] = found[order], among[order]
    return scores, rows


def same(one: Answer, other: Answer) -> bool:
    """Tell whether two answers are the same to the last bit."""
    return one[0].tobytes() == other[0].tobytes() and one[1].tobytes() == other[1].tobytes()


def close(one: Answer, other: Answer) -> bool:
    """Tell whether two answers have the same rows, with scores that only rounding sets apart."""
    return np.array_equal(one[1], other[1]) and np.allclose(one[0], other[0], rtol=1e-6, atol=1e-7)


def make(folder: Path, vectors: Vectors, kind: Kind) -> Index:
    folder.mkdir(exist_ok=True, parents=True)
    build(folder, vectors, kind)
    return Index.open(folder)


@pytest.fixture(scope="module")
def data() -> Data:
    return clustered(COUNT, WIDTH)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, data: Data) -> Made:
    """One index of each kind of the same vectors."""
    root = tmp_path_factory.mktemp("indexes")
    return {kind: make(root / kind, data[0], kind) for kind in KINDS}


def kept_of(index: Index) -> Vectors:
    return index.vectors(np.arange(len(index)))


# What is found


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_says_what_it_is_and_keeps_the_vectors(made: Made, data: Data, kind: Kind) -> None:
    index = made[kind]
    assert (index.kind, index.width, len(index)) == (kind, WIDTH, COUNT)
    expected = data[0] if kind == "flat" else data[0].astype(np.float16).astype(np.float32)
    assert np.array_equal(kept_of(index), expected)
    some = np.array([7, 3, 3999, 3, 0, 8])
    assert np.array_equal(index.vectors(some), expected[some])
    assert index.vectors(np.array([], dtype=np.int64)).shape == (0, WIDTH)
    with pytest.raises(IndexError):
        index.vectors(np.array([COUNT]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_at_every_vector_finds_what_brute_force_finds(made: Made, data: Data, kind: Kind) -> None:
    queries = data[1][:40]
    assert close(made[kind].exact(queries, 17), brute(kept_of(made[kind]), queries, 17))
    assert kind != "flat" or same(made[kind].search(queries, 17), made[kind].exact(queries, 17))


@pytest.mark.parametrize("sample", [7, 2000, 100_000])
@pytest.mark.parametrize("guess", [1, 3])
def test_a_guess_that_is_too_high_changes_nothing(
    made: Made, data: Data, monkeypatch: pytest.MonkeyPatch, sample: int, guess: int
) -> None:
    """A small sample, and too few wanted above the guess: for some or all queries it does not hold."""
    for name, value in {"_SAMPLE": sample, "_GUESS": guess, "_MARGIN": 0, "_LOWER": 2, "BLOCK": 700}.items():
        monkeypatch.setattr(exact, name, value)
    monkeypatch.setattr(exact, "_GROUP", 25)  # the last group is not full
    for share in (1.0, 0.8, 0.1):
        keep = None if share == 1 else np.random.default_rng(1).random(COUNT) < share
        expected = brute(kept_of(made["flat"]), data[1], 20, keep)
        assert close(made["flat"].search(data[1], 20, keep), expected)


def test_equal_vectors_at_the_kth_place_do_not_hide_better_ones(tmp_path: Path, data: Data) -> None:
    """Forty rows tie there, and ten that are better come after them: all fifty are in question, and above the guess."""
    vectors = data[0][:2000].copy()
    vectors[:, 0] = -1
    vectors[100:140] = np.eye(1, WIDTH)
    vectors[1990:] = 2 * np.eye(1, WIDTH)
    queries = np.tile(np.eye(1, WIDTH, dtype=np.float32), (30, 1))
    index = make(tmp_path, vectors, "flat")
    assert close(index.search(queries, 20), brute(kept_of(index), queries, 20))


def test_pages_that_go_back_hold_the_same(made: Made, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = made["ivf"].search(data[1], 20)
    monkeypatch.setattr(exact, "_HELD", 0)
    assert same(Index.open(made["ivf"].folder).search(data[1], 20), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_exact_sorted_and_ties_go_by_row(made: Made, data: Data, kind: Kind) -> None:
    queries, kept = data[1], kept_of(made[kind])
    scores, rows = made[kind].search(queries, 20)
    assert scores.dtype == np.float32
    assert rows.dtype == np.int64
    exact = np.einsum("qd,qkd->qk", queries.astype(np.float64), kept[rows].astype(np.float64))
    assert np.allclose(scores, exact, rtol=1e-6, atol=1e-7)
    drop, step = np.diff(scores, axis=1), np.diff(rows, axis=1)
    assert ((drop < 0) | ((drop == 0) & (step > 0))).all()


@pytest.mark.parametrize("kind", KINDS)
def test_recall_on_clustered_vectors(made: Made, data: Data, kind: Kind) -> None:
    found = recall(made[kind], data[1], 64)
    assert found == 1.0 if kind == "flat" else found > 0.97


def test_recall_counts_what_brute_force_would(made: Made, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    index, queries = made["flat"], data[1][:10]
    scores, rows = index.search(queries, 10)
    scores[:, 7:], rows[:, 7:] = -np.inf, -1
    monkeypatch.setattr(Index, "search", lambda self, queries, k: (scores, rows))
    assert recall(index, queries, 10) == pytest.approx(0.7)


def test_a_tie_at_the_kth_place_is_as_good_as_any_other(tmp_path: Path) -> None:
    vectors = np.ones((50, 8), dtype=np.float32)
    for kind in KINDS:
        assert recall(make(tmp_path / kind, vectors, kind), vectors[:3], 10) == 1.0


# Many equal vectors, few vectors, narrow ones


@pytest.mark.parametrize("queries", [1, 30])
def test_of_many_equal_vectors_the_first_rows_are_found(tmp_path: Path, queries: int) -> None:
    vectors, asked = clustered(900, 16, 3, queries=queries)
    vectors[100:800] = vectors[100]
    vectors[850] = 3 * vectors[100]
    asked[:] = vectors[100]
    found = make(tmp_path, vectors, "flat").search(asked, 12)
    assert found[1].tolist() == [[850, *range(100, 111)]] * queries


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 3, 40])
@pytest.mark.parametrize("width", [4, 7, 64])
def test_few_vectors_and_a_k_beyond_them(tmp_path: Path, kind: Kind, count: int, width: int) -> None:
    vectors, queries = clustered(count, width, count, queries=25)
    index = make(tmp_path, vectors, kind)
    found = index.search(queries, 50)
    assert close(found, brute(kept_of(index), queries, 50))
    assert (found[1][:, count:] == -1).all()
    assert (found[0][:, count:] == -np.inf).all()
    assert index.search(queries, 0)[0].shape == (25, 0)
    assert index.search(queries[:0], 3)[1].shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_are_vectors_too(tmp_path: Path, kind: Kind) -> None:
    index = make(tmp_path, np.zeros((30, 8), dtype=np.float32), kind)
    scores, rows = index.search(np.ones((2, 8), dtype=np.float32), 4)
    assert rows.tolist() == [[0, 1, 2, 3]] * 2 if kind == "flat" else (rows >= 0).all()
    assert not scores.any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_is_not_a_number_finds_nothing(made: Made, data: Data, kind: Kind) -> None:
    queries = data[1][:3].copy()
    queries[1, 5] = np.nan
    scores, rows = made[kind].search(queries, 4)
    assert (rows[1] == -1).all()
    assert (scores[1] == -np.inf).all()
    alone = made[kind].search(data[1][2:3], 4)
    assert same((scores[2:], rows[2:]), alone)


# One answer, whatever the company


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_does_not_depend_on_the_batch(made: Made, data: Data, kind: Kind) -> None:
    queries, keep = data[1], np.arange(COUNT) % 3 > 0
    for limit in (None, keep):
        together = made[kind].search(queries, 30, limit)
        for size in (1, 7, 33):
            parts = [made[kind].search(queries[at : at + size], 30, limit) for at in range(0, len(queries), size)]
            assert same(together, (np.vstack([p[0] for p in parts]), np.vstack([p[1] for p in parts])))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_find_the_same(made: Made, data: Data, kind: Kind) -> None:
    index, expected = made[kind], made[kind].search(data[1][:40], 20)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: index.search(data[1][:40], 20), range(8)))
    assert all(same(expected, answer) for answer in answers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_index_is_its_folder(made: Made, data: Data, kind: Kind) -> None:
    packed = pickle.dumps(made[kind])
    assert len(packed) < 1000
    assert same(pickle.loads(packed).search(data[1][:5], 9), made[kind].search(data[1][:5], 9))


# Filters


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.sampled_from([0.0, 0.0005, 0.01, 0.2, 0.9, 1.0]), seed=st.integers(0, 999), k=st.integers(1, 40))
def test_a_filter_finds_what_brute_force_finds(
    made: Made, data: Data, kind: Kind, share: float, seed: int, k: int
) -> None:
    """So few rows are kept that lists are not used."""
    keep = np.random.default_rng(seed).random(COUNT) < share
    found = made[kind].search(data[1][:3], k, keep) if share < 1 else made[kind].exact(data[1][:3], k)
    assert close(found, brute(kept_of(made[kind]), data[1][:3], k, keep))


@pytest.mark.parametrize("clumped", [False, True], ids=["scattered", "clumped"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.15, 0.6])
def test_a_filter_costs_no_recall(
    made: Made, data: Data, monkeypatch: pytest.MonkeyPatch, clumped: bool, share: float
) -> None:
    """A clumped filter keeps the rows on one side of the space, which lie far from most queries."""
    monkeypatch.setattr(module, "_FEW", 0)
    side = data[0][:, 0] if clumped else np.random.default_rng(5).random(COUNT)
    keep = side > np.quantile(side, 1 - share)
    scores, rows = made["ivf"].search(data[1], 30, keep)
    best, _ = brute(kept_of(made["ivf"]), data[1], 30, keep)
    enough = min(30, int(keep.sum()))
    assert keep[rows[rows >= 0]].all()
    assert ((rows >= 0).sum(axis=1) == enough).all()
    if enough:
        assert np.mean(scores[:, :enough] >= best[:, enough - 1 : enough] - 1e-6) > 0.97


def test_a_filter_or_query_of_the_wrong_shape_is_refused(made: Made) -> None:
    with pytest.raises(ValueError, match="shape"):
        made["flat"].search(np.zeros((1, WIDTH), dtype=np.float32), 3, np.ones(COUNT - 1, dtype=np.bool_))
    with pytest.raises(ValueError, match="width"):
        made["flat"].search(np.zeros((1, WIDTH + 1), dtype=np.float32), 3)


# Writing


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_vectors_give_the_same_bytes(tmp_path: Path, made: Made, data: Data, kind: Kind) -> None:
    """The second time from a map of a file, and with another number of threads where that is allowed."""
    mapped = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="w+", shape=data[0].shape)
    mapped[:] = data[0]
    facts = build(tmp_path, np.memmap(tmp_path / "vectors", dtype=np.float32, mode="r", shape=data[0].shape), kind)
    names = {file.name for file in made[kind].folder.iterdir()}
    assert names == {"index.json", *FILES[kind]}
    for name in names:
        assert (tmp_path / name).read_bytes() == (made[kind].folder / name).read_bytes(), name
    assert facts["bytes"] == {name: (tmp_path / name).stat().st_size for name in names - {"index.json"}}
    assert (facts["kind"], facts["count"], facts["width"]) == (kind, COUNT, WIDTH)
    json.dumps(facts)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_go_through_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Data, kind: Kind) -> None:
    monkeypatch.setattr(exact, "BLOCK", 700)
    monkeypatch.setattr(module, "BLOCK", 300)
    index = make(tmp_path, data[0], kind)
    assert np.array_equal(kept_of(index), data[0].astype(np.float32 if kind == "flat" else np.float16))
    assert recall(index, data[1][:20], 20) > 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_indexed_is_refused(tmp_path: Path, data: Data, kind: Kind) -> None:
    bad = data[0][:100].copy()
    bad[71, 2] = np.nan
    with pytest.raises(InputError, match="vector 71 is not a number"):
        build(tmp_path, bad, kind)
    with pytest.raises(InputError, match="at least one"):
        build(tmp_path, bad[:0], kind)
    bad[71, 2] = 1e6
    if kind == "flat":
        build(tmp_path, bad, kind)
    else:
        with pytest.raises(InputError, match="vector 71 is too large for float16"):
            build(tmp_path, bad, kind)


def test_a_kind_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="flat, ivf"):
        build(tmp_path, np.ones((2, 4), dtype=np.float32), "pq")  # type: ignore[arg-type]


def test_the_kind_follows_the_size() -> None:
    assert [choose(count, 384) for count in (1, 300_000, 400_000, 10**9)] == ["flat", "flat", "ivf", "ivf"]
    assert [choose(300_000, width) for width in (4, 768)] == ["flat", "ivf"]


# Damage


@pytest.mark.parametrize(
    ("kind", "name"), [("flat", "vectors.npy"), ("flat", "index.json"), ("ivf", "vectors.npy"), ("ivf", "lists.faiss")]
)
@pytest.mark.parametrize("how", ["cut", "empty", "gone", "longer", "garbage", "other"])
def test_damage_is_told_in_one_sentence(
    tmp_path: Path, made: Made, data: Data, kind: Kind, name: str, how: str
) -> None:
    for file in made[kind].folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    file = tmp_path / name
    raw = file.read_bytes()
    if how == "gone":
        file.unlink()
    elif how == "other":  # a sound file of another index, and settings that fit its size
        (tmp_path / "other").mkdir()
        build(tmp_path / "other", data[0][:1000, :16].copy(), kind)
        other = (tmp_path / "other" / name).read_bytes()
        file.write_bytes(other)
        if name != "index.json":
            told = json.loads((tmp_path / "index.json").read_text())
            told["bytes"][name] = len(other)
            (tmp_path / "index.json").write_text(json.dumps(told))
    else:
        noise = np.random.default_rng(0).bytes(len(raw))
        file.write_bytes({"cut": raw[:-7], "empty": b"", "longer": raw + b"x", "garbage": noise}[how])
    with pytest.raises(DamagedError) as told_error:
        Index.open(tmp_path)
    assert "\n" not in str(told_error.value)
    assert "again" in str(told_error.value)
    assert str(tmp_path) in str(told_error.value)


@pytest.mark.parametrize("change", [{"kind": "pq"}, {"count": 3}, {"width": None}, {"search": 7}, {"bytes": {}}])
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, made: Made, change: dict[str, object]) -> None:
    for file in made["ivf"].folder.iterdir():
        os.link(file, tmp_path / file.name)
    told = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").unlink()
    (tmp_path / "index.json").write_text(json.dumps({**told, **change}))
    with pytest.raises(DamagedError):
        Index.open(tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({**told, "format": 99}))
    with pytest.raises(VersionError, match="newer"):
        Index.open(tmp_path)


def test_a_row_that_does_not_exist_is_told(tmp_path: Path, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage inside the codes shows only when it is met: the digests of the manifest are for that."""
    build(tmp_path, data[0][:500], "ivf")
    raw = (tmp_path / "lists.faiss").read_bytes()
    place = raw.rindex(np.arange(3, dtype=np.int64).tobytes())  # the rows of the only list, in order
    (tmp_path / "lists.faiss").write_bytes(
        raw[:place] + np.full(500, 10**6, dtype=np.int64).tobytes() + raw[place + 4000 :]
    )
    with pytest.raises(DamagedError, match="a row that does not exist"):
        Index.open(tmp_path).search(data[1], 5)
    monkeypatch.setattr(module, "_FEW", 0)
    with pytest.raises(DamagedError, match="a row that does not exist"):
        Index.open(tmp_path).search(data[1], 5, np.arange(500) < 100)
