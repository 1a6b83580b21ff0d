"""Support: how many training rows stand behind an answer under a condition.

The model file holds one- and two-way counts of the training table (`harpoon.data.contingency`). Interval arithmetic
tells which of their cells may satisfy a condition. The rows of those cells, for the pair of columns that has fewest,
are an upper bound. The estimate counts the same cells for bounds on one or two columns. For other conditions it is the
number of rows times the model's probability where rows were sampled, and otherwise times a product of two-way counts
along a tree of the columns (Chow and Liu, 1968). It is at most the upper bound. Inside a bin, values count as evenly
spread, and suppressed counts as their mean, which the total of the table tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._text import format_rounded
from harpoon.conditions import BoundPredicate, columns_of, evaluate
from harpoon.conditions.bound import ColumnRef, Compare, IsIn, IsMissing, NumberLiteral, all_of, has_date_part
from harpoon.conditions.branches import Branch, overlapping_branches
from harpoon.conditions.interval_arithmetic import Interval, may_satisfy
from harpoon.data import Columns, Floats
from harpoon.data.contingency import SUPPRESSED, ColumnBins, ContingencyTables
from harpoon.exceptions import ExtrapolationWarning, warn

MIN_SUPPORT_ROWS = 5  # an answer that fewer training rows support is an extrapolation
N_FITTING_STEPS = 10
SUPPRESSED_VARIANCE = (SUPPRESSED**2 - 1) / 12  # of a count from 1 to `SUPPRESSED`
BIN_POINTS = 16  # values of a bin, by which the part of it that satisfies a condition is estimated


@dataclass(frozen=True)
class Support:
    """How many rows of the training table support an answer: how many satisfy its condition.

    Attributes:
        rows: The rows of the training table.
        upper_bound: At most so many of them satisfy the condition.
        estimate: About how many do.
        exact: How many do; None where the training table is not at hand.
        given_rows: About how many have the given cells, among which the condition is asked; all rows without any.
        counted: About how many satisfy the condition by the counts alone, without the model.
        is_counted: Whether the columns of the condition are counted together; else `counted` is a product of counts.
    """

    rows: int
    upper_bound: int
    estimate: float
    exact: int | None
    given_rows: float
    counted: float
    is_counted: bool

    @property
    def count(self) -> float:
        """The exact number where it is known, else the estimate."""
        return self.estimate if self.exact is None else float(self.exact)

    @property
    def is_extrapolation(self) -> bool:
        """Whether fewer than `MIN_SUPPORT_ROWS` training rows support the answer."""
        return bool(self.count < min(MIN_SUPPORT_ROWS, self.rows))

    def to_json(self) -> dict[str, Any]:
        """Return the support as plain data, with a sentence."""
        return {**asdict(self), "is_extrapolation": self.is_extrapolation, "text": str(self)}

    def warning(self, condition: str) -> ExtrapolationWarning:
        """Return the warning for an extrapolation."""
        message = (
            f"Extrapolation: the condition {condition} is met by {self.count_text}. The answer is what the model makes "
            "of similar rows, not what was seen. Relax the condition, or do not rely on it."
        )
        return ExtrapolationWarning(message, code="extrapolation", condition=condition, **asdict(self))

    def __str__(self) -> str:
        return f"extrapolation: {self.count_text}" if self.is_extrapolation else self.count_text

    @property
    def count_text(self) -> str:
        """The number of rows in words."""
        about = "" if self.exact is not None else "about "
        return f"{about}{format_rounded(round(self.count))} of {format_rounded(self.rows)} training rows"


def warn_extrapolation(support: Support | None, condition: str) -> None:
    """Warn if hardly any training row supports an answer."""
    if support is not None and support.is_extrapolation:
        warn(support.warning(condition))


def find_support(
    tables: ContingencyTables,
    predicate: BoundPredicate,
    given: Columns,
    *,
    table: Columns | None = None,
    probability: float | None = None,
) -> Support:
    """Return the support of a condition beside given cells: one row, its free cells missing.

    With the training table, its rows are counted. Without it, rows with a given number are those of the same bin.
    `probability` is the model's probability of the condition beside the given cells. It decides the estimate if the
    condition is more than bounds on one or two columns, for which counts are more precise.
    """
    beside = all_of(_given_parts(given))
    whole = all_of((predicate, beside))
    upper_bound, counted, is_counted = _count_rows(tables, whole)
    given_rows, estimate = _count_rows(tables, beside)[1], counted
    if probability is not None and not is_counted:
        estimate = min(float(upper_bound), float(probability) * given_rows)
    if table is None:
        given_rows = max(given_rows, counted, estimate)
        return Support(tables.n_rows, upper_bound, estimate, None, given_rows, counted, is_counted)
    exact, given_exactly = (int(evaluate(part, table).sum()) for part in (whole, beside))
    return Support(tables.n_rows, upper_bound, estimate, exact, float(given_exactly), float(exact), is_counted=True)


@dataclass(frozen=True)
class ConditionalCounts:
    """The distribution of a column among training rows that satisfy a condition: (k,) values and rows of each.

    Values are codes of categories, or numbers: the middle of a bin, or the cells themselves. `variance` is that of each
    number of rows, (k,), because small counts are suppressed; None: they are exact.
    """

    values: Floats
    rows: Floats
    variance: Floats | None = None

    @classmethod
    def from_cells(cls, values: Floats) -> ConditionalCounts:
        """Return the distribution of observed cells."""
        return cls(values, np.ones(len(values)))

    @classmethod
    def from_tables(cls, tables: ContingencyTables, predicate: BoundPredicate, name: str) -> ConditionalCounts | None:
        """Return the distribution of a column under bounds on one column; None for other conditions.

        Columns are counted in pairs, so that the counts do not tell it under bounds on two other columns.
        """
        names = columns_of(predicate)
        if len(names) != 1 or name not in tables.columns:
            return None
        (other,), bins = names, tables.columns[name]
        parts = (predicate,)
        rows, variance = _expected(bins.counts, tables.n_rows), None
        if other == name:
            rows = _expected_rows(bins, tables.n_rows, name, parts)
        elif (counts := tables.pair(other, name)) is not None:
            shares = _shares(tables, other, _expected_rows(tables.columns[other], tables.n_rows, other, parts))
            of_pair_bin = shares @ _expected_pair(tables, other, name)
            part = rows / np.maximum(_by_pair_bin(bins, rows), 1)[bins.pair_bin]
            of_suppressed = SUPPRESSED_VARIANCE * shares**2 @ (counts == SUPPRESSED)
            # The rows of a pair bin are too many or too few together.
            rows, variance = part * of_pair_bin[bins.pair_bin], (part * of_suppressed[bins.pair_bin])[:-1]
        else:
            return None
        return cls((bins.low + bins.high) / 2, rows[:-1], variance)

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


def _count_rows(tables: ContingencyTables, predicate: BoundPredicate) -> tuple[int, float, bool]:
    """Return the upper bound and the estimate of a condition, and whether its columns are counted together."""
    branches = overlapping_branches(predicate)
    found = [_branch_support(tables, branch.parts) for branch in branches]
    upper_bound = min(sum(bound for bound, _ in found), tables.n_rows)
    estimate = min(sum(rows for _, rows in found), float(upper_bound))
    return upper_bound, estimate, len(branches) <= 1 and all(_is_counted(tables, branch) for branch in branches)


def _is_counted(tables: ContingencyTables, branch: Branch) -> bool:
    names = columns_of(branch.predicate)
    pairs = set(tables.pairs) | {(name, name) for name in tables.columns}
    is_of_columns = names == branch.single_columns and any(names <= set(pair) for pair in pairs)
    return is_of_columns and not has_date_part(branch.predicate)  # bins do not show which hours of a day occur


def _given_parts(given: Columns) -> Iterator[BoundPredicate]:
    """Yield given cells as conditions."""
    for name, cells in given.items():
        if cells.is_null[0]:
            yield IsMissing(name)
        elif not cells.missing[0]:
            value, n_categories = cells.values[0].item(), len(cells.categories)
            is_equal = Compare("=", ColumnRef(name), NumberLiteral(value))
            yield IsIn(name, (value,), n_categories) if n_categories else is_equal


def _branch_support(tables: ContingencyTables, parts: tuple[BoundPredicate, ...]) -> tuple[int, float]:
    """Return the upper bound and the estimate of one branch."""
    names = sorted(set().union(*map(columns_of, parts)) & set(tables.columns))
    allowed = {name: _allowed_rows(tables.columns[name], name, parts) for name in names}
    expected = {name: _expected_rows(tables.columns[name], tables.n_rows, name, parts) for name in names}
    bounds = [tables.n_rows, *(int(rows.sum()) for rows in allowed.values())]
    fractions = {name: float(rows.sum()) / tables.n_rows for name, rows in expected.items()}
    joint: dict[tuple[str, str], float] = {}
    for (a, b), counts in tables.pairs.items():
        if a not in allowed or b not in allowed:
            continue
        first, second = tables.columns[a], tables.columns[b]
        rows_a, rows_b = _by_pair_bin(first, allowed[a]), _by_pair_bin(second, allowed[b])
        possible = _possible_cells(tables, a, b, parts) & (rows_a > 0)[:, None] & (rows_b > 0)
        bounds.append(int(np.minimum((counts * possible).sum(axis=1), rows_a).sum()))
        bounds.append(int(np.minimum((counts * possible).sum(axis=0), rows_b).sum()))
        share_a, share_b = (_shares(tables, name, expected[name]) for name in (a, b))
        joint[a, b] = float(share_a @ (_expected_pair(tables, a, b) * possible) @ share_b) / tables.n_rows
    return min(bounds), tables.n_rows * _tree_probability(fractions, joint)


def _allowed_rows(bins: ColumnBins, name: str, parts: tuple[BoundPredicate, ...]) -> NDArray[np.int64]:
    """Return how many rows each bin of a column has that may satisfy the parts that use this column alone, (bins,)."""
    boxes = {name: (np.append(bins.low, np.nan), np.append(bins.high, np.nan))}
    return bins.counts * may_satisfy(_alone(name, parts), boxes, len(bins.counts))


def _expected_rows(bins: ColumnBins, total: int, name: str, parts: tuple[BoundPredicate, ...]) -> Floats:
    """Return about how many rows of each bin satisfy the parts that use this column alone, (bins,).

    They are the fraction of some values between the ends of the bin. If a bin may satisfy the parts but none of these
    values does, it is half of what one value stands for.
    """
    at = (np.arange(BIN_POINTS) + 0.5) / BIN_POINTS
    low, high = np.append(bins.low, np.nan)[:, None], np.append(bins.high, np.nan)[:, None]
    points = np.where(low == high, low, low * (1 - at) + high * at).ravel()
    satisfied = may_satisfy(_alone(name, parts), {name: (points, points)}, len(points)).reshape(-1, BIN_POINTS)
    fraction = np.maximum(satisfied.mean(axis=1), 0.5 / BIN_POINTS)
    return np.where(_allowed_rows(bins, name, parts) > 0, _expected(bins.counts, total) * fraction, 0.0)


def _alone(name: str, parts: tuple[BoundPredicate, ...]) -> BoundPredicate:
    """Return the parts that use this column alone."""
    return all_of(part for part in parts if columns_of(part) == {name})


def _expected(counts: NDArray[np.int64], total: int) -> Floats:
    """Return what counts are on average, of which small ones are suppressed: these together are the other rows."""
    suppressed = counts == SUPPRESSED
    rest = (total - counts[~suppressed].sum()) / max(int(suppressed.sum()), 1)
    return np.where(suppressed, np.clip(rest, 1, SUPPRESSED), counts)


def _expected_pair(tables: ContingencyTables, a: str, b: str) -> Floats:
    """Return what the counts of two columns are on average, (bins, bins).

    Suppressed ones are fitted to the counts of each column alone (iterative proportional fitting).
    """
    counts = tables.pair(a, b)
    if counts is None:
        raise KeyError((a, b))
    suppressed, found = counts == SUPPRESSED, _expected(counts, tables.n_rows)
    known = np.where(suppressed, 0, counts)
    for _ in range(N_FITTING_STEPS):
        for axis, name in ((1, a), (0, b)):
            bins = tables.columns[name]
            rest = _by_pair_bin(bins, _expected(bins.counts, tables.n_rows)) - known.sum(axis=axis)
            factor = rest.clip(min=0.0) / np.maximum(np.where(suppressed, found, 0.0).sum(axis=axis), 1.0)
            scaled = found * (factor[:, None] if axis else factor)
            found = np.where(suppressed, scaled.clip(1, SUPPRESSED), counts)
    return found


def _shares(tables: ContingencyTables, name: str, rows: Floats) -> Floats:
    """Return the part of each pair bin of a column that some rows of its bins are, (pair bins,)."""
    bins = tables.columns[name]
    return _by_pair_bin(bins, rows) / np.maximum(_by_pair_bin(bins, _expected(bins.counts, tables.n_rows)), 1)


def _by_pair_bin(bins: ColumnBins, rows: NDArray[np.int64] | Floats) -> Floats:
    return np.bincount(bins.pair_bin, weights=rows, minlength=bins.n_pair_bins).astype(np.float64)


def _possible_cells(tables: ContingencyTables, a: str, b: str, parts: tuple[BoundPredicate, ...]) -> NDArray[np.bool_]:
    """Return which cells of a pair of columns may satisfy the parts that use both, (bins, bins)."""
    shape = tables.pairs[a, b].shape
    both = [part for part in parts if columns_of(part) == {a, b}]
    if not both:
        return np.ones(shape, dtype=np.bool_)
    (low_a, high_a), (low_b, high_b) = _pair_boxes(tables.columns[a]), _pair_boxes(tables.columns[b])
    rows, columns = (index.ravel() for index in np.indices(shape))
    boxes = {a: (low_a[rows], high_a[rows]), b: (low_b[columns], high_b[columns])}
    return may_satisfy(all_of(both), boxes, len(rows)).reshape(shape)


def _pair_boxes(bins: ColumnBins) -> Interval:
    """Return the interval of each bin of a column in pairs; missing cells are NaN."""
    low, high = np.full(bins.n_pair_bins, np.inf), np.full(bins.n_pair_bins, -np.inf)
    np.minimum.at(low, bins.pair_bin[:-1], bins.low)
    np.maximum.at(high, bins.pair_bin[:-1], bins.high)
    low[-1] = high[-1] = np.nan
    return low, high


def _tree_probability(fractions: dict[str, float], joint: dict[tuple[str, str], float]) -> float:
    """Return the probability that all columns are allowed, from a tree of their pairs.

    It is the product of the fraction of each column, times P(a, b) / (P(a) P(b)) for the pairs of a tree: those whose
    dependence is strongest.
    """
    probability = float(np.prod(list(fractions.values())))
    if not probability:
        return 0.0
    lift = {(a, b): p / (fractions[a] * fractions[b]) for (a, b), p in joint.items()}
    if not all(lift.values()):
        return 0.0
    tree_of = {name: name for name in fractions}
    for a, b in sorted(lift, key=lambda pair: -abs(np.log(lift[pair]))):
        first, second = tree_of[a], tree_of[b]
        if first != second:
            probability *= lift[a, b]
            tree_of = {name: first if tree == second else tree for name, tree in tree_of.items()}
    return min([probability, *fractions.values(), *joint.values()])
