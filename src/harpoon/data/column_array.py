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
Floats = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
MAX_EXACT_INTEGER = 2**53  # a double has 53 binary digits: beyond it, neighbouring integers are the same float
NO_INDEX = -1  # in arrays of indices: there is none
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class ColumnArray:
    """The cells of one column: values and a mask of missing cells, both (n,).

    `values` are floats for the storage "float", codes (indices of `categories`) for "boolean", "text" and "category",
    and integers otherwise: days for "date", ticks of `unit` for "datetime" and "duration". A missing cell has the value
    0. The categories in `unseen` are those that the schema does not have; their codes follow those of `categories`.

    A missing cell is *unknown* until a sampler fills it. It is *null* if it is known to have no value: then it stays
    missing. `null` is the mask of such cells, a part of `missing`; None: there are none.
    """

    storage: Storage
    values: NDArray[Any]
    missing: Mask
    categories: tuple[Any, ...] = ()
    ordered: bool = False
    unit: str = ""
    zoned: bool = False  # whether datetimes have a time zone
    unseen: tuple[Any, ...] = ()
    null: Mask | None = None
    zone: str = ""  # the time zone of the table, if datetimes have one; values are instants in UTC

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | NDArray[Any]) -> ColumnArray:
        null = None if self.null is None else self.null[rows]
        return replace(self, values=self.values[rows], missing=self.missing[rows], null=null)

    def with_values(self, values: NDArray[Any]) -> ColumnArray:
        """Return cells of the same kind with other values, none of them missing."""
        return replace(self, values=values, missing=np.zeros(len(values), dtype=np.bool_), null=None)

    def with_null(self, null: Mask) -> ColumnArray:
        """Return the cells with some of them null."""
        values = np.where(null, np.zeros((), dtype=self.values.dtype), self.values)
        return replace(self, values=values, missing=self.missing | null, null=self.is_null | null)

    @property
    def is_null(self) -> Mask:
        """Which cells are known to have no value, (n,)."""
        return np.zeros(len(self), dtype=np.bool_) if self.null is None else self.null

    @property
    def unknown(self) -> Mask:
        """Which cells are missing and may be filled, (n,)."""
        return self.missing if self.null is None else self.missing & ~self.null

    def without_unseen(self) -> ColumnArray:
        """Return the cells as a model reads them: unseen categories are missing."""
        if not self.unseen:
            return self
        missing = self.missing | (self.values >= len(self.categories))
        return replace(self, values=np.where(missing, 0, self.values), missing=missing, unseen=())

    @property
    def observed(self) -> NDArray[Any]:
        """The values of the cells that are not missing."""
        return self.values[~self.missing]


Columns = dict[str, ColumnArray]


def missing_as_null(rows: Columns) -> Columns:
    """Return rows in which every missing cell is null, such as the rows of a training table."""
    return {name: replace(cells, null=cells.missing) for name, cells in rows.items()}


def null_as_unknown(rows: Columns) -> Columns:
    """Return rows in which every missing cell may be filled."""
    return {name: replace(cells, null=None) for name, cells in rows.items()}


def as_unknown(cells: ColumnArray) -> ColumnArray:
    """Return cells that may all be filled."""
    return replace(cells, missing=np.ones(len(cells), dtype=np.bool_), null=None)


def scatter(rows: Columns, new: Columns, index: Index) -> Columns:
    """Return all rows, with those at `index` replaced by new ones."""
    scattered = {}
    for name, cells in rows.items():
        values = cells.values.astype(new[name].values.dtype).copy()
        missing, null = cells.missing.copy(), cells.is_null.copy()
        values[index], missing[index], null[index] = new[name].values, new[name].missing, new[name].is_null
        null_or_none = null if null.any() else None
        scattered[name] = replace(new[name], values=values, missing=missing, null=null_or_none, unseen=cells.unseen)
    return scattered


def fill_missing(rows: Columns, new: Columns) -> Columns:
    """Return rows with each unknown cell replaced by the new one; all other cells stay bit for bit."""
    filled = {}
    for name, cells in rows.items():
        unknown, added = cells.unknown, new[name]
        is_complete = cells.null is None and added.null is None
        filled[name] = replace(
            added,
            values=np.where(unknown, added.values, cells.values),
            missing=np.where(unknown, added.missing, cells.missing),
            null=None if is_complete else np.where(unknown, added.is_null, cells.is_null),
            unseen=cells.unseen,
        )
    return filled


def concat(parts: list[Columns]) -> Columns:
    """Concatenate the rows of several parts."""
    return {name: _concat([part[name] for part in parts]) for name in parts[0]}


def _concat(parts: list[ColumnArray]) -> ColumnArray:
    is_complete = all(part.null is None for part in parts)
    return replace(
        parts[0],
        values=np.concatenate([part.values for part in parts]),
        missing=np.concatenate([part.missing for part in parts]),
        null=None if is_complete else np.concatenate([part.is_null for part in parts]),
    )


def take(rows: Mapping[str, ColumnArray], index: slice | NDArray[Any]) -> Columns:
    """Return some of the rows."""
    return {name: cells[index] for name, cells in rows.items()}


def repeat_row(row: Columns, count: int) -> Columns:
    """Return `count` copies of one row."""
    return take(row, np.zeros(count, dtype=np.int64))


def n_rows(rows: Columns) -> int:
    """Return the number of rows."""
    return len(next(iter(rows.values())))
