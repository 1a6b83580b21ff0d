"""What is learnt of a column by itself: which cells it has, and how often.

Kinds, labels, ranges, grids, scales, ranks and point masses are all read off tallies. Those of the parts of a table,
put together, are that of the whole: a table that is spread over many machines is learnt as one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.coercion import coerce
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.dataframe import Table
from harpoon.exceptions import InvalidTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedValues:
    """Numbers, each different one once and in ascending order, and how often it is there.

    Everything that is learnt of a column's numbers is learnt from this, so that parts of a table can be counted one by
    one and come to the same.

    >>> seen = Counted.of(np.array([3.0, 1.0, 3.0, 3.0]))
    >>> seen.mean, seen.at(np.array([0, 1, 3])).tolist(), seen.quantile(np.array([0.0, 0.25])).tolist()
    (2.5, [1.0, 3.0, 3.0], [1.0, 2.5])
    """

    values: Floats
    counts: NDArray[np.int64]

    @classmethod
    def from_values(cls, x: Floats, counts: NDArray[np.int64] | None = None) -> WeightedValues:
        """Count numbers, or add up the counts of those that are the same."""
        return cls(*(np.unique(x, return_counts=True) if counts is None else sum_counts(x, counts)))

    def __getitem__(self, which: NDArray[np.bool_]) -> WeightedValues:
        return WeightedValues(self.values[which], self.counts[which])

    def __len__(self) -> int:
        """How many different numbers there are."""
        return len(self.values)

    @property
    def n_values(self) -> int:
        """How many numbers there are."""
        return int(self.counts.sum())

    @property
    def size(self) -> float:
        """The largest of them: what is divided by it can be summed and squared without going out of bounds."""
        return float(np.abs(self.values).max()) or 1.0

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.average(self.values / self.size, weights=self.counts)) * self.size

    @property
    def std(self) -> float:
        """Their standard deviation."""
        off = self.values / self.size - self.mean / self.size
        return math.sqrt(float(np.average(off**2, weights=self.counts))) * self.size

    def order_statistics(self, places: NDArray[np.int64]) -> Floats:
        """The numbers at some places of the sorted whole."""
        return self.values[np.searchsorted(np.cumsum(self.counts), places, side="right")]

    def quantile(self, probabilities: Floats) -> Floats:
        """The numbers with a share of the others below them, straight between neighbours."""
        places = probabilities * (self.n_values - 1)
        left = np.floor(places).astype(np.int64)
        low, high, way = (
            self.order_statistics(left),
            self.order_statistics(np.ceil(places).astype(np.int64)),
            places - left,
        )
        return np.where(low == high, low, low * (1 - way) + high * way)


def sum_counts(values: NDArray[Any], counts: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each value once, in ascending order, with all its counts.

    >>> [part.tolist() for part in added_up(np.array([2, 1, 2]), np.array([10, 20, 30]))]
    [[1, 2], [20, 40]]
    """
    once, which = np.unique(values, return_inverse=True)
    total = np.zeros(len(once), dtype=np.int64)
    np.add.at(total, which, counts)
    return once, total


MAX_DISTINCT_VALUES = 2**20  # different ones that are remembered when parts are put together
CATEGORICAL_STORAGE = ("boolean", "text", "category")


@dataclass(frozen=True)
class ColumnCounts:
    """A column's cells, each different one once and in ascending order, and how often it is there.

    >>> from harpoon.data.dataframe import read
    >>> import pyarrow as pa
    >>> whole = Tally.of(read(pa.table({"job": ["chef", None, "nurse", "chef"]})).cells("job"))
    >>> whole.cells.labels, whole.counts.tolist(), whole.missing
    (('chef', 'nurse'), [2, 1], 1)
    """

    values: ColumnArray
    counts: NDArray[np.int64]
    n_missing: int

    @classmethod
    def from_column(cls, cells: ColumnArray) -> ColumnCounts:
        """Count cells."""
        values, counts = np.unique(cells.observed, return_counts=True)
        tally = cls(cells.with_values(values), counts, int(cells.missing.sum()))
        return tally._with_categories(tuple(sorted(cells.categories))) if cells.storage == "text" else tally

    @property
    def n_observed(self) -> int:
        """How many cells are not missing."""
        return int(self.counts.sum())

    @property
    def n_distinct(self) -> int:
        """How many different cells there are."""
        return len(self.counts)

    @property
    def missing_fraction(self) -> float:
        """The share of cells that are missing."""
        rows = self.n_observed + self.n_missing
        return self.n_missing / rows if rows else 0.0

    def coerced(self, column: Column) -> ColumnCounts:
        """The cells as a column holds them; see `conform`."""
        cells = coerce(self.values, column)
        there = ~cells.missing
        values, counts = sum_counts(cells.values[there], self.counts[there])
        return ColumnCounts(cells.with_values(values), counts, self.n_missing + int(self.counts[cells.missing].sum()))

    def weighted(self, values: Floats) -> WeightedValues:
        """Other numbers in the place of the values, with the same counts."""
        return WeightedValues.from_values(values, self.counts)

    def merge(self, other: ColumnCounts, name: str) -> ColumnCounts:
        """The tally of both parts of a column of that name."""
        first, second = _align(self, other, name)
        values = np.concatenate([first.values.values, second.values.values])
        values, counts = sum_counts(values, np.concatenate([first.counts, second.counts]))
        both = ColumnCounts(first.values.with_values(values), counts, first.n_missing + second.n_missing)
        return (
            both
            if first.values.storage in CATEGORICAL_STORAGE or both.n_distinct <= MAX_DISTINCT_VALUES
            else both._thinned()
        )

    def _with_categories(self, labels: tuple[object, ...]) -> ColumnCounts:
        """The same with other labels, which include those that occur."""
        places = {label: place for place, label in enumerate(labels)}
        moved = np.array([places[label] for label in self.values.categories], dtype=np.int64)[self.values.values]
        order = np.argsort(moved)
        return ColumnCounts(
            replace(self.values.with_values(moved[order]), categories=labels), self.counts[order], self.n_missing
        )

    def _thinned(self) -> ColumnCounts:
        """Half as many values as are allowed, evenly spaced, each of which stands for those up to the next."""
        places = np.linspace(0, self.n_distinct - 1, MAX_DISTINCT_VALUES // 2).astype(np.int64)
        return ColumnCounts(
            self.values.with_values(self.values.values[places]), np.add.reduceat(self.counts, places), self.n_missing
        )


TableCounts = dict[str, ColumnCounts]


def count_columns(table: Table) -> TableCounts:
    """The tallies of a table's columns."""
    return {name: ColumnCounts.from_column(table.column(name)) for name in table.names}


def merge_counts(parts: Iterable[TableCounts]) -> TableCounts:
    """The tallies of a table that was counted part by part."""
    return reduce(lambda one, other: {name: one[name].merge(other[name], name) for name in one}, parts)


def _align(one: ColumnCounts, other: ColumnCounts, name: str) -> tuple[ColumnCounts, ColumnCounts]:
    """Two parts of a column, held in the same way."""
    first, second = one.values, other.values
    if first.storage == "null":
        return ColumnCounts(second[:0], one.counts, one.n_missing), other
    if second.storage == "null":
        return one, ColumnCounts(first[:0], other.counts, other.n_missing)
    if {first.storage, second.storage} == {"integer", "float"}:  # a part with holes may have become floats
        return _as_floats(one), _as_floats(other)
    same = ("storage", "ordered", "unit", "zoned")
    if any(getattr(first, what) != getattr(second, what) for what in same) or (
        first.ordered and first.categories != second.categories
    ):
        raise InvalidTable(
            f"Column {name!r} must hold the same in all parts of the table, and holds {_describe_storage(first)} in one and "
            f"{_describe_storage(second)} in another. Convert it."
        )
    if first.storage not in CATEGORICAL_STORAGE or first.categories == second.categories:
        return one, other
    labels = (*first.categories, *(label for label in second.categories if label not in set(first.categories)))
    labels = tuple(sorted(labels)) if first.storage == "text" else labels
    return one._with_categories(labels), other._with_categories(labels)


def _as_floats(tally: ColumnCounts) -> ColumnCounts:
    cells = replace(tally.values, storage="float", values=tally.values.values.astype(np.float64))
    return replace(tally, values=cells)


def _describe_storage(cells: ColumnArray) -> str:
    return " ".join(filter(None, [cells.storage, cells.unit and f"in {cells.unit}", "with a time zone" * cells.zoned]))
