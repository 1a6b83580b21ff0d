"""Noisy histograms of all columns: all that a private training learns of a table before the first gradient.

Each modelled column has bins that depend on the schema alone. The last of them count missing cells and cells that the
schema does not foresee. A row adds 1 to one bin of each column, and 1 to the number of rows: with C columns, the L2
norm of what one row adds is the root of C + 1. Every bin gets discrete Gaussian noise once. Categories, moments,
quantiles, spikes and the number of rows are all derived from the result, which costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, ColumnArray, ColumnCounts, Columns, Schema, TableCounts, n_rows
from harpoon.data.bins import ColumnBins
from harpoon.encoding.numeric import round_to_step
from harpoon.privacy.differential.budget import BudgetSplit
from harpoon.privacy.differential.noise_sources import Noise

Counts = NDArray[np.int64]
MAX_SINGLE_VALUES = 256  # a number with at most so many possible values has a bin for each
N_EVEN, N_GEOMETRIC = 64, 32  # bins of other numbers: of equal width, and ever narrower towards 0
SMALLEST_BIN = 1e-4  # of the distance from 0 to the end of the range
CLEAR_STANDARD_DEVIATIONS = 4.0  # of the noise: fewer missing cells may be none
MAX_QUANTILES = 500  # of a number, about
MIN_NOISY_ROWS = 20  # a smaller noisy number of rows says nothing


@dataclass(frozen=True)
class PublicBins:
    """The bins of one column by its schema: where they start, and their lowest and highest values, (bins,) each.

    Two more bins follow: missing cells, and *foreign* cells, which are no value of the column. Only a label, or a
    number that must be one of a few values, can be foreign: a number outside of its range counts as the end of it.
    """

    column: Column
    starts: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, column: Column) -> PublicBins:
        """Return the bins of a column whose schema is complete."""
        low, high, step = column.minimum or 0, column.maximum or 0, column.step or 0
        if column.kind.discrete:
            values = np.arange(len(column.categories or ()))
        elif column.values:
            values = np.array(column.values)
        elif step and (high - low) / step < MAX_SINGLE_VALUES:
            evenly = np.asarray(low + step * np.arange(round((high - low) / step) + 1), dtype=np.float64)
            values = round_to_step(evenly, column)
            return cls(column, values if column.kind.integral else values - step / 2, values, values)
        else:
            return cls(column, *_intervals(column))
        return cls(column, values, values, values)

    def __len__(self) -> int:
        """Return the number of bins, with those of missing and of foreign cells."""
        return len(self.low) + 2

    @property
    def has_labels(self) -> bool:
        """Whether a cell must be one of some values."""
        return self.column.kind.discrete or bool(self.column.values)

    def prepare(self, cells: ColumnArray) -> ColumnArray:
        """Return cells as they are learnt: numbers in the range of the schema, foreign cells missing."""
        if self.column.kind.discrete:
            return cells.without_unseen()
        if self.column.values:
            missing = cells.missing | ~np.isin(cells.values, self.low)
            return replace(cells, values=np.where(missing, 0, cells.values), missing=missing)
        clipped = np.clip(cells.values, self.column.minimum, self.column.maximum)
        return replace(cells, values=np.where(cells.missing, 0, clipped).astype(cells.values.dtype))

    def count(self, cells: ColumnArray) -> Counts:
        """Count the cells of each bin, (bins,), exactly. Each cell is in one bin."""
        prepared = self.prepare(cells)
        index = np.searchsorted(self.starts, prepared.values, side="right").clip(min=1) - 1
        index = np.where(prepared.missing, len(self.low) + 1, index)
        index = np.where(cells.missing, len(self.low), index)
        return np.bincount(index, minlength=len(self)).astype(np.int64)

    def to_counts(self, noisy: Counts, total: int, noise_std: float, cells: ColumnArray) -> ColumnCounts:
        """Return noisy counts as those of a column with `total` cells. `cells` are of its type, and may be none."""
        n_missing = self._clear_missing(noisy, total, noise_std)
        counts = project(noisy[:-2], total - n_missing)
        if self.has_labels or np.array_equal(self.low, self.high):
            # Labels are public: one without rows may be a rare one.
            values, counts, min_rows = self.low, np.maximum(counts, int(self.has_labels)), 1
        else:
            min_rows = max(2, -(-total // MAX_QUANTILES))
            values, counts = self._spread(counts, min_rows)
        kept = counts > 0
        return ColumnCounts(cells.with_values(values[kept]), counts[kept], n_missing, min_rows=min_rows)

    def to_column_bins(self, noisy: Counts, total: int, noise_std: float) -> ColumnBins:
        """Return the bins and their counts as a model stores them, for the rows that support a condition."""
        low, high = (np.asarray(ends, dtype=np.float64) for ends in (self.low, self.high))
        n_missing = self._clear_missing(noisy, total, noise_std)
        counts = np.append(project(noisy[:-2], total - n_missing), n_missing)
        above = np.maximum(np.append(noisy[:-2], noisy[-2:].sum()), counts)
        return ColumnBins(low, high, counts, np.arange(len(counts)), above)

    @staticmethod
    def _clear_missing(noisy: Counts, total: int, noise_std: float) -> int:
        """Return the number of missing and foreign cells; 0 unless the noise cannot explain it."""
        parts = noisy[-2:]
        n_missing, std = max(int(parts.sum()), 0), noise_std * math.sqrt(len(parts))
        return min(n_missing if n_missing >= CLEAR_STANDARD_DEVIATIONS * std else 0, total - 1)

    def _spread(self, counts: Counts, min_rows: int) -> tuple[NDArray[Any], Counts]:
        """Spread the counts of intervals evenly over values that have fewer than `min_rows` each, where there are."""
        values, weights = [], []
        for low, high, count in zip(self.low, self.high, counts.tolist(), strict=True):
            n_values = 1 if low == high else max(-(-count // (min_rows - 1)), 1)
            offsets = (np.arange(n_values) + 0.5) / n_values * float(high - low)
            points = low + offsets.astype(np.int64) if self.column.kind.integral else low + offsets
            points = np.unique(points)
            values.append(points)
            weights.append(np.diff(np.linspace(0, count, len(points) + 1).round()).astype(np.int64))
        return np.concatenate(values), np.concatenate(weights)


@dataclass(frozen=True)
class NoisyHistograms:
    """The noisy counts of all columns of a table, and its noisy number of rows."""

    bins: Mapping[str, PublicBins]
    counts: Mapping[str, Counts]
    rows: int
    noise_std: float

    def to_table_counts(self, types: Columns) -> TableCounts:
        """Return the counts of a table that has these histograms; `types` are columns of the same types."""
        return {
            name: bins.to_counts(self.counts[name], self.rows, self.noise_std, types[name][:0])
            for name, bins in self.bins.items()
        }

    def to_column_bins(self) -> dict[str, ColumnBins]:
        """Return the bins of each column with their counts, for the rows that support a condition."""
        return {
            name: bins.to_column_bins(self.counts[name], self.rows, self.noise_std) for name, bins in self.bins.items()
        }

    def foreign_fraction(self, name: str) -> float:
        """Return about which part of a column the schema does not foresee; 0 unless the noise cannot explain it."""
        foreign = float(self.counts[name][-1])
        return min(foreign / self.rows, 1.0) if foreign > CLEAR_STANDARD_DEVIATIONS * self.noise_std else 0.0


def public_bins(schema: Schema) -> dict[str, PublicBins]:
    """Return the bins of all modelled columns."""
    return {column.name: PublicBins.of(column) for column in schema.modelled}


def count_exactly(rows: Columns, bins: Mapping[str, PublicBins]) -> Counts:
    """Return the counts of all bins of all columns, and the number of rows, in one vector. They are not private."""
    return np.concatenate([*(each.count(rows[name]) for name, each in bins.items()), [n_rows(rows)]])


def release(rows: Columns, bins: Mapping[str, PublicBins], split: BudgetSplit, noise: Noise) -> NoisyHistograms:
    """Return the counts of rows with the noise of a split. Each call spends the budget of the counts."""
    exact = count_exactly(rows, bins)
    std = split.counts.noise_multiplier * split.count_sensitivity
    noisy = exact + noise.discrete_normal(len(exact), std)
    parts = np.split(noisy, np.cumsum([len(each) for each in bins.values()]))
    return NoisyHistograms(bins, dict(zip(bins, parts, strict=False)), max(int(noisy[-1]), MIN_NOISY_ROWS), std)


def equal_histograms(schema: Schema) -> NoisyHistograms:
    """Return histograms that follow from the schema alone: as many cells in each bin, and half of them missing."""
    bins = public_bins(schema)
    per_column = 2 * max((len(each) for each in bins.values()), default=1) * MIN_NOISY_ROWS
    counts = {
        name: np.append(np.full(len(each) - 2, per_column // (2 * (len(each) - 2))), [per_column // 2, 0])
        for name, each in bins.items()
    }
    return NoisyHistograms(bins, counts, per_column, 0.0)


def project(noisy: NDArray[Any], total: int) -> Counts:
    """Return the nearest counts that are not negative and add up to a total, rounded (Duchi et al., 2008).

    >>> project(np.array([12, 3, -2]), 10).tolist()
    [10, 0, 0]
    """
    ordered = np.sort(noisy.astype(np.float64))[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    ends = np.cumsum(np.maximum(noisy - threshold, 0.0)).round()
    return np.diff(ends, prepend=0.0).astype(np.int64)


def _intervals(column: Column) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the starts and the ends of the bins of a number.

    The ends of the range, and 0 if it lies between them, have bins of their own. Others are intervals of equal width,
    and ever narrower towards 0. They are computed relative to the minimum, so that times stay exact.
    """
    origin, width = column.minimum or 0, (column.maximum or 0) - (column.minimum or 0)
    centre, towards = min(max(-origin, 0), width), np.geomspace(SMALLEST_BIN, 1, N_GEOMETRIC)
    parts = np.linspace(0, width, N_EVEN + 1), centre + (width - centre) * towards, centre * (1 - towards)
    inner: NDArray[Any] = np.concatenate(parts)
    single: NDArray[Any] = np.unique([0, centre, width])
    above: NDArray[Any]
    if column.kind.integral:
        inner, single = (each.round().astype(np.int64) for each in (inner, single))
        above = single[:-1] + 1
    else:
        step = column.step or 0.0
        above = single[:-1] + step / 2 if step else np.nextafter(single[:-1] + origin, np.inf) - origin
        above = np.maximum(above, np.nextafter(single[:-1], np.inf))
    starts = np.unique(np.concatenate([single, above, inner[(inner > above[0]) & (inner < width)]]))
    ends = np.append(starts[1:] - int(column.kind.integral), starts[-1:])
    low, high = starts + origin, np.where(np.isin(starts, single), starts, ends) + origin
    low[-1] = high[-1] = column.maximum  # without the rounding error of the sum
    return low, low, high
