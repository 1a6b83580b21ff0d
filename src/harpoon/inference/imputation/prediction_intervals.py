"""Prediction intervals from draws: two numbers between which one more draw lies with a given probability.

The ends are order statistics. The k-th of m draws from a continuous distribution has probability k / (m + 1) below it,
for any distribution. A value that several draws share has a probability of its own (a spike). Such draws get
their mean rank, so that an end includes the value if more than half of its probability belongs inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, Floats, Kind
from harpoon.encoding.numeric import round_to_step

End = tuple[NDArray[Any], Floats]  # an end, and the probability beyond it
STEP_TOLERANCE = 1e-6  # of a step: closer to a valid value counts as valid
RELATIVE_TOLERANCE = 1e-9  # closer numbers are equal up to rounding
LEVEL_TOLERANCE = 0.01  # intervals whose levels differ by less are equally good
LEFT_OUT_DRAWS = 4
MAX_STEPS = 2.0**52  # of a column between two draws, up to which their number is exact


def interval(draws: NDArray[Any], level: float, column: Column) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of the interval of each cell, (m, n) to (n,) each: values that the column can have.

    They are some of its few values, or lie on the grid that all draws lie on, such as the multiples of five.

    Without ties both tails have the same probability. A spike, such as zero, is either inside or outside. So an end at
    a spike may leave out more or less than it should, and the other end compensates. Of all such intervals, the
    shortest of those closest to the level is chosen. The draws in the middle are always inside.

    >>> from harpoon import Column, Kind
    >>> low, high = interval(np.arange(1.0, 20.0)[:, None], 0.9, Column("x", Kind.NUMBER))
    >>> float(low[0]), float(high[0])
    (1.0, 19.0)
    """
    draws = np.sort(draws, axis=0)
    values = draws.astype(np.float64)
    tails = {1: _Tail(values), -1: _Tail(-values[::-1])}
    middle = {1: (len(draws) - 1) // 2, -1: len(draws) // 2}
    outside, spacing = np.full(draws.shape[1], 1 - level), _spacing(draws, column)

    def to_end(side: int, value: Floats) -> End:
        """Return an end at the resolution of the column, and the probability beyond it."""
        inside = _to_grid(_round_inwards(side * value, column, side), draws, column, side, spacing)
        inside = (np.minimum if side > 0 else np.maximum)(inside, draws[middle[side]])
        return inside, tails[side].probability_below(side * inside.astype(np.float64))

    ends = {side: [to_end(side, value) for value in tails[side].quantiles(outside / 2)] for side in tails}
    pairs = list(zip(ends[1], ends[-1], strict=True))
    pairs += [(low, to_end(-1, tails[-1].quantiles(outside - low[1])[0])) for low in ends[1]]
    pairs += [(to_end(1, tails[1].quantiles(outside - high[1])[0]), high) for high in ends[-1]]
    all_equal = draws[0] == draws[-1]  # then every digit counts, also of integers that a float cannot hold
    low, high = (np.where(all_equal, draws[0], end) for end in _best(pairs, level, len(draws)))
    return low, high


def min_draws(level: float) -> int:
    """Return how many draws an interval of this level needs.

    >>> min_draws(0.5), min_draws(0.9), min_draws(0.95)
    (3, 19, 39)
    """
    return math.ceil(2 / (1 - level) * (1 - RELATIVE_TOLERANCE)) - 1


def attainable_coverage(draws: Floats, level: float, column: Column) -> float:
    """Return the fraction of draws, (m, n), inside the interval of the other draws.

    That is the coverage of a perfect model, whose truths are further draws.
    """
    inside = []
    for left_out in range(min(LEFT_OUT_DRAWS, len(draws))):
        low, high = interval(np.delete(draws, left_out, axis=0), level, column)
        tolerance = RELATIVE_TOLERANCE * np.abs(draws[left_out])
        inside.append((low - tolerance <= draws[left_out]) & (draws[left_out] <= high + tolerance))
    return float(np.mean(inside))


class _Tail:
    """The empirical distribution of draws, seen from its lower end.

    Attributes:
        values: The draws in ascending order, (m, n).
        below: The probability below each draw, (m, n).
        middle: The same plus half of the probability of its own value, which is 0 without ties.
        up_to: The same plus all of the probability of its own value.
    """

    def __init__(self, values: Floats) -> None:
        from scipy.stats import rankdata

        m, (first, last) = len(values), (rankdata(values, method, axis=0) for method in ("min", "max"))
        gap = 1 - 1 / (last - first + 1)  # how much of the gaps beside it a value with ties takes
        self.values = values
        self.below, self.up_to = (first - gap) / (m + 1), (last + gap) / (m + 1)
        self.middle = (first + last) / 2 / (m + 1)

    def quantiles(self, probability: Floats) -> tuple[Floats, Floats]:
        """Return the quantile of each cell, (n,), and the same moved to the spike beside it, if there is one."""
        right = (self.middle < probability - RELATIVE_TOLERANCE).sum(axis=0).clip(max=len(self.values) - 1)
        left = np.maximum(right - 1, 0)
        low, high = _take(self.values, left), _take(self.values, right)
        p_low, p_high = _take(self.middle, left), _take(self.middle, right)
        weight = np.divide(probability - p_low, p_high - p_low, out=np.zeros_like(p_low), where=p_high > p_low)
        weight = weight.clip(0, 1)
        quantile: Floats = np.clip(low * (1 - weight) + high * weight, low, high)
        return quantile, np.where(_take(self.below, left) < p_low, low, quantile)

    def probability_below(self, end: Floats) -> Floats:
        """Return the probability below a number of each cell, (n,)."""
        right = (self.values < end).sum(axis=0)
        left = np.maximum(right - 1, 0)
        right = right.clip(max=len(self.values) - 1)
        low, high = _take(self.values, left), _take(self.values, right)
        p_low, p_high = _take(self.up_to, left), _take(self.below, right)
        with np.errstate(over="ignore"):  # the difference of two floats may be infinite
            weight = np.divide(end - low, high - low, out=np.ones_like(end), where=high > low).clip(0, 1)
        probability: Floats = np.where(weight < 1, p_low + weight * (p_high - p_low), p_high)
        return probability


def _best(pairs: Sequence[tuple[End, End]], level: float, draws: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the first interval of each cell, or the shortest of those that are closer to the level."""
    error = np.stack([np.abs(1 - below - above - level) for (_, below), (_, above) in pairs])
    error = np.floor((error - error.min(axis=0)) / max(LEVEL_TOLERANCE, 1 / (2 * draws + 2)))
    with np.errstate(over="ignore"):
        lengths = np.stack([high.astype(np.float64) - low for (low, _), (high, _) in pairs])
    lengths[0] = -1  # equal tails are preferred
    best = np.where(error == 0, lengths, np.inf).argmin(axis=0)[None]
    low, high = (np.stack([pair[side][0] for pair in pairs]) for side in (0, 1))
    return np.take_along_axis(low, best, axis=0)[0], np.take_along_axis(high, best, axis=0)[0]


def _take(values: Floats, row: NDArray[np.intp]) -> Floats:
    taken: Floats = np.take_along_axis(values, row[None], axis=0)[0]
    return taken


def _spacing(draws: NDArray[Any], column: Column) -> int:
    """Return how many steps of the column are between values on the grid of all draws, at least 1."""
    step = column.step or (0 if column.kind is Kind.NUMBER else 1)
    if not step or not draws.size:
        return 1
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint((draws - draws.flat[0]).astype(np.float64) / step)
    if not (np.abs(steps) < MAX_STEPS).all():
        return 1
    return max(int(np.gcd.reduce(np.unique(steps.astype(np.int64)))), 1)


def _to_grid(ends: NDArray[Any], draws: NDArray[Any], column: Column, direction: int, spacing: int) -> NDArray[Any]:
    """Return the next values inwards that the column can have, (n,): of its few, or on the grid of the draws."""
    if column.values and column.clip and np.isin(draws, column.values).all():
        known = np.array(column.values, dtype=draws.dtype)
        index = np.searchsorted(known, ends) if direction > 0 else np.searchsorted(known, ends, side="right") - 1
        return np.asarray(known[index.clip(0, len(known) - 1)])
    if spacing == 1:
        return ends
    origin, step = draws.flat[0], spacing * (column.step or 1)
    steps = np.rint((ends - origin).astype(np.float64) / (column.step or 1)) / spacing
    steps = np.ceil(steps) if direction > 0 else np.floor(steps)
    values = origin + (steps * step).astype(draws.dtype)
    return round_to_step(values.astype(np.float64), column) if column.kind is Kind.NUMBER else np.asarray(values)


def _round_inwards(end: Floats, column: Column, direction: int) -> NDArray[Any]:
    """Return the first valid value of the column that is not outside the end."""
    rounded, step = round_to_step(end, column), column.step or (0 if column.kind is Kind.NUMBER else 1)
    if not step:
        return rounded
    is_outside = (end - rounded) * direction > STEP_TOLERANCE * step
    inside: NDArray[Any] = rounded + (is_outside * direction * step).astype(rounded.dtype)
    return round_to_step(inside.astype(np.float64), column) if column.kind is Kind.NUMBER else inside
