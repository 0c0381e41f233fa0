"""Pages of documents, sorted lookups and contexts: each against a plain reading of what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kriss.mine.matcher import _closes
from kriss.mine.merge import CONTEXTS, CONTEXTS_FILE, Contexts
from kriss.mine.pages import Page
from kriss.mine.run import SHARD_BYTES, fair_share
from kriss.mine.sample import _earlier, _in_order
from kriss.work import Local

texts = st.lists(st.text(st.sampled_from("ab α—\u3000𝛽\n"), max_size=20), max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, max_size=3), st.integers(0, 8), st.randoms())
def test_contexts_are_cut_by_characters(parts: list[list[str]], reach: int, draw: st.DrawFn) -> None:
    page = Page.joined([Page.of(part) for part in parts])
    documents = [text for part in parts for text in part]
    assert page.data == Page.of(documents).data
    assert page.starts.tolist() == Page.of(documents).starts.tolist()
    spans = [(n, start, end) for n, text in enumerate(documents) for start in range(len(text)) for end in (start + 1,)]
    draw.shuffle(spans)  # type: ignore[attr-defined]
    rows = np.array(spans, dtype=np.int32).reshape(-1, 3)
    left, first, last, right = page.around(rows[:, 0], rows[:, 1], rows[:, 2], reach)
    assert page.cut(first, last).to_pylist() == [documents[n][start:end] for n, start, end in spans]
    assert page.cut(left, first).to_pylist() == [documents[n][max(start - reach, 0) : start] for n, start, _ in spans]
    assert page.cut(last, right).to_pylist() == [documents[n][end : end + reach] for n, _, end in spans]


numbers = st.sampled_from([0, 1, 2**24, 2**40, 2**64 - 2, 2**64 - 1])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 2**24]), numbers, st.integers(0, 2)), max_size=12))
def test_rows_are_sorted_and_counted_exactly(rows: list[tuple[int, int, int]]) -> None:
    group = np.array([row[0] for row in rows], dtype=np.int64)
    number = np.array([row[1] for row in rows], dtype=np.uint64)
    tie = np.array([row[2] for row in rows], dtype=np.int64)
    assert [rows[index] for index in _in_order(group, number, tie).tolist()] == sorted(rows)
    before = [sum(other[:2] == row[:2] for other in rows[:index]) for index, row in enumerate(rows)]
    assert _earlier(number, group).tolist() == before


def test_contexts_of_several_shards_come_as_asked(tmp_path: Path) -> None:
    for shard, sizes in enumerate(((3, 2), (), (0, 4))):
        (tmp_path / str(shard)).mkdir()
        with pa.ipc.new_file(tmp_path / str(shard) / CONTEXTS_FILE, CONTEXTS) as writer:
            for part, size in enumerate(sizes):
                rows = [
                    {"end": i, "surface": f"{shard}.{part}.{i}", "preferred": True, "left": "", "right": "α"}
                    for i in range(size)
                ]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, CONTEXTS))
    contexts = Contexts([tmp_path / str(shard) for shard in range(3)])
    assert contexts.firsts.tolist() == [0, 5, 5, 9]
    taken = contexts.take(np.array([8, 0, 4, 5, 0]))
    assert taken.column("surface").to_pylist() == ["2.1.3", "0.0.0", "0.1.1", "2.1.0", "0.0.0"]
    assert contexts.take(np.zeros(0, dtype=np.int64)).num_rows == 0


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("IL-2-dependent", False),
        ("IL-dependent", True),
        ("IL-dependent_x", True),
        ("IL-dependentα", False),
        ("IL-alpha", False),
        ("IL-like ", False),
        ("IL-", False),
        ("IL-ab", False),
    ],
)
def test_a_hyphen_ends_a_name_before_a_suffix_only(text: str, closes: bool) -> None:
    assert _closes(f"\0{text}\0".encode(), 3) is closes


def test_one_worker_takes_a_file_whole_and_two_share_it(tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl.gz"
    with file.open("wb") as stream:
        stream.truncate(3 * SHARD_BYTES)
    assert fair_share([file], Local(1)) == 3 * SHARD_BYTES
    assert fair_share([file], Local(2)) == 3 * SHARD_BYTES // 2
    assert fair_share([file], Local(100)) == SHARD_BYTES
    with file.open("wb") as stream:
        stream.truncate(100 * SHARD_BYTES)
    assert fair_share([file], Local(1)) == 8 * SHARD_BYTES
