"""How the cells of one column become numbers, and back: one small class per way.

Encoding is exact in double precision, so `decode(encode(cells))` gives the cells back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harpoon.data.coercion import STORAGE
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray
from harpoon.data.statistics import Counted, Floats, Tally
from harpoon.encoding.base import LINE, Part, Shape
from harpoon.encoding.categorical import _corners
from harpoon.encoding.scalers import SCALINGS, Quantile, Ranks, Standard, ascending
from harpoon.encoding.units import PLAIN, Unit

SPIKE_SHARE, FEW_VALUES = 0.03, 32


CERTAIN = 0.99


EXACT = 2**52  # integers up to here are exact as floats
LOWEST, HIGHEST = -(2**63), 2**63 - 1024  # the whole numbers of 64 bits that are floats too


@dataclass(frozen=True)
class NumberCodec:
    """A numeric column as one scaled number; decoding returns to the column's grid and range."""

    column: Column
    scaling: Standard | Quantile
    parts: ClassVar[tuple[Part, ...]] = LINE

    @classmethod
    def fit(cls, column: Column, tally: Tally, scaling: str) -> NumberCodec:
        """Learn the scale from the observed cells."""
        return cls(column, SCALINGS[scaling].fit(_counted(column, tally)))

    def encode(self, cells: ColumnArray) -> Floats:
        """Scaled values."""
        x = self.scaling.forward(_present(cells, origin_of(self.column)))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, expected: bool = False) -> ColumnArray:  # noqa: ARG002
        """Values on the column's grid, within its range unless that is lifted."""
        values = within(self.scaling.inverse(x[:, 0]), self.column)
        missing = np.zeros(len(x), dtype=np.bool_)
        return ColumnArray(STORAGE[self.column.kind], values, missing, unit=self.column.unit)

    def expectation(self, x: Floats) -> Floats:
        """Off the grid and beyond the range if that is where it is."""
        return self.scaling.inverse(x[:, 0]) + origin_of(self.column)


@dataclass(frozen=True)
class SpikeCodec:
    """A numeric column in the shapes that suit each question about it.

    Its mean is what errors are measured on; its rank is what is drawn; and beside them stands which of the column's
    point masses it is, if any. Real columns have values that occur again and again (no capital gain, forty hours). A
    mass is a category, and treating it as one is what lets drawn rows have it exactly as often. The rank of a mass
    says nothing, so all ranks stand for it.
    """

    number: NumberCodec
    ranks: Ranks | None  # None: every value is a mass
    spikes: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.ranks is None and not self.spikes:
            raise ValueError(f"column {self.column.name!r} has neither ranks nor point masses")
        if len(self.spikes) > FEW_VALUES or not np.isfinite(self.spikes).all() or not ascending(self.spikes):
            raise ValueError(f"column {self.column.name!r} needs at most {FEW_VALUES} ascending point masses")

    @classmethod
    def fit(cls, column: Column, tally: Tally, scaling: str) -> SpikeCodec:
        """Find the masses: every value of a column with few, else those that many cells have.

        A column whose range is lifted is never nothing but masses.
        """
        seen = _counted(column, tally)
        values, counts = seen.values, seen.counts
        often = np.sort(np.argsort(-counts, kind="stable")[:FEW_VALUES])
        spikes = values[often][counts[often] >= SPIKE_SHARE * seen.total] if len(values) > FEW_VALUES else values
        if len(spikes) == len(values) and not column.clip:  # who lifts the range wants values that were never seen
            spikes = spikes[:0]
        others = seen[~np.isin(values, spikes)]
        ranks = Ranks.fit(others) if len(others) or not len(spikes) else None
        return cls(NumberCodec.fit(column, tally, scaling), ranks, tuple(spikes.tolist()))

    @property
    def column(self) -> Column:
        """The column it encodes."""
        return self.number.column

    @property
    def parts(self) -> tuple[Part, ...]:
        """The mean, the rank if it says anything, and no mass or one of them."""
        rank = LINE if self.ranks else ()
        which = (Part(1 + len(self.spikes), Shape.SIMPLEX),) if self.spikes else ()
        return (Part(1, Shape.MEAN), *rank, *which)

    def encode(self, cells: ColumnArray) -> Floats:
        """The scaled value, its rank and a corner of the simplex."""
        values, which = self._sorted(cells)
        parts = [self.number.encode(cells)]
        if self.ranks:
            parts.append(np.where(cells.missing | (which > 0), 0.0, self.ranks.forward(values))[:, None])
        if self.spikes:
            parts.append(_corners(which, cells.missing, 1 + len(self.spikes)))
        return np.hstack(parts)

    def span(self, cells: ColumnArray) -> tuple[Floats, Floats]:
        """The lowest and highest rank that stand for each cell."""
        values, which = self._sorted(cells)
        low, high = self.ranks.span(values) if self.ranks else (np.zeros(len(values)), np.ones(len(values)))
        return np.where(which > 0, 0.0, low), np.where(which > 0, 1.0, high)

    def decode(self, x: Floats, *, expected: bool = False) -> ColumnArray:
        """The mass that a row sits on, else the value of its rank.

        A mean over rows is a number; a mass that is all but certain is that mass, not a number close to it.
        """
        cells = self.number.decode(x[:, :1])
        if self.ranks and not expected:
            cells = cells.filled_with(within(self.ranks.inverse(x[:, 1]), self.column))
        if self.spikes:
            p = x[:, -1 - len(self.spikes) :]
            which = p.argmax(axis=1)
            sure = (which > 0) & (p.max(axis=1) >= CERTAIN if expected else True)
            masses = within(np.array(self.spikes), self.column)
            cells = cells.filled_with(np.where(sure, masses[which - 1], cells.values))
        return cells

    def expectation(self, x: Floats) -> Floats:
        """The mean in the table's units."""
        return self.number.expectation(x)

    @property
    def unit(self) -> Unit | None:
        """The unit of its numbers, if their means are of one."""
        column, scaling = self.column, self.number.scaling
        if not isinstance(scaling, Standard):
            return None
        plain = column.kind in (Kind.NUMBER, Kind.INTEGER)
        return Unit(
            kind=PLAIN if plain else f"{column.kind} {column.unit}",
            deviation=scaling.deviation,
            zero=float(scaling.forward(np.array([-float(origin_of(column))]))[0]),
            step=float(column.step or column.kind is not Kind.NUMBER),
            additive=plain or column.kind is Kind.DURATION,
        )

    def slot_ends(self, slots: int) -> Floats:
        """The means at which equal shares of the ranks end, but for the last."""
        from scipy.special import ndtri

        ends = np.arange(1, slots) / slots
        return self.number.scaling.forward(self.ranks.inverse(ndtri(ends))) if self.ranks else ends

    def carried(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of other columns as this column holds them."""
        return within((values - origin_of(self.column)).astype(np.float64), self.column)

    def _sorted(self, cells: ColumnArray) -> tuple[Floats, NDArray[np.int64]]:
        """Centred values, and which mass each of them is: 0 for none."""
        values, spikes = _present(cells, origin_of(self.column)), np.array(self.spikes)
        if not len(spikes):
            return values, np.zeros(len(values), dtype=np.int64)
        place = np.searchsorted(spikes, values).clip(max=len(spikes) - 1)
        return values, np.where(spikes[place] == values, place + 1, 0)


def origin_of(column: Column) -> int:
    """Subtracted as an integer before going to floats, so that large integers and times stay exact."""
    if column.kind is Kind.NUMBER or column.minimum is None:
        return 0
    step = int(column.step or 1)
    return int(column.minimum) // step * step


def _counted(column: Column, tally: Tally) -> Counted:
    """The numbers of a column, centred."""
    return tally.numbers(_centred(tally.cells.values, origin_of(column)))


def _present(cells: ColumnArray, origin: int) -> Floats:
    """Centred values; a missing cell stands at the origin, so that it does not stretch the range."""
    return _centred(np.where(cells.missing, origin, cells.values), origin)


def _centred(values: NDArray[Any], origin: int) -> Floats:
    if origin and len(values) and abs(int(values.max()) - origin) > EXACT:
        return values.astype(np.float64) - origin
    return (values - origin).astype(np.float64)


def _on_grid(x: Floats, column: Column) -> NDArray[Any]:
    """The nearest value that the column can hold."""
    if column.kind is Kind.NUMBER:
        return np.round(x, round(-np.log10(column.step))) if column.step else x
    step, origin = int(column.step or 1), origin_of(column)
    low, high = LOWEST - origin, HIGHEST - origin
    if _clipped(column):
        low, high = int(column.minimum or 0) - origin, int(column.maximum or 0) - origin
    steps = np.rint(np.clip(x, low, high) / step)
    if max(abs(low), abs(high)) <= EXACT:
        return steps.astype(np.int64) * step + origin
    whole: NDArray[np.int64] = np.clip(steps * step + origin, LOWEST, HIGHEST).astype(np.int64)
    return whole


def within(x: Floats, column: Column) -> NDArray[Any]:
    """The nearest value that the column can hold, within its range unless that is lifted."""
    values = _on_grid(x, column)
    return np.clip(values, column.minimum, column.maximum) if _clipped(column) else values


def snapped(values: Floats, column: Column) -> NDArray[Any]:
    """Numbers in the table's units on the column's grid."""
    return _on_grid(values - origin_of(column), column)


def _clipped(column: Column) -> bool:
    return column.clip and column.minimum is not None and column.maximum is not None
