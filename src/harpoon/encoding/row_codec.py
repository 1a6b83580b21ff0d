"""Row codec: tables to encoded rows, and back.

An encoded row is the vector x_0 of the paper (Sec. 3.1): the features of all columns, concatenated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.data.column_array import Columns
from harpoon.data.schema import Schema
from harpoon.data.statistics import Floats, TableCounts
from harpoon.encoding.base import Codec, ColumnCodec, ColumnSlice, PartType
from harpoon.encoding.batch import EncodedRows, QuantizedRows
from harpoon.encoding.registry import codec_from_json, fit_codecs
from harpoon.encoding.units import AffineUnit

MAX_STANDARD_SCORE = 1e4  # larger features overflow after a few layers
Array = TypeVar("Array", Floats, Tensor)


@dataclass(frozen=True)
class RowCodec:
    """The codecs of all modelled columns. d is the width of an encoded row."""

    schema: Schema
    codecs: tuple[Codec, ...]

    def __post_init__(self) -> None:
        encoded = [column.name for codec in self.codecs for column in codec.columns]
        if sorted(encoded) != sorted(column.name for column in self.schema.modelled):
            raise ValueError("each modelled column must have one codec")
        if any(codec.has_normal_score and not isinstance(codec, ColumnCodec) for codec in self.codecs):
            raise ValueError("columns that are encoded together cannot have a normal score")

    @classmethod
    def fit(cls, schema: Schema, counts: TableCounts, *, encoding: str, scaling: str) -> RowCodec:
        """Choose and fit the codecs by the counts of a training table."""
        row_codec = cls(schema, fit_codecs(schema, counts, encoding, scaling))
        for codec in row_codec.codecs:
            if codec.fit_warning is not None:
                warnings.warn(codec.fit_warning, stacklevel=4)
        return row_codec

    @cached_property
    def slices(self) -> tuple[ColumnSlice, ...]:
        """The position of each part in the encoded row."""
        slices, start = [], 0
        for index, codec in enumerate(self.codecs):
            name = ", ".join(column.name for column in codec.columns)
            for part in codec.parts:
                slices.append(ColumnSlice(name, index, start, start + part.width, part.type))
                start += part.width
        return tuple(slices)

    @property
    def width(self) -> int:
        """The width d of an encoded row."""
        return sum(self.widths)

    @cached_property
    def widths(self) -> list[int]:
        """The number of features of each codec."""
        return [sum(part.width for part in codec.parts) for codec in self.codecs]

    @cached_property
    def numeric(self) -> list[ColumnCodec]:
        """The codecs with a normal score."""
        return [codec for codec in self.single_columns if codec.has_normal_score]

    @property
    def single_columns(self) -> list[ColumnCodec]:
        """The codecs of one column; columns that are encoded together are not among them."""
        return [codec for codec in self.codecs if isinstance(codec, ColumnCodec)]

    def split(self, x: Array) -> Iterator[tuple[Codec, Array]]:
        """Yield each codec with its features of encoded rows, (n, d)."""
        stop = 0
        for codec, width in zip(self.codecs, self.widths, strict=True):
            start, stop = stop, stop + width
            yield codec, x[:, start:stop]

    def encode(self, rows: Columns) -> Floats:
        """Encode rows, (n, d). The features of a missing cell are all zeros."""
        return np.concatenate([codec.encode_columns(rows) for codec in self.codecs], axis=1)

    def decode(self, x: Floats, *, is_mean: bool = False) -> Columns:
        """Decode encoded rows, (n, d), to cells. `is_mean`: x is an expectation, E[x_0], and not a sampled row."""
        cells: Columns = {}
        for codec, part in self.split(x):
            cells |= codec.decode_columns(part, is_mean=is_mean)
        return {column.name: cells[column.name] for column in self.schema.modelled}

    def expectation(self, x: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Return the expectations of numeric columns, (n,), and the probabilities of others, (n, categories)."""
        values: dict[str, Floats] = {}
        probabilities: dict[str, Floats] = {}
        for codec, part in self.split(x):
            for name, expectation in codec.expectations(part).items():
                (values if self.schema[name].kind.numeric else probabilities)[name] = expectation
        return values, probabilities

    def observed(self, rows: Columns) -> NDArray[np.bool_]:
        """Return which codecs are observed, (n, codecs): those without a missing cell in any of their columns."""
        missing = [np.any([rows[column.name].missing for column in codec.columns], axis=0) for codec in self.codecs]
        return ~np.stack(missing, axis=1)

    def repeat_per_part(self, by_codec: NDArray[Any]) -> NDArray[Any]:
        """Repeat one value per codec over its features: (n, codecs) to (n, d)."""
        return np.repeat(by_codec, self.widths, axis=1)

    def to_batch(self, rows: Columns) -> EncodedRows:
        """Encode rows as the network reads them, in single precision."""
        observed = torch.from_numpy(self.repeat_per_part(self.observed(rows)))
        x = self.encode(rows)
        np.clip(x, -MAX_STANDARD_SCORE, MAX_STANDARD_SCORE, out=x)
        return EncodedRows(torch.from_numpy(x).float(), observed)

    def to_training_batch(self, rows: Columns) -> EncodedRows:
        """Encode rows to train on, with the rank intervals of normal scores."""
        batch, (index, low, high) = self.to_batch(rows), self.rank_intervals(rows)
        if not len(index):
            return batch
        ends = (torch.from_numpy(end).float() for end in (low, high))
        return QuantizedRows(batch.x, batch.observed, torch.from_numpy(index), *ends)

    def rank_intervals(self, rows: Columns) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the features that are normal scores, (k,), and the lowest and highest rank of each cell, (n, k)."""
        ranked = {index for index, codec in enumerate(self.codecs) if codec.has_normal_score}
        index = [part.start for part in self.slices if part.column in ranked and part.type is PartType.CONTINUOUS]
        ends = [codec.rank_interval(rows[codec.column.name]) for codec in self.numeric]
        low, high = (np.stack([end[side] for end in ends], axis=1) if ends else np.zeros((0, 0)) for side in (0, 1))
        return np.array(index, dtype=np.int64), low, high

    def unit(self, column: int) -> AffineUnit | None:
        """Return the unit of the standardised value of a codec, by its index."""
        return self.codecs[column].unit

    def bin_edges(self, column: int, n_bins: int) -> Floats:
        """Return `ColumnCodec.bin_edges` of a codec, by its index."""
        codec = self.codecs[column]
        return codec.bin_edges(n_bins) if isinstance(codec, ColumnCodec) else np.zeros(n_bins - 1)

    @property
    def units(self) -> dict[int, AffineUnit]:
        """The units of the numeric columns with a normal score, by their index in `numeric`."""
        return {index: unit for index, codec in enumerate(self.numeric) if (unit := codec.unit)}

    def to_json(self) -> list[dict[str, Any]]:
        """Return the fitted codecs as plain data."""
        return [codec.to_json() for codec in self.codecs]

    @classmethod
    def from_json(cls, schema: Schema, data: list[Mapping[str, Any]]) -> RowCodec:
        """Restore from `to_json`."""
        return cls(schema, tuple(codec_from_json(schema, item) for item in data))
