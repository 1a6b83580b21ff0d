"""Scalers: monotone maps between the values of a numeric column and features."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from harpoon.data import Floats, WeightedValues

MAX_QUANTILES = 1000


@dataclass(frozen=True)
class Scaler(ABC):
    """A monotone map from values, in the table's units less an origin, to features."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def fit(cls, x: WeightedValues) -> Self:
        """Fit to the observed values."""

    @abstractmethod
    def transform(self, x: Floats) -> Floats:
        """Map values to features."""

    @abstractmethod
    def inverse(self, z: Floats) -> Floats:
        """Map features to values."""

    @abstractmethod
    def soft_inverse(self, z: Tensor) -> Tensor:
        """Map features to values, differentiably."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`, or raise ValueError."""
        return cls(**{field.name: floats_from_json(data[field.name]) for field in fields(cls)})


@dataclass(frozen=True)
class StandardScaler(Scaler):
    """Zero mean and unit standard deviation on the training rows (ddof 0, as in the paper's scores)."""

    name: ClassVar[str] = "standard"
    mean: float
    std: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not math.isfinite(self.std) or self.std <= 0:
            raise ValueError(f"a scaler needs a finite mean and a positive standard deviation, got {self}")

    @classmethod
    def fit(cls, x: WeightedValues) -> StandardScaler:
        """Fit to the observed values."""
        return cls(x.mean, x.std or 1.0) if len(x) else cls(0.0, 1.0)

    def transform(self, x: Floats) -> Floats:
        """Standardise values."""
        return x / self.std - self.mean / self.std

    def inverse(self, z: Floats) -> Floats:
        """Undo the standardisation."""
        with np.errstate(over="ignore"):  # callers clip to the column's range
            return z * self.std + self.mean

    def soft_inverse(self, z: Tensor) -> Tensor:
        """Undo the standardisation."""
        return z * self.std + self.mean


@dataclass(frozen=True)
class QuantileScaler(Scaler):
    """The empirical distribution function, uniform on [0, 1] (the paper's scaling ablation).

    As scikit-learn's QuantileTransformer: a value that repeats maps to the middle of its interval of ranks, the
    smallest value to 0 and the largest to 1.
    """

    name: ClassVar[str] = "quantile"
    quantiles: tuple[float, ...]

    def __post_init__(self) -> None:
        q = np.asarray(self.quantiles)
        if len(q) < 2 or not np.isfinite(q).all() or (q[1:] < q[:-1]).any():  # noqa: PLR2004
            raise ValueError("a scaler needs at least two finite quantiles in ascending order")

    @classmethod
    def fit(cls, x: WeightedValues) -> QuantileScaler:
        """Fit to the observed values."""
        if not len(x):
            return cls((0.0, 1.0))
        ranks = np.linspace(0, 1, min(MAX_QUANTILES, max(x.n_values // x.min_rows, 2)))
        if x.min_rows > 1:
            values, low, high = x.group()
            return cls(tuple(np.interp(ranks, np.stack([low, high], axis=1).ravel(), np.repeat(values, 2)).tolist()))
        return cls(tuple(np.maximum.accumulate(x.quantile(ranks)).tolist()))

    @cached_property
    def _ranks(self) -> Floats:
        return np.linspace(0, 1, len(self.quantiles))

    def transform(self, x: Floats) -> Floats:
        """Map values to ranks in [0, 1]."""
        q = np.asarray(self.quantiles)
        with np.errstate(over="ignore", invalid="ignore"):  # slopes overflow near the largest floats
            from_left = np.interp(x, q, self._ranks)
            from_right = -np.interp(-x, -q[::-1], -self._ranks[::-1])
            middle = np.nan_to_num((from_left + from_right) / 2, nan=0.5)
        return np.where(x <= q[0], 0.0, np.where(x >= q[-1], 1.0, middle))

    def inverse(self, z: Floats) -> Floats:
        """Map ranks to values."""
        return np.interp(z, self._ranks, self.quantiles)

    def soft_inverse(self, z: Tensor) -> Tensor:
        """Map ranks to values, linearly between quantiles."""
        knots = torch.tensor(self.quantiles, device=z.device, dtype=z.dtype)
        position = z.clamp(0, 1) * (len(knots) - 1)
        left = position.detach().floor().clamp(max=len(knots) - 2).long()
        return knots[left] + (position - left) * (knots[left + 1] - knots[left])


@dataclass(frozen=True)
class NormalScoreScaler(Scaler):
    """Normal scores: ranks among the training values, mapped through the standard normal quantile function.

    Every column becomes standard normal, for any tails. A value that repeats occupies an interval of ranks; each
    score in the interval decodes to the value. Scores are linear between training values and beyond the ends.
    """

    values: tuple[float, ...]  # the distinct training values, or quantiles of them, ascending
    low: tuple[float, ...]  # the lowest rank of each value, in (0, 1)
    high: tuple[float, ...]  # the highest
    std: float  # the slope beyond the ends

    def __post_init__(self) -> None:
        if not 0 < len(self.values) <= MAX_QUANTILES or not len(self.values) == len(self.low) == len(self.high):
            raise ValueError(f"normal scores need 1 to {MAX_QUANTILES} values, each with a lowest and a highest rank")
        ends = self._interval_ends
        if not np.isfinite([*self.values, *ends, self.std]).all() or self.std <= 0:
            raise ValueError("normal scores need finite values and a positive standard deviation")
        if not is_increasing(self.values) or (np.diff(ends) < 0).any() or ends[0] <= 0 or ends[-1] >= 1:
            raise ValueError("normal scores need ascending values with ascending ranks between 0 and 1")

    @cached_property
    def _interval_ends(self) -> Floats:
        """The lowest and the highest rank of the first value, of the second, and so on."""
        return np.stack([self.low, self.high], axis=1).ravel()

    @classmethod
    def fit(cls, x: WeightedValues) -> NormalScoreScaler:
        """Fit to the observed values: to all of them, or to `MAX_QUANTILES` quantiles."""
        std = StandardScaler.fit(x).std
        if not len(x):
            return cls((0.0,), (0.5,), (0.5,), std)
        values, margin = x.values, 0.5 / x.n_values
        if x.min_rows > 1:
            values, low, high = x.group()
            chosen = np.unique(
                np.linspace(0, len(values) - 1, min(len(values), MAX_QUANTILES)).round().astype(np.int64)
            )
            values, low, high = (part[chosen] for part in (values, low, high))
        elif len(values) <= MAX_QUANTILES:
            high = np.asarray(np.cumsum(x.mass) / x.n_values, dtype=np.float64)
            low = np.concatenate([[0.0], high[:-1]])
        else:
            ranks = np.linspace(0, 1, MAX_QUANTILES)
            nearest = np.rint(ranks * (x.n_values - 1)).astype(np.int64)
            values, first = np.unique(x.order_statistics(nearest), return_index=True)
            last = np.append(first[1:], MAX_QUANTILES) - 1
            low, high = ranks[first], ranks[last]
        low, high = (np.clip(end, margin, 1 - margin) for end in (low, high))
        return cls(tuple(values.tolist()), tuple(low.tolist()), tuple(high.tolist()), std)

    @property
    def has_all_values(self) -> bool:
        """Whether every training value is kept, and not only quantiles: then no rank lies between two values."""
        return bool(np.array_equal(self.high[:-1], self.low[1:]))

    def rank_interval(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the lowest and the highest rank of each value, in (0, 1)."""
        values, low, high = (np.asarray(field) for field in (self.values, self.low, self.high))
        right = np.searchsorted(values, x).clip(max=len(values) - 1)
        left = np.maximum(right - 1, 0)
        with np.errstate(over="ignore", invalid="ignore"):  # gaps overflow near the largest floats
            gap = np.where(right > left, values[right] - values[left], 1.0)
            weight = np.nan_to_num((x - values[left]) / gap, nan=0.5).clip(0, 1)
        between = high[left] + weight * (low[right] - high[left])
        between = np.select([x < values[0], x > values[-1]], [low[0], high[-1]], between)
        is_training_value = values[right] == x
        return np.where(is_training_value, low[right], between), np.where(is_training_value, high[right], between)

    def transform(self, x: Floats) -> Floats:
        """Map values to normal scores; a value that repeats maps to the middle rank of its interval."""
        low, high = self.rank_interval(x)
        inside = np.clip(x, self.values[0], self.values[-1])
        middle: Floats = ndtri((low + high) / 2)
        with np.errstate(over="ignore"):
            return middle + (x - inside) / self.std

    def inverse(self, z: Floats) -> Floats:
        """Map normal scores to values."""
        bottom, top = ndtri(self.low[0]), ndtri(self.high[-1])
        inside = np.clip(z, bottom, top)
        values: Floats = np.interp(ndtr(inside), self._interval_ends, np.repeat(self.values, 2))
        with np.errstate(over="ignore"):  # callers clip to the column's range
            return values + (z - inside) * self.std

    def soft_inverse(self, z: Tensor) -> Tensor:
        """Map normal scores to values, linearly between the scores that `transform` gives to training values."""
        scores = self.transform(np.asarray(self.values))
        knots, values = (torch.tensor(part, device=z.device, dtype=z.dtype) for part in (scores, self.values))
        if len(knots) == 1:
            return values[0] + (z - knots[0]) * self.std
        left = torch.searchsorted(knots, z.detach().contiguous()).clamp(1, len(knots) - 1) - 1
        slope = (values[left + 1] - values[left]) / (knots[left + 1] - knots[left])
        is_beyond = (z < knots[0]) | (z > knots[-1])
        inside = z.clamp(float(knots[0]), float(knots[-1]))
        return values[left] + slope * (inside - knots[left]) + torch.where(is_beyond, (z - inside) * self.std, 0.0)


def is_increasing(values: Sequence[float]) -> bool:
    """Return whether each value is above the one before, also where their difference overflows."""
    return all(one < other for one, other in pairwise(values))


def floats_from_json(data: Any) -> Any:  # noqa: ANN401
    """Return a number as a float, and a list of numbers as a tuple of floats; raise ValueError for anything else."""
    values = data if isinstance(data, list | tuple) else [data]
    if not all(type(value) in (int, float) for value in values):
        raise ValueError("expected a number or a list of numbers")
    floats = tuple(float(value) for value in values)
    return floats if values is data else floats[0]


SCALERS: dict[str, type[Scaler]] = {"standard": StandardScaler, "quantile": QuantileScaler}
