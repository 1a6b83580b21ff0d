"""Logits of categories: all of them at once, or only those that are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.data import NO_INDEX


class CategoryLogits(Protocol):
    """The logits of K categories in n rows."""

    def at(self, row: Tensor, positions: Tensor) -> Tensor:
        """Return the logits of requested parts, (m, k): -inf where a position is `NO_INDEX`.

        Args:
            row: The row of each request, (m,).
            positions: The categories of its part, ascending and without gaps, (m, k).
        """

    def dense(self) -> Tensor:
        """Return all logits, (n, K)."""


class DenseLogits(NamedTuple):
    """Logits that are known, (n, K)."""

    values: Tensor

    def at(self, row: Tensor, positions: Tensor) -> Tensor:
        """Return the logits of requested parts, (m, k)."""
        logits = self.values[row[:, None], positions.clamp(min=0)]
        return logits.masked_fill(positions == NO_INDEX, -torch.inf)

    def dense(self) -> Tensor:
        """Return all logits, (n, K)."""
        return self.values


@dataclass(frozen=True)
class PartLayer:
    """The output layer of one categorical part with w categories."""

    weight: Tensor  # of the last hidden layer, (w, hidden)
    bias: Tensor  # (w,)
    skip: Tensor  # what each known category adds, and a row of zeros, (K + 1, w)


@dataclass(frozen=True)
class RequestedLogits:
    """Logits that are computed part by part, on request: a step of a row samples about one of its variables."""

    h: Tensor  # the last hidden layer, (n, hidden)
    known: Tensor  # the observed category of each part, or K, (n, parts)
    layers: tuple[PartLayer, ...]
    part_of: Tensor  # the part of each category, (K,)

    def at(self, row: Tensor, positions: Tensor) -> Tensor:
        """Return the logits of requested parts, (m, k)."""
        logits = self.h.new_full(positions.shape, -torch.inf)
        last = positions.amax(dim=1)
        part = torch.where(last == NO_INDEX, NO_INDEX, self.part_of[last.clamp(min=0)])
        order = part.argsort(stable=True)
        counts = (part + 1).bincount(minlength=len(self.layers) + 1).tolist()
        _, *groups = order.split_with_sizes(counts)  # without requests of no part
        for layer, group in zip(self.layers, groups, strict=True):
            if len(group):
                logits[group, : len(layer.bias)] = self._of_part(layer, row[group])
        return logits.masked_fill_(positions == NO_INDEX, -torch.inf)

    def _of_part(self, layer: PartLayer, rows: Tensor | None = None) -> Tensor:
        """Return the logits of a part, (m, w), in some rows or all."""
        h, known = (each if rows is None else each.index_select(0, rows) for each in (self.h, self.known))
        skips = layer.skip.index_select(0, known.flatten()).view(*known.shape, -1).sum(dim=1)
        return functional.linear(h, layer.weight, layer.bias).add_(skips)

    def dense(self) -> Tensor:
        """Return all logits, (n, K)."""
        return torch.cat([self.h[:, :0], *map(self._of_part, self.layers)], dim=1)
