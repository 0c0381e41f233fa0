"""A column that holds several values a row, while it is being worked on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Pairs:
    """(row, value) pairs sorted by row: four million rows as two arrays, not as lists of lists."""

    rows: NDArray[np.int64]
    values: pa.Array

    @classmethod
    def of(cls, rows: NDArray[np.int64], values: pa.Array) -> Pairs:
        """Sort by row; values of one row stay in the order given."""
        order = np.argsort(rows, kind="stable")
        return cls(rows[order], values.take(pa.array(order)))

    def lacking(self, n: int) -> NDArray[np.int64]:
        """Return the rows among 0..n-1 that have no value."""
        present = np.zeros(n, dtype=bool)
        present[self.rows] = True
        return np.flatnonzero(~present)

    def extended(self, rows: list[int], values: list[str]) -> Pairs:
        """Return the pairs with more of them added after a row's own."""
        if not rows:
            return self
        more = pa.array(values, self.values.type)
        return Pairs.of(np.concatenate([self.rows, np.array(rows)]), pa.concat_arrays([self.values, more]))

    def by_row(self, n: int) -> list[list[str]]:
        """Return the values of each row as Python lists."""
        lists: list[list[str]] = [[] for _ in range(n)]
        for row, value in zip(self.rows.tolist(), self.values.to_pylist(), strict=True):
            lists[row].append(value)
        return lists

    def rows_with(self, chosen: set[str]) -> NDArray[np.int64]:
        """Return the rows that have at least one of the chosen values."""
        member = pc.is_in(self.values, value_set=pa.array(sorted(chosen), self.values.type))
        return np.unique(self.rows[np.asarray(member)])

    def moved(self, new_row: NDArray[np.int64]) -> Pairs:
        """Renumber the rows, leaving out those whose new number is -1."""
        target = new_row[self.rows]
        keep = target >= 0
        return Pairs(target[keep], self.values.filter(pa.array(keep)))

    def to_lists(self, n: int) -> pa.LargeListArray:
        """Return the pairs as an Arrow list column of n rows."""
        ends = np.cumsum(np.bincount(self.rows, minlength=n))
        offsets = pa.array(np.concatenate(([0], ends)), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, self.values)
