"""Scales: monotone maps of a column's numbers onto what the network sees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from harpoon.data.statistics import Floats, WeightedValues

MAX_QUANTILES = 1000


@dataclass(frozen=True)
class StandardScaler:
    """Zero mean and unit deviation on the training rows (ddof 0, as the paper scores)."""

    name: ClassVar[str] = "standard"
    mean: float
    std: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not math.isfinite(self.std) or self.std <= 0:
            raise ValueError(f"a scale needs a finite mean and a positive deviation, got {self}")

    @classmethod
    def fit(cls, x: WeightedValues) -> StandardScaler:
        """Learn from the observed values."""
        return cls(x.mean, x.std or 1.0) if len(x) else cls(0.0, 1.0)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StandardScaler:
        """Back from its fields."""
        return cls(float(data["mean"]), float(data["std"]))

    def transform(self, x: Floats) -> Floats:
        """To zero mean and unit deviation."""
        return x / self.std - self.mean / self.std

    def inverse(self, z: Floats) -> Floats:
        """To the table's units."""
        with np.errstate(over="ignore"):  # too large is clipped to the range by whoever asked
            return z * self.std + self.mean


@dataclass(frozen=True)
class QuantileScaler:
    """The share of training values below, uniform on [0, 1] (the paper's scaling ablation).

    As scikit-learn's QuantileTransformer: a value that repeats stands for the middle of the shares it spans, the
    smallest for 0 and the largest for 1.
    """

    name: ClassVar[str] = "quantile"
    quantiles: tuple[float, ...]

    def __post_init__(self) -> None:
        q = np.asarray(self.quantiles)
        if len(q) < 2 or not np.isfinite(q).all() or (q[1:] < q[:-1]).any():  # noqa: PLR2004
            raise ValueError("a scale needs at least two finite quantiles in ascending order")

    @classmethod
    def fit(cls, x: WeightedValues) -> QuantileScaler:
        """Learn from the observed values."""
        if not len(x):
            return cls((0.0, 1.0))
        shares = np.linspace(0, 1, min(MAX_QUANTILES, max(x.n_values, 2)))
        return cls(tuple(np.maximum.accumulate(x.quantile(shares)).tolist()))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> QuantileScaler:
        """Back from its fields."""
        return cls(tuple(float(q) for q in data["quantiles"]))

    @cached_property
    def _shares(self) -> Floats:
        return np.linspace(0, 1, len(self.quantiles))

    def transform(self, x: Floats) -> Floats:
        """To shares in [0, 1]."""
        q = np.asarray(self.quantiles)
        with np.errstate(over="ignore", invalid="ignore"):  # slopes at the ends of what a float can hold
            from_left = np.interp(x, q, self._shares)
            from_right = -np.interp(-x, -q[::-1], -self._shares[::-1])
            middle = np.nan_to_num((from_left + from_right) / 2, nan=0.5)
        return np.where(x <= q[0], 0.0, np.where(x >= q[-1], 1.0, middle))

    def inverse(self, z: Floats) -> Floats:
        """To the table's units."""
        return np.interp(z, self._shares, self.quantiles)


@dataclass(frozen=True)
class NormalScoreScaler:
    """The rank of a value among the training values, as a standard normal number.

    Any column becomes the same bell, whatever its tails, which is what a diffusion denoises best. A value that repeats
    takes a span of ranks, and every number of that span stands for it; a value never seen stands between its
    neighbours, and beyond the ends the scale goes on as a line.
    """

    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    std: float

    def __post_init__(self) -> None:
        if not 0 < len(self.values) <= MAX_QUANTILES or not len(self.values) == len(self.low) == len(self.high):
            raise ValueError(
                f"ranks need 1 to {MAX_QUANTILES} values, each with the lowest and the highest of its ranks"
            )
        if not np.isfinite([*self.values, *self._ends, self.std]).all():
            raise ValueError("ranks need finite values")
        if (
            not is_increasing(self.values)
            or (np.diff(self._ends) < 0).any()
            or self._ends[0] <= 0
            or self._ends[-1] >= 1
        ):
            raise ValueError("ranks need ascending values with ascending ranks between 0 and 1")
        if self.std <= 0:
            raise ValueError("ranks need a positive deviation")

    @cached_property
    def _ends(self) -> Floats:
        """The lowest and the highest rank of the first value, of the second, and so on."""
        return np.stack([self.low, self.high], axis=1).ravel()

    @classmethod
    def fit(cls, x: WeightedValues) -> NormalScoreScaler:
        """Learn from the observed values: all of them, or of too many different ones some quantiles."""
        deviation = StandardScaler.fit(x).std
        if not len(x):
            return cls((0.0,), (0.5,), (0.5,), deviation)
        values, edge = x.values, 0.5 / x.n_values
        if len(values) <= MAX_QUANTILES:
            high = np.cumsum(x.counts) / x.n_values
            low = np.concatenate([[0.0], high[:-1]])
        else:
            at = np.linspace(0, 1, MAX_QUANTILES)
            nearest = np.rint(at * (x.n_values - 1)).astype(np.int64)
            values, index = np.unique(x.order_statistics(nearest), return_index=True)
            last = np.append(index[1:], MAX_QUANTILES) - 1
            low, high = at[index], at[last]
        low, high = (np.clip(end, edge, 1 - edge) for end in (low, high))
        return cls(tuple(values.tolist()), tuple(low.tolist()), tuple(high.tolist()), deviation)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NormalScoreScaler:
        """Back from its fields."""
        values, low, high = (floats_from_json(data[name]) for name in ("values", "low", "high"))
        return cls(values, low, high, *floats_from_json([data["std"]]))

    def rank_interval(self, x: Floats) -> tuple[Floats, Floats]:
        """The lowest and the highest rank that stand for each value, between 0 and 1."""
        values, low, high = (np.asarray(field) for field in (self.values, self.low, self.high))
        right = np.searchsorted(values, x).clip(max=len(values) - 1)
        left = np.maximum(right - 1, 0)
        with np.errstate(over="ignore", invalid="ignore"):  # gaps at the ends of what a float can hold
            gap = np.where(right > left, values[right] - values[left], 1.0)
            way = np.nan_to_num((x - values[left]) / gap, nan=0.5).clip(0, 1)
        between = high[left] + way * (low[right] - high[left])
        between = np.select([x < values[0], x > values[-1]], [low[0], high[-1]], between)
        seen = values[right] == x
        return np.where(seen, low[right], between), np.where(seen, high[right], between)

    def transform(self, x: Floats) -> Floats:
        """To the middle of the value's ranks, as a normal number."""
        from scipy.special import ndtri

        low, high = self.rank_interval(x)
        inside = np.clip(x, self.values[0], self.values[-1])
        middle: Floats = ndtri((low + high) / 2)
        with np.errstate(over="ignore"):
            return middle + (x - inside) / self.std

    def inverse(self, z: Floats) -> Floats:
        """To the table's units."""
        from scipy.special import ndtr, ndtri

        bottom, top = ndtri(self.low[0]), ndtri(self.high[-1])
        inside = np.clip(z, bottom, top)
        values: Floats = np.interp(ndtr(inside), self._ends, np.repeat(self.values, 2))
        with np.errstate(over="ignore"):  # too large is clipped to the range by whoever asked
            return values + (z - inside) * self.std


def is_increasing(values: Sequence[float]) -> bool:
    """Whether each value is above the one before. Their differences may be more than a float can hold."""
    return all(one < other for one, other in pairwise(values))


def floats_from_json(data: object) -> tuple[float, ...]:
    """A list of numbers from a file, or an error if it is anything else."""
    if not isinstance(data, list | tuple) or not all(type(value) in (int, float) for value in data):
        raise ValueError("a list of numbers holds something else")
    return tuple(float(value) for value in data)


SCALERS: dict[str, type[StandardScaler] | type[QuantileScaler]] = {
    "standard": StandardScaler,
    "quantile": QuantileScaler,
}
