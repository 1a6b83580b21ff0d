"""Tables as arrays that can be compared, from any dataframe library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, ColumnArray, Floats, Schema, Table, coerce, dataframe, factorize, unknown_categories
from harpoon.exceptions import InvalidTable, SchemaMismatch

Codes = NDArray[np.int64]


def read_tables(schema: Schema, *data: object) -> list[Table]:
    """Read tables, each with at least one row and every modelled column; other columns are ignored."""
    tables = [dataframe.read(one) for one in data]
    names = [column.name for column in schema.modelled]
    if not names:
        raise InvalidTable("A table can be scored only if the schema has a modelled column, and it has none.")
    for table in tables:
        missing = [name for name in names if name not in set(table.names)]
        if missing:
            raise SchemaMismatch.missing_columns(missing, table.names)
        if not table.n_rows:
            raise InvalidTable("A table to score must have rows, got none.")
    return tables


def complete_column(table: Table, column: Column) -> ColumnArray:
    """Return a column; raise if a cell is missing."""
    cells = table.column(column.name)
    if cells.missing.any():
        raise InvalidTable(f"Column {column.name!r} must not have missing cells to be scored.")
    return cells


def numeric_values(cells: ColumnArray, column: Column) -> Floats:
    """Return a numeric or temporal column as floats, (n,)."""
    return coerce(cells, column).values.astype(np.float64)


def category_values(cells: ColumnArray) -> NDArray[np.object_]:
    """Return the categories of a column, (n,), including those that the schema does not have."""
    coded = factorize(cells)
    return np.asarray(np.array(coded.categories, dtype=object)[coded.values], dtype=object)


def category_codes(columns: Sequence[ColumnArray], column: Column) -> tuple[list[Codes], int]:
    """Return the same column of several tables as codes, (n,) each, and the number of categories.

    The first codes are those of the schema; other categories in use follow.
    """
    for cells in columns:
        coerce(cells, column)  # raises if the cells do not have the kind of the column
    new: set[Any] = {category for cells in columns for category in unknown_categories(cells, column)}
    categories = (*(column.categories or ()), *sorted(new, key=str))
    code_of = {category: code for code, category in enumerate(categories)}
    codes = [np.array([code_of[value] for value in category_values(cells)], dtype=np.int64) for cells in columns]
    return codes, len(categories)


def encode_onehot(schema: Schema, tables: Sequence[Table]) -> list[tuple[Floats, Floats]]:
    """Return the numeric values, (n, numeric), and the one-hot categories, (n, categories), of each table."""
    numeric = [column for column in schema.modelled if column.kind.numeric]
    coded = [category_codes([complete_column(t, c) for t in tables], c) for c in schema.modelled if c.kind.discrete]
    encoded = []
    for i, table in enumerate(tables):
        values = [numeric_values(complete_column(table, column), column) for column in numeric]
        onehot = [np.eye(n_categories)[codes[i]] for codes, n_categories in coded]
        encoded.append((_column_stack(values, table.n_rows), _column_stack(onehot, table.n_rows)))
    return encoded


def encode_ordinal(schema: Schema, tables: Sequence[Table]) -> tuple[list[Floats], list[str]]:
    """Return each table with categories as codes, (n, columns), and each column's type: "c" category or "q" number.

    Missing cells are NaN.
    """
    columns: list[list[NDArray[Any]]] = []
    for column in schema.modelled:
        cells = [table.column(column.name) for table in tables]
        observed = [each[~each.missing] for each in cells]
        discrete = column.kind.discrete
        values = category_codes(observed, column)[0] if discrete else [numeric_values(c, column) for c in observed]
        columns.append([_scatter_observed(*each) for each in zip(cells, values, strict=True)])
    types = ["c" if column.kind.discrete else "q" for column in schema.modelled]
    return [_column_stack([column[i] for column in columns], table.n_rows) for i, table in enumerate(tables)], types


def _scatter_observed(cells: ColumnArray, observed: NDArray[Any]) -> Floats:
    """Return the values of the observed cells in their rows, and NaN in the others, (n,)."""
    values = np.full(len(cells), np.nan)
    values[~cells.missing] = observed
    return values


def _column_stack(columns: list[NDArray[Any]], n_rows: int) -> Floats:
    return np.column_stack([np.zeros((n_rows, 0)), *columns]).astype(np.float64)
