"""Intervals from draws: two numbers that one more draw lies between with a given probability.

Their ends are order statistics. The k-th of m draws of a continuous law has k / (m + 1) of the law below it, whatever
the law is. Draws that agree stand for a value that has a probability of its own: they share their mean rank, so that an
end includes such a value if more than half of it belongs inside.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.encodings import snapped
from harpoon.kinds import Column, Kind

Floats = NDArray[np.float64]
ROUNDED = 1e-6  # of a step: nearer to the grid is on it
SAME = 1e-9  # of its size: nearer than that is the same number, rounded
LEFT_OUT = 4  # draws that take the part of the truth


def interval(drawn: NDArray[Any], level: float, column: Column) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ends of the interval of each cell, on the column's grid: (draws, n) to (n,) each.

    Both tails are as likely as each other, as far as that can be. Where one end is a value of a probability of its own,
    such as zero, and less lies beyond it than its tail may have, the other end takes what is left; so that the interval
    holds what it says, and is no longer than that takes. The draws in the middle are always inside.
    """
    drawn = np.sort(drawn, axis=0)
    values = drawn.astype(np.float64)
    tails = {1: _Tail(values), -1: _Tail(-values[::-1])}

    def placed(side: int, share: Floats) -> tuple[NDArray[Any], Floats]:
        """An end with a share of the law beyond it, as nearly as may be, and the share that there is."""
        end = _inside(side * tails[side].end(share), column, side)
        return end, tails[side].beyond(side * end.astype(np.float64))

    half = np.full(drawn.shape[1], (1 - level) / 2)
    (low, below), (high, above) = placed(1, half), placed(-1, half)
    low = np.where(above < below, placed(1, half + (half - above).clip(min=0))[0], low)
    high = np.where(below < above, placed(-1, half + (half - below).clip(min=0))[0], high)
    return np.minimum(low, drawn[(len(drawn) - 1) // 2]), np.maximum(high, drawn[len(drawn) // 2])


def draws_for(level: float) -> int:
    """How many draws an interval of this level takes at least.

    >>> draws_for(0.5), draws_for(0.9), draws_for(0.95)
    (3, 19, 39)
    """
    return math.ceil(2 / (1 - level) * (1 - SAME)) - 1


def attainable(drawn: Floats, level: float, column: Column) -> float:
    """The share of drawn numbers, (draws, n), inside the interval of the other draws: what truths drawn alike reach."""
    inside = []
    for left_out in range(min(LEFT_OUT, len(drawn))):
        low, high = interval(np.delete(drawn, left_out, axis=0), level, column)
        slack = SAME * np.abs(drawn[left_out])
        inside.append((low - slack <= drawn[left_out]) & (drawn[left_out] <= high + slack))
    return float(np.mean(inside))


class _Tail:
    """Where draws stand in their law, as seen from its lower end.

    Attributes:
        values: The draws, in rising order, (m, n).
        below: The share of the law below each, likewise.
        middle: The share below it and half of its own, which a single draw has none of.
        up_to: The share below it and all of its own.
    """

    def __init__(self, values: Floats) -> None:
        m, rank = len(values), np.arange(1, len(values) + 1)[:, None]
        new = np.vstack([np.ones_like(values[:1], dtype=np.bool_), values[1:] != values[:-1]])
        first = np.maximum.accumulate(np.where(new, rank, 1), axis=0)
        last = np.minimum.accumulate(np.where(np.roll(new, -1, axis=0), rank, m)[::-1], axis=0)[::-1]
        edge = 1 - 1 / (last - first + 1)  # the gaps beside a draw belong to a value the more, the more often it came
        self.values = values
        self.below, self.up_to = (first - edge) / (m + 1), (last + edge) / (m + 1)
        self.middle = (first + last) / 2 / (m + 1)

    def end(self, share: Floats) -> Floats:
        """The number that has such a share of the law below it, (n,)."""
        right = (self.middle < share).sum(axis=0).clip(max=len(self.values) - 1)
        left = np.maximum(right - 1, 0)
        (low, high), (from_, to) = ([_taken(of, place) for place in (left, right)] for of in (self.values, self.middle))
        way = np.divide(share - from_, to - from_, out=np.zeros_like(from_), where=to > from_).clip(0, 1)
        number: Floats = low * (1 - way) + high * way
        return number

    def beyond(self, end: Floats) -> Floats:
        """The share of the law that is less than a number of each cell, (n,)."""
        right = (self.values < end).sum(axis=0)
        left = np.maximum(right - 1, 0)
        right = right.clip(max=len(self.values) - 1)
        low, high = (_taken(self.values, place) for place in (left, right))
        from_, to = _taken(self.up_to, left), _taken(self.below, right)
        way = np.divide(end - low, high - low, out=np.ones_like(end), where=high > low).clip(0, 1)
        share: Floats = np.where(way < 1, from_ + way * (to - from_), to)
        return share


def _taken(of: Floats, place: NDArray[np.intp]) -> Floats:
    taken: Floats = np.take_along_axis(of, place[None], axis=0)[0]
    return taken


def _inside(end: Floats, column: Column, inwards: int) -> NDArray[Any]:
    """The end of an interval on the column's grid: the first step that is not outside."""
    on_grid, step = snapped(end, column), column.step or (0 if column.kind is Kind.NUMBER else 1)
    if not step:
        return on_grid
    outside = (end - on_grid) * inwards > ROUNDED * step
    inside: NDArray[Any] = on_grid + (outside * inwards * step).astype(on_grid.dtype)
    return snapped(inside.astype(np.float64), column) if column.kind is Kind.NUMBER else inside
