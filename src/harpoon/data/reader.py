"""A table checked against a schema, as columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from harpoon._text import format_list
from harpoon.data.coercion import coerce, unknown_categories
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray, Columns
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema, check_columns, check_known_columns
from harpoon.exceptions import InvalidOption, UnknownCategoryWarning


def read_columns(table: Table, schema: Schema, *, partial: bool = False, strict: bool = False) -> Columns:
    """Return the modelled columns of a table, checked against the schema.

    A `partial` table may lack columns; they count as missing. Categories that the schema does not have count as
    missing too, with a warning, or are an error if `strict`.
    """
    check = check_known_columns if partial else check_columns
    check(table.names, schema.names)
    rows = {}
    for column in schema.modelled:
        cells = table.column(column.name) if column.name in table.names else _all_missing(table.n_rows)
        rows[column.name] = coerce(cells, column)
        unknown = unknown_categories(cells, column)
        if unknown and strict:
            raise InvalidOption.one_of(f"A value of column {column.name!r}", unknown[0], column.categories or ())
        if unknown:
            _warn_unknown(column, unknown, int((rows[column.name].missing & ~cells.missing).sum()))
    return rows


def _all_missing(height: int) -> ColumnArray:
    return ColumnArray("null", np.zeros(height, dtype=np.int64), np.ones(height, dtype=np.bool_))


def _warn_unknown(column: Column, unknown: list[Any], count: int) -> None:
    warnings.warn(
        f"Column {column.name!r} holds {format_list(unknown)} in {count} {'cell' if count == 1 else 'cells'}, "
        "unknown to the model: treated as missing.",
        UnknownCategoryWarning,
        stacklevel=4,
    )
