"""Rows of a table to encoded rows, and back.

An encoded row is the vector x_0 of the paper (Sec. 3.1): one number per numeric column, one number per label
of a categorical column (or a single number with the integer encoding), or what the column's encoding makes of it.
A codec is two functions, `encode` and `decode`, of the columns' codecs side by side.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harpoon.data.column_array import Columns
from harpoon.data.schema import Schema
from harpoon.data.statistics import Floats, TableCounts
from harpoon.encoding.base import ColumnCodec, ColumnSlice, PartType
from harpoon.encoding.batch import EncodedRows, QuantizedRows
from harpoon.encoding.categorical import HierarchicalCodec
from harpoon.encoding.numeric import SpikedNumericCodec
from harpoon.encoding.registry import ENCODINGS, from_json, to_json
from harpoon.encoding.units import AffineUnit
from harpoon.exceptions import CategoriesGroupedWarning

MAX_STANDARD_SCORE = 1e4  # standard deviations from the mean; values beyond would overflow after a few layers


@dataclass(frozen=True)
class RowCodec:
    """The codecs of all modelled columns, side by side."""

    schema: Schema
    columns: tuple[ColumnCodec, ...]

    @classmethod
    def fit(cls, schema: Schema, tallies: TableCounts, *, encoding: str, scaling: str) -> RowCodec:
        """Learn the scales from what the training table holds."""
        make = ENCODINGS[encoding]
        codecs: list[ColumnCodec] = []
        for column in schema.modelled:
            codecs.append(make(column, tallies[column.name].coerced(column), scaling))
            if isinstance(codecs[-1], HierarchicalCodec):
                _warn_hierarchical(codecs[-1])
        return cls(schema, tuple(codecs))

    @cached_property
    def slices(self) -> tuple[ColumnSlice, ...]:
        """Where each part of each column stands in the encoded row."""
        blocks, start = [], 0
        for place, codec in enumerate(self.columns):
            for part in codec.parts:
                blocks.append(ColumnSlice(codec.column.name, place, start, start + part.width, part.type))
                start += part.width
        return tuple(blocks)

    @property
    def width(self) -> int:
        """The length d of an encoded row."""
        return sum(self.widths)

    @cached_property
    def widths(self) -> list[int]:
        """How many numbers each column takes."""
        return [sum(part.width for part in codec.parts) for codec in self.columns]

    @cached_property
    def numeric(self) -> list[SpikedNumericCodec]:
        """The columns whose numbers have ranks."""
        return [codec for codec in self.columns if isinstance(codec, SpikedNumericCodec) and codec.normal_scores]

    def encode(self, rows: Columns) -> Floats:
        """Encoded rows, (n, d); a missing cell is all zeros."""
        return np.concatenate([codec.encode(rows[codec.column.name]) for codec in self.columns], axis=1)

    def rank_intervals(self, rows: Columns) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Where ranks stand in the encoded row, and the lowest and highest rank of each cell, (n, ranks)."""
        names = {codec.column.name for codec in self.numeric}
        places = [block.start for block in self.slices if block.name in names and block.type is PartType.CONTINUOUS]
        ends = [codec.rank_interval(rows[codec.column.name]) for codec in self.numeric]
        low, high = (np.stack([end[side] for end in ends], axis=1) if ends else np.zeros((0, 0)) for side in (0, 1))
        return np.array(places, dtype=np.int64), low, high

    def unit(self, column: int) -> AffineUnit | None:
        """The unit of a column's numbers, if their means are of one."""
        codec = self.columns[column]
        return codec.unit if isinstance(codec, SpikedNumericCodec) else None

    def bin_edges(self, column: int, n_bins: int) -> Floats:
        """Where the slots of a column's ranks end on the scale of its means."""
        codec = self.columns[column]
        return codec.bin_edges(n_bins) if isinstance(codec, SpikedNumericCodec) else np.zeros(n_bins - 1)

    @property
    def units(self) -> dict[int, AffineUnit]:
        """The units of the numbers that have ranks, by their places among those."""
        return {place: unit for place, codec in enumerate(self.numeric) if (unit := codec.unit)}

    def observed(self, rows: Columns) -> NDArray[np.bool_]:
        """Which cells are there, (n, columns)."""
        return np.stack([~rows[codec.column.name].missing for codec in self.columns], axis=1)

    def repeat_per_part(self, by_column: NDArray[Any]) -> NDArray[Any]:
        """One value per column repeated over the column's numbers: (n, columns) to (n, d)."""
        return np.repeat(by_column, self.widths, axis=1)

    def decode(self, x: Floats, *, is_mean: bool = False) -> Columns:
        """Encoded rows back to cells; `expected`: x holds means and probabilities instead of rows."""
        parts = np.split(x, np.cumsum(self.widths)[:-1], axis=1)
        pairs = zip(self.columns, parts, strict=True)
        return {codec.column.name: codec.decode(part, is_mean=is_mean) for codec, part in pairs}

    def expectation(self, x: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Means of the numeric columns and probabilities of the labels of the others, as they come."""
        numbers: dict[str, Floats] = {}
        probabilities: dict[str, Floats] = {}
        for codec, part in zip(self.columns, np.split(x, np.cumsum(self.widths)[:-1], axis=1), strict=True):
            found = numbers if codec.column.kind.numeric else probabilities
            found[codec.column.name] = codec.expectation(part)
        return numbers, probabilities

    def to_json(self) -> list[dict[str, Any]]:
        """What was learnt, as plain data."""
        return [to_json(codec) for codec in self.columns]

    @classmethod
    def from_json(cls, schema: Schema, data: list[Mapping[str, Any]]) -> RowCodec:
        """Back from `to_json`."""
        pairs = zip(schema.modelled, data, strict=True)
        return cls(schema, tuple(from_json(column, item) for column, item in pairs))


def _warn_hierarchical(codec: HierarchicalCodec) -> None:
    warnings.warn(
        f"Column {codec.column.name!r} has {len(codec.column.categories or ()):,} values: the {len(codec.frequent)} most "
        f"frequent are learnt one by one, the others in {codec.n_groups} groups.",
        CategoriesGroupedWarning,
        stacklevel=5,
    )


def seen(codec: RowCodec, rows: Columns) -> EncodedRows:
    """Rows as the network sees them."""
    known = torch.from_numpy(codec.repeat_per_part(codec.observed(rows)))
    x = codec.encode(rows)
    np.clip(x, -MAX_STANDARD_SCORE, MAX_STANDARD_SCORE, out=x)
    return EncodedRows(torch.from_numpy(x).float(), known)


def spanned(codec: RowCodec, rows: Columns) -> EncodedRows:
    """Rows to train on."""
    known, (places, low, high) = seen(codec, rows), codec.rank_intervals(rows)
    if not len(places):
        return known
    ends = (torch.from_numpy(end).float() for end in (low, high))
    return QuantizedRows(known.x, known.observed, torch.from_numpy(places), *ends)
