"""Cells as a column holds them: what fits, what is put right, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column import Column, Kind
from harpoon.data.column_array import NANOSECONDS, ColumnArray, Storage
from harpoon.exceptions import InvalidTable, SchemaMismatch

MAX_EXACT_INTEGER = 2**63
STORAGE: dict[Kind, Storage] = {
    Kind.NUMBER: "float",
    Kind.INTEGER: "integer",
    Kind.DATE: "date",
    Kind.DATETIME: "datetime",
    Kind.DURATION: "duration",
}


def coerce(cells: ColumnArray, column: Column) -> ColumnArray:
    """Cells as the column's kind holds them, or an error that says why they cannot be.

    A dtype that changed only because of holes is fine. A label that the column does not know becomes missing.
    """
    check_finite(column.name, cells)
    if cells.missing.all():
        return _all_missing(cells, column)
    if column.kind.discrete:
        return _coerce_category(cells, column)
    if column.kind.temporal:
        return _coerce_time(cells, column)
    return _coerce_number(cells, column)


def _coerce_number(cells: ColumnArray, column: Column) -> ColumnArray:
    if cells.storage not in ("float", "integer"):
        raise _changed(cells, column)
    if column.kind is Kind.NUMBER:
        return replace(cells, storage="float", values=cells.values.astype(np.float64))
    if cells.storage == "float":
        whole = (cells.observed == np.round(cells.observed)) & (np.abs(cells.observed) < MAX_EXACT_INTEGER)
        if not whole.all():
            raise SchemaMismatch(
                f"Column {column.name!r} holds integers, but the table has {float(cells.observed[~whole][0])!r} in it. "
                'Round it, or train with the kind "number".'
            )
    return replace(cells, storage="integer", values=cells.values.astype(np.int64))


def _coerce_time(cells: ColumnArray, column: Column) -> ColumnArray:
    if cells.storage != column.kind.value:
        raise _changed(cells, column)
    if column.unit and cells.zoned != column.zoned:
        with_, without = ("with", "without") if column.zoned else ("without", "with")
        raise SchemaMismatch(
            f"Column {column.name!r} holds times {with_} a time zone, got some {without}. Convert them."
        )
    if not column.unit or cells.unit == column.unit:
        return cells
    here, there = NANOSECONDS[cells.unit], NANOSECONDS[column.unit]
    if here > there and int(np.abs(cells.values).max()) > MAX_EXACT_INTEGER // (here // there):
        raise SchemaMismatch(f"Column {column.name!r} counts time in {column.unit!r}, in which the table's do not fit.")
    values = cells.values * (here // there) if here >= there else cells.values // (there // here)
    return replace(cells, values=values, unit=column.unit)


def _coerce_category(cells: ColumnArray, column: Column) -> ColumnArray:
    if column.kind is Kind.BOOLEAN and cells.storage not in ("boolean", "float", "integer"):
        raise _changed(cells, column)
    if cells.storage in ("date", "datetime", "duration", "other"):
        raise _changed(cells, column)
    cells = factorize(cells)
    if column.categories is None:
        return cells
    if cells.categories and _is_text(cells.categories) != _is_text(column.categories):
        kinds = {True: "texts", False: "numbers"}
        raise SchemaMismatch(
            f"The labels of column {column.name!r} are {kinds[_is_text(column.categories)]}, but the table holds "
            f"{kinds[_is_text(cells.categories)]} in it. Convert the column, or train again on what it holds now."
        )
    strange = [label for label in cells.categories if label not in (0, 1)] if column.kind is Kind.BOOLEAN else []
    if strange:
        raise SchemaMismatch(f"Column {column.name!r} holds true and false, but the table has {strange[0]!r} in it.")
    place = {label: i for i, label in enumerate(column.categories)}
    moved = np.array([place.get(label, -1) for label in cells.categories], dtype=np.int64)
    values = moved[cells.values] if len(moved) else cells.values
    missing = cells.missing | (values < 0)
    return ColumnArray("category", np.where(missing, 0, values), missing, column.categories, column.ordered)


def unknown_categories(cells: ColumnArray, column: Column) -> list[Any]:
    """The labels in use that the column does not know."""
    if not column.kind.discrete or cells.missing.all():
        return []
    cells = factorize(cells)
    used = {cells.categories[code] for code in np.unique(cells.observed)}
    return sorted(used - set(column.categories or ()), key=str)


def factorize(cells: ColumnArray) -> ColumnArray:
    """Any column as positions in a list of labels; a whole number counts as an integer."""
    if cells.storage in ("boolean", "text", "category"):
        return cells
    labels = np.unique(cells.observed)
    codes = np.where(cells.missing, 0, np.searchsorted(labels, cells.values))
    plain = tuple(int(v) if float(v).is_integer() else float(v) for v in labels.tolist())
    return ColumnArray("category", codes, cells.missing, plain)


def check_finite(name: str, cells: ColumnArray, counts: NDArray[np.int64] | None = None) -> None:
    """Numbers must be finite; `counts` says how often each of them is there, if not once."""
    infinite = ~(np.isfinite(cells.values) | cells.missing) if cells.storage == "float" else np.zeros(0, dtype=bool)
    if infinite.any():
        raise InvalidTable(
            f"Column {name!r} holds {int((infinite if counts is None else counts[infinite]).sum())} infinite values; "
            "numbers must be finite. Replace them with a number, or with a missing cell to have them filled."
        )


def _all_missing(cells: ColumnArray, column: Column) -> ColumnArray:
    dtype = np.float64 if column.kind is Kind.NUMBER else np.int64
    return ColumnArray(
        STORAGE.get(column.kind, "category"),
        np.zeros(len(cells), dtype=dtype),
        cells.missing,
        column.categories or (),
        column.ordered,
        column.unit,
        column.zoned,
    )


def _is_text(labels: tuple[Any, ...]) -> bool:
    return any(isinstance(label, str) for label in labels)


def _changed(cells: ColumnArray, column: Column) -> SchemaMismatch:
    return SchemaMismatch(
        f"Column {column.name!r} is of kind {column.kind.value!r}, but the table holds {cells.storage} values "
        "in it. Convert the column, or train again with the kind it has now."
    )
