"""Encoded rows as tensors, with the mask of observed features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

MIN_RANK = 1e-6  # of normal scores, and 1 less it: in single precision, 1 less a smaller rank has hardly a digit
Penalty = Callable[[Tensor], Tensor]  # encoded rows, (n, d), to one penalty per row, (n,)


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows `x` and the mask `observed`, both (n, d).

    `weights` is how much each row counts in training, (n,), with a mean of 1 over the table; None: all count the same.
    """

    x: Tensor
    observed: Tensor
    weights: Tensor | None = field(default=None, kw_only=True)

    def __getitem__(self, rows: slice | Tensor) -> EncodedRows:
        return EncodedRows(self.x[rows], self.observed[rows], weights=self._take_weights(rows))

    def _take_weights(self, rows: slice | Tensor) -> Tensor | None:
        return None if self.weights is None else self.weights[rows]

    @property
    def row_weights(self) -> Tensor:
        """The weight of each row as a column, (n, 1): ones if all count the same."""
        return self.x.new_ones(len(self.x), 1) if self.weights is None else self.weights.unsqueeze(1)

    def to(self, device: torch.device) -> EncodedRows:
        """Move to a device."""
        tensors: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: None if value is None else value.to(device) for name, value in tensors.items()}
        return type(self)(**moved)

    def complete(self) -> EncodedRows:
        """Return the rows without missing cells."""
        return self[self.observed.all(dim=1)]

    def fill(self, x: Tensor) -> Tensor:
        """Return the observed features, and those of x, (n, d), elsewhere."""
        return torch.where(self.observed, self.x, x)

    def dequantize(self, generator: torch.Generator) -> EncodedRows:  # noqa: ARG002
        """Return the rows to train on in this epoch."""
        return self


@dataclass(frozen=True)
class QuantizedRows(EncodedRows):
    """Rows in which some features are normal scores of values that repeat.

    A value that repeats occupies an interval of ranks. `dequantize` samples the rank uniformly from it (uniform
    dequantisation; Theis et al., 2016).
    """

    rank_index: Tensor  # the features that are normal scores, (k,)
    low: Tensor  # the lowest rank of each, (n, k)
    high: Tensor  # the highest rank of each, (n, k)

    def __getitem__(self, rows: slice | Tensor) -> QuantizedRows:
        parts = self.x[rows], self.observed[rows], self.rank_index, self.low[rows], self.high[rows]
        return QuantizedRows(*parts, weights=self._take_weights(rows))

    def dequantize(self, generator: torch.Generator) -> EncodedRows:
        """Return the rows with each observed normal score sampled from its interval."""
        uniform = torch.rand(self.low.shape, generator=generator, device=self.low.device, dtype=self.low.dtype)
        rank = (self.low + uniform * (self.high - self.low)).clamp(MIN_RANK, 1 - MIN_RANK)
        x = self.x.clone()
        x[:, self.rank_index] = torch.special.ndtri(rank) * self.observed[:, self.rank_index]
        return EncodedRows(x, self.observed, weights=self.weights)
