"""Missing indicators: whether a cell has a value, as a binary variable of the row like any other.

With m the indicators and x the values, the model learns p(m, x_observed). A value is a target only where it is
observed, and is sampled only after its indicator says that there is one (`docs/missing-values.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from harpoon.data import Floats, Mask
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import Columns
from harpoon.data.value_counts import TableCounts
from harpoon.encoding.codec import Codec, HiddenCodec, Part, PartType

Array = TypeVar("Array", Floats, Tensor)
OBSERVED, NULL = 0, 1  # the categories of an indicator


@dataclass(frozen=True)
class MissingIndicatorCodec(HiddenCodec):
    """A one-hot vector of two categories: the cell has a value, or it is null.

    Columns that are encoded together have one indicator, because the network sees either all of them or none.

    Attributes:
        indicated: The columns whose missingness it encodes.
    """

    indicated: tuple[Column, ...]

    @property
    def label(self) -> str:
        """What it encodes, as SQL."""
        return " or ".join(f"{column.name} is null" for column in self.indicated)

    @property
    def label_values(self) -> dict[str, NDArray[Any] | None]:
        """The columns whose missingness its labels are."""
        return {column.name: None for column in self.indicated}

    @property
    def parts(self) -> tuple[Part, ...]:
        """One categorical part of two features."""
        return (Part(2, PartType.CATEGORICAL),)

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return True: cells of any kind can be missing."""
        return kind.modelled

    def is_observed(self, rows: Columns) -> Mask:
        """Return in which rows it is known whether the cells have values, (n,)."""
        known_null = np.any([rows[column.name].is_null for column in self.indicated], axis=0)
        unknown = np.any([rows[column.name].unknown for column in self.indicated], axis=0)
        return np.asarray(known_null | ~unknown, dtype=np.bool_)

    def encode_columns(self, rows: Columns) -> Floats:
        """Return one-hot vectors, (n, 2); zeros where it is not known whether the cells have values."""
        null = np.any([rows[column.name].is_null for column in self.indicated], axis=0)
        return np.asarray(np.eye(2)[null.astype(np.int64)] * self.is_observed(rows)[:, None], dtype=np.float64)

    @staticmethod
    def null_probability(x: Array) -> Array:
        """Return the probability that a cell is null, (n,), from an expectation of the features, (n, 2)."""
        return x[:, NULL] / (x[:, OBSERVED] + x[:, NULL])

    def decode_null(self, x: Floats) -> Mask:
        """Return which rows are null, (n,)."""
        return np.asarray(x[:, NULL] > x[:, OBSERVED], dtype=np.bool_)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {"codec": type(self).__name__, "columns": [column.name for column in self.indicated]}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:  # noqa: ARG003
        """Restore from `to_json`."""
        return cls(tuple(columns))


def missing_indicators(codecs: Sequence[Codec], counts: TableCounts) -> tuple[MissingIndicatorCodec, ...]:
    """Return an indicator for each codec with missing training cells in one of its columns."""
    incomplete = {name for name, column in counts.items() if column.n_missing}
    columns = [codec.columns for codec in codecs]
    return tuple(MissingIndicatorCodec(group) for group in columns if any(c.name in incomplete for c in group))
