"""Coercion of a column's cells to its kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column import Column, Kind
from harpoon.data.column_array import NANOSECONDS, ColumnArray
from harpoon.exceptions import InvalidTable, SchemaMismatch

INT64_LIMIT = 2**63


def coerce(cells: ColumnArray, column: Column) -> ColumnArray:
    """Return cells in the storage of the column's kind, or raise SchemaMismatch.

    A dtype that changed only because cells are missing is accepted. A category that the column does not have becomes
    missing.
    """
    return coerce_observed(cells, column).without_unseen()


def coerce_observed(cells: ColumnArray, column: Column) -> ColumnArray:
    """Return `coerce`, in which a category that the column does not have is not missing but `unknown`."""
    check_finite(column.name, cells)
    if cells.missing.all():
        return _all_missing(cells, column)
    is_coerced = column.kind.discrete and cells.storage == "category" and cells.categories == column.categories
    if cells.storage not in column.kind.storages and not is_coerced:
        is_text_of_times = column.kind.temporal and cells.storage == "text"
        how = ", for example by `pandas.to_datetime` or by reading the file with `harpoon.io.read_table`"
        raise SchemaMismatch(
            f"Column {column.name!r} is of kind {column.kind.value!r}, but the table holds {cells.storage} values "
            f"in it. Convert the column{how if is_text_of_times else ''}, or train again with the kind it has now."
        )
    if column.kind.discrete:
        return _coerce_category(cells, column)
    if column.kind.temporal:
        return _coerce_time(cells, column)
    return _coerce_number(cells, column)


def _coerce_number(cells: ColumnArray, column: Column) -> ColumnArray:
    if not column.kind.integral:
        return replace(cells, storage="float", values=cells.values.astype(np.float64))
    if cells.storage == "float":
        is_integer = (cells.observed == np.round(cells.observed)) & (np.abs(cells.observed) < INT64_LIMIT)
        if not is_integer.all():
            raise SchemaMismatch(
                f"Column {column.name!r} holds integers, but the table has {float(cells.observed[~is_integer][0])!r} "
                'in it. Round it, or train with the kind "number".'
            )
    return replace(cells, storage="integer", values=cells.values.astype(np.int64))


def _coerce_time(cells: ColumnArray, column: Column) -> ColumnArray:
    if column.unit and cells.zoned != column.zoned:
        with_, without = ("with", "without") if column.zoned else ("without", "with")
        raise SchemaMismatch(
            f"Column {column.name!r} holds times {with_} a time zone, got some {without}. Convert them."
        )
    if not column.unit or cells.unit == column.unit:
        return cells
    own, wanted = NANOSECONDS[cells.unit], NANOSECONDS[column.unit]
    if own > wanted and int(np.abs(cells.values).max()) > INT64_LIMIT // (own // wanted):
        raise SchemaMismatch(f"Column {column.name!r} counts time in {column.unit!r}, in which the table's do not fit.")
    values = cells.values * (own // wanted) if own >= wanted else cells.values // (wanted // own)
    return replace(cells, values=values, unit=column.unit)


def _coerce_category(cells: ColumnArray, column: Column) -> ColumnArray:
    cells = factorize(cells)
    if column.categories is None:
        return cells
    if cells.categories and _has_text(cells.categories) != _has_text(column.categories):
        words = {True: "texts", False: "numbers"}
        raise SchemaMismatch(
            f"The categories of column {column.name!r} are {words[_has_text(column.categories)]}, but the table holds "
            f"{words[_has_text(cells.categories)]} in it. Convert the column, or train again on what it holds now."
        )
    if column.kind is Kind.BOOLEAN:
        other = next((category for category in cells.categories if category not in (0, 1)), None)
        if other is not None:
            raise SchemaMismatch(f"Column {column.name!r} holds true and false, but the table has {other!r} in it.")
    unknown = tuple(unknown_categories(cells, column))
    code_of = {category: code for code, category in enumerate(column.categories + unknown)}
    codes = np.array([code_of.get(category, 0) for category in cells.categories], dtype=np.int64)
    values = np.where(cells.missing, 0, codes[cells.values] if len(codes) else cells.values)
    return ColumnArray("category", values, cells.missing, column.categories, column.ordered, unseen=unknown)


def unknown_categories(cells: ColumnArray, column: Column) -> list[Any]:
    """Return the categories in use that the column does not have."""
    if not column.kind.discrete or cells.missing.all():
        return []
    cells = factorize(cells)
    used = {cells.categories[code] for code in np.unique(cells.observed)}
    return sorted(used - set(column.categories or ()), key=str)


def factorize(cells: ColumnArray) -> ColumnArray:
    """Return any column as codes of categories; a float without a fraction becomes an integer category."""
    if cells.storage in ("boolean", "text", "category"):
        return cells
    distinct = np.unique(cells.observed)
    codes = np.where(cells.missing, 0, np.searchsorted(distinct, cells.values))
    categories = tuple(int(value) if float(value).is_integer() else float(value) for value in distinct.tolist())
    return ColumnArray("category", codes, cells.missing, categories)


def check_finite(name: str, cells: ColumnArray, counts: NDArray[np.int64] | None = None) -> None:
    """Raise InvalidTable if numbers are infinite. `counts`: how often each value occurs; by default once."""
    infinite = ~(np.isfinite(cells.values) | cells.missing) if cells.storage == "float" else np.zeros(0, dtype=bool)
    if infinite.any():
        raise InvalidTable(
            f"Column {name!r} holds {int((infinite if counts is None else counts[infinite]).sum())} infinite values; "
            "numbers must be finite. Replace them with a number, or with a missing cell to have them imputed."
        )


def _all_missing(cells: ColumnArray, column: Column) -> ColumnArray:
    storage = "category" if column.kind.discrete else column.kind.storages[0]
    values = np.zeros(len(cells), dtype=np.float64 if storage == "float" else np.int64)
    categories = column.categories or ()
    return ColumnArray(storage, values, cells.missing, categories, column.ordered, column.unit, column.zoned)


def _has_text(categories: tuple[Any, ...]) -> bool:
    return any(isinstance(category, str) for category in categories)
