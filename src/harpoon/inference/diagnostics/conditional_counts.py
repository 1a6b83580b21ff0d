"""The distribution of a column among the training rows that satisfy a condition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harpoon._utils.resampling import effective_size
from harpoon.conditions import BoundPredicate, columns_of
from harpoon.data import Floats
from harpoon.data.contingency import ContingencyTables
from harpoon.inference.diagnostics.expected_counts import (
    expected_counts,
    expected_pair_counts,
    expected_rows,
    name_counted_parts,
    shares_of_bins,
    sum_by_pair_bin,
)


@dataclass(frozen=True)
class ConditionalCounts:
    """The distribution of a column among training rows that satisfy a condition: (k,) values and rows of each.

    Values are codes of categories, or numbers: the middle of a bin, or the cells themselves. `variance` is that of each
    number of rows, (k,), because small counts are suppressed; None: they are exact. `worth` is how many rows of equal
    weight each is worth to a weighted model; None: the rows have no weights, or are already counted by them.
    """

    values: Floats
    rows: Floats
    variance: Floats | None = None
    worth: float | None = None

    @classmethod
    def from_cells(cls, values: Floats, weights: Floats | None = None) -> ConditionalCounts:
        """Return the distribution of observed cells; by the weights of their rows, (n,), as many as these are worth."""
        if weights is None or not len(values):
            return cls(values, np.ones(len(values)))
        return cls(values, weights * (effective_size(weights) / float(weights.sum())))

    @classmethod
    def from_tables(cls, tables: ContingencyTables, predicate: BoundPredicate, name: str) -> ConditionalCounts | None:
        """Return the distribution of a column under bounds on one column; None for other conditions.

        Columns are counted in pairs, so that the counts do not tell it under bounds on two other columns.
        """
        predicate = name_counted_parts(tables, predicate)
        names = columns_of(predicate)
        if len(names) != 1 or name not in tables.columns:
            return None
        (other,), bins = names, tables.columns[name]
        parts = (predicate,)
        rows, variance = expected_counts(tables, bins.counts), None
        if other == name:
            rows = expected_rows(tables, name, parts)
        elif (counts := tables.pair(other, name)) is not None:
            shares = shares_of_bins(tables, other, expected_rows(tables, other, parts))
            of_pair_bin = shares @ expected_pair_counts(tables, other, name)
            part = rows / np.maximum(sum_by_pair_bin(bins, rows), 1)[bins.pair_bin]
            suppressed_variance = (tables.suppressed**2 - 1) / 12  # of a count from 1 to the suppressed one
            of_suppressed = suppressed_variance * shares**2 @ (counts == tables.suppressed)
            # The rows of a pair bin are too many or too few together.
            rows, variance = part * of_pair_bin[bins.pair_bin], (part * of_suppressed[bins.pair_bin])[:-1]
        else:
            return None
        return cls((bins.low + bins.high) / 2, rows[:-1], variance, tables.worth)

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.rows.sum())

    def share(self, value: float) -> float:
        """Return the share of a value; 0 without rows."""
        return float(self.rows[self.values == value].sum()) / max(self.total, 1.0)

    def moments(self) -> tuple[float, float]:
        """Return the mean and the standard deviation; NaN without rows."""
        if not self.total:
            return float("nan"), float("nan")
        mean = float(self.rows @ self.values) / self.total
        return mean, float(np.sqrt(self.rows @ (self.values - mean) ** 2 / self.total))

    def counting_error(self) -> float:
        """Return the standard error of the mean because small counts are suppressed; 0 without rows."""
        if self.variance is None or not self.total:
            return 0.0
        mean, _ = self.moments()
        return float(np.sqrt(self.variance @ (self.values - mean) ** 2)) / self.total
