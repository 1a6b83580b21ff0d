"""Encoded rows read as a table, in tensors: numbers in the table's units, and the probability of each label.

Penalties look at the dirty estimate this way, so gradients flow back through every reading. All is in double precision,
because a moment in nanoseconds is no number that half of it could hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harpoon.encoding.base import ColumnCodec
from harpoon.encoding.categorical import HierarchicalCodec, OrdinalCodec
from harpoon.encoding.numeric import NumericCodec, SpikedNumericCodec, integer_origin
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.scalers import NormalScoreScaler, QuantileScaler, StandardScaler
from harpoon.exceptions import InvalidOption

MIN_TOTAL = 1e-12


class CategoryProbabilities(Mapping[Any, Tensor]):
    """A categorical column of some rows: the probability of each label."""

    def __init__(self, name: str, labels: tuple[Any, ...], probabilities: Tensor) -> None:
        self.name, self.labels, self.probabilities = name, labels, probabilities

    def __getitem__(self, label: object) -> Tensor:
        if label not in self.labels:
            raise InvalidOption.one_of(f"A label of column {self.name!r}", label, self.labels)
        return self.probabilities[:, self.labels.index(label)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)


class RowView(Mapping[str, Any]):
    """Encoded rows by the names of their columns: a number per row, or the `Labels` of a category."""

    def __init__(self, codec: RowCodec, x: Tensor) -> None:
        self.codec, self.x = codec, x

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        codec, part = self.encoded(name)
        if codec.column.kind.numeric:
            return number(codec, part)
        return CategoryProbabilities(name, codec.column.categories or (), probabilities(codec, part))

    def __iter__(self) -> Iterator[str]:
        return (codec.column.name for codec in self.codec.columns)

    def __len__(self) -> int:
        return len(self.codec.columns)

    def encoded(self, name: str) -> tuple[ColumnCodec, Tensor]:
        """The codec of a column and the column's numbers."""
        names = list(self)
        if name not in names:
            raise InvalidOption.one_of("A column", name, names)
        place = names.index(name)
        start, stop = list(pairwise([0, *np.cumsum(self.codec.widths)]))[place]
        return self.codec.columns[place], self.x[:, start:stop].double()


def number(codec: ColumnCodec, x: Tensor) -> Tensor:
    """A numeric column in the table's units: what its numbers would be decoded to, as a smooth function of them."""
    if isinstance(codec, NumericCodec):
        return _inverse(codec.scaler, x[:, 0]) + integer_origin(codec.column)
    if not isinstance(codec, SpikedNumericCodec):
        raise TypeError(f"{type(codec).__name__} holds no number")
    value = (
        _value_of_rank(codec.normal_scores, x[:, 1]) if codec.normal_scores else _inverse(codec.number.scaler, x[:, 0])
    )
    if codec.spikes:
        p = _shares(x[:, -1 - len(codec.spikes) :])
        masses = torch.tensor(codec.spikes, device=x.device, dtype=x.dtype)
        value = p[:, 0] * value + p[:, 1:] @ masses
    return value + integer_origin(codec.column)


def _value_of_rank(ranks: NormalScoreScaler, z: Tensor) -> Tensor:
    """The value of a rank: through the middle of each value's ranks, straight between them and beyond the ends."""
    middles = ranks.transform(np.asarray(ranks.values))
    knots, values = (torch.tensor(part, device=z.device, dtype=z.dtype) for part in (middles, ranks.values))
    if len(knots) == 1:
        return values[0] + (z - knots[0]) * ranks.std
    left = torch.searchsorted(knots, z.detach().contiguous()).clamp(1, len(knots) - 1) - 1
    slope = (values[left + 1] - values[left]) / (knots[left + 1] - knots[left])
    beyond = (z < knots[0]) | (z > knots[-1])
    inside = z.clamp(float(knots[0]), float(knots[-1]))
    return values[left] + slope * (inside - knots[left]) + torch.where(beyond, (z - inside) * ranks.std, 0.0)


def probabilities(codec: ColumnCodec, x: Tensor) -> Tensor:
    """The probability of each label of a categorical column."""
    if isinstance(codec, HierarchicalCodec):
        first, members = (_shares(part) for part in torch.tensor_split(x, (codec.parts[0].width,), dim=1))
        inside = _shares(members[:, 1:])
        p = x.new_zeros(len(x), len(codec.column.categories or ()))
        p[:, list(codec.frequent)] = first[:, : len(codec.frequent)]
        pairs = (first[:, len(codec.frequent) :, None] * inside[:, None, :]).flatten(1)
        p[:, codec.rare.tolist()] = pairs[:, : len(codec.rare)]
        return _shares(p)
    if isinstance(codec, OrdinalCodec):
        places = torch.arange(len(codec.column.categories or ()), device=x.device, dtype=x.dtype)
        return _shares((1 - (_inverse(codec.scaler, x[:, 0]).unsqueeze(1) - places).abs()).clamp(min=0))
    return _shares(x)


def _shares(x: Tensor) -> Tensor:
    """Numbers as shares of one: what is below zero is nothing."""
    x = x.clamp(min=0)
    return x / x.sum(dim=1, keepdim=True).clamp(min=MIN_TOTAL)


def _inverse(scaling: StandardScaler | QuantileScaler, z: Tensor) -> Tensor:
    if isinstance(scaling, StandardScaler):
        return z * scaling.std + scaling.mean
    knots = torch.tensor(scaling.quantiles, device=z.device, dtype=z.dtype)
    at = z.clamp(0, 1) * (len(knots) - 1)
    left = at.detach().floor().clamp(max=len(knots) - 2).long()
    return knots[left] + (at - left) * (knots[left + 1] - knots[left])
