"""Suppression of rare values: what a model may learn of a table if every value must rest on at least k rows.

    labels     a category of fewer than k rows is removed; its cells count as unobserved
    ranges     the k smallest and the k largest numbers, at least, are moved to the ends of the range; each end is a
               number of k rows, or the mean of k neighbours from the k-th smallest or largest one on, see `_end`
    values     a number with few values has only those of at least k rows; the others are moved to the nearest one
    missing    missing cells of a column count as unobserved if there are fewer than k
    columns    a column is left out if it has no label of k rows, or fewer than 2 k numbers

Other numbers stay in the rows. What is stored of them, quantiles and bins, are means of at least k cells
(`harpoon.data.value_counts.WeightedValues.group`). All is decided by counts, so that parts of a table agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_list
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray, Columns
from harpoon.data.schema import Schema
from harpoon.data.value_counts import ColumnCounts, TableCounts, nearest

MAX_LABEL_VALUES = 32  # distinct numbers of a column, up to which each is stored like a label


@dataclass(frozen=True)
class Change:
    """What suppression changes in one column."""

    column: str
    labels: int = 0  # labels that are removed, and values of a number with few values
    cells: int = 0  # cells that change, or count as unobserved
    range: bool = False  # whether an end of the range moves
    left_out: bool = False  # whether the column is left out


@dataclass(frozen=True)
class ColumnSuppression:
    """One column: its description and counts after suppression, and how cells change.

    Attributes:
        column: The column, with only what rests on k rows.
        counts: The counts of the cells after suppression.
        codes: The new code of each category, or -1, (categories,); None for numbers.
        values: The values that numbers are moved to; None: they are only clipped to the range.
        keeps_missing: Whether a missing cell stays one; else it counts as unobserved.
        change: What changes.
    """

    column: Column
    counts: ColumnCounts
    codes: NDArray[np.int64] | None
    values: NDArray[Any] | None
    keeps_missing: bool
    change: Change

    def apply(self, cells: ColumnArray) -> ColumnArray:
        """Return cells, which fit the column before suppression, as the model may see them."""
        cells = cells.without_unseen()
        null = cells.null if self.keeps_missing else None
        if self.codes is None:
            moved = np.where(cells.missing, cells.values, _move(cells.values, self.column, self.values))
            return replace(cells, values=moved, null=null)
        new = self.codes[cells.values]
        missing = cells.missing | (new < 0)
        categories = self.column.categories or ()
        return replace(cells, values=np.where(missing, 0, new), missing=missing, categories=categories, null=null)


@dataclass(frozen=True)
class Suppression:
    """The suppression of all columns of a table: the schema before and after it, and the counts after it."""

    original: Schema
    schema: Schema
    counts: TableCounts
    columns: dict[str, ColumnSuppression]
    changes: tuple[Change, ...]

    @classmethod
    def fit(cls, schema: Schema, counts: TableCounts, k: int) -> Suppression:
        """Decide by the counts of a table what rests on fewer than k rows."""
        found = {column.name: _suppress(column, counts[column.name], k) for column in schema.modelled}
        columns = tuple(found[column.name].column if column.name in found else column for column in schema)
        kept = {name: one for name, one in found.items() if one.column.kind.modelled}
        new_counts = {**counts, **{name: one.counts for name, one in kept.items()}}
        changes = tuple(one.change for one in found.values() if one.change != Change(one.column.name))
        return cls(schema, Schema(columns), new_counts, kept, changes)

    def apply(self, rows: Columns) -> Columns:
        """Return rows of the original schema as the model may see them."""
        return {name: one.apply(rows[name]) for name, one in self.columns.items()}


def describe_changes(changes: Iterable[Change]) -> str:
    """Return what suppression changes, as a part of a sentence; empty if nothing.

    >>> describe_changes([Change("job", labels=3, cells=7), Change("age", cells=12, range=True)])
    "removes 3 values of 'job', and moves ends of the ranges of 'age'; 19 cells change"
    """
    changes = list(changes)
    labels = [change for change in changes if change.labels and not change.left_out]
    parts = []
    if labels:
        total = sum(change.labels for change in labels)
        plural = "value" if total == 1 else "values"
        parts.append(f"removes {total:,} {plural} of {format_list([change.column for change in labels])}")
    if ranges := [change.column for change in changes if change.range and not change.left_out]:
        parts.append(f"moves ends of the ranges of {format_list(ranges)}")
    if left_out := [change.column for change in changes if change.left_out]:
        parts.append(f"leaves out {format_list(left_out)}")
    cells = sum(change.cells for change in changes if not change.left_out)
    return ", and ".join(parts) + (f"; {cells:,} cells change" if cells else "") if parts else ""


def _suppress(column: Column, raw: ColumnCounts, k: int) -> ColumnSuppression:
    counts = raw.coerced(column)
    suppressed = _labels(column, counts, k) if column.kind.discrete else _numbers(column, counts, k)
    hidden = 0 if suppressed.keeps_missing else counts.n_missing
    n_missing = counts.n_missing - hidden
    new_counts = replace(
        suppressed.counts,
        n_missing=n_missing,
        n_hidden=suppressed.counts.n_hidden + hidden,
        min_rows=k,
        missing_weight=counts.missing_weight if n_missing else 0.0,
    )
    change = replace(suppressed.change, cells=suppressed.change.cells + hidden)
    new_column = replace(suppressed.column, missing=counts.missing_fraction if n_missing else 0.0)
    if new_column.kind.modelled and len(new_counts.counts) == 1 and not n_missing:
        new_column = _constant(new_column, new_counts)
    return replace(suppressed, column=new_column, counts=new_counts, change=change)


def _labels(column: Column, counts: ColumnCounts, k: int) -> ColumnSuppression:
    categories = column.categories or ()
    by_code = np.zeros(len(categories), dtype=np.int64)
    by_code[counts.values.values] = counts.counts
    kept = np.flatnonzero(by_code >= k)
    codes = np.full(len(categories), -1, dtype=np.int64)
    codes[kept] = np.arange(len(kept))
    labels = tuple(categories[code] for code in kept.tolist())
    hidden = int(by_code.sum() - by_code[kept].sum())
    # A value of a boolean that is not drawn is no value of the column.
    kind = Kind.CATEGORY if column.kind is Kind.BOOLEAN and len(labels) < len(categories) else column.kind
    cells = counts.values.with_values(np.arange(len(kept)))
    new_values = replace(cells, storage=kind.storages[0], categories=labels)
    weights = None
    if counts.weights is not None:
        of_label = np.bincount(counts.values.values, weights=counts.weights, minlength=len(categories))
        weights = of_label.astype(np.float64)[kept]
    new_counts = replace(counts, values=new_values, counts=by_code[kept], n_hidden=hidden, weights=weights)
    new_column = replace(column, kind=kind, categories=labels)
    change = Change(column.name, len(categories) - len(kept), hidden, left_out=not len(kept))
    if not len(kept):
        new_column = _left_out(column, f"no label has {k} rows")
    return ColumnSuppression(new_column, new_counts, codes, None, counts.n_missing >= k, change)


def _numbers(column: Column, counts: ColumnCounts, k: int) -> ColumnSuppression:
    values, weights = counts.values.values, counts.counts
    if counts.n_observed < 2 * k:
        left_out = _left_out(column, f"fewer than {2 * k} rows have a value")
        return ColumnSuppression(left_out, counts, None, None, False, Change(column.name, left_out=True))  # noqa: FBT003
    low, high = _range(column, values, weights, k)
    has_range = replace(column, minimum=low, maximum=high, values=None)
    moved = counts.move(_move(values, has_range, None))
    common = moved.counts >= k
    is_few = moved.n_distinct <= MAX_LABEL_VALUES or int(moved.counts[~common].sum()) < k
    targets = moved.values.values[common] if is_few else None
    moved = counts.move(_move(values, has_range, targets))
    new = moved.values.values
    few_values = tuple(new.tolist()) if column.values is not None else None
    new_column = replace(has_range, values=few_values, step=column.kind.spec.step(new, column.unit))
    n_removed = counts.n_distinct - moved.n_distinct if is_few else 0
    is_moved = _move(values, new_column, targets) != values
    ends = bool(new[0] != values[0] or new[-1] != values[-1])
    change = Change(column.name, n_removed, int(weights[is_moved].sum()), range=ends)
    return ColumnSuppression(new_column, moved, None, targets, counts.n_missing >= k, change)


def _range(column: Column, values: NDArray[Any], weights: NDArray[np.int64], k: int) -> tuple[Any, Any]:
    """Return the ends of the range of numbers in ascending order, at least 2 k of them with their repetitions."""
    low, high = _end(column, values, weights, k), _end(column, values[::-1], weights[::-1], k)
    if low <= high:
        return low, high
    middle = max((int(weights.sum()) - k) // 2, 0)  # too few neighbours for two ends
    both = _mean(column, values[np.searchsorted(np.cumsum(weights), np.arange(middle, middle + k), side="right")])
    return both, both


def _end(column: Column, values: NDArray[Any], weights: NDArray[np.int64], k: int) -> Any:  # noqa: ANN401
    """Return the end of the range at which the values begin.

    It is the k-th cell from this end if k cells are equal to it. Else it is the mean of k cells from that one on, which
    lies inside of the k-th cell, and is not moved by outliers as the mean of the k outermost cells would be. A date or
    a time of day stays the k-th one: the mean of working days may be a Sunday, and would add it to the calendar.
    """
    up_to = np.cumsum(weights)
    first = int(np.searchsorted(up_to, k))
    if weights[first] >= k or column.kind.is_timestamp:
        return values[first].item()
    return _mean(column, values[np.searchsorted(up_to, np.arange(k - 1, 2 * k - 1), side="right")])


def _mean(column: Column, cells: NDArray[Any]) -> Any:  # noqa: ANN401
    """Return the mean of cells in the resolution of their column, and between them."""
    step, low, high = column.step or 0, cells.min().item(), cells.max().item()
    if column.kind.integral:
        step = int(step) or 1
        steps = ((cells - cells[0]).astype(np.float64) / step).mean()
        mean = cells[0].item() + step * round(float(steps))
    else:
        mean = float((cells / len(cells)).sum())  # a sum could overflow
        mean = round(mean, -round(math.log10(step))) if step else mean
    return min(max(mean, low), high)


def _move(values: NDArray[Any], column: Column, targets: NDArray[Any] | None) -> NDArray[Any]:
    """Return numbers moved into the range of the column, and to the nearest of some targets if there are any."""
    clipped: NDArray[Any] = np.clip(values, column.minimum, column.maximum)
    return clipped if targets is None else nearest(clipped, targets)


def _constant(column: Column, counts: ColumnCounts) -> Column:
    value = (column.categories or (counts.values.values[0].item(),))[0]
    return Column(column.name, Kind.CONSTANT, (value,), note="all other values have too few rows")


def _left_out(column: Column, note: str) -> Column:
    return Column(column.name, Kind.SKIPPED, missing=column.missing, note=note)
