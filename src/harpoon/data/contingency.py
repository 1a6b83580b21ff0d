"""One- and two-way counts of a training table, from which a model knows how many rows support a condition.

The bins of a column are its categories, or intervals of its values from quantile to quantile, finer in the tails; a
wide gap between values is in no bin. A missing cell is a bin of its own. Pairs of columns are counted on coarser bins.
The calendar parts of a date or datetime are counted like columns (`harpoon.data.counted_parts`), and so are differences
of columns that nearly equal each other (`harpoon.data.counted_differences`). Cells with few rows
all have the same count (`SUPPRESSED`), and no row can be read from the counts. Counts of the parts of a table are
added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.calendar import PARTS
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray, Columns, Floats, n_rows, take
from harpoon.data.counted_differences import Difference, counted_differences
from harpoon.data.counted_parts import PAIRED_PARTS, CountedPart, counted_parts
from harpoon.data.schema import Schema
from harpoon.data.value_counts import MAX_DISTINCT_VALUES, ColumnCounts, TableCounts, WeightedValues

Counts = NDArray[np.int64]
Pair = tuple[str, str]

N_BINS = 128  # of a numeric column, about; one per value if there are not more
MIN_PAIR_BINS, MAX_PAIR_BINS = 8, 32  # of a column in a pair, about
MAX_PAIR_CELLS = 2**18  # of all pairs of columns together: pairs that do not fit are left out
MAX_PART_CELLS = 2**17  # the same for pairs with a calendar part
SUPPRESSED = 4  # the count of every cell that has at least one row and at most so many
GAP_ROWS = 10.0  # a gap in which evenly spread values would have had so many rows separates two bins
MAX_GAPS, MAX_PAIR_GAPS = 32, 4  # that separate bins of a column, and its bins in pairs
RANKED_ROWS = 2000  # rows by which pairs are ranked, if not all fit


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column, the last of which is for missing cells.

    `low` and `high` are the ends of each bin, (bins - 1,); for a category both are its code.
    `counts` is the number of rows in each bin, and `pair_bin` its bin in pairs, (bins,) each. If the counts were made
    of noisy ones, `above` has at least the noisy ones, (bins,).
    """

    low: Floats
    high: Floats
    counts: Counts
    pair_bin: Counts
    above: Counts | None = None

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


@dataclass(frozen=True)
class ContingencyTables:
    """Counts of a training table: its rows, the bins of each column, and pairs of columns, (bins, bins) each.

    `suppressed` is the count of every cell that has at least one row and at most so many; noisy counts are not
    suppressed. Rows count once, also if they have weights; `effective_rows` is how many rows of equal weight they are
    worth then.
    """

    n_rows: int
    columns: dict[str, ColumnBins]
    pairs: dict[Pair, Counts]
    suppressed: int = SUPPRESSED
    effective_rows: float | None = None
    noise_std: float = 0.0  # of the count of a bin of one column, in a model with differential privacy
    parts: dict[str, CountedPart] = field(default_factory=dict)  # the calendar parts among `columns`
    differences: dict[str, Difference] = field(default_factory=dict)  # the differences of columns among `columns`

    @classmethod
    def fit(cls, schema: Schema, counts: TableCounts, total: int, rows: Columns, sample: Columns) -> ContingencyTables:
        """Count rows, which are the table or the part of one; bins and one-way counts are those of all `total` rows.

        If not all pairs of columns fit, those are counted that depend on each other most in a sample of the table.
        """
        names = [column.name for column in schema.modelled]
        min_rows = max((counts[name].min_rows for name in names), default=1)
        tables = replace(cls.without_pairs(schema, counts, total), suppressed=max(SUPPRESSED, min_rows - 1))
        if n_rows(rows) == total:  # parts of a table have bins of their own, which cannot be added
            tables = tables._with_differences(counted_differences(schema, rows), rows, min_rows)
        paired = [name for name, part in tables.parts.items() if part.part in PAIRED_PARTS and tables._varies(name)]
        of_columns = list(combinations(names, 2))
        of_parts = [pair for pair in combinations([*names, *paired], 2) if not {*pair}.isdisjoint(paired)]
        pairs = [
            *tables._fitting(of_columns, MAX_PAIR_CELLS, sample),
            *tables._fitting(of_parts, MAX_PART_CELLS, sample),
        ]
        return replace(tables, pairs=tables.count(rows, pairs))

    def _with_differences(self, differences: dict[str, Difference], rows: Columns, min_rows: int) -> ContingencyTables:
        columns = {}
        for name, difference in differences.items():
            counts = replace(ColumnCounts.from_column(difference.cells(rows)), min_rows=min_rows)
            columns[name] = ColumnBins.fit(Column(name, Kind.NUMBER), counts, MAX_PAIR_BINS)
        return replace(self, columns=self.columns | columns, differences=differences)

    def _varies(self, name: str) -> bool:
        return len(self.columns[name].low) > 1

    def _fitting(self, pairs: list[Pair], max_cells: int, sample: Columns) -> list[Pair]:
        """Return the pairs that fit into so many cells: all, or those that depend on each other most in a sample."""
        sizes = {(a, b): self.columns[a].n_pair_bins * self.columns[b].n_pair_bins for a, b in pairs}
        if sum(sizes.values()) <= max_cells:
            return pairs
        index = np.linspace(0, n_rows(sample) - 1, min(n_rows(sample), RANKED_ROWS)).astype(np.int64)
        counted = self.count(take(sample, index), pairs)
        dependence = {pair: _mutual_information(table) for pair, table in counted.items()}
        ranked = sorted(dependence, key=lambda pair: -dependence[pair])
        fitting = np.cumsum([sizes[pair] for pair in ranked]) <= max_cells
        return [pair for pair, fits in zip(ranked, fitting, strict=True) if fits]

    @classmethod
    def without_pairs(cls, schema: Schema, counts: TableCounts, total: int) -> ContingencyTables:
        """Return the bins and the counts of each column and calendar part alone, of a table with `total` rows."""
        n_columns = len(schema.modelled)
        n_pairs = max(n_columns * (n_columns - 1) // 2, 1)
        n_bins = int(np.clip(np.sqrt(MAX_PAIR_CELLS / n_pairs) - 1, MIN_PAIR_BINS, MAX_PAIR_BINS))
        # Of a small table, bins of numbers are so few that most cells of a pair are not suppressed.
        n_intervals = int(np.clip(np.sqrt(total / (2 * SUPPRESSED)), MIN_PAIR_BINS, n_bins))
        columns = {
            column.name: ColumnBins.fit(
                column, counts[column.name].coerced(column), n_bins if column.kind.discrete else n_intervals
            )
            for column in schema.modelled
        }
        parts = counted_parts(schema, counts)
        for name, part in parts.items():
            of_part = part.counts(counts[part.column].coerced(schema[part.column]))
            columns[name] = ColumnBins.fit(Column(name, Kind.INTEGER), of_part, MAX_PAIR_BINS)
        return cls(total, columns, {}, parts=parts)

    def count(self, rows: Columns, pairs: Iterable[Pair]) -> dict[Pair, Counts]:
        """Count rows by pairs of columns."""
        cells = rows | {name: part.cells(rows) for name, part in self.parts.items()}
        pairs = list(pairs)
        used = {name for pair in pairs for name in pair}
        bins = {name: self.columns[name].locate(cells[name]) for name in used}
        counted = {}
        for a, b in pairs:
            shape = self.columns[a].n_pair_bins, self.columns[b].n_pair_bins
            counted[a, b] = np.bincount(bins[a] * shape[1] + bins[b], minlength=shape[0] * shape[1]).reshape(shape)
        return counted

    def pair(self, first: str, second: str) -> Counts | None:
        """Return the counts of two columns, (bins of the first, bins of the second); None if they are not counted."""
        if (first, second) in self.pairs:
            return self.pairs[first, second]
        return self.pairs[second, first].T if (second, first) in self.pairs else None

    @property
    def worth(self) -> float | None:
        """How many rows of equal weight a row is worth on average; None: rows have no weights."""
        return None if self.effective_rows is None else self.effective_rows / max(self.n_rows, 1)

    @property
    def pair_counts(self) -> Counts:
        """The counts of all pairs one after the other, which can be added to those of another part of the table."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(table.ravel() for table in self.pairs.values())])

    def with_pair_counts(self, counts: Counts) -> ContingencyTables:
        """Return the tables with other counts of pairs, in the form of `pair_counts`."""
        ends = np.cumsum([0, *(table.size for table in self.pairs.values())])
        if len(counts) != ends[-1] or counts.min(initial=0) < 0:
            raise ValueError(f"{ends[-1]} counts are needed, got {len(counts)}")
        parts = zip(self.pairs.items(), pairwise(ends), strict=True)
        return replace(self, pairs={pair: counts[a:b].reshape(table.shape) for (pair, table), (a, b) in parts})

    def suppress(self) -> ContingencyTables:
        """Return the tables with small counts suppressed."""
        columns = {name: of_column.suppress(self.suppressed) for name, of_column in self.columns.items()}
        pairs = {pair: suppress(table, self.suppressed) for pair, table in self.pairs.items()}
        return replace(self, columns=columns, pairs=pairs)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the counts of pairs as plain data."""
        columns = {
            name: {
                key: getattr(of_column, key).tolist()
                for key in ("low", "high", "counts", "pair_bin", "above")
                if getattr(of_column, key) is not None
            }
            for name, of_column in self.columns.items()
        }
        names = list(self.columns)
        pairs = [[names.index(a), names.index(b)] for a, b in self.pairs]
        content = {"n_rows": self.n_rows, "columns": columns, "pairs": pairs, "suppressed": self.suppressed}
        content |= {} if self.effective_rows is None else {"effective_rows": self.effective_rows}
        content |= (
            {"parts": {name: [part.column, part.part] for name, part in self.parts.items()}} if self.parts else {}
        )
        content |= (
            {"differences": {name: [*each] for name, each in self.differences.items()}} if self.differences else {}
        )
        return content | ({"noise_std": self.noise_std} if self.noise_std else {})

    @classmethod
    def from_json(cls, schema: Schema, data: Mapping[str, Any], pair_counts: Counts) -> ContingencyTables:
        """Restore the tables of `to_json`; raise ValueError if the data are invalid."""
        parts = {name: _part_from_json(schema, *part) for name, part in data.get("parts", {}).items()}
        differences = {name: Difference(*each) for name, each in data.get("differences", {}).items()}
        if not {*parts, *differences}.isdisjoint(schema.names):
            raise ValueError("a calendar part or a difference must have a name that no column has")
        if not {name for each in differences.values() for name in each} <= {each.name for each in schema.modelled}:
            raise ValueError("a difference must be of columns of the schema")
        every = [*(column.name for column in schema.modelled), *parts, *differences]
        columns = {name: _column_from_json(data["columns"][name]) for name in every}
        names, pairs = list(columns), {}
        for i, j in data["pairs"]:
            shape = columns[names[i]].n_pair_bins, columns[names[j]].n_pair_bins
            pairs[names[i], names[j]] = np.zeros(shape, dtype=np.int64)
        suppressed = int(data.get("suppressed", SUPPRESSED))  # files of older versions do not have it
        n_rows, effective = int(data["n_rows"]), data.get("effective_rows")
        if effective is not None and not 0 < float(effective) <= n_rows:
            raise ValueError("the effective number of rows must be positive and at most the number of rows")
        effective = None if effective is None else float(effective)
        noise_std = float(data.get("noise_std", 0.0))
        if not (np.isfinite(noise_std) and noise_std >= 0):
            raise ValueError("the noise of the counts must be a number from 0")
        tables = cls(n_rows, columns, pairs, suppressed, effective, noise_std, parts, differences)
        return tables.with_pair_counts(pair_counts)


def suppress(counts: Counts, largest: int = SUPPRESSED) -> Counts:
    """Return counts with every small one but 0 replaced by the largest of these.

    >>> suppress(np.array([0, 1, 4, 5])).tolist()
    [0, 4, 4, 5]
    """
    return np.where(counts > 0, np.maximum(counts, largest), 0)


def _part_from_json(schema: Schema, column: str, part: str) -> CountedPart:
    """Return a calendar part of a column; raise ValueError if it has none."""
    if column not in schema.names or not schema[column].kind.is_timestamp or part not in PARTS:
        raise ValueError(f"column {column!r} has no calendar part {part!r}")
    return CountedPart.of_column(schema[column], part)


def _column_from_json(data: Mapping[str, Any]) -> ColumnBins:
    low, high = (np.array(data[key], dtype=np.float64) for key in ("low", "high"))
    counts, pair_bin = (np.array(data[key], dtype=np.int64) for key in ("counts", "pair_bin"))
    above = np.array(data["above"], dtype=np.int64) if "above" in data else None
    sizes = {len(low) + 1, len(high) + 1, len(counts), len(pair_bin), len(counts if above is None else above)}
    if len(sizes) > 1 or pair_bin.min() < 0 or pair_bin.max() != pair_bin[-1] or counts.min() < 0:
        raise ValueError("the bins of a column are inconsistent")
    if not (np.diff(low) >= 0).all() or not (low <= high).all():
        raise ValueError("the bins of a column must ascend")
    return ColumnBins(low, high, counts, pair_bin, above)


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


def _most_common(counts: Counts, n_bins: int) -> Counts:
    """Return the bin of each category, (categories,): one for each of the most common, one for all others."""
    if len(counts) <= n_bins:
        return np.arange(len(counts))
    bins = np.full(len(counts), n_bins - 1, dtype=np.int64)
    bins[np.argsort(-counts, kind="stable")[: n_bins - 1]] = np.arange(n_bins - 1)
    return bins


def _mutual_information(table: Counts) -> float:
    """Return the mutual information of two columns, in nats, from their joint counts."""
    p = table / max(int(table.sum()), 1)
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    return float(np.sum(p * np.log(np.divide(p, expected, out=np.ones_like(p), where=p > 0))))
