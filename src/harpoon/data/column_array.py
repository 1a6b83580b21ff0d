"""Cells: one column of a table as plain NumPy arrays, whatever dataframe it came from.

This is the language between dataframes and everything else; it knows no dataframe library and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Storage = Literal["float", "integer", "boolean", "text", "category", "date", "datetime", "duration", "null", "other"]
Index = NDArray[np.int64]
NO_INDEX = -1  # the place of what is not there
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class ColumnArray:
    """One column's cells as NumPy arrays.

    `values` holds floats for the storage "float", positions in `labels` for "boolean", "text" and
    "category", and integers otherwise: days for "date", ticks of `unit` for "datetime" and "duration".
    A missing cell holds 0 and is marked in `missing`.
    """

    storage: Storage
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    categories: tuple[Any, ...] = ()
    ordered: bool = False
    unit: str = ""
    zoned: bool = False  # whether datetimes know their time zone

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | NDArray[Any]) -> ColumnArray:
        return replace(self, values=self.values[rows], missing=self.missing[rows])

    def with_values(self, values: NDArray[Any]) -> ColumnArray:
        """Cells of the same kind with other values, none of them missing."""
        return replace(self, values=values, missing=np.zeros(len(values), dtype=np.bool_))

    @property
    def observed(self) -> NDArray[Any]:
        """The values of the cells that are not missing."""
        return self.values[~self.missing]


Columns = dict[str, ColumnArray]


def scatter(rows: Columns, new: Columns, index: Index) -> Columns:
    """New cells, of the rows at `index`, laid over the cells of all rows."""
    laid = {}
    for name, cells in rows.items():
        values = cells.values.astype(new[name].values.dtype).copy()
        values[index] = new[name].values
        laid[name] = new[name].with_values(values)
    return laid


def fill_missing(rows: Columns, new: Columns) -> Columns:
    """New cells where a cell is missing, the own ones elsewhere."""
    return {
        name: cells.with_values(np.where(rows[name].missing, cells.values, rows[name].values))
        for name, cells in new.items()
    }


def concat(parts: list[Columns]) -> Columns:
    """The rows of several parts, one after the other."""
    return {
        name: first.with_values(np.concatenate([part[name].values for part in parts]))
        for name, first in parts[0].items()
    }


def take(rows: Mapping[str, ColumnArray], index: slice | NDArray[Any]) -> Columns:
    """Some of the rows."""
    return {name: cells[index] for name, cells in rows.items()}


def repeat_row(base: Columns, count: int) -> Columns:
    """One row, as often as is asked."""
    return take(base, np.zeros(count, dtype=np.int64))


def n_rows(rows: Columns) -> int:
    """How many rows there are."""
    return len(next(iter(rows.values())))
