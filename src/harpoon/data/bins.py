"""Bins of one column, in which rows are counted.

They are the categories of a column, or intervals of its values from quantile to quantile, finer in the tails; a wide
gap between values is in no bin. A missing cell is a bin of its own. Pairs of columns are counted on coarser bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray, Floats
from harpoon.data.value_counts import MAX_DISTINCT_VALUES, ColumnCounts, WeightedValues

Counts = NDArray[np.int64]

N_BINS = 128  # of a numeric column, about; one per value if there are not more
SUPPRESSED = 4  # the count of every cell that has at least one row and at most so many
GAP_ROWS = 10.0  # a gap in which evenly spread values would have had so many rows separates two bins
MAX_GAPS, MAX_PAIR_GAPS = 32, 4  # that separate bins of a column, and its bins in pairs


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column, the last of which is for missing cells.

    `low` and `high` are the ends of each bin, (bins - 1,); for a category both are its code.
    `counts` is the number of rows in each bin, and `pair_bin` its bin in pairs, (bins,) each. If the counts were made
    of noisy ones, `above` has at least the noisy ones, (bins,). Rounding errors change values by at most `tolerance`.
    """

    low: Floats
    high: Floats
    counts: Counts
    pair_bin: Counts
    above: Counts | None = None
    tolerance: float = 0.0

    @classmethod
    def fit(cls, column: Column, counts: ColumnCounts, n_pair_bins: int) -> ColumnBins:
        """Choose the bins of a column by its counts."""
        values, weights = counts.values.values.astype(np.float64), counts.counts
        if column.kind.discrete:
            n_categories = len(column.categories or ())
            low = high = np.arange(n_categories, dtype=np.float64)
            of_bin = np.zeros(n_categories, dtype=np.int64)
            of_bin[counts.values.values] = weights
            pair_bin = _most_common(of_bin, n_pair_bins)
        elif counts.min_rows > 1:
            low, high, of_bin = _common_bins(WeightedValues(values, weights, counts.min_rows))
            pair_bin = _intervals(of_bin, n_pair_bins)
        else:
            is_merged = len(values) >= MAX_DISTINCT_VALUES // 2  # a count stands for the values up to the next one
            bins = _intervals(weights, N_BINS)
            bins = bins if is_merged else _cut_at_gaps(bins, (values, values), weights, MAX_GAPS)
            first = np.flatnonzero(np.diff(bins, prepend=-1))
            last = np.append(first[1:], len(values)) - 1
            of_bin = np.add.reduceat(weights, first) if len(first) else weights
            low, high = _bin_ends(values, weights, first, last)
            high = np.append(low[1:], high[-1:]) if is_merged else high
            pair_bin = _cut_at_gaps(_intervals(of_bin, n_pair_bins), (low, high), of_bin, MAX_PAIR_GAPS)
        missing_bin = pair_bin.max(initial=-1) + 1
        n_missing = counts.n_missing + counts.n_hidden
        return cls(low, high, np.append(of_bin, n_missing), np.append(pair_bin, missing_bin))

    @property
    def n_pair_bins(self) -> int:
        """The number of bins in pairs, with that of missing cells."""
        return int(self.pair_bin[-1]) + 1

    def locate(self, cells: ColumnArray) -> Counts:
        """Return the pair bin of each cell, (n,)."""
        bins = np.searchsorted(self.low, cells.values.astype(np.float64), side="right") - 1
        bins = np.where(cells.without_unseen().missing, len(self.low), bins.clip(min=0))
        return self.pair_bin[bins]

    def suppress(self, largest: int) -> ColumnBins:
        """Return the bins with small counts suppressed."""
        return replace(self, counts=suppress(self.counts, largest))

    def to_json(self) -> dict[str, Any]:
        """Return the bins as plain data."""
        keys = ("low", "high", "counts", "pair_bin", "above")
        content = {key: getattr(self, key).tolist() for key in keys if getattr(self, key) is not None}
        return content | ({"tolerance": self.tolerance} if self.tolerance else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ColumnBins:
        """Restore the bins of `to_json`; raise ValueError if the data are invalid."""
        low, high = (np.array(data[key], dtype=np.float64) for key in ("low", "high"))
        counts, pair_bin = (np.array(data[key], dtype=np.int64) for key in ("counts", "pair_bin"))
        above = np.array(data["above"], dtype=np.int64) if "above" in data else None
        sizes = {len(low) + 1, len(high) + 1, len(counts), len(pair_bin), len(counts if above is None else above)}
        if len(sizes) > 1 or pair_bin.min() < 0 or pair_bin.max() != pair_bin[-1] or counts.min() < 0:
            raise ValueError("the bins of a column are inconsistent")
        if not (np.diff(low) >= 0).all() or not (low <= high).all():
            raise ValueError("the bins of a column must ascend")
        if not 0 <= (tolerance := float(data.get("tolerance", 0.0))) < np.inf:
            raise ValueError("the tolerance of a column must be a number from 0")
        return cls(low, high, counts, pair_bin, above, tolerance)


def suppress(counts: Counts, largest: int = SUPPRESSED) -> Counts:
    """Return counts with every small one but 0 replaced by the largest of these.

    >>> suppress(np.array([0, 1, 4, 5])).tolist()
    [0, 4, 4, 5]
    """
    return np.where(counts > 0, np.maximum(counts, largest), 0)


def _intervals(weights: Counts, n_bins: int) -> Counts:
    """Return the number of the bin of each of some ascending values, (values,), by how often each occurs.

    Half of the bins have the same number of rows; the first and the last of these are halved again and again. A value
    that is as common as a bin has a bin of its own.
    """
    total, n_even = max(int(weights.sum()), 1), max(n_bins // 2, 1)
    if len(weights) <= n_bins:
        return np.arange(len(weights))
    tails = 2.0 ** -np.arange(1, n_bins // 4 + 1) / n_even
    tails = tails[tails * total > SUPPRESSED]
    cuts = np.sort(np.concatenate([tails, np.arange(1, n_even) / n_even, 1 - tails])) * total
    before = np.cumsum(weights) - weights
    of_cut, is_common = np.searchsorted(cuts, before, side="right"), weights >= total / n_even
    starts = (np.diff(of_cut) > 0) | is_common[1:] | is_common[:-1]
    return np.append(0, np.cumsum(starts))


def _cut_at_gaps(bins: Counts, ends: tuple[Floats, Floats], weights: Counts, most: int) -> Counts:
    """Return the bins of ascending values or intervals, cut where a bin has a gap that is hardly one by chance.

    Args:
        bins: The number of the bin of each, ascending, (k,).
        ends: Their lower and upper ends, (k,) each.
        weights: Their rows, (k,).
        most: How many gaps are cut at most: those in which most rows would be expected.
    """
    if not len(bins):
        return bins
    (low, high), first = ends, np.flatnonzero(np.diff(bins, prepend=-1))
    last = np.append(first[1:], len(bins)) - 1
    position = np.searchsorted(first, np.arange(len(bins)), side="right") - 1
    gaps = (low[1:] - high[:-1]) * (bins[1:] == bins[:-1])
    # The gaps of a grid, such as that of integers, are no surprise: they count from the median gap of a bin.
    usual = np.array(
        [np.median(gaps[start:end]) if end > start else 0.0 for start, end in zip(first, last, strict=True)]
    )
    width = np.maximum(high[last] - low[first], np.finfo(np.float64).tiny)
    expected = ((gaps - usual[position[1:]]) / width[position[1:]]) * np.add.reduceat(weights, first)[position[1:]]
    chosen = np.argsort(-expected, kind="stable")[:most]
    cut = np.zeros(len(bins), dtype=np.int64)
    cut[1 + chosen[expected[chosen] > GAP_ROWS]] = 1
    return bins + np.cumsum(cut)


def _bin_ends(values: Floats, weights: Counts, first: Counts, last: Counts) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of bins, (bins,) each, that are the values from `first` to `last`.

    An end is the value itself if it is common. Otherwise it is halfway to the value of the next bin, or nearer, by the
    mean distance of the rows of the bin: a value of few rows is not stored.
    """
    rows = np.add.reduceat(weights, first) if len(first) else weights
    distance = (values[last] - values[first]) / np.maximum(rows - 1, 1)
    distance = np.where(last > first, distance, np.inf)
    middle = values[:-1] / 2 + values[1:] / 2
    below, above = np.append(values[:1], middle)[first], np.append(middle, values[-1:])[last]
    low = np.where(weights[first] > SUPPRESSED, values[first], np.maximum(below, values[first] - distance))
    high = np.where(weights[last] > SUPPRESSED, values[last], np.minimum(above, values[last] + distance))
    return low, high


def _common_bins(x: WeightedValues) -> tuple[Floats, Floats, Counts]:
    """Return the lower and upper ends and the rows of bins whose ends and counts rest on at least `x.min_rows` rows.

    A bin starts at a common value, just above one, or at the mean of the rows around its start.
    """
    starts = np.flatnonzero(np.diff(_intervals(x.counts, N_BINS), prepend=-1))
    common, before = x.is_common, np.cumsum(x.counts) - x.counts
    around = before[starts][:, None] + np.arange(-x.min_rows, x.min_rows)
    means = x.order_statistics(around.clip(0, x.n_values - 1)).mean(axis=1)
    above = np.nextafter(x.values[np.maximum(starts - 1, 0)], np.inf)
    low = np.where(common[starts], x.values[starts], np.where(common[starts - 1], above, means))
    low = np.unique(np.append(x.values[:1], low[1:]))
    rows = np.bincount(np.searchsorted(low, x.values, side="right") - 1, weights=x.counts, minlength=len(low))
    while len(low) > 1 and rows.min() < x.min_rows:  # a bin with too few rows joins the smaller of its neighbours
        at = int(rows.argmin())
        into_left = at == len(low) - 1 or (at > 0 and rows[at - 1] <= rows[at + 1])
        joined = at if into_left else at + 1
        rows[joined - 1] += rows[joined]
        low, rows = np.delete(low, joined), np.delete(rows, joined)
    high = np.append(low[1:], x.values[-1:])
    is_single = np.isin(low, x.values[common]) & (rows == _rows_at(x, low))
    return low, np.where(is_single, low, high), rows.astype(np.int64)


def _rows_at(x: WeightedValues, values: Floats) -> Counts:
    """Return how many rows have each of some values."""
    index = np.searchsorted(x.values, values).clip(max=len(x) - 1)
    return np.where(x.values[index] == values, x.counts[index], 0)


def _most_common(counts: Counts, n_bins: int) -> Counts:
    """Return the bin of each category, (categories,): one for each of the most common, one for all others."""
    if len(counts) <= n_bins:
        return np.arange(len(counts))
    bins = np.full(len(counts), n_bins - 1, dtype=np.int64)
    bins[np.argsort(-counts, kind="stable")[: n_bins - 1]] = np.arange(n_bins - 1)
    return bins
