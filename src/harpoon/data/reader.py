"""A table checked against a schema, as columns."""

from __future__ import annotations

from harpoon._formatting import format_list
from harpoon.data.arrow import opaque
from harpoon.data.coercion import coerce_observed
from harpoon.data.column_array import ColumnArray, Columns
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema, check_columns
from harpoon.exceptions import InvalidOption, UnknownCategoryWarning, warn


def read_columns(
    table: Table, schema: Schema, *, partial: bool = False, strict: bool = False, extra: bool = False
) -> Columns:
    """Return the modelled columns of a table, checked against the schema.

    A `partial` table may lack columns; they count as missing. Categories that the schema does not have are `unknown`,
    with a warning, or are an error if `strict`. Columns that the schema does not have are an error, or with `extra`
    a warning.
    """
    check_columns(table.names, schema.names, partial=partial, extra=extra, weights=schema.weights)
    rows = {}
    for column in schema.modelled:
        cells = table.column(column.name) if column.name in table.names else opaque(table.n_rows, "null")
        rows[column.name] = coerced = coerce_observed(cells, column)
        if coerced.unseen and strict:
            raise InvalidOption.one_of(f"A value of column {column.name!r}", coerced.unseen[0], coerced.categories)
        if coerced.unseen:
            warn(UnknownCategoryWarning(_describe_unknown(column.name, coerced)))
    return rows


def _describe_unknown(name: str, cells: ColumnArray) -> str:
    """Return a sentence about the categories of a column that the model does not know."""
    count = int((cells.values >= len(cells.categories)).sum())
    held = f"Column {name!r} holds {format_list(cells.unseen)} in {count} {'cell' if count == 1 else 'cells'}"
    return f"{held}, unknown to the model: ignored as an input and kept."
