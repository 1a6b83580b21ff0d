"""Counts of distinct values, which can be merged over the parts of a table.

Kinds, categories, ranges, resolutions, scalers and spikes are all derived from counts. Merged counts of parts equal the
counts of the whole table, so a table that is spread over many machines is learnt like any other.
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
MAX_DISTINCT_VALUES = 2**20  # of a numeric column after a merge
CATEGORICAL_STORAGE = ("boolean", "text", "category")


@dataclass(frozen=True)
class WeightedValues:
    """Distinct numbers in ascending order, and how often each occurs, both (n,).

    >>> x = WeightedValues.from_values(np.array([3.0, 1.0, 3.0, 3.0]))
    >>> x.mean, x.order_statistics(np.array([0, 1, 3])).tolist(), x.quantile(np.array([0.0, 0.25])).tolist()
    (2.5, [1.0, 3.0, 3.0], [1.0, 2.5])
    """

    values: Floats
    counts: NDArray[np.int64]

    @classmethod
    def from_values(cls, x: Floats, counts: NDArray[np.int64] | None = None) -> WeightedValues:
        """Count numbers, or sum the counts of equal ones."""
        return cls(*(np.unique(x, return_counts=True) if counts is None else sum_counts(x, counts)))

    def __getitem__(self, mask: NDArray[np.bool_]) -> WeightedValues:
        return WeightedValues(self.values[mask], self.counts[mask])

    def __len__(self) -> int:
        """Return the number of distinct numbers."""
        return len(self.values)

    @property
    def n_values(self) -> int:
        """The number of numbers."""
        return int(self.counts.sum())

    @property
    def max_abs(self) -> float:
        """The largest absolute value, or 1 if all are 0. Numbers are divided by it, so that squares cannot overflow."""
        return float(np.abs(self.values).max()) or 1.0

    @property
    def mean(self) -> float:
        """The mean."""
        return float(np.average(self.values / self.max_abs, weights=self.counts)) * self.max_abs

    @property
    def std(self) -> float:
        """The standard deviation (ddof 0)."""
        centred = self.values / self.max_abs - self.mean / self.max_abs
        return math.sqrt(float(np.average(centred**2, weights=self.counts))) * self.max_abs

    def order_statistics(self, index: NDArray[np.int64]) -> Floats:
        """Return the numbers at some indices of all numbers in ascending order."""
        return self.values[np.searchsorted(np.cumsum(self.counts), index, side="right")]

    def quantile(self, probabilities: Floats) -> Floats:
        """Return quantiles, with linear interpolation."""
        position = probabilities * (self.n_values - 1)
        left = np.floor(position).astype(np.int64)
        low, high = self.order_statistics(left), self.order_statistics(np.ceil(position).astype(np.int64))
        weight = position - left
        return np.where(low == high, low, low * (1 - weight) + high * weight)


def sum_counts(values: NDArray[Any], counts: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return distinct values in ascending order, with the sum of the counts of each."""
    distinct, index = np.unique(values, return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, index, counts)
    return distinct, total


@dataclass(frozen=True)
class ColumnCounts:
    """The distinct values of a column in ascending order, and how often each occurs.

    >>> from harpoon.data.dataframe import read
    >>> import pyarrow as pa
    >>> counts = ColumnCounts.from_column(read(pa.table({"job": ["chef", None, "nurse", "chef"]})).column("job"))
    >>> counts.values.categories, counts.counts.tolist(), counts.n_missing
    (('chef', 'nurse'), [2, 1], 1)
    """

    values: ColumnArray
    counts: NDArray[np.int64]
    n_missing: int

    @classmethod
    def from_column(cls, cells: ColumnArray) -> ColumnCounts:
        """Count the values of a column."""
        distinct, counts = np.unique(cells.observed, return_counts=True)
        found = cls(cells.with_values(distinct), counts, int(cells.missing.sum()))
        return found._with_categories(tuple(sorted(cells.categories))) if cells.storage == "text" else found

    @property
    def n_observed(self) -> int:
        """The number of cells that are not missing."""
        return int(self.counts.sum())

    @property
    def n_distinct(self) -> int:
        """The number of distinct values."""
        return len(self.counts)

    @property
    def missing_fraction(self) -> float:
        """The fraction of cells that are missing."""
        n_cells = self.n_observed + self.n_missing
        return self.n_missing / n_cells if n_cells else 0.0

    def coerced(self, column: Column) -> ColumnCounts:
        """Return the counts of coerced cells (`coerce`)."""
        cells = coerce(self.values, column)
        observed = ~cells.missing
        values, counts = sum_counts(cells.values[observed], self.counts[observed])
        return ColumnCounts(cells.with_values(values), counts, self.n_missing + int(self.counts[cells.missing].sum()))

    def merge(self, other: ColumnCounts, name: str) -> ColumnCounts:
        """Return the counts of two parts of the column `name`."""
        first, second = _align(self, other, name)
        values = np.concatenate([first.values.values, second.values.values])
        values, counts = sum_counts(values, np.concatenate([first.counts, second.counts]))
        merged = ColumnCounts(first.values.with_values(values), counts, first.n_missing + second.n_missing)
        is_categorical = first.values.storage in CATEGORICAL_STORAGE
        return merged if is_categorical or merged.n_distinct <= MAX_DISTINCT_VALUES else merged._thin()

    def _with_categories(self, categories: tuple[object, ...]) -> ColumnCounts:
        """Return the counts for other categories, which include those that occur."""
        code_of = {category: code for code, category in enumerate(categories)}
        new_codes = np.array([code_of[category] for category in self.values.categories], dtype=np.int64)
        codes = new_codes[self.values.values]
        order = np.argsort(codes)
        values = replace(self.values.with_values(codes[order]), categories=categories)
        return ColumnCounts(values, self.counts[order], self.n_missing)

    def _thin(self) -> ColumnCounts:
        """Keep `MAX_DISTINCT_VALUES // 2` evenly spaced values; each gets the counts up to the next."""
        index = np.linspace(0, self.n_distinct - 1, MAX_DISTINCT_VALUES // 2).astype(np.int64)
        values = self.values.with_values(self.values.values[index])
        return ColumnCounts(values, np.add.reduceat(self.counts, index), self.n_missing)


TableCounts = dict[str, ColumnCounts]


def count_columns(table: Table) -> TableCounts:
    """Count the values of each column of a table."""
    return {name: ColumnCounts.from_column(table.column(name)) for name in table.names}


def merge_counts(parts: Iterable[TableCounts]) -> TableCounts:
    """Return the counts of a table from those of its parts."""
    return reduce(lambda one, other: {name: one[name].merge(other[name], name) for name in one}, parts)


def _align(one: ColumnCounts, other: ColumnCounts, name: str) -> tuple[ColumnCounts, ColumnCounts]:
    """Return two parts of a column in the same storage, with the same categories."""
    first, second = one.values, other.values
    if first.storage == "null":
        return ColumnCounts(second[:0], one.counts, one.n_missing), other
    if second.storage == "null":
        return one, ColumnCounts(first[:0], other.counts, other.n_missing)
    if {first.storage, second.storage} == {"integer", "float"}:  # missing cells may have made floats of integers
        return _to_floats(one), _to_floats(other)
    differs = any(getattr(first, each) != getattr(second, each) for each in ("storage", "ordered", "unit", "zoned"))
    if differs or (first.ordered and first.categories != second.categories):
        raise InvalidTable(
            f"Column {name!r} must be of the same type in all parts of the table, and is {_describe_storage(first)} in "
            f"one and {_describe_storage(second)} in another. Convert it."
        )
    if first.storage not in CATEGORICAL_STORAGE or first.categories == second.categories:
        return one, other
    categories = tuple(dict.fromkeys(first.categories + second.categories))
    categories = tuple(sorted(categories)) if first.storage == "text" else categories
    return one._with_categories(categories), other._with_categories(categories)


def _to_floats(counts: ColumnCounts) -> ColumnCounts:
    floats = counts.values.values.astype(np.float64)
    return replace(counts, values=replace(counts.values, storage="float", values=floats))


def _describe_storage(cells: ColumnArray) -> str:
    return " ".join(filter(None, [cells.storage, cells.unit and f"in {cells.unit}", "with a time zone" * cells.zoned]))
