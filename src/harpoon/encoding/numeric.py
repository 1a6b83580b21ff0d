"""Codecs of numeric columns, and of categories as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from harpoon.data import Column, ColumnArray, ColumnCounts, Floats, Kind, Mask, WeightedValues
from harpoon.encoding.categorical import CategoricalCodec, normalize, one_hot
from harpoon.encoding.codec import CONTINUOUS_PART, ColumnCodec, Part, PartType, ValueCells
from harpoon.encoding.scalers import SCALERS, NormalScoreScaler, Scaler, StandardScaler, floats_from_json, is_increasing
from harpoon.encoding.units import DIMENSIONLESS, AffineUnit

MIN_SPIKE_FRACTION = 0.03  # of the cells: values that are more frequent are spikes
MAX_SPIKES = 32
MAX_LABELS = 366  # spikes of a number that is a calendar part, such as a day of the year
GOLDEN_RATIO = (1 + 5**0.5) / 2
RANK_TOLERANCE = 1e-6  # of a standardised value, relative: closer values are equal
MIN_DOUBLE_RANK = 1e-7  # of sampled values: nearer to 0 and 1 than `MIN_RANK`, which is for single precision
CERTAIN_PROBABILITY = 0.99  # an expectation with a spike of this probability decodes to the spike
MAX_DIFFERENCE = 2**62  # of an integer and the origin, up to which their sum is one of 64 bits
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1024  # the range of int64 that is exact at its ends as floats


@dataclass(frozen=True)
class NumericCodec(ColumnCodec):
    """A scaled value as one feature. Decoding rounds to the column's resolution and clips to its range."""

    column: Column
    scaler: Scaler

    @classmethod
    def fit(cls, column: Column, counts: ColumnCounts, scaling: str) -> NumericCodec:
        """Fit the scaler to the observed cells."""
        return cls(column, SCALERS[scaling].fit(_centred_counts(counts, column)))

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind is numeric."""
        return kind.numeric

    @property
    def parts(self) -> tuple[Part, ...]:
        """One continuous feature."""
        return (CONTINUOUS_PART,)

    def encode(self, cells: ColumnArray) -> Floats:
        """Return scaled values, (n, 1)."""
        x = self.scaler.transform(_centred_values(cells, self.column))
        return np.where(cells.missing, 0.0, x)[:, None]

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """Return values at the column's resolution, in its range if it has one."""
        return numeric_cells(to_valid_values(self.scaler.inverse(x[:, 0]), self.column), self.column)

    def expectation(self, x: Floats) -> Floats:
        """Return the value without rounding or clipping."""
        return self.scaler.inverse(x[:, 0]) + integer_origin(self.column)

    def soft_value(self, x: Tensor) -> Tensor:
        """Return the value without rounding or clipping."""
        return self.scaler.soft_inverse(x[:, 0]) + integer_origin(self.column)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {**super().to_json(), "scaling": self.scaler.name, **self.scaler.to_json()}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        return cls(columns[0], SCALERS[data["scaling"]].from_json(data))


@dataclass(frozen=True)
class OrdinalCodec(CategoricalCodec, NumericCodec):
    """The scaled code of a category as one feature (the paper's encoding ablation)."""

    has_probabilities: ClassVar[bool] = False

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:  # noqa: ARG002
        """Return the category with the nearest code."""
        codes = np.clip(np.rint(self.scaler.inverse(x[:, 0])), 0, len(self.categories) - 1)
        return self.to_cells(codes.astype(np.int64))

    def expectation(self, x: Floats) -> Floats:
        """Return probability 1 for the category with the nearest code: the encoding has no probabilities."""
        return one_hot(self.decode(x).values, np.zeros(len(x), dtype=np.bool_), len(self.categories))

    def soft_probabilities(self, x: Tensor) -> Tensor:
        """Interpolate linearly between the two nearest codes."""
        codes = torch.arange(len(self.categories), device=x.device, dtype=x.dtype)
        return normalize((1 - (self.scaler.soft_inverse(x[:, 0]).unsqueeze(1) - codes).abs()).clamp(min=0))


@dataclass(frozen=True)
class SpikedNumericCodec(NumericCodec):
    """A standardised value, a normal score and a category of spikes.

    A spike is a value that many cells have, such as no capital gain, or forty hours per week. It is encoded as a
    category, so that sampled rows have it exactly, and as often as the training rows. Errors are measured on the
    standardised value; the normal score is what is sampled. The normal score of a spike is arbitrary: its rank interval
    is [0, 1].
    """

    normal_scores: NormalScoreScaler | None  # of the values that are not spikes; None if all are
    spikes: tuple[float, ...]  # the values of the spikes less the integer origin, ascending

    def __post_init__(self) -> None:
        if self.normal_scores is None and not self.spikes:
            raise ValueError(f"column {self.column.name!r} has neither normal scores nor spikes")
        limit = MAX_SPIKES if self.normal_scores else MAX_LABELS
        if len(self.spikes) > limit or not np.isfinite(self.spikes).all() or not is_increasing(self.spikes):
            raise ValueError(f"column {self.column.name!r} needs at most {limit} ascending spikes")

    @classmethod
    def fit(cls, column: Column, counts: ColumnCounts, scaling: str) -> SpikedNumericCodec:
        """Find the spikes: all values of a column with at most `MAX_SPIKES`, else the frequent ones.

        With `column.clip=False` values outside the training data are wanted, and a column is never all spikes.
        """
        observed = _centred_counts(counts, column)
        values = spikes = observed.values
        if len(values) > MAX_SPIKES:
            mass = observed.mass
            most_frequent = np.sort(np.argsort(-mass, kind="stable")[:MAX_SPIKES])
            is_spike = (mass >= MIN_SPIKE_FRACTION * observed.n_values) & observed.is_common
            spikes = values[most_frequent][is_spike[most_frequent]]
        if len(spikes) == len(values) and not column.clip:
            spikes = spikes[:0]
        others = observed[~np.isin(values, spikes)]
        if len(others) and not len(others.group()[0]):
            others = observed  # too few others to store anything of them alone
        normal_scores = NormalScoreScaler.fit(others) if len(others) or not len(spikes) else None
        return cls(column, SCALERS[scaling].fit(observed), normal_scores, tuple(spikes.tolist()))

    @classmethod
    def fit_labels(cls, column: Column, counts: ColumnCounts, scaling: str) -> SpikedNumericCodec:
        """Fit a codec for which every value is a spike; there are at most `MAX_LABELS`."""
        observed = _centred_counts(counts, column)
        return cls(column, SCALERS[scaling].fit(observed), None, tuple(observed.values.tolist()))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The standardised value, the normal score if there is one, and "no spike" and the spikes if there are any."""
        score = (CONTINUOUS_PART,) if self.normal_scores else ()
        spike = (Part(1 + len(self.spikes), PartType.CATEGORICAL),) if self.spikes else ()
        return (Part(1, PartType.REGRESSION), *score, *spike)

    @property
    def label_features(self) -> list[NDArray[np.int64]]:
        """The spikes, and "no spike" if there are other values."""
        return [features[not self.normal_scores :] for features in super().label_features]

    @property
    def label_values(self) -> dict[str, NDArray[Any] | None]:
        """The spikes, after NaN for other values if there are any."""
        others = np.full(1 if self.normal_scores else 0, np.nan)
        return {self.column.name: np.append(others, to_valid_values(np.array(self.spikes), self.column))}

    def encode(self, cells: ColumnArray) -> Floats:
        """Return the standardised value, the normal score and the one-hot vector of the spike."""
        values, spike = self._match_spikes(cells)
        parts = [super().encode(cells)]
        if self.normal_scores:
            parts.append(np.where(cells.missing | (spike > 0), 0.0, self.normal_scores.transform(values))[:, None])
        if self.spikes:
            parts.append(one_hot(spike, cells.missing, 1 + len(self.spikes)))
        return np.hstack(parts)

    def rank_interval(self, cells: ColumnArray) -> tuple[Floats, Floats]:
        """Return the lowest and highest rank of each cell; [0, 1] for a spike."""
        values, spike = self._match_spikes(cells)
        low, high = np.zeros(len(values)), np.ones(len(values))
        if self.normal_scores:
            low, high = self.normal_scores.rank_interval(values)
        return np.where(spike > 0, 0.0, low), np.where(spike > 0, 1.0, high)

    def standardised_ranks(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the rank below standardised values, (n,), and the rank up to them, among values that are no spikes."""
        if not self.normal_scores:
            return np.zeros(len(z)), np.ones(len(z))
        tolerance = RANK_TOLERANCE * (1 + np.abs(z))  # standardised values are computed in single precision
        below, above = (self.scaler.inverse(end) for end in (z - tolerance, z + tolerance))
        first, last = self.normal_scores.values[0], self.normal_scores.values[-1]
        low, high = self.normal_scores.rank_interval(below)[0], self.normal_scores.rank_interval(above)[1]
        # Ranks beyond those of the training values are those of the first and the last value.
        low = np.select([below <= first, below > last], [0.0, 1.0], low)
        high = np.select([above < first, above >= last], [0.0, 1.0], high)
        return low, high

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        """Return the spike of a row, else the value of its normal score; of an expectation, its standardised value.

        The expectation of a column of spikes alone becomes the spike that is nearest to it: a 0/1 flag is 0 or 1.
        """
        cells = super().decode(x)
        if is_mean and not self.normal_scores:
            spikes = nearest(self.scaler.inverse(x[:, 0]), self.spikes)
            cells = cells.with_values(to_valid_values(spikes, self.column))
        if self.normal_scores and not is_mean:
            cells = cells.with_values(to_valid_values(self.normal_scores.inverse(x[:, 1]), self.column))
        if self.spikes:
            p = x[:, -1 - len(self.spikes) :]
            spike = p.argmax(axis=1)
            is_spike = (spike > 0) & (p.max(axis=1) >= CERTAIN_PROBABILITY if is_mean else True)
            spike_values = to_valid_values(np.array(self.spikes), self.column)
            cells = cells.with_values(np.where(is_spike, spike_values[spike - 1], cells.values))
        return cells

    def soft_value(self, x: Tensor) -> Tensor:
        """Return the value of the normal score, averaged with the spikes by their probabilities."""
        value = self.normal_scores.soft_inverse(x[:, 1]) if self.normal_scores else self.scaler.soft_inverse(x[:, 0])
        if self.spikes:
            p = normalize(x[:, -1 - len(self.spikes) :])
            spikes = torch.tensor(self.spikes, device=x.device, dtype=x.dtype)
            value = p[:, 0] * value + p[:, 1:] @ spikes
        return value + integer_origin(self.column)

    @property
    def unit(self) -> AffineUnit | None:
        """The unit of the standardised value, if the scaler is affine."""
        column, scaler = self.column, self.scaler
        if not isinstance(scaler, StandardScaler):
            return None
        is_plain = not column.kind.temporal
        return AffineUnit(
            kind=DIMENSIONLESS if is_plain else f"{column.kind} {column.unit}",
            scale=scaler.std,
            zero=float(scaler.transform(np.array([-float(integer_origin(column))]))[0]),
            step=float(column.step or column.kind.integral),
            additive=is_plain or column.kind is Kind.DURATION,
            nanoseconds=column.tick,
        )

    def centred_values(self, cells: ColumnArray) -> tuple[Floats, int]:
        """Return values less the integer origin, (n,), and the origin."""
        return _centred_values(cells, self.column), integer_origin(self.column)

    def bin_edges(self, n_bins: int) -> Floats:
        """Return the standardised values at the inner edges of equiprobable bins, (n_bins - 1,)."""
        ranks = np.arange(1, n_bins) / n_bins
        return self.scaler.transform(self.normal_scores.inverse(ndtri(ranks))) if self.normal_scores else ranks

    def to_column_units(self, values: NDArray[Any]) -> NDArray[Any]:
        """Round values that were computed from other columns to what this column can hold."""
        column, origin = self.column, integer_origin(self.column)
        if column.kind.integral and values.dtype.kind == "i":  # exact also beyond the integers of a float
            step = int(column.step or 1)
            rounded: NDArray[Any] = np.floor_divide(values - origin + step // 2, step) * step + origin
            return np.clip(rounded, column.minimum, column.maximum) if _has_range(column) else rounded
        return to_valid_values((values - origin).astype(np.float64), column)

    def can_hold(self, values: NDArray[Any]) -> Mask:
        """Return which values can be encoded: all, unless there are only spikes."""
        if self.normal_scores:
            return super().can_hold(values)
        return np.isin(values, to_valid_values(np.array(self.spikes), self.column))

    def value_cells(self, n_intervals: int) -> ValueCells | None:
        """Return the spikes, then each other training value, or intervals between quantiles if there are too many."""
        spikes, scores = to_valid_values(np.array(self.spikes), self.column), self.normal_scores
        if scores is None:
            return ValueCells(spikes, spikes, np.zeros(1))
        if scores.has_all_values and self.column.clip:
            edges = np.concatenate([[0.0], scores.high[:-1], [1.0]])
            low = high = to_valid_values(np.asarray(scores.values), self.column)
        else:
            edges = np.unique(
                np.concatenate([np.linspace(0, 1, n_intervals + 1), ndtr(np.linspace(-5, 5, n_intervals))])
            )
            ends = self.normal_scores_to_values(edges)
            low, high = ends[:-1], ends[1:]
        return ValueCells(np.concatenate([spikes, low]), np.concatenate([spikes, high]), edges)

    def normal_scores_to_values(self, ranks: Floats) -> NDArray[Any]:
        """Return the values at ranks between 0 and 1."""
        assert self.normal_scores is not None  # noqa: S101
        z = ndtri(np.clip(ranks, MIN_DOUBLE_RANK, 1 - MIN_DOUBLE_RANK))
        return to_valid_values(self.normal_scores.inverse(z), self.column)

    def standardised_values(self, z: Floats) -> NDArray[Any]:
        """Return the values at the column's resolution of standardised values, of any shape."""
        return to_valid_values(self.scaler.inverse(z), self.column)

    def nearest_values(self, values: Floats) -> NDArray[Any]:
        """Return the nearest values that the column can hold, (n,)."""
        return to_valid_values(values - integer_origin(self.column), self.column)

    def _match_spikes(self, cells: ColumnArray) -> tuple[Floats, NDArray[np.int64]]:
        """Return centred values, and for each the number of its spike; 0: no spike."""
        values, spikes = _centred_values(cells, self.column), np.array(self.spikes)
        if not len(spikes):
            return values, np.zeros(len(values), dtype=np.int64)
        index = np.searchsorted(spikes, values).clip(max=len(spikes) - 1)
        return values, np.where(spikes[index] == values, index + 1, 0)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        scores = self.normal_scores.to_json() if self.normal_scores else None
        return {**super().to_json(), "normal_scores": scores, "spikes": list(self.spikes)}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        scaler = SCALERS[data["scaling"]].from_json(data)
        scores = None if data["normal_scores"] is None else NormalScoreScaler.from_json(data["normal_scores"])
        return cls(columns[0], scaler, scores, floats_from_json(data["spikes"]))


def numeric_cells(values: NDArray[Any], column: Column) -> ColumnArray:
    """Return valid values of a numeric column as cells, none missing."""
    return ColumnArray(column.kind.storages[0], values, np.zeros(len(values), dtype=np.bool_), unit=column.unit)


def integer_origin(column: Column) -> int:
    """Return the offset that is subtracted from integers and times before they become floats, to keep them exact."""
    if not column.kind.integral or column.minimum is None:
        return 0
    step = int(column.step or 1)
    return int(column.minimum) // step * step


def to_valid_values(x: Floats, column: Column) -> NDArray[Any]:
    """Round centred values to what the column can hold, and clip them to its range unless `clip=False`."""
    values = _round_centred(x, column)
    return np.clip(values, column.minimum, column.maximum) if _has_range(column) else values


def shift_values(values: NDArray[Any], offset: float, column: Column) -> NDArray[Any]:
    """Add an offset to values in the table's units, (n,), so that they stay multiples of the column's resolution.

    An offset between two multiples is rounded up for some values and down for the others, so that the mean is shifted
    by the offset. Which ones follows from their place: the fractions of the multiples of the golden ratio are spread
    evenly over any part of the values. Values may leave the range of the training table, because values that are
    missing for being extreme lie outside it.
    """
    step = column.step or int(column.kind.integral)
    centred = (values - integer_origin(column)).astype(np.float64)
    if step:
        thresholds = np.arange(1, len(values) + 1) * GOLDEN_RATIO % 1
        offset = step * np.floor(offset / step + thresholds)
    return _round_centred(centred + offset, replace(column, clip=False))


def nearest(values: Floats, candidates: Sequence[float]) -> NDArray[Any]:
    """Return the candidate that is nearest to each value; they are in ascending order.

    >>> nearest(np.array([0.2, 0.37, 9.0]), (0.0, 0.5, 1.0)).tolist()
    [0.0, 0.5, 1.0]
    """
    points = np.array(candidates)
    return np.asarray(points[np.searchsorted(points[1:] / 2 + points[:-1] / 2, values)])


def round_mean(values: Floats, column: Column) -> NDArray[Any]:
    """Round means in the table's units to values of the column: to one of its few, or to its resolution."""
    return nearest(values, column.values) if column.values and column.clip else round_to_step(values, column)


def round_to_step(values: Floats, column: Column) -> NDArray[Any]:
    """Round values in the table's units to the column's resolution."""
    return _round_centred(values - integer_origin(column), column)


def _centred_counts(counts: ColumnCounts, column: Column) -> WeightedValues:
    values = _centred_values(counts.values, column)
    return WeightedValues.from_values(values, counts.counts, counts.min_rows, counts.weights)


def _centred_values(cells: ColumnArray, column: Column) -> Floats:
    """Return values less the integer origin. A missing cell is 0, so that it does not extend the range."""
    origin = integer_origin(column)
    values = np.where(cells.missing, origin, cells.values)
    if origin and len(values) and abs(int(values.max()) - origin) > MAX_DIFFERENCE:
        return values.astype(np.float64) - origin
    return (values - origin).astype(np.float64)


def _round_centred(x: Floats, column: Column) -> NDArray[Any]:
    """Return the nearest values that the column can hold, in the table's units."""
    if not column.kind.integral:
        with np.errstate(over="ignore"):  # numbers near the largest floats have no decimals
            rounded = np.round(x, round(-np.log10(column.step))) if column.step else x
        return np.where(np.isfinite(rounded), rounded, x)
    step, origin = int(column.step or 1), integer_origin(column)
    low, high = MIN_INT64 - origin, MAX_INT64 - origin
    if _has_range(column):
        low, high = int(column.minimum or 0) - origin, int(column.maximum or 0) - origin
    steps = np.rint(np.clip(x, low, high) / step)
    if max(abs(low), abs(high)) <= MAX_DIFFERENCE:
        return steps.astype(np.int64) * step + origin
    integers: NDArray[np.int64] = np.clip(steps * step + origin, MIN_INT64, MAX_INT64).astype(np.int64)
    return integers


def _has_range(column: Column) -> bool:
    return column.clip and column.minimum is not None and column.maximum is not None
