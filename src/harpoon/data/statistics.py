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

from harpoon.data.coercion import conform
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.dataframe import Table
from harpoon.exceptions import InvalidTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
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
    def of(cls, x: Floats, counts: NDArray[np.int64] | None = None) -> Counted:
        """Count numbers, or add up the counts of those that are the same."""
        return cls(*(np.unique(x, return_counts=True) if counts is None else added_up(x, counts)))

    def __getitem__(self, which: NDArray[np.bool_]) -> Counted:
        return Counted(self.values[which], self.counts[which])

    def __len__(self) -> int:
        """How many different numbers there are."""
        return len(self.values)

    @property
    def total(self) -> int:
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
    def deviation(self) -> float:
        """Their standard deviation."""
        off = self.values / self.size - self.mean / self.size
        return math.sqrt(float(np.average(off**2, weights=self.counts))) * self.size

    def at(self, places: NDArray[np.int64]) -> Floats:
        """The numbers at some places of the sorted whole."""
        return self.values[np.searchsorted(np.cumsum(self.counts), places, side="right")]

    def quantile(self, shares: Floats) -> Floats:
        """The numbers with a share of the others below them, straight between neighbours."""
        places = shares * (self.total - 1)
        left = np.floor(places).astype(np.int64)
        low, high, way = self.at(left), self.at(np.ceil(places).astype(np.int64)), places - left
        return np.where(low == high, low, low * (1 - way) + high * way)


def added_up(values: NDArray[Any], counts: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each value once, in ascending order, with all its counts.

    >>> [part.tolist() for part in added_up(np.array([2, 1, 2]), np.array([10, 20, 30]))]
    [[1, 2], [20, 40]]
    """
    once, which = np.unique(values, return_inverse=True)
    total = np.zeros(len(once), dtype=np.int64)
    np.add.at(total, which, counts)
    return once, total


MOST_VALUES = 2**20  # different ones that are remembered when parts are put together
LABELLED = ("boolean", "text", "category")


@dataclass(frozen=True)
class Tally:
    """A column's cells, each different one once and in ascending order, and how often it is there.

    >>> from harpoon.data.dataframe import read
    >>> import pyarrow as pa
    >>> whole = Tally.of(read(pa.table({"job": ["chef", None, "nurse", "chef"]})).cells("job"))
    >>> whole.cells.labels, whole.counts.tolist(), whole.missing
    (('chef', 'nurse'), [2, 1], 1)
    """

    cells: ColumnArray
    counts: NDArray[np.int64]
    missing: int

    @classmethod
    def of(cls, cells: ColumnArray) -> Tally:
        """Count cells."""
        values, counts = np.unique(cells.observed, return_counts=True)
        tally = cls(cells.filled_with(values), counts, int(cells.missing.sum()))
        return tally._relabelled(tuple(sorted(cells.labels))) if cells.storage == "text" else tally

    @property
    def observed(self) -> int:
        """How many cells are not missing."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """How many different cells there are."""
        return len(self.counts)

    @property
    def missing_share(self) -> float:
        """The share of cells that are missing."""
        rows = self.observed + self.missing
        return self.missing / rows if rows else 0.0

    def conformed(self, column: Column) -> Tally:
        """The cells as a column holds them; see `conform`."""
        cells = conform(self.cells, column)
        there = ~cells.missing
        values, counts = added_up(cells.values[there], self.counts[there])
        return Tally(cells.filled_with(values), counts, self.missing + int(self.counts[cells.missing].sum()))

    def numbers(self, values: Floats) -> Counted:
        """Other numbers in the place of the values, with the same counts."""
        return Counted.of(values, self.counts)

    def with_(self, other: Tally, name: str) -> Tally:
        """The tally of both parts of a column of that name."""
        first, second = _alike(self, other, name)
        values = np.concatenate([first.cells.values, second.cells.values])
        values, counts = added_up(values, np.concatenate([first.counts, second.counts]))
        both = Tally(first.cells.filled_with(values), counts, first.missing + second.missing)
        return both if first.cells.storage in LABELLED or both.distinct <= MOST_VALUES else both._thinned()

    def _relabelled(self, labels: tuple[object, ...]) -> Tally:
        """The same with other labels, which include those that occur."""
        places = {label: place for place, label in enumerate(labels)}
        moved = np.array([places[label] for label in self.cells.labels], dtype=np.int64)[self.cells.values]
        order = np.argsort(moved)
        return Tally(replace(self.cells.filled_with(moved[order]), labels=labels), self.counts[order], self.missing)

    def _thinned(self) -> Tally:
        """Half as many values as are allowed, evenly spaced, each of which stands for those up to the next."""
        places = np.linspace(0, self.distinct - 1, MOST_VALUES // 2).astype(np.int64)
        return Tally(
            self.cells.filled_with(self.cells.values[places]), np.add.reduceat(self.counts, places), self.missing
        )


Tallies = dict[str, Tally]


def tallied(table: Table) -> Tallies:
    """The tallies of a table's columns."""
    return {name: Tally.of(table.cells(name)) for name in table.names}


def merged(parts: Iterable[Tallies]) -> Tallies:
    """The tallies of a table that was counted part by part."""
    return reduce(lambda one, other: {name: one[name].with_(other[name], name) for name in one}, parts)


def _alike(one: Tally, other: Tally, name: str) -> tuple[Tally, Tally]:
    """Two parts of a column, held in the same way."""
    first, second = one.cells, other.cells
    if first.storage == "null":
        return Tally(second[:0], one.counts, one.missing), other
    if second.storage == "null":
        return one, Tally(first[:0], other.counts, other.missing)
    if {first.storage, second.storage} == {"integer", "float"}:  # a part with holes may have become floats
        return _floats(one), _floats(other)
    same = ("storage", "ordered", "unit", "zoned")
    if any(getattr(first, what) != getattr(second, what) for what in same) or (
        first.ordered and first.labels != second.labels
    ):
        raise InvalidTable(
            f"Column {name!r} must hold the same in all parts of the table, and holds {_held(first)} in one and "
            f"{_held(second)} in another. Convert it."
        )
    if first.storage not in LABELLED or first.labels == second.labels:
        return one, other
    labels = (*first.labels, *(label for label in second.labels if label not in set(first.labels)))
    labels = tuple(sorted(labels)) if first.storage == "text" else labels
    return one._relabelled(labels), other._relabelled(labels)


def _floats(tally: Tally) -> Tally:
    cells = replace(tally.cells, storage="float", values=tally.cells.values.astype(np.float64))
    return replace(tally, cells=cells)


def _held(cells: ColumnArray) -> str:
    return " ".join(filter(None, [cells.storage, cells.unit and f"in {cells.unit}", "with a time zone" * cells.zoned]))
