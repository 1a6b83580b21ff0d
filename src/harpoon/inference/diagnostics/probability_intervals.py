"""Intervals of probabilities, shares and means: the error of the training sample and of the simulation together.

A model knows a distribution only from its training rows, however many rows are sampled from it. If k of n training rows
satisfy a condition, its probability has the posterior Beta(k + 1/2, n - k + 1/2) (Jeffreys' prior), and the interval is
the one of this posterior. It is widened to the estimate of the model, which may differ from the counts, because the
model has learnt imperfectly and because its rows are simulated, and a quarter of a standard error of the simulation
beyond it: an end that equals the estimate would look certain. The same holds for the share of a category under a
condition, of which n are the training rows that satisfy the condition, and for a mean, of which Student's t gives the
interval, to which the error of suppressed counts is added.
A share of 0 or 1 has one end only: 0 of n rows leave 1 - 0.05^(1/n), about 3 / n (the rule of three).

k and n are counted in the table where it is at hand, and else in the one- and two-way counts of the model file. A
condition on more columns has a product of these counts only. Then the interval is that of the posterior around the
estimate of the model, as if it were the share of so many rows as simulation and training sample are worth together,
widened to the product. Of comparisons between columns, or of calendar parts, counts say too little to widen it. A share
or a mean under a condition on more than one column has no interval without the table.

The intervals of a weighted model are those of the population that the weights describe. Counts of rows say nothing
about its shares, only how sure one can be: as sure as of the effective number of rows, (Σw)² / Σw² (Kish, 1965). The
interval is then that around the estimate of the model, or, where a table with weights is at hand, that of its weighted
share, widened to the estimate.
"""

from __future__ import annotations

import math

from scipy.special import betaincinv, stdtrit

from harpoon.inference.diagnostics.conditional_counts import ConditionalCounts
from harpoon.inference.diagnostics.support import Support

LEVEL = 0.95
ONE_ROW = 1 - 1e-9  # a share times its rows may miss an integer by rounding
MARGIN = 0.25  # by which an interval reaches beyond the estimate of the model, in standard errors of the simulation
Ends = tuple[float, float]


def probability_interval(probability: float, sampled: float, support: Support) -> Ends:
    """Return the 95 % interval of the probability of a condition, estimated from so many sampled rows.

    That of a contradiction is exactly 0. What the model excludes for another reason, such as a number beyond the range
    of the training rows, is only known not to be in these rows.
    """
    if support.is_contradiction:
        return 0.0, 0.0
    given = support.given_rows
    if support.effective_rows is not None:
        return _weighted_interval(probability, sampled, support.effective_rows, support.weighted_share)
    counted = support.counted / max(given, support.counted, 1.0)
    if support.is_counted:
        # The model knows no share better than its training rows do, however many rows an estimate is worth.
        return _hull(share_interval(counted, math.inf, given), _around_share(probability, min(sampled, given)))
    return _hull(share_interval(probability, sampled, given), (counted, counted))


def _weighted_interval(share: float, sampled: float, effective_rows: float, weighted_share: float | None) -> Ends:
    """Return the interval of a share of a weighted population, of which so many rows of equal weight are known."""
    if weighted_share is None:
        return share_interval(share, sampled, effective_rows)
    of_table = share_interval(weighted_share, math.inf, effective_rows)
    return _hull(of_table, _around_share(share, min(sampled, effective_rows)))


def share_under_condition(share: float, sampled: float, training: ConditionalCounts, value: float) -> Ends:
    """Return the 95 % interval of the share of a value under a condition, estimated from so many sampled rows."""
    if training.worth is not None:
        return _weighted_interval(share, sampled, training.worth * training.total, None)
    of_count = share_interval(training.share(value), math.inf, training.total)
    return _hull(of_count, _around_share(share, sampled))


def mean_under_condition(mean: float, error: float, training: ConditionalCounts) -> Ends | None:
    """Return the 95 % interval of a mean under a condition, of which `mean` is the estimate of the model.

    `error` is its standard error by the simulation. None if fewer than two training rows satisfy the condition.
    """
    if training.worth is not None:
        rows, (_, deviation) = training.worth * training.total, training.moments()
        return mean_interval(mean, deviation, rows, math.hypot(error, training.counting_error()))
    of_training = mean_interval(*training.moments(), training.total, training.counting_error())
    return None if of_training is None else _hull(of_training, (mean - MARGIN * error, mean + MARGIN * error))


def _around_share(share: float, sampled: float) -> Ends:
    """Return a simulated share less and plus its margin; a share of 0 or 1 has none."""
    margin = MARGIN * math.sqrt(share * (1 - share) / max(sampled, 1.0))
    return max(share - margin, 0.0), min(share + margin, 1.0)


def _hull(first: Ends, second: Ends) -> Ends:
    return min(first[0], second[0]), max(first[1], second[1])


def share_interval(share: float, sampled: float, training: float) -> Ends:
    """Return the 95 % interval of a share of sampled rows that is learnt from so many training rows.

    It is that of Jeffreys' posterior of as many independent rows as both are worth: 1 / (1 / sampled + 1 / training).
    Less than one row on a side leaves that side open, and the other at least the bound of none (rule of three).

    >>> share_interval(0.3, 1000, 100), share_interval(0.3, 1000, math.inf), share_interval(0.0, 1000, math.inf)
    ((0.2131..., 0.3993...), (0.2722..., 0.3289...), (0.0, 0.00299...))
    """
    rows = 1 / (1 / max(sampled, math.ulp(0)) + 1 / max(training, math.ulp(0)))
    return 1 - _upper_end(1 - share, rows), _upper_end(share, rows)


def _upper_end(share: float, rows: float) -> float:
    """Return the upper end of the interval of a share of so many rows."""
    hits, misses = share * rows, (1 - share) * rows
    if misses < ONE_ROW:
        return 1.0
    of_none = -math.expm1(math.log(1 - LEVEL) / rows) if hits < ONE_ROW else 0.0
    end = 0.0 if hits <= 0 else float(betaincinv(hits + 0.5, misses + 0.5, (1 + LEVEL) / 2))
    return max(end, of_none)


def mean_interval(mean: float, deviation: float, rows: float, counting_error: float = 0.0) -> Ends | None:
    """Return the 95 % interval of a mean of so many rows, by Student's t; None of fewer than two.

    `counting_error` is the standard error by which their values are not known.

    >>> mean_interval(1.0, 2.0, 100), mean_interval(1.0, 2.0, 1)
    ((0.6011..., 1.3988...), None)
    """
    if rows < 2:  # noqa: PLR2004
        return None
    half = float(stdtrit(rows - 1, (1 + LEVEL) / 2)) * math.hypot(deviation / math.sqrt(rows - 1), counting_error)
    return mean - half, mean + half
