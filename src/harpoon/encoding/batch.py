"""Denoisers: from a noisy row to the dirty estimate of the clean one (Definition 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

MIN_RANK = 1e-6
Penalty = Callable[[Tensor], Tensor]  # encoded rows, (n, d), to one number per row, (n,)


@dataclass(frozen=True)
class EncodedRows:
    """What is known of some rows: encoded values, and which of them are known. Both (n, d)."""

    x: Tensor
    observed: Tensor

    def __getitem__(self, rows: slice | Tensor) -> EncodedRows:
        return EncodedRows(self.x[rows], self.observed[rows])

    def to(self, device: torch.device) -> EncodedRows:
        """The same, on another device."""
        return EncodedRows(self.x.to(device), self.observed.to(device))

    def complete(self) -> EncodedRows:
        """The rows of which everything is known."""
        return self[self.observed.all(dim=1)]

    def fill(self, x: Tensor) -> Tensor:
        """The known values where they are known, x elsewhere."""
        return torch.where(self.observed, self.x, x)

    def dequantize(self, generator: torch.Generator) -> EncodedRows:  # noqa: ARG002
        """The rows to train on this time."""
        return self


@dataclass(frozen=True)
class QuantizedRows(EncodedRows):
    """Rows some of whose numbers stand for a span of ranks, and are drawn from it anew each time."""

    rank_index: Tensor  # (k,)
    low: Tensor  # (n, k)
    high: Tensor  # (n, k)

    def __getitem__(self, rows: slice | Tensor) -> QuantizedRows:
        return QuantizedRows(self.x[rows], self.observed[rows], self.rank_index, self.low[rows], self.high[rows])

    def to(self, device: torch.device) -> QuantizedRows:
        """The same, on another device."""
        return QuantizedRows(*(getattr(self, field.name).to(device) for field in fields(self)))

    def dequantize(self, generator: torch.Generator) -> EncodedRows:
        """With every rank that is known somewhere in its span, as the normal number that it is."""
        share = torch.rand(self.low.shape, generator=generator, device=self.low.device, dtype=self.low.dtype)
        rank = (self.low + share * (self.high - self.low)).clamp(MIN_RANK, 1 - MIN_RANK)
        x = self.x.clone()
        x[:, self.rank_index] = torch.special.ndtri(rank) * self.observed[:, self.rank_index]
        return EncodedRows(x, self.observed)
