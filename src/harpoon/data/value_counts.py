"""Counts of distinct values, which can be merged over the parts of a table.

Kinds, categories, ranges, resolutions, scalers and spikes are all derived from counts. Merged counts of parts equal the
counts of the whole table, so a table that is spread over many machines is learnt like any other.

Rows may have weights, such as those of a survey. Then a count says in how many rows a value is, and a weight how much
of the population these rows stand for. Fractions, moments and ranks are those of the population. What exists, such as
a category, a range or a resolution, and what must rest on a number of rows, is decided by counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from harpoon.data.coercion import coerce
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray, Floats, Mask
from harpoon.data.dataframe import Table
from harpoon.exceptions import InvalidTable

Number = TypeVar("Number", np.int64, np.float64)
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
    min_rows: int = 1  # what is stored of the numbers must rest on at least so many
    weights: Floats | None = None  # the weight of the rows of each number, (n,), in any unit; None: their count

    @classmethod
    def from_values(
        cls, x: Floats, counts: NDArray[np.int64] | None = None, min_rows: int = 1, weights: Floats | None = None
    ) -> WeightedValues:
        """Count numbers, or sum the counts and the weights of equal ones."""
        distinct = np.unique(x, return_counts=True) if counts is None else sum_counts(x, counts)
        return cls(*distinct, min_rows, None if weights is None else sum_counts(x, weights)[1])

    def __getitem__(self, mask: Mask) -> WeightedValues:
        weights = None if self.weights is None else self.weights[mask]
        return WeightedValues(self.values[mask], self.counts[mask], self.min_rows, weights)

    def __len__(self) -> int:
        """Return the number of distinct numbers."""
        return len(self.values)

    @property
    def n_values(self) -> int:
        """The number of numbers."""
        return int(self.counts.sum())

    @property
    def mass(self) -> Floats | NDArray[np.int64]:
        """The weight of each number, (n,), with the sum `n_values`: its count, if rows have no weights."""
        if self.weights is None:
            return self.counts
        return self.weights * (self.n_values / max(float(self.weights.sum()), np.finfo(np.float64).tiny))

    @property
    def max_abs(self) -> float:
        """The largest absolute value, or 1 if all are 0. Numbers are divided by it, so that squares cannot overflow."""
        return float(np.abs(self.values).max()) or 1.0

    @property
    def mean(self) -> float:
        """The mean."""
        return float(np.average(self.values / self.max_abs, weights=self.mass)) * self.max_abs

    @property
    def std(self) -> float:
        """The standard deviation (ddof 0)."""
        centred = self.values / self.max_abs - self.mean / self.max_abs
        return math.sqrt(float(np.average(centred**2, weights=self.mass))) * self.max_abs

    @property
    def is_common(self) -> Mask:
        """Which numbers occur at least `min_rows` times, (n,)."""
        return self.counts >= self.min_rows

    def group(self) -> tuple[Floats, Floats, Floats]:
        """Return numbers that rest on at least `min_rows` each, and their lowest and highest ranks in [0, 1].

        A number that occurs as often is itself. Others are replaced by means of groups of neighbours, whose rank is
        that of the middle of the group. Neighbours between two common numbers that are too few are left out. Means are
        those of rows, so that none is the value of one row of a large weight; ranks are those of weights.

        >>> x = WeightedValues(np.array([0.0, 1.0, 2.0, 3.0, 9.0]), np.array([4, 1, 1, 2, 1]), min_rows=4)
        >>> [part.tolist() for part in x.group()]
        [[0.0, 3.6], [0.0, 0.7222222222222222], [0.4444444444444444, 0.7222222222222222]]
        """
        common, up_to = self.is_common, np.cumsum(self.counts)
        before = up_to - self.counts
        run = np.cumsum(np.diff(common, prepend=~common[:1]) | common)  # a common number is a run of its own
        start = before[np.flatnonzero(np.diff(run, prepend=run[:1] - 1))][run - run[0]] if len(run) else before
        # Each rare number has fewer than min_rows cells, so that a part of twice that many cells has at least min_rows.
        part = np.where(common, 0, (before - start) // (2 * self.min_rows))
        first = np.flatnonzero((np.diff(run, prepend=-1) != 0) | (np.diff(part, prepend=-1) != 0))
        rows = np.add.reduceat(self.counts, first) if len(first) else self.counts
        is_short = (rows < self.min_rows) & (part[first] > 0)  # the end of a run joins the part before it
        first = first[~is_short]
        rows = np.add.reduceat(self.counts, first) if len(first) else self.counts
        scale = self.max_abs if len(self) else 1.0
        means = np.add.reduceat(self.values / scale * self.counts, first) / rows * scale if len(first) else self.values
        of_common = common[first]
        mass = self.mass
        mass_before = np.cumsum(mass) - mass
        of_part = np.add.reduceat(mass, first) if len(first) else mass
        low, high = mass_before[first] / self.n_values, (mass_before[first] + of_part) / self.n_values
        middle = (low + high) / 2
        values = np.where(of_common, self.values[first], means)
        kept = (rows >= self.min_rows) & (np.diff(values, prepend=-np.inf) > 0)
        return values[kept], np.where(of_common, low, middle)[kept], np.where(of_common, high, middle)[kept]

    def order_statistics(self, index: NDArray[np.int64]) -> Floats:
        """Return the numbers at some indices of all in ascending order; each has as many indices as its mass."""
        at = np.searchsorted(np.cumsum(self.mass), index, side="right")
        return self.values[np.minimum(at, len(self) - 1)]  # a sum of weights is rounded

    def quantile(self, probabilities: Floats) -> Floats:
        """Return quantiles, with linear interpolation."""
        position = probabilities * (self.n_values - 1)
        left = np.floor(position).astype(np.int64)
        low, high = self.order_statistics(left), self.order_statistics(np.ceil(position).astype(np.int64))
        weight = position - left
        return np.where(low == high, low, low * (1 - weight) + high * weight)


def sum_counts(values: NDArray[Any], counts: NDArray[Number]) -> tuple[NDArray[Any], NDArray[Number]]:
    """Return distinct values in ascending order, with the sum of the counts, or of the weights, of each."""
    distinct, index = np.unique(values, return_inverse=True)
    total = np.zeros(len(distinct), dtype=counts.dtype)
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
    n_hidden: int = 0  # cells that count as unobserved, because their value is suppressed
    min_rows: int = 1  # what is stored of the values must rest on at least so many rows
    weights: Floats | None = None  # the weight of the rows of each value; None: rows have no weights
    missing_weight: float = 0.0  # the weight of the rows in which the cell is missing

    @classmethod
    def from_column(cls, cells: ColumnArray, weights: Floats | None = None) -> ColumnCounts:
        """Count the values of a column, and add up the weights of the rows, (n,), if they have any."""
        distinct, counts = np.unique(cells.observed, return_counts=True)
        found = cls(cells.with_values(distinct), counts, int(cells.missing.sum()))
        if weights is not None:
            of_value = sum_counts(cells.observed, weights[~cells.missing])[1]
            found = replace(found, weights=of_value, missing_weight=float(weights[cells.missing].sum()))
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
    def mass(self) -> Floats | NDArray[np.int64]:
        """The weight of each value: its count, if rows have no weights."""
        return self.counts if self.weights is None else self.weights

    @property
    def total_weight(self) -> float:
        """The weight of all rows."""
        missing = self.n_missing if self.weights is None else self.missing_weight
        return float(self.mass.sum()) + missing

    @property
    def missing_fraction(self) -> float:
        """The fraction of cells that are missing, by weight."""
        missing, total = self.n_missing if self.weights is None else self.missing_weight, self.total_weight
        return missing / total if total else 0.0

    def coerced(self, column: Column) -> ColumnCounts:
        """Return the counts of coerced cells (`coerce`)."""
        cells = coerce(self.values, column)
        observed = ~cells.missing
        values, counts = sum_counts(cells.values[observed], self.counts[observed])
        n_missing = self.n_missing + int(self.counts[cells.missing].sum())
        coerced = replace(self, values=cells.with_values(values), counts=counts, n_missing=n_missing)
        if self.weights is None:
            return coerced
        weights = sum_counts(cells.values[observed], self.weights[observed])[1]
        missing_weight = self.missing_weight + float(self.weights[cells.missing].sum())
        return replace(coerced, weights=weights, missing_weight=missing_weight)

    def move(self, values: NDArray[Any]) -> ColumnCounts:
        """Return the counts if each distinct value becomes another one, (n_distinct,)."""
        moved, counts = sum_counts(values, self.counts)
        weights = None if self.weights is None else sum_counts(values, self.weights)[1]
        return replace(self, values=self.values.with_values(moved), counts=counts, weights=weights)

    def merge(self, other: ColumnCounts, name: str) -> ColumnCounts:
        """Return the counts of two parts of the column `name`."""
        first, second = _align(self, other, name)
        values = np.concatenate([first.values.values, second.values.values])
        distinct, counts = sum_counts(values, np.concatenate([first.counts, second.counts]))
        merged = ColumnCounts(first.values.with_values(distinct), counts, first.n_missing + second.n_missing)
        if first.weights is not None and second.weights is not None:
            weights = sum_counts(values, np.concatenate([first.weights, second.weights]))[1]
            merged = replace(merged, weights=weights, missing_weight=first.missing_weight + second.missing_weight)
        is_categorical = first.values.storage in CATEGORICAL_STORAGE
        return merged if is_categorical or merged.n_distinct <= MAX_DISTINCT_VALUES else merged._thin()

    def _with_categories(self, categories: tuple[object, ...]) -> ColumnCounts:
        """Return the counts for other categories, which include those that occur."""
        code_of = {category: code for code, category in enumerate(categories)}
        new_codes = np.array([code_of[category] for category in self.values.categories], dtype=np.int64)
        codes = new_codes[self.values.values]
        order = np.argsort(codes)
        values = replace(self.values.with_values(codes[order]), categories=categories)
        weights = None if self.weights is None else self.weights[order]
        return replace(self, values=values, counts=self.counts[order], weights=weights)

    def _thin(self) -> ColumnCounts:
        """Keep `MAX_DISTINCT_VALUES // 2` evenly spaced values; each gets the counts up to the next."""
        index = np.linspace(0, self.n_distinct - 1, MAX_DISTINCT_VALUES // 2).astype(np.int64)
        values = self.values.with_values(self.values.values[index])
        weights = None if self.weights is None else np.add.reduceat(self.weights, index)
        return replace(self, values=values, counts=np.add.reduceat(self.counts, index), weights=weights)


TableCounts = dict[str, ColumnCounts]


def nearest(values: NDArray[Any], candidates: NDArray[Any]) -> NDArray[Any]:
    """Return the nearest of ascending candidates to each value, (n,); of two that are equally near the larger."""
    right = np.searchsorted(candidates, values).clip(max=len(candidates) - 1)
    left = np.maximum(right - 1, 0)
    below = np.subtract(values, candidates[left], dtype=np.float64)
    above = np.subtract(candidates[right], values, dtype=np.float64)
    return np.asarray(np.where(below < above, candidates[left], candidates[right]))


def count_columns(table: Table, weights: Floats | None = None) -> TableCounts:
    """Count the values of each column of a table, whose rows may have weights, (n,)."""
    return {name: ColumnCounts.from_column(table.column(name), weights) for name in table.names}


def merge_counts(parts: Iterable[TableCounts]) -> TableCounts:
    """Return the counts of a table from those of its parts."""
    return reduce(lambda one, other: {name: one[name].merge(other[name], name) for name in one}, parts)


def _align(one: ColumnCounts, other: ColumnCounts, name: str) -> tuple[ColumnCounts, ColumnCounts]:
    """Return two parts of a column in the same storage, with the same categories."""
    first, second = one.values, other.values
    if first.storage == "null":
        return replace(one, values=second[:0]), other
    if second.storage == "null":
        return one, replace(other, values=first[:0])
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
