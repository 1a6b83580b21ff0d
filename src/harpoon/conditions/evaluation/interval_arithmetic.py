"""Which boxes may hold rows that satisfy a condition: interval arithmetic on a bound predicate.

A box has an interval of values for some columns, and any value of the others. The answer errs on the safe side: a box
that is called impossible holds no row that satisfies the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from harpoon.conditions.binding import bound
from harpoon.conditions.binding.bound import BoundPredicate, NumericTerm
from harpoon.conditions.evaluation.evaluate import MAX_EXPONENT
from harpoon.data import MAX_EXACT_INTEGER, Floats, Mask
from harpoon.data.date_parts import MAX_TICKS, date_part, to_local

Interval = tuple[Any, Any]  # the lowest and highest value, (n,) or a number; NaN where a cell is missing
Boxes = Mapping[str, Interval]

ANY_VALUE: Interval = (-np.inf, np.inf)


def may_satisfy(predicate: BoundPredicate, boxes: Boxes, count: int | tuple[int, ...]) -> Mask:
    """Return which of `count` boxes may hold a row that satisfies a condition, (count,); or an array of this shape.

    The interval of a category is its code twice; NaN twice is a missing cell.

    >>> from harpoon.conditions.binding.bound import ColumnRef, Compare, NumberLiteral
    >>> boxes = {"age": (np.array([0.0, 18.0, np.nan]), np.array([17.0, 64.0, np.nan]))}
    >>> may_satisfy(Compare(">", ColumnRef("age"), NumberLiteral(17)), boxes, 3).tolist()
    [False, True, False]
    """
    return np.array(np.broadcast_to(_may_satisfy(predicate, boxes), count), dtype=np.bool_)


def _may_satisfy(predicate: BoundPredicate, boxes: Boxes) -> Any:  # noqa: ANN401, PLR0911
    match predicate:
        case bound.Constant(truth):
            return truth
        case bound.AllOf(parts):
            return reduce(np.logical_and, (_may_satisfy(part, boxes) for part in parts))
        case bound.AnyOf(parts):
            return reduce(np.logical_or, (_may_satisfy(part, boxes) for part in parts))
        case bound.IsMissing(column, missing) if column in boxes:
            return np.isnan(boxes[column][0]) == missing
        case bound.IsIn(column, allowed) if column in boxes:
            low, high = boxes[column]
            return np.where(low == high, np.isin(low, allowed), ~np.isnan(low))
        case bound.SameCategory(left, right, partners, same) if left in boxes and right in boxes:
            return _may_agree(boxes[left], boxes[right], np.array([*partners, -1], dtype=np.float64), same=same)
        case bound.Compare(operator, left, right):
            with np.errstate(all="ignore"):
                return _may_compare(operator, _interval(left, boxes), _interval(right, boxes))
    return True


def _may_agree(left: Interval, right: Interval, partners: Floats, *, same: bool) -> Any:  # noqa: ANN401
    is_point = (left[0] == left[1]) & (right[0] == right[1])
    partner = partners[np.where(is_point, left[0], -1).astype(np.int64)]
    return np.where(is_point, (partner == right[0]) == same, ~np.isnan(left[0]) & ~np.isnan(right[0]))


def _may_compare(operator: str, left: Interval, right: Interval) -> Any:  # noqa: ANN401
    (a, b), (c, d) = left, right
    is_exact = np.maximum(np.abs(a), np.abs(d)) < MAX_EXACT_INTEGER
    match operator:
        case "<" | "<=":
            return (a < d) | ((a == d) & ((operator == "<=") | ~is_exact))
        case ">" | ">=":
            return _may_compare(operator.replace(">", "<"), right, left)
        case "=":
            return (a <= d) & (c <= b)
    is_known = ~np.isnan(a) & ~np.isnan(c)
    return is_known & ~((a == b) & (c == d) & (a == c) & is_exact)


def _interval(term: NumericTerm, boxes: Boxes) -> Interval:
    match term:
        case bound.NumberLiteral(value):
            return np.float64(value), np.float64(value)
        case bound.ColumnRef(column):
            return boxes.get(column, ANY_VALUE)
        case bound.Operation(operator, operands) if operator in INTERVALS:
            return INTERVALS[operator](*(_interval(operand, boxes) for operand in operands))
        case bound.DatePart(part, operand, tick, zone):
            return _part_of_point(part, _interval(operand, boxes), tick, zone)
    return ANY_VALUE


def _part_of_point(part: str, times: Interval, tick: int, zone: str) -> Interval:
    """Return the interval of a calendar part: its value for a single time, and any value between two times."""
    low, high = np.broadcast_arrays(*times)
    value = np.full(low.shape, np.nan)
    is_point = low == high  # also not for a missing cell
    ticks = np.floor(np.clip(low[is_point], -MAX_TICKS, MAX_TICKS)).astype(np.int64)
    value[is_point] = date_part(part, to_local(ticks, tick, zone), tick)
    is_range = low < high
    return np.where(is_range, -np.inf, value), np.where(is_range, np.inf, value)


def _from_corners(function: Callable[[Any, Any], Any], left: Interval, right: Interval) -> Interval:
    """Return the range of a function of two numbers that has its extremes at the corners of a box."""
    corners = [function(x, y) for x in left for y in right]
    is_known = ~np.isnan(left[0]) & ~np.isnan(right[0])
    corners = [np.where(is_known & np.isnan(corner), 0.0, corner) for corner in corners]  # zero times infinity
    return reduce(np.minimum, corners), reduce(np.maximum, corners)


def _quotient(left: Interval, right: Interval) -> Interval:
    low, high = _from_corners(np.divide, left, right)
    has_zero = (right[0] <= 0) & (right[1] >= 0)
    return np.where(has_zero, -np.inf, low), np.where(has_zero, np.inf, high)


def _absolute(interval: Interval) -> Interval:
    low, high = np.abs(interval[0]), np.abs(interval[1])
    has_zero = (interval[0] <= 0) & (interval[1] >= 0)
    return np.where(has_zero, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _logarithm(function: Callable[[Any], Any]) -> Callable[[Interval], Interval]:
    def interval(operand: Interval) -> Interval:
        high = np.where(operand[1] > 0, function(operand[1]), np.nan)
        return np.where(np.isnan(high), np.nan, function(np.maximum(operand[0], 0.0))), high

    return interval


def _exponential(operand: Interval) -> Interval:
    low, high = (np.exp(np.minimum(end, MAX_EXPONENT)) for end in operand)
    return low, high


def _extreme(best: Callable[[Any, Any], Any]) -> Callable[..., Interval]:
    """Return the interval of the least or greatest operand; `best` ignores NaN, as missing operands are ignored."""
    return lambda *operands: (reduce(best, (low for low, _ in operands)), reduce(best, (high for _, high in operands)))


# An operation that is not here may have any value.
INTERVALS: dict[str, Callable[..., Interval]] = {
    "+": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "-": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "*": lambda x, y: _from_corners(np.multiply, x, y),
    "/": _quotient,
    "negative": lambda x: (-x[1], -x[0]),
    "abs": _absolute,
    "log": _logarithm(np.log10),
    "ln": _logarithm(np.log),
    "exp": _exponential,
    "least": _extreme(np.fmin),
    "greatest": _extreme(np.fmax),
}
