"""Support: how many training rows stand behind an answer under a condition.

The model file holds one- and two-way counts of the training table (`harpoon.data.contingency`). Interval arithmetic
tells which of their cells may satisfy a condition. The rows of those cells, for the pair of columns that has fewest,
are an upper bound. The estimate counts the same cells for bounds on one or two columns. For bounds on more columns it
is the number of rows times the model's probability where rows were sampled, and otherwise times a product of two-way
counts along a tree of the columns (Chow and Liu, 1968). An "or" is the sum of branches that exclude each other. The
estimate is at most the upper bound. Inside a bin, values count as evenly spread, and suppressed counts as their mean,
which the total of the table tells. Of a cell of two compared columns, half of the rows count if some of its values
satisfy the comparison; if these cells are most of the rows, no count tells the estimate (`is_modelled`).

Rows count once, also if they have weights. What a weighted model knows is worth fewer rows of equal weight, (Σw)² / Σw²
(Kish, 1965): those of the rows of a table, and without one the same part of the given rows as of all training rows.

The counts of a model with differential privacy are noisy. The upper bound then has `NOISE_LEVEL` standard deviations of
the noise of its bins added. An estimate that is smaller than this noise counts as 0: the noise alone explains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_rounded
from harpoon._utils import cards
from harpoon._utils.weighted_rows import effective_size
from harpoon.conditions import BoundPredicate, columns_of, evaluate, negate
from harpoon.conditions.binding.bound import ColumnRef, Compare, IsIn, IsMissing, NumberLiteral, all_of, has_date_part
from harpoon.conditions.binding.branches import Branch, disjoint_branches, overlapping_branches
from harpoon.conditions.evaluation.interval_arithmetic import Interval, may_satisfy
from harpoon.data import Columns, Floats
from harpoon.data.bins import ColumnBins
from harpoon.data.contingency import ContingencyTables
from harpoon.exceptions import ExtrapolationWarning, warn
from harpoon.inference.diagnostics.conditional_counts import (
    allowed_bins,
    expected_pair_counts,
    expected_rows,
    name_counted_parts,
    shares_of_bins,
    sum_by_pair_bin,
)

MIN_SUPPORT_ROWS = 5  # an answer that fewer training rows support is an extrapolation
MODELLED, NOT_COUNTED = "the model's own estimate, not a count", "the model file has no counts for this condition"
MIN_CERTAIN_FRACTION = 0.5  # of the rows that may satisfy a comparison: with fewer, the counts do not tell
SOME = 0.5  # stands for a fraction between 0 and 1 that is not known
NOISE_LEVEL = 3.0  # standard deviations of the noise of some bins: fewer rows in them may be none


@dataclass(frozen=True)
class Support(cards.Displayed):
    """How many rows of the training table support an answer: how many satisfy its condition.

    Attributes:
        rows: The rows of the training table.
        upper_bound: At most so many of them satisfy the condition.
        estimate: About how many do.
        exact: How many do; None where the training table is not at hand.
        given_rows: About how many have the given cells, among which the condition is asked; all rows without any.
        counted: About how many satisfy the condition by the counts alone, without the model; the estimate where they
            say little.
        is_counted: Whether the columns of the condition are counted together; else `counted` is a product of counts.
        effective_rows: How many rows of equal weight `given_rows` are worth; None if the model has no weights.
        weighted_share: The share, by weight, of rows that satisfy the condition among those with the given cells; None
            without a table that holds the column of weights.
        is_impossible: Whether no row of the model can satisfy the condition, so that its probability under the model is
            exactly 0.
        is_contradiction: Whether the condition contradicts itself, so that no row of any table can satisfy it.
        is_modelled: Whether counts cannot tell the estimate, because the condition compares columns, or reads calendar
            parts that are not counted. Then it is the model's probability, and the upper bound before rows are sampled.
        is_below_noise: Whether the noise of differential privacy hides how many rows satisfy it: the estimate is then
            0, and only the upper bound is known.
    """

    rows: int
    upper_bound: int
    estimate: float
    exact: int | None
    given_rows: float
    counted: float
    is_counted: bool
    effective_rows: float | None = None
    weighted_share: float | None = None
    is_impossible: bool = False
    is_contradiction: bool = False
    is_modelled: bool = False
    is_below_noise: bool = False

    @property
    def count(self) -> float:
        """The exact number where it is known, else the estimate."""
        return self.estimate if self.exact is None else float(self.exact)

    @property
    def is_extrapolation(self) -> bool:
        """Whether fewer than `MIN_SUPPORT_ROWS` training rows support the answer; a contradiction needs none."""
        return not self.is_impossible and bool(self.count < min(MIN_SUPPORT_ROWS, self.rows))

    def of_impossible(self, *, is_contradiction: bool) -> Support:
        """Return the support of a condition that no row can satisfy, also where the counts alone do not exclude it."""
        found = self if self.exact is not None else replace(self, estimate=0.0, counted=0.0)
        return replace(found, is_impossible=True, is_contradiction=is_contradiction, is_modelled=False)

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

    def _card(self) -> cards.Html:
        how = "counted with the model" if self.exact is None else "counted in the table"
        pairs = {
            "at most": f"{self.upper_bound:,} training rows",
            "among": f"{format_rounded(round(self.given_rows))} rows with the given cells",
            "by the counts alone": f"{format_rounded(round(self.counted))} rows",
        }
        how = how if self.is_counted or self.exact is not None else f"{how}; their columns are not counted together"
        return cards.card("Support", support_paragraph(self), cards.facts(pairs), cards.paragraph(how, role="quiet"))

    @property
    def count_text(self) -> str:
        """The number of rows in words."""
        if self.is_below_noise:
            bound, rows = format_rounded(self.upper_bound), format_rounded(self.rows)
            return f"at most {bound} of about {rows} training rows, fewer than the noise of differential privacy shows"
        is_bound = self.is_modelled and self.estimate >= self.upper_bound
        about = "" if self.exact is not None else "at most " if is_bound else "about "
        text = f"{about}{format_rounded(round(self.count))} of {format_rounded(self.rows)} training rows"
        notes = ["rows, not weighted"] * (self.effective_rows is not None)
        notes += [NOT_COUNTED if is_bound else MODELLED] * self.is_modelled
        return f"{text} ({'; '.join(notes)})" if notes else text


def support_paragraph(support: Support) -> cards.Html:
    """Return the number of supporting rows as a paragraph of a card."""
    if support.is_extrapolation:
        return cards.paragraph(f"Extrapolation: supported by {support.count_text}.", role="warning")
    return cards.paragraph(f"Supported by {support.count_text}.")


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
    weights: Floats | None = None,
    probability: float | None = None,
) -> Support:
    """Return the support of a condition beside given cells: one row, its free cells missing.

    With the training table, its rows are counted; they may have `weights`, (n,), as those of the model have. Without
    it, rows with a given number are those of the same bin.
    `probability` is the model's probability of the condition beside the given cells. It decides the estimate if the
    condition is more than bounds on one or two columns, for which counts are more precise. That of a weighted model is
    no fraction of rows, and decides only where counts say little.
    """
    beside = all_of(_given_parts(given))
    whole = all_of((predicate, beside))
    countable = name_counted_parts(tables, whole)
    upper_bound, least, counted, is_counted = _count_rows(tables, countable)
    if tables.differences:  # the counts of pairs of columns may tell that a comparison is impossible
        pairs = replace(tables, differences={})
        upper_bound = min(upper_bound, _count_rows(pairs, name_counted_parts(pairs, whole)).upper_bound)
        counted = min(counted, float(upper_bound))
    given_rows, estimate = _count_rows(tables, beside).estimate, counted
    bounds_only = all(map(_has_bounds_only, overlapping_branches(countable)))
    is_modelled = table is None and bool(least < MIN_CERTAIN_FRACTION * counted)
    if probability is not None and not is_counted and not (bounds_only and tables.worth is not None):
        estimate = min(float(upper_bound), float(probability) * given_rows)
        if not bounds_only:
            counted = estimate  # bins say little about columns that are compared, and about parts that are not counted
    elif is_modelled:
        estimate = counted = float(upper_bound)
    if tables.noise_std and not counted:
        estimate = 0.0  # the model learnt the noise of the counts, too
    if table is None:
        given_rows = max(given_rows, counted, estimate)
        found = Support(tables.n_rows, upper_bound, estimate, None, given_rows, counted, is_counted)
        effective = None if tables.worth is None else tables.worth * given_rows
        is_below_noise = bool(tables.noise_std and upper_bound and not estimate)
        return replace(found, effective_rows=effective, is_modelled=is_modelled, is_below_noise=is_below_noise)
    met, among = (evaluate(part, table) for part in (whole, beside))
    exact, n_given = int(met.sum()), int(among.sum())
    found = Support(tables.n_rows, upper_bound, estimate, exact, float(n_given), float(exact), is_counted=True)
    if tables.worth is None:
        return found
    if weights is None or not n_given:
        return replace(found, effective_rows=tables.worth * n_given)
    share = float(weights[met].sum()) / float(weights[among].sum())
    return replace(found, effective_rows=effective_size(weights[among]), weighted_share=share)


class _RowCounts(NamedTuple):
    """What the counts tell of the rows that satisfy a condition."""

    upper_bound: int
    least: float  # the rows of the cells of two compared columns all of whose values satisfy it, about
    estimate: float  # and half of the rows of the cells of which only some values do
    is_counted: bool  # whether its columns are counted together


def _count_rows(tables: ContingencyTables, predicate: BoundPredicate) -> _RowCounts:
    overlapping, disjoint = overlapping_branches(predicate), disjoint_branches(predicate, tables.columns)
    is_split = len(disjoint) >= len(overlapping)  # too many branches are returned as one
    disjoint = disjoint if is_split else overlapping
    upper_bound = sum(_branch_support(tables, branch.parts)[0] for branch in overlapping)
    upper_bound = min(upper_bound, tables.n_rows + _noise(tables, 1))
    least, estimate = (
        min(sum(_branch_support(tables, branch.parts, partial=each)[1] for branch in disjoint), float(upper_bound))
        for each in (0.0, 0.5)
    )
    is_told = is_split and all(_is_told(tables, part) for branch in disjoint for part in branch.parts)
    is_counted = is_split and all(_is_counted(tables, branch) for branch in disjoint)
    return _RowCounts(upper_bound, least if is_told else 0.0, estimate, is_counted)


def _is_told(tables: ContingencyTables, part: BoundPredicate) -> bool:
    """Return whether the counts tell anything of a part of a condition: it uses one column, or a counted pair."""
    names = tuple(columns_of(part))
    return len(names) <= 1 or (len(names) == 2 and tables.pair(*names) is not None)  # noqa: PLR2004


def _is_counted(tables: ContingencyTables, branch: Branch) -> bool:
    names = columns_of(branch.predicate)
    pairs = set(tables.pairs) | {(name, name) for name in tables.columns}
    return _has_bounds_only(branch) and any(names <= set(pair) for pair in pairs)


def _has_bounds_only(branch: Branch) -> bool:
    """Return whether each part uses one column, and no calendar part: those that are counted are columns here."""
    return all(len(columns_of(part)) <= 1 and not has_date_part(part) for part in branch.parts)


def _given_parts(given: Columns) -> Iterator[BoundPredicate]:
    """Yield given cells as conditions."""
    for name, cells in given.items():
        if cells.is_null[0]:
            yield IsMissing(name)
        elif not cells.missing[0]:
            value, n_categories = cells.values[0].item(), len(cells.categories)
            is_equal = Compare("=", ColumnRef(name), NumberLiteral(value))
            yield IsIn(name, (value,), n_categories) if n_categories else is_equal


def _branch_support(
    tables: ContingencyTables, parts: tuple[BoundPredicate, ...], *, partial: float = 0.5
) -> tuple[int, float]:
    """Return the upper bound and the estimate of one branch.

    `partial` is the fraction that counts of the cells of two compared columns of which some values satisfy it.
    """
    names = sorted(set().union(*map(columns_of, parts)) & set(tables.columns))
    allowed = {name: _allowed_rows(tables.columns[name], name, parts) for name in names}
    expected = {name: expected_rows(tables, name, parts) for name in names}
    noise = {name: _noise_of(tables, name, parts) for name in names}
    bounds = [tables.n_rows + _noise(tables, 1), *(int(allowed[name].sum()) + noise[name] for name in names)]
    expected = {name: rows if rows.sum() >= noise[name] else np.zeros_like(rows) for name, rows in expected.items()}
    fractions = {name: float(rows.sum()) / tables.n_rows for name, rows in expected.items()}
    joint: dict[tuple[str, str], float] = {}
    for (a, b), counts in tables.pairs.items():
        if a not in allowed or b not in allowed:
            continue
        first, second = tables.columns[a], tables.columns[b]
        rows_a, rows_b = sum_by_pair_bin(first, allowed[a]), sum_by_pair_bin(second, allowed[b])
        fraction = _satisfying_fraction(tables, a, b, parts)
        possible = (fraction > 0) & (rows_a > 0)[:, None] & (rows_b > 0)
        bounds.append(int(np.minimum((counts * possible).sum(axis=1), rows_a).sum()))
        bounds.append(int(np.minimum((counts * possible).sum(axis=0), rows_b).sum()))
        share_a, share_b = (shares_of_bins(tables, name, expected[name]) for name in (a, b))
        satisfied = np.where(fraction == SOME, partial, fraction) * possible
        joint[a, b] = float(share_a @ (expected_pair_counts(tables, a, b) * satisfied) @ share_b) / tables.n_rows
    for name in set(names) & tables.differences.keys():  # where its columns are observed, it does not depend on them
        for source in set(names) & {*tables.differences[name]}:
            observed = 1 - tables.columns[source].counts[-1] / tables.n_rows
            joint[name, source] = min(fractions[name] * fractions[source] / max(observed, math.ulp(0)), fractions[name])
    return min(bounds), tables.n_rows * _tree_probability(fractions, joint)


def _allowed_rows(bins: ColumnBins, name: str, parts: tuple[BoundPredicate, ...]) -> NDArray[np.int64]:
    """Return how many rows each bin of a column has that may satisfy the parts that use this column alone, (bins,)."""
    counts = bins.counts if bins.above is None else bins.above
    return counts * allowed_bins(bins, name, parts)


def _noise(tables: ContingencyTables, n_bins: int) -> int:
    """Return what the noise of so many bins together may be, in rows; 0 if the counts have none."""
    return math.ceil(NOISE_LEVEL * tables.noise_std * math.sqrt(n_bins))


def _noise_of(tables: ContingencyTables, name: str, parts: tuple[BoundPredicate, ...]) -> int:
    """Return what the noise of the bins that may satisfy the parts may be; the last bin is the sum of two."""
    if not tables.noise_std:
        return 0
    allowed = allowed_bins(tables.columns[name], name, parts)
    return _noise(tables, 1 if allowed.all() else int(allowed.sum()) + int(allowed[-1]))


def _satisfying_fraction(tables: ContingencyTables, a: str, b: str, parts: tuple[BoundPredicate, ...]) -> Floats:
    """Return which fraction of each cell of a pair of columns satisfies the parts that use both, (bins, bins).

    It is 0 if no values of the cell do, 1 if all do, and else `SOME`: of `a > b`, the cells on the diagonal.
    """
    shape = tables.pairs[a, b].shape
    both = [part for part in parts if columns_of(part) == {a, b}]
    if not both:
        return np.ones(shape)
    (low_a, high_a), (low_b, high_b) = _pair_boxes(tables.columns[a]), _pair_boxes(tables.columns[b])
    rows, columns = (index.ravel() for index in np.indices(shape))
    boxes = {a: (low_a[rows], high_a[rows]), b: (low_b[columns], high_b[columns])}
    may = may_satisfy(all_of(both), boxes, len(rows)).reshape(shape)
    may_fail = may_satisfy(negate(all_of(both)), boxes, len(rows)).reshape(shape)
    return np.where(may, np.where(may_fail, SOME, 1.0), 0.0)


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
