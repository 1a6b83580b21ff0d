"""Base classes of codecs: maps between the cells of columns and a few features per row.

Encoding is exact in double precision: `decode(encode(cells))` returns the cells.

`ColumnCodec` encodes one column and is what nearly every codec derives from. `Codec` is the general case, which may
encode several columns together, such as a latitude and a longitude as a point on the sphere. To add a codec, derive
from one of the two and register it (`harpoon.encoding.registry`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from harpoon.data import Column, ColumnArray, Columns, Floats, Kind, Mask
from harpoon.encoding.units import AffineUnit


class PartType(StrEnum):
    """The type of the features of a part.

    A column with a CONTINUOUS and a REGRESSION part is a numeric column with a normal score: the anchored network
    predicts its conditional distribution.
    """

    CONTINUOUS = "continuous"  # one real number, noised by the diffusion
    CATEGORICAL = "categorical"  # a one-hot vector, or a point of the simplex, noised by the diffusion
    REGRESSION = "regression"  # one standardised value, never noised: predicted as an expectation, read where observed


@dataclass(frozen=True)
class Part:
    """Some features of an encoded cell. A part that is not categorical has width 1."""

    width: int
    type: PartType

    def __post_init__(self) -> None:
        if self.width != 1 and self.type is not PartType.CATEGORICAL:
            raise ValueError(f"a {self.type} part must have width 1, got {self.width}; use several parts")


CONTINUOUS_PART = Part(1, PartType.CONTINUOUS)


@dataclass(frozen=True)
class ColumnSlice:
    """Position of a part in the encoded row: the features from `start` to before `stop`."""

    name: str  # of the column; of columns that are encoded together, all their names
    column: int  # the index of the codec in `RowCodec.codecs`
    start: int
    stop: int
    type: PartType

    @property
    def is_categorical(self) -> bool:
        """Whether its features are those of a category."""
        return self.type is PartType.CATEGORICAL


class ValueCells(NamedTuple):
    """The possible values of a numeric column: its spikes, then intervals of its other values in ascending order.

    An interval has the values whose rank lies between two edges. It is a single value if `low` equals `high`.
    """

    low: NDArray[Any]  # the least value of each, (spikes + intervals,)
    high: NDArray[Any]  # the largest one
    edges: Floats  # ranks from 0 to 1, (intervals + 1,)


class Codec(ABC):
    """Encodes one column, or several columns together, into d features per row.

    Columns that are encoded together count as observed only in rows where all of them are. In other rows the network
    sees none of them and predicts all. Cells that were observed are always returned as they were
    (`harpoon.data.column_array.fill_missing`), so the sampled half of a group does not depend on its observed half.
    """

    has_probabilities: ClassVar[bool] = True  # whether `soft_columns` gives probabilities of categories

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns that it encodes."""

    @property
    def label(self) -> str:
        """What it encodes: the names of its columns."""
        return ", ".join(column.name for column in self.columns)

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The features of a row; their widths sum to d."""

    @classmethod
    @abstractmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether it encodes columns of a kind."""

    def is_observed(self, rows: Columns) -> Mask:
        """Return in which rows the network sees it, (n,): those in which none of its cells is missing."""
        return np.asarray(~np.any([rows[column.name].missing for column in self.columns], axis=0), dtype=np.bool_)

    @abstractmethod
    def encode_columns(self, rows: Columns) -> Floats:
        """Encode the cells of its columns, (n, d). Rows that are not observed are all zeros."""

    @abstractmethod
    def decode_columns(self, x: Floats, *, is_mean: bool = False) -> Columns:
        """Decode features, (n, d), to cells of all its columns, none missing. See `ColumnCodec.decode`."""

    @abstractmethod
    def expectations(self, x: Floats) -> dict[str, Floats]:
        """Return `ColumnCodec.expectation` of each column by name."""

    @abstractmethod
    def soft_columns(self, x: Tensor) -> dict[str, Tensor]:
        """Decode features, (n, d), differentiably: values, (n,), or probabilities, (n, categories), by column name."""

    def category_coordinates(self, x: Tensor, name: str) -> Tensor:
        """Return points, (n, categories), whose distance to a corner of the simplex is a penalty (eq. 9)."""
        return self.soft_columns(x)[name]

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data. A codec with fitted attributes adds them."""
        return {"codec": type(self).__name__, "columns": [column.name for column in self.columns]}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:  # noqa: ARG003
        """Restore a codec of some columns from `to_json`. Raise ValueError if the data are invalid."""
        return cls(*columns)

    @property
    def has_normal_score(self) -> bool:
        """Whether it has a normal score beside a standardised value."""
        return {PartType.CONTINUOUS, PartType.REGRESSION} <= {part.type for part in self.parts}

    @property
    def is_few_valued(self) -> bool:
        """Whether it has a standardised value, but no normal score: every value is a category."""
        types = {part.type for part in self.parts}
        return PartType.REGRESSION in types and PartType.CONTINUOUS not in types

    @property
    def label_features(self) -> list[NDArray[np.int64]]:
        """The features of each label, counted among its categorical features: (labels, 1), one array per variable.

        By default each categorical part is a variable of its own (`harpoon.relations.exclusion`).
        """
        stops = np.cumsum([part.width for part in self.parts if part.type is PartType.CATEGORICAL], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), stops])
        return [np.arange(start, stop)[:, None] for start, stop in pairwise(starts)]

    @property
    def label_values(self) -> dict[str, NDArray[Any] | None]:
        """The columns that the labels of its only variable stand for, each with the value of each label, (labels,).

        A value is the code of a category, or a number; NaN stands for other numbers. None instead of values: the two
        labels say whether the cell has a value or is null. By default its labels stand for no column.
        """
        return {}

    @property
    def is_discrete(self) -> bool:
        """Whether its value is a label: it encodes a column, and none of its features is continuous."""
        return bool(self.columns) and all(part.type is not PartType.CONTINUOUS for part in self.parts)

    @property
    def unit(self) -> AffineUnit | None:
        """The unit of the standardised value; None if the value is not an affine map of the table's."""
        return None

    @property
    def fit_warning(self) -> Warning | None:
        """What the user should know about how the columns are encoded."""
        return None


class HiddenCodec(Codec):
    """Encodes what follows from columns, such as a calendar part. It is decoded with them, and not to cells."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """None: it does not hold the values of a column."""
        return ()

    def decode_columns(self, x: Floats, *, is_mean: bool = False) -> Columns:  # noqa: ARG002
        """Return no cells."""
        return {}

    def expectations(self, x: Floats) -> dict[str, Floats]:  # noqa: ARG002
        """Return nothing."""
        return {}

    def soft_columns(self, x: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return nothing."""
        return {}


class ColumnCodec(Codec):
    """Encodes one column into d features per row. Subclasses have the attribute `column`."""

    column: Column

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column, as a tuple."""
        return (self.column,)

    @abstractmethod
    def encode(self, cells: ColumnArray) -> Floats:
        """Encode cells, (n, d). Missing cells are all zeros."""

    @abstractmethod
    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        """Decode features, (n, d), to cells, none missing. `is_mean`: x is E[x_0] and not a sampled row."""

    @abstractmethod
    def expectation(self, x: Floats) -> Floats:
        """Return what E[x_0] means: a value in the table's units, (n,), or probabilities, (n, categories)."""

    def is_possible(self, cells: ColumnArray) -> Mask:
        """Return which values at the column's resolution can be sampled, (n,): all, unless a codec has a grid."""
        return np.ones(len(cells), dtype=np.bool_)

    def soft_value(self, x: Tensor) -> Tensor:  # noqa: ARG002
        """Decode a numeric column differentiably: values in the table's units, (n,)."""
        raise TypeError(f"{type(self).__name__} has no numeric value")

    def soft_probabilities(self, x: Tensor) -> Tensor:  # noqa: ARG002
        """Decode a discrete column differentiably: probabilities, (n, categories)."""
        raise TypeError(f"{type(self).__name__} has no categories")

    def encode_columns(self, rows: Columns) -> Floats:
        """Encode its column."""
        return self.encode(rows[self.column.name])

    def decode_columns(self, x: Floats, *, is_mean: bool = False) -> Columns:
        """Decode its column."""
        return {self.column.name: self.decode(x, is_mean=is_mean)}

    def expectations(self, x: Floats) -> dict[str, Floats]:
        """Return the expectation of its column."""
        return {self.column.name: self.expectation(x)}

    def soft_columns(self, x: Tensor) -> dict[str, Tensor]:
        """Decode its column differentiably."""
        decode = self.soft_value if self.column.kind.numeric else self.soft_probabilities
        return {self.column.name: decode(x)}

    def rank_interval(self, cells: ColumnArray) -> tuple[Floats, Floats]:
        """Return the lowest and highest rank in [0, 1] of each cell, (n,), if it has a normal score.

        Training samples the normal score of a cell from this interval. By default it is a point.
        """
        features = [part.type for part in self.parts for _ in range(part.width)]
        rank: Floats = ndtr(self.encode(cells)[:, features.index(PartType.CONTINUOUS)])
        return rank, rank

    def standardised_ranks(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the rank below standardised values, (n,), and the rank up to them, among values with a normal score.

        They differ where values repeat. By default the two are the rank of the value.
        """
        features = np.zeros((len(z), sum(part.width for part in self.parts)))
        features[:, [part.type for part in self.parts].index(PartType.REGRESSION)] = z
        return self.rank_interval(self.decode(features, is_mean=True))

    def bin_edges(self, n_bins: int) -> Floats:
        """Return the standardised values at the inner edges of equiprobable bins of the normal score, (n_bins - 1,)."""
        return np.zeros(n_bins - 1)

    def to_column_units(self, values: NDArray[Any]) -> NDArray[Any]:
        """Round values that were computed from other columns to what this column can hold."""
        return values

    def can_hold(self, values: NDArray[Any]) -> Mask:
        """Return which values of `to_column_units` can be encoded, (n,)."""
        return np.ones(len(values), dtype=np.bool_)

    def centred_values(self, cells: ColumnArray) -> tuple[Floats, int]:
        """Return values less an origin, (n,), and the origin: the values of times are exact only without it."""
        return cells.values.astype(np.float64), 0

    def value_cells(self, n_intervals: int) -> ValueCells | None:
        """Return the possible values of a numeric column, with at least so many intervals if it has many.

        By default None: conditions on it are then met by rejection or guidance only.
        """
        del n_intervals
        return None

    def standardised_values(self, z: Floats) -> NDArray[Any]:
        """Return the values at the column's resolution of standardised values, of any shape."""
        raise TypeError(f"{type(self).__name__} has no standardised value: {z.shape}")

    def nearest_values(self, values: Floats) -> NDArray[Any]:
        """Return the nearest values that the column can hold, (n,)."""
        return values
