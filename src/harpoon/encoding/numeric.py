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
from harpoon.data.statistics import ColumnCounts, Floats, WeightedValues
from harpoon.encoding.base import CONTINUOUS_PART, Part, PartType
from harpoon.encoding.categorical import one_hot
from harpoon.encoding.scalers import SCALERS, NormalScoreScaler, QuantileScaler, StandardScaler, is_increasing
from harpoon.encoding.units import DIMENSIONLESS, AffineUnit

MIN_SPIKE_FRACTION, MAX_SPIKES = 0.03, 32


CERTAIN_PROBABILITY = 0.99


MAX_EXACT_INTEGER = 2**52  # integers up to here are exact as floats
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1024  # the whole numbers of 64 bits that are floats too


@dataclass(frozen=True)
class NumericCodec:
    """A numeric column as one scaled number; decoding returns to the column's grid and range."""

    column: Column
    scaler: StandardScaler | QuantileScaler
    parts: ClassVar[tuple[Part, ...]] = CONTINUOUS_PART

    @classmethod
    def fit(cls, column: Column, tally: ColumnCounts, scaling: str) -> NumericCodec:
        """Learn the scale from the observed cells."""
        return cls(column, SCALERS[scaling].fit(_centred_counts(column, tally)))

    def encode(self, cells: ColumnArray) -> Floats:
        """Scaled values."""
        x = self.scaler.transform(_centred_values(cells, integer_origin(self.column)))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """Values on the column's grid, within its range unless that is lifted."""
        values = to_valid_values(self.scaler.inverse(x[:, 0]), self.column)
        missing = np.zeros(len(x), dtype=np.bool_)
        return ColumnArray(STORAGE[self.column.kind], values, missing, unit=self.column.unit)

    def expectation(self, x: Floats) -> Floats:
        """Off the grid and beyond the range if that is where it is."""
        return self.scaler.inverse(x[:, 0]) + integer_origin(self.column)


@dataclass(frozen=True)
class SpikedNumericCodec:
    """A numeric column in the shapes that suit each question about it.

    Its mean is what errors are measured on; its rank is what is drawn; and beside them stands which of the column's
    point masses it is, if any. Real columns have values that occur again and again (no capital gain, forty hours). A
    mass is a category, and treating it as one is what lets drawn rows have it exactly as often. The rank of a mass
    says nothing, so all ranks stand for it.
    """

    number: NumericCodec
    normal_scores: NormalScoreScaler | None  # None: every value is a mass
    spikes: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.normal_scores is None and not self.spikes:
            raise ValueError(f"column {self.column.name!r} has neither ranks nor point masses")
        if len(self.spikes) > MAX_SPIKES or not np.isfinite(self.spikes).all() or not is_increasing(self.spikes):
            raise ValueError(f"column {self.column.name!r} needs at most {MAX_SPIKES} ascending point masses")

    @classmethod
    def fit(cls, column: Column, tally: ColumnCounts, scaling: str) -> SpikedNumericCodec:
        """Find the masses: every value of a column with few, else those that many cells have.

        A column whose range is lifted is never nothing but masses.
        """
        seen = _centred_counts(column, tally)
        values, counts = seen.values, seen.counts
        often = np.sort(np.argsort(-counts, kind="stable")[:MAX_SPIKES])
        spikes = (
            values[often][counts[often] >= MIN_SPIKE_FRACTION * seen.n_values] if len(values) > MAX_SPIKES else values
        )
        if len(spikes) == len(values) and not column.clip:  # who lifts the range wants values that were never seen
            spikes = spikes[:0]
        others = seen[~np.isin(values, spikes)]
        ranks = NormalScoreScaler.fit(others) if len(others) or not len(spikes) else None
        return cls(NumericCodec.fit(column, tally, scaling), ranks, tuple(spikes.tolist()))

    @property
    def column(self) -> Column:
        """The column it encodes."""
        return self.number.column

    @property
    def parts(self) -> tuple[Part, ...]:
        """The mean, the rank if it says anything, and no mass or one of them."""
        rank = CONTINUOUS_PART if self.normal_scores else ()
        which = (Part(1 + len(self.spikes), PartType.CATEGORICAL),) if self.spikes else ()
        return (Part(1, PartType.REGRESSION), *rank, *which)

    def encode(self, cells: ColumnArray) -> Floats:
        """The scaled value, its rank and a corner of the simplex."""
        values, which = self._match_spikes(cells)
        parts = [self.number.encode(cells)]
        if self.normal_scores:
            parts.append(np.where(cells.missing | (which > 0), 0.0, self.normal_scores.transform(values))[:, None])
        if self.spikes:
            parts.append(one_hot(which, cells.missing, 1 + len(self.spikes)))
        return np.hstack(parts)

    def rank_interval(self, cells: ColumnArray) -> tuple[Floats, Floats]:
        """The lowest and highest rank that stand for each cell."""
        values, which = self._match_spikes(cells)
        low, high = (
            self.normal_scores.rank_interval(values)
            if self.normal_scores
            else (np.zeros(len(values)), np.ones(len(values)))
        )
        return np.where(which > 0, 0.0, low), np.where(which > 0, 1.0, high)

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        """The mass that a row sits on, else the value of its rank.

        A mean over rows is a number; a mass that is all but certain is that mass, not a number close to it.
        """
        cells = self.number.decode(x[:, :1])
        if self.normal_scores and not is_mean:
            cells = cells.with_values(to_valid_values(self.normal_scores.inverse(x[:, 1]), self.column))
        if self.spikes:
            p = x[:, -1 - len(self.spikes) :]
            which = p.argmax(axis=1)
            sure = (which > 0) & (p.max(axis=1) >= CERTAIN_PROBABILITY if is_mean else True)
            masses = to_valid_values(np.array(self.spikes), self.column)
            cells = cells.with_values(np.where(sure, masses[which - 1], cells.values))
        return cells

    def expectation(self, x: Floats) -> Floats:
        """The mean in the table's units."""
        return self.number.expectation(x)

    @property
    def unit(self) -> AffineUnit | None:
        """The unit of its numbers, if their means are of one."""
        column, scaling = self.column, self.number.scaler
        if not isinstance(scaling, StandardScaler):
            return None
        plain = column.kind in (Kind.NUMBER, Kind.INTEGER)
        return AffineUnit(
            kind=DIMENSIONLESS if plain else f"{column.kind} {column.unit}",
            scale=scaling.std,
            zero=float(scaling.transform(np.array([-float(integer_origin(column))]))[0]),
            step=float(column.step or column.kind is not Kind.NUMBER),
            additive=plain or column.kind is Kind.DURATION,
        )

    def bin_edges(self, n_bins: int) -> Floats:
        """The means at which equal shares of the ranks end, but for the last."""
        from scipy.special import ndtri

        ends = np.arange(1, n_bins) / n_bins
        return self.number.scaler.transform(self.normal_scores.inverse(ndtri(ends))) if self.normal_scores else ends

    def to_column_units(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of other columns as this column holds them."""
        return to_valid_values((values - integer_origin(self.column)).astype(np.float64), self.column)

    def _match_spikes(self, cells: ColumnArray) -> tuple[Floats, NDArray[np.int64]]:
        """Centred values, and which mass each of them is: 0 for none."""
        values, spikes = _centred_values(cells, integer_origin(self.column)), np.array(self.spikes)
        if not len(spikes):
            return values, np.zeros(len(values), dtype=np.int64)
        place = np.searchsorted(spikes, values).clip(max=len(spikes) - 1)
        return values, np.where(spikes[place] == values, place + 1, 0)


def integer_origin(column: Column) -> int:
    """Subtracted as an integer before going to floats, so that large integers and times stay exact."""
    if column.kind is Kind.NUMBER or column.minimum is None:
        return 0
    step = int(column.step or 1)
    return int(column.minimum) // step * step


def _centred_counts(column: Column, tally: ColumnCounts) -> WeightedValues:
    """The numbers of a column, centred."""
    return tally.weighted(_centred(tally.values.values, integer_origin(column)))


def _centred_values(cells: ColumnArray, origin: int) -> Floats:
    """Centred values; a missing cell stands at the origin, so that it does not stretch the range."""
    return _centred(np.where(cells.missing, origin, cells.values), origin)


def _centred(values: NDArray[Any], origin: int) -> Floats:
    if origin and len(values) and abs(int(values.max()) - origin) > MAX_EXACT_INTEGER:
        return values.astype(np.float64) - origin
    return (values - origin).astype(np.float64)


def _round_centred(x: Floats, column: Column) -> NDArray[Any]:
    """The nearest value that the column can hold."""
    if column.kind is Kind.NUMBER:
        return np.round(x, round(-np.log10(column.step))) if column.step else x
    step, origin = int(column.step or 1), integer_origin(column)
    low, high = MIN_INT64 - origin, MAX_INT64 - origin
    if _has_range(column):
        low, high = int(column.minimum or 0) - origin, int(column.maximum or 0) - origin
    steps = np.rint(np.clip(x, low, high) / step)
    if max(abs(low), abs(high)) <= MAX_EXACT_INTEGER:
        return steps.astype(np.int64) * step + origin
    whole: NDArray[np.int64] = np.clip(steps * step + origin, MIN_INT64, MAX_INT64).astype(np.int64)
    return whole


def to_valid_values(x: Floats, column: Column) -> NDArray[Any]:
    """The nearest value that the column can hold, within its range unless that is lifted."""
    values = _round_centred(x, column)
    return np.clip(values, column.minimum, column.maximum) if _has_range(column) else values


def round_to_step(values: Floats, column: Column) -> NDArray[Any]:
    """Numbers in the table's units on the column's grid."""
    return _round_centred(values - integer_origin(column), column)


def _has_range(column: Column) -> bool:
    return column.clip and column.minimum is not None and column.maximum is not None
