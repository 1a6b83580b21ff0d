"""Intervals from draws: two numbers that one more draw lies between with a given probability.

Their ends are order statistics. The k-th of m draws of a continuous law has k / (m + 1) of the law below it, whatever
the law is. Draws that agree stand for a value that has a probability of its own: they share their mean rank, so that an
end includes such a value if more than half of it belongs inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column import Column, Kind
from harpoon.data.statistics import Floats
from harpoon.encoding.numeric import round_to_step

End = tuple[NDArray[Any], Floats]  # an end, and the share of the law beyond it
ROUNDED = 1e-6  # of a step: nearer to the grid is on it
SAME = 1e-9  # of its size: nearer than that is the same number, rounded
NEAR = 0.01  # shares of a law that are as good as each other
LEFT_OUT = 4  # draws that take the part of the truth


def interval(drawn: NDArray[Any], level: float, column: Column) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ends of the interval of each cell, on the column's grid: (draws, n) to (n,) each.

    Where no draws agree, both tails are as likely as each other. A value of a probability of its own, such as zero, is
    inside or not; so that an end at such a value may leave more or less outside than it should, and the other end makes
    up for it. Of all such intervals each cell has the shortest of those that hold what comes nearest to the level. The
    draws in the middle are always inside.
    """
    drawn = np.sort(drawn, axis=0)
    values = drawn.astype(np.float64)
    tails, middle = {1: _Tail(values), -1: _Tail(-values[::-1])}, {1: (len(drawn) - 1) // 2, -1: len(drawn) // 2}
    both = np.full(drawn.shape[1], 1 - level)

    def placed(side: int, end: Floats) -> End:
        """An end on the grid, and the share of the law that is beyond it."""
        inside = _inside(side * end, column, side)
        inside = (np.minimum if side > 0 else np.maximum)(inside, drawn[middle[side]])
        return inside, tails[side].beyond(side * inside.astype(np.float64))

    ends = {side: [placed(side, end) for end in tails[side].ends(both / 2)] for side in tails}
    pairs = list(zip(ends[1], ends[-1], strict=True))
    pairs += [(low, placed(-1, tails[-1].ends(both - low[1])[0])) for low in ends[1]]
    pairs += [(placed(1, tails[1].ends(both - high[1])[0]), high) for high in ends[-1]]
    agreed = drawn[0] == drawn[-1]  # of which doubles would not hold every digit of a large whole number
    low, high = (np.where(agreed, drawn[0], end) for end in _nearest(pairs, level, len(drawn)))
    return low, high


def _nearest(pairs: Sequence[tuple[End, End]], level: float, draws: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of several intervals of each cell the first, or the shortest of those that hold what is nearer to the level."""
    off = np.stack([np.abs(1 - below - above - level) for (_, below), (_, above) in pairs])
    off = np.floor((off - off.min(axis=0)) / max(NEAR, 1 / (2 * draws + 2)))
    with np.errstate(over="ignore"):
        lengths = np.stack([high.astype(np.float64) - low for (low, _), (high, _) in pairs])
    lengths[0] = -1  # equal tails, if they will do
    best = np.where(off == 0, lengths, np.inf).argmin(axis=0)[None]
    low, high = (np.stack([pair[side][0] for pair in pairs]) for side in (0, 1))
    return np.take_along_axis(low, best, axis=0)[0], np.take_along_axis(high, best, axis=0)[0]


def min_draws(level: float) -> int:
    """How many draws an interval of this level takes at least.

    >>> draws_for(0.5), draws_for(0.9), draws_for(0.95)
    (3, 19, 39)
    """
    return math.ceil(2 / (1 - level) * (1 - SAME)) - 1


def attainable_coverage(drawn: Floats, level: float, column: Column) -> float:
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

    def ends(self, share: Floats) -> tuple[Floats, Floats]:
        """The number that has such a share of the law below it, and where that is beside a value, this value, (n,)."""
        right = (self.middle < share - SAME).sum(axis=0).clip(max=len(self.values) - 1)
        left = np.maximum(right - 1, 0)
        (low, high), (from_, to) = ([_taken(of, place) for place in (left, right)] for of in (self.values, self.middle))
        way = np.divide(share - from_, to - from_, out=np.zeros_like(from_), where=to > from_).clip(0, 1)
        number: Floats = np.clip(low * (1 - way) + high * way, low, high)
        return number, np.where(_taken(self.below, left) < from_, low, number)

    def beyond(self, end: Floats) -> Floats:
        """The share of the law that is less than a number of each cell, (n,)."""
        right = (self.values < end).sum(axis=0)
        left = np.maximum(right - 1, 0)
        right = right.clip(max=len(self.values) - 1)
        low, high = (_taken(self.values, place) for place in (left, right))
        from_, to = _taken(self.up_to, left), _taken(self.below, right)
        with np.errstate(over="ignore"):  # numbers may be as far apart as no number is
            way = np.divide(end - low, high - low, out=np.ones_like(end), where=high > low).clip(0, 1)
        share: Floats = np.where(way < 1, from_ + way * (to - from_), to)
        return share


def _taken(of: Floats, place: NDArray[np.intp]) -> Floats:
    taken: Floats = np.take_along_axis(of, place[None], axis=0)[0]
    return taken


def _inside(end: Floats, column: Column, inwards: int) -> NDArray[Any]:
    """The end of an interval on the column's grid: the first step that is not outside."""
    on_grid, step = round_to_step(end, column), column.step or (0 if column.kind is Kind.NUMBER else 1)
    if not step:
        return on_grid
    outside = (end - on_grid) * inwards > ROUNDED * step
    inside: NDArray[Any] = on_grid + (outside * inwards * step).astype(on_grid.dtype)
    return round_to_step(inside.astype(np.float64), column) if column.kind is Kind.NUMBER else inside
