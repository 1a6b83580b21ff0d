"""One column of a table as NumPy arrays, from any dataframe library.

All rooms exchange tables in this form. This module imports no dataframe library and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Storage = Literal["float", "integer", "boolean", "text", "category", "date", "datetime", "duration", "null", "other"]
Index = NDArray[np.int64]
NO_INDEX = -1  # in arrays of indices: there is none
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class ColumnArray:
    """The cells of one column: values and a mask of missing cells, both (n,).

    `values` are floats for the storage "float", codes (indices of `categories`) for "boolean", "text" and "category",
    and integers otherwise: days for "date", ticks of `unit` for "datetime" and "duration". A missing cell has the value
    0.
    """

    storage: Storage
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    categories: tuple[Any, ...] = ()
    ordered: bool = False
    unit: str = ""
    zoned: bool = False  # whether datetimes have a time zone

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | NDArray[Any]) -> ColumnArray:
        return replace(self, values=self.values[rows], missing=self.missing[rows])

    def with_values(self, values: NDArray[Any]) -> ColumnArray:
        """Return cells of the same kind with other values, none of them missing."""
        return replace(self, values=values, missing=np.zeros(len(values), dtype=np.bool_))

    @property
    def observed(self) -> NDArray[Any]:
        """The values of the cells that are not missing."""
        return self.values[~self.missing]


Columns = dict[str, ColumnArray]


def scatter(rows: Columns, new: Columns, index: Index) -> Columns:
    """Return all rows, with those at `index` replaced by new ones."""
    scattered = {}
    for name, cells in rows.items():
        values = cells.values.astype(new[name].values.dtype).copy()
        values[index] = new[name].values
        scattered[name] = new[name].with_values(values)
    return scattered


def fill_missing(rows: Columns, new: Columns) -> Columns:
    """Return rows with each missing cell replaced by the new one; observed cells stay bit for bit."""
    return {
        name: cells.with_values(np.where(rows[name].missing, cells.values, rows[name].values))
        for name, cells in new.items()
    }


def concat(parts: list[Columns]) -> Columns:
    """Concatenate the rows of several parts."""
    return {
        name: first.with_values(np.concatenate([part[name].values for part in parts]))
        for name, first in parts[0].items()
    }


def take(rows: Mapping[str, ColumnArray], index: slice | NDArray[Any]) -> Columns:
    """Return some of the rows."""
    return {name: cells[index] for name, cells in rows.items()}


def repeat_row(row: Columns, count: int) -> Columns:
    """Return `count` copies of one row."""
    return take(row, np.zeros(count, dtype=np.int64))


def n_rows(rows: Columns) -> int:
    """Return the number of rows."""
    return len(next(iter(rows.values())))
