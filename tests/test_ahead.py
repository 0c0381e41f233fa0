"""Batches made ready one ahead: in order, whatever goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kriss.link.ahead import one_ahead


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_all_come_in_order(count: int) -> None:
    assert list(one_ahead(lambda number: number * number, range(count))) == [n * n for n in range(count)]


def test_the_next_is_made_while_the_caller_works() -> None:
    began = threading.Event()

    def prepare(number: int) -> int:
        if number == 1:
            began.set()
        return number

    ready = one_ahead(prepare, range(3))
    assert next(ready) == 0
    assert began.wait(10), "the second batch was not begun before the first one was done"
    assert list(ready) == [1, 2]


def test_no_more_than_one_is_made_ahead() -> None:
    made: list[int] = []

    def prepare(number: int) -> int:
        made.append(number)
        return number

    for ready in one_ahead(prepare, range(9)):
        assert len(made) <= ready + 2
    assert made == list(range(9))


def test_an_error_comes_where_its_batch_would() -> None:
    def prepare(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    ready: Iterator[int] = one_ahead(prepare, range(5))
    assert [next(ready), next(ready)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(ready)
