"""Counts under a condition: how many training rows satisfy it, by the values of a column or of two.

The counts are those of the model file (`harpoon.data.contingency`), of which small ones are suppressed. Inside a bin,
values count as evenly spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from harpoon._utils.weighted_rows import effective_size
from harpoon.conditions import BoundPredicate, columns_of
from harpoon.conditions.binding.bound import (
    ColumnRef,
    Compare,
    NumberLiteral,
    NumericTerm,
    Operation,
    all_of,
    map_leaves,
    name_date_parts,
)
from harpoon.conditions.evaluation.interval_arithmetic import may_satisfy
from harpoon.conditions.logic.linear_program import linear_term
from harpoon.data import Floats, Index, Mask
from harpoon.data.bins import ColumnBins
from harpoon.data.contingency import ContingencyTables

N_FITTING_STEPS = 10
BIN_POINTS = 16  # values of a bin, by which the part of it that satisfies a condition is estimated


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


def name_counted_parts(tables: ContingencyTables, predicate: BoundPredicate) -> BoundPredicate:
    """Return a condition in which the calendar parts and differences that are counted are columns of their own."""
    parts = {(part.column, part.part): name for name, part in tables.parts.items()}
    predicate = name_date_parts(predicate, parts) if parts else predicate
    differences = {frozenset(each): name for name, each in tables.differences.items()}
    return map_leaves(predicate, partial(_name_differences, tables, differences)) if differences else predicate


def _name_differences(
    tables: ContingencyTables, names: Mapping[frozenset[str], str], leaf: BoundPredicate
) -> BoundPredicate:
    """Return a comparison in which counted differences are columns."""
    if not isinstance(leaf, Compare):
        return leaf
    whole = _name_difference(tables, names, Operation("-", (leaf.left, leaf.right)))
    if isinstance(whole, Operation):
        return replace(leaf, left=whole, right=NumberLiteral(0.0))
    left, right = (_name_within(tables, names, side) for side in (leaf.left, leaf.right))
    return replace(leaf, left=left, right=right)


def _name_within(tables: ContingencyTables, names: Mapping[frozenset[str], str], term: NumericTerm) -> NumericTerm:
    """Return a term in which counted differences are columns, such as `abs(x - y)`."""
    if not isinstance(term, Operation):
        return term
    named = _name_difference(tables, names, term)
    if named is not None:
        return named
    return Operation(term.operator, tuple(_name_within(tables, names, each) for each in term.operands))


def _name_difference(
    tables: ContingencyTables, names: Mapping[frozenset[str], str], term: NumericTerm
) -> Operation | None:
    """Return a term that is a counted difference times a factor, plus a constant; None if it is another one."""
    linear = linear_term(term)
    name = None if linear is None else names.get(frozenset(linear.coefficients))
    if linear is None or name is None:
        return None
    first, second = (linear.coefficients[column] for column in tables.differences[name])
    if not first or first != -second:
        return None
    multiple = Operation("*", (NumberLiteral(first), ColumnRef(name)))
    return Operation("+", (multiple, NumberLiteral(linear.constant)))


def allowed_bins(bins: ColumnBins, name: str, parts: tuple[BoundPredicate, ...]) -> Mask:
    """Return which bins of a column may satisfy the parts that use this column alone, (bins,)."""
    boxes = {name: (np.append(bins.low - bins.tolerance, np.nan), np.append(bins.high + bins.tolerance, np.nan))}
    return may_satisfy(parts_of_column(name, parts), boxes, len(bins.counts))


def expected_rows(tables: ContingencyTables, name: str, parts: tuple[BoundPredicate, ...]) -> Floats:
    """Return about how many rows of each bin satisfy the parts that use this column alone, (bins,).

    They are the fraction of some values between the ends of the bin. If a bin may satisfy the parts but none of these
    values does, it is half of what one value stands for.
    """
    bins, at = tables.columns[name], (np.arange(BIN_POINTS) + 0.5) / BIN_POINTS
    low, high = np.append(bins.low, np.nan)[:, None], np.append(bins.high, np.nan)[:, None]
    points = np.where(low == high, low, low * (1 - at) + high * at).ravel()
    satisfied = may_satisfy(parts_of_column(name, parts), {name: (points, points)}, len(points)).reshape(-1, BIN_POINTS)
    fraction = np.maximum(satisfied.mean(axis=1), 0.5 / BIN_POINTS)
    return np.where(allowed_bins(bins, name, parts), expected_counts(tables, bins.counts) * fraction, 0.0)


def parts_of_column(name: str, parts: tuple[BoundPredicate, ...]) -> BoundPredicate:
    """Return the parts that use this column alone."""
    return all_of(part for part in parts if columns_of(part) == {name})


def expected_counts(tables: ContingencyTables, counts: Index) -> Floats:
    """Return what counts are on average, of which small ones are suppressed: these together are the other rows."""
    if tables.noise_std:
        return counts.astype(np.float64)
    suppressed = counts == tables.suppressed
    rest = (tables.n_rows - counts[~suppressed].sum()) / max(int(suppressed.sum()), 1)
    return np.where(suppressed, np.clip(rest, 1, tables.suppressed), counts)


def expected_pair_counts(tables: ContingencyTables, a: str, b: str) -> Floats:
    """Return what the counts of two columns are on average, (bins, bins).

    Suppressed ones are fitted to the counts of each column alone (iterative proportional fitting).
    """
    counts = tables.pair(a, b)
    if counts is None:
        raise KeyError((a, b))
    suppressed, found = counts == tables.suppressed, expected_counts(tables, counts)
    known = np.where(suppressed, 0, counts)
    for _ in range(N_FITTING_STEPS):
        for axis, name in ((1, a), (0, b)):
            bins = tables.columns[name]
            rest = sum_by_pair_bin(bins, expected_counts(tables, bins.counts)) - known.sum(axis=axis)
            factor = rest.clip(min=0.0) / np.maximum(np.where(suppressed, found, 0.0).sum(axis=axis), 1.0)
            scaled = found * (factor[:, None] if axis else factor)
            found = np.where(suppressed, scaled.clip(1, tables.suppressed), counts)
    return found


def shares_of_bins(tables: ContingencyTables, name: str, rows: Floats) -> Floats:
    """Return the part of each pair bin of a column that some rows of its bins are, (pair bins,)."""
    bins = tables.columns[name]
    return sum_by_pair_bin(bins, rows) / np.maximum(sum_by_pair_bin(bins, expected_counts(tables, bins.counts)), 1)


def sum_by_pair_bin(bins: ColumnBins, rows: Index | Floats) -> Floats:
    """Add up the rows of the bins of a column that are one bin in pairs, (pair bins,)."""
    return np.bincount(bins.pair_bin, weights=rows, minlength=bins.n_pair_bins).astype(np.float64)
