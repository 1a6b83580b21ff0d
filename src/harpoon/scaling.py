"""Scales: monotone maps of a column's numbers onto what the network sees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
QUANTILES = 1000


@dataclass(frozen=True)
class Standard:
    """Zero mean and unit deviation on the training rows (ddof 0, as the paper scores)."""

    name: ClassVar[str] = "standard"
    mean: float
    deviation: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not math.isfinite(self.deviation) or self.deviation <= 0:
            raise ValueError(f"a scale needs a finite mean and a positive deviation, got {self}")

    @classmethod
    def fit(cls, x: Floats) -> Standard:
        """Learn from the observed values."""
        if not len(x):
            return cls(0.0, 1.0)
        size = float(np.abs(x).max()) or 1.0  # sums and squares of huge values would overflow
        return cls(float((x / size).mean()) * size, float((x / size).std()) * size or 1.0)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Standard:
        """Back from its fields."""
        return cls(float(data["mean"]), float(data["deviation"]))

    def forward(self, x: Floats) -> Floats:
        """To zero mean and unit deviation."""
        return x / self.deviation - self.mean / self.deviation

    def inverse(self, z: Floats) -> Floats:
        """To the table's units."""
        with np.errstate(over="ignore"):  # too large is clipped to the range by whoever asked
            return z * self.deviation + self.mean


@dataclass(frozen=True)
class Quantile:
    """The share of training values below, uniform on [0, 1] (the paper's scaling ablation).

    As scikit-learn's QuantileTransformer: a value that repeats stands for the middle of the shares it spans, the
    smallest for 0 and the largest for 1.
    """

    name: ClassVar[str] = "quantile"
    quantiles: tuple[float, ...]

    def __post_init__(self) -> None:
        q = np.asarray(self.quantiles)
        if len(q) < 2 or not np.isfinite(q).all() or (np.diff(q) < 0).any():  # noqa: PLR2004
            raise ValueError("a scale needs at least two finite quantiles in ascending order")

    @classmethod
    def fit(cls, x: Floats) -> Quantile:
        """Learn from the observed values."""
        if not len(x):
            return cls((0.0, 1.0))
        shares = np.linspace(0, 1, min(QUANTILES, max(len(x), 2)))
        return cls(tuple(np.maximum.accumulate(np.quantile(x, shares)).tolist()))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Quantile:
        """Back from its fields."""
        return cls(tuple(float(q) for q in data["quantiles"]))

    @cached_property
    def _shares(self) -> Floats:
        return np.linspace(0, 1, len(self.quantiles))

    def forward(self, x: Floats) -> Floats:
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


SCALINGS: dict[str, type[Standard] | type[Quantile]] = {"standard": Standard, "quantile": Quantile}
