"""What one column takes by itself: its values and how often, and which of them a condition leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.bound import All, Bound, Either, Inequality, Number, Operation, Term
from harpoon.cells import Cells
from harpoon.conforming import STORAGE
from harpoon.encodings import SpikeCodec, snapped, within
from harpoon.exact import holds
from harpoon.kinds import Column
from harpoon.scaling import Floats

FINE = 4096  # values that stand for the law of a column
UNSEEN = 1e-6  # the share of a region without any row that is still within reach


@dataclass(frozen=True)
class Marginal:
    """Values of a numeric column with the share of each."""

    cells: Cells
    shares: Floats

    @property
    def mass(self) -> float:
        """How often the column takes one of the values."""
        return float(self.shares.sum())

    def drawn(self, uniform: Floats) -> Cells:
        """A value for each number between 0 and 1."""
        ends = np.cumsum(self.shares)
        return self.cells[np.searchsorted(ends / ends[-1], uniform, side="right").clip(max=len(ends) - 1)]


def marginal(codec: SpikeCodec, spike_shares: Floats) -> Marginal:
    """The law of a column as the training rows had it: its point masses, and its ranks in even steps."""
    from scipy.special import ndtri

    column, masses = codec.column, np.asarray(spike_shares[1:])
    values, shares = [within(np.array(codec.spikes), column)], [masses]
    if codec.ranks:
        values.append(within(codec.ranks.inverse(ndtri((np.arange(FINE) + 0.5) / FINE)), column))
        shares.append(np.full(FINE, max(1.0 - float(masses.sum()), 0.0) / FINE))
    return Marginal(_cells(column, np.concatenate(values)), np.concatenate(shares))


def restricted(law: Marginal, column: Column, bound: Bound) -> Marginal | None:
    """The part of a law that a condition on this column alone leaves; None if nothing is within reach.

    Where no value is left, the region between the training values counts as within reach as long as it lies in the
    column's range.
    """
    met = holds(bound, {column.name: law.cells}) & (law.shares > 0)
    if met.any():
        return Marginal(law.cells[met], law.shares[met])
    between = _cells(column, np.unique(snapped(_within_range(column, bound), column)))
    met = holds(bound, {column.name: between})
    count = int(met.sum())
    return Marginal(between[met], np.full(count, UNSEEN / count)) if count else None


def _within_range(column: Column, bound: Bound) -> NDArray[np.float64]:
    """Values over the range of the column, and close to the numbers that a condition names."""
    if column.minimum is None or column.maximum is None:
        return np.zeros(0)
    named = np.unique(list(_numbers(bound)) or [float(column.minimum)])
    step = float(column.step or 0) or (float(column.maximum) - float(column.minimum)) * 1e-6
    middle = (named[1:] + named[:-1]) / 2
    even = np.linspace(float(column.minimum), float(column.maximum), FINE)
    values = np.unique(np.concatenate([even, named, named - step, named + step, middle]))
    if column.clip:
        values = values[(values >= column.minimum) & (values <= column.maximum)]
    return values


def _numbers(bound: Bound | Term) -> set[float]:
    """The numbers that a condition names."""
    match bound:
        case Number(value):
            return {float(value)}
        case All(parts) | Either(parts):
            return set().union(*map(_numbers, parts))
        case Inequality(_, left, right):
            return _numbers(left) | _numbers(right)
        case Operation(_, operands):
            return set().union(*map(_numbers, operands))
        case _:
            return set()


def _cells(column: Column, values: NDArray[Any]) -> Cells:
    return Cells(STORAGE[column.kind], values, np.zeros(len(values), dtype=np.bool_), unit=column.unit)
