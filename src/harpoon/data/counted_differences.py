"""Differences of two numeric columns as columns to count: how many rows have `x = y`, or `x > y + 0.2`.

Counts of pairs of columns say little about the difference of columns that nearly equal each other: almost all rows lie
in cells that some of their values satisfy. So such differences have bins of their own (`harpoon.data.contingency`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import combinations
from typing import NamedTuple

import numpy as np

from harpoon.data.column_array import ColumnArray, Columns, n_rows, take
from harpoon.data.schema import Schema

MAX_DIFFERENCES = 32  # those of the columns that equal each other most
MAX_VARIANCE = 0.5  # of a difference, relative to that of two independent columns
SAMPLE_ROWS = 2000
ROUNDING_STEPS = 8  # distances to the next float of the largest value
MIN_SIZE = 1e-280


class Difference(NamedTuple):
    """The difference of two columns."""

    first: str
    second: str

    def cells(self, rows: Columns) -> ColumnArray:
        """Return the first column minus the second; missing where one of them is."""
        first, second = rows[self.first], rows[self.second]
        missing = first.missing | second.missing
        values = np.where(missing, 0.0, first.values.astype(np.float64) - second.values.astype(np.float64))
        grid = self.rounding(rows)
        return ColumnArray("float", np.round(values / grid) * grid, missing)

    def rounding(self, rows: Columns) -> float:
        """Return a power of two by which rounding errors change a difference at most: 0.3 - 0.1 is not 0.2.

        A comparison may round otherwise than the difference does: `x > y + 0.2` adds first.
        """
        sizes = [np.abs(rows[name].observed.astype(np.float64)).max(initial=0.0) for name in self]
        return 2.0 ** math.ceil(math.log2(ROUNDING_STEPS * np.spacing(max(*sizes, MIN_SIZE))))


def counted_differences(schema: Schema, rows: Columns, taken: Collection[str]) -> dict[str, Difference]:
    """Return the differences of a table that are counted, by names that are not taken."""
    sample = take(rows, np.linspace(0, n_rows(rows) - 1, min(n_rows(rows), SAMPLE_ROWS)).astype(np.int64))
    names = [column.name for column in schema.modelled if column.kind.numeric and not column.kind.is_timestamp]
    found: dict[Difference, float] = {}
    for one, other in combinations(names, 2):
        if (variance := _relative_variance(sample, one, other)) <= MAX_VARIANCE:
            found[Difference(one, other)] = variance
    named: dict[str, Difference] = {}
    for difference in sorted(found, key=lambda each: found[each])[:MAX_DIFFERENCES]:
        name = " - ".join(difference)
        while name in taken or name in named:
            name += "'"
        named[name] = difference
    return named


def _relative_variance(rows: Columns, one: str, other: str) -> float:
    """Return the variance of a difference, relative to the sum of the variances; infinite if there is none."""
    observed = ~(rows[one].missing | rows[other].missing)
    first, second = (rows[name].values[observed].astype(np.float64) for name in (one, other))
    if len(first) < 2:  # noqa: PLR2004
        return np.inf
    with np.errstate(all="ignore"):
        variance = float((first - second).var() / (first.var() + second.var()))
    return variance if np.isfinite(variance) else np.inf
