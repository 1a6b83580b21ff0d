"""Encoded rows as tensors, with the mask of observed features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

MIN_RANK = 1e-6  # ranks are clipped to [1e-6, 1 - 1e-6], so that their normal scores are finite
Penalty = Callable[[Tensor], Tensor]  # encoded rows, (n, d), to one penalty per row, (n,)


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows `x` and the mask `observed`, both (n, d)."""

    x: Tensor
    observed: Tensor

    def __getitem__(self, rows: slice | Tensor) -> EncodedRows:
        return EncodedRows(self.x[rows], self.observed[rows])

    def to(self, device: torch.device) -> EncodedRows:
        """Move to a device."""
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))

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
        return QuantizedRows(self.x[rows], self.observed[rows], self.rank_index, self.low[rows], self.high[rows])

    def dequantize(self, generator: torch.Generator) -> EncodedRows:
        """Return the rows with each observed normal score sampled from its interval."""
        uniform = torch.rand(self.low.shape, generator=generator, device=self.low.device, dtype=self.low.dtype)
        rank = (self.low + uniform * (self.high - self.low)).clamp(MIN_RANK, 1 - MIN_RANK)
        x = self.x.clone()
        x[:, self.rank_index] = torch.special.ndtri(rank) * self.observed[:, self.rank_index]
        return EncodedRows(x, self.observed)
