"""Tables as arrays that can be compared: both sides in the same numbers, whatever library they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import dataframe
from harpoon.data.coercion import coerce, factorize, unknown_categories
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidTable, SchemaMismatch

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def read_tables(schema: Schema, *data: object) -> list[Table]:
    """Tables that have rows and every modelled column; what else they have does not matter."""
    read = [dataframe.read(one) for one in data]
    names = [column.name for column in schema.modelled]
    if not names:
        raise InvalidTable("A table to score must have a column that is modelled, and the schema has none.")
    for table in read:
        missing = [name for name in names if name not in set(table.names)]
        if missing:
            raise SchemaMismatch.missing_columns(missing, table.names)
        if not table.n_rows:
            raise InvalidTable("A table to score must have rows, got one without any.")
    return read


def complete_column(table: Table, column: Column) -> ColumnArray:
    """The cells of a column, none of which may be missing."""
    cells = table.column(column.name)
    if cells.missing.any():
        raise InvalidTable(f"Column {column.name!r} must have no missing cell to be scored.")
    return cells


def numeric_values(cells: ColumnArray, column: Column) -> Floats:
    """Cells of a numeric or temporal column as floats."""
    return coerce(cells, column).values.astype(np.float64)


def category_values(cells: ColumnArray) -> NDArray[np.object_]:
    """Labels as they are: one that the schema does not know can still be right or wrong."""
    coded = factorize(cells)
    return np.asarray(np.array(coded.categories, dtype=object)[coded.values], dtype=object)


def category_codes(cells: Sequence[ColumnArray], column: Column) -> tuple[list[Codes], int]:
    """Labels as positions in one list, and its length: the labels of the schema, then any others in use."""
    for one in cells:
        coerce(one, column)  # says what is wrong where texts stand for numbers, or times for labels
    new: set[Any] = {label for one in cells for label in unknown_categories(one, column)}
    known = (*(column.categories or ()), *sorted(new, key=str))
    place = {label: i for i, label in enumerate(known)}
    return [np.array([place[label] for label in category_values(one)], dtype=np.int64) for one in cells], len(known)


def encode_onehot(schema: Schema, data: Sequence[Table]) -> list[tuple[Floats, Floats]]:
    """For each table its numbers, as they are, and its labels, one column each."""
    number = [column for column in schema.modelled if column.kind.numeric]
    coded = [category_codes([complete_column(t, c) for t in data], c) for c in schema.modelled if c.kind.discrete]
    parts = []
    for i, table in enumerate(data):
        values = [numeric_values(complete_column(table, column), column) for column in number]
        spread = [np.eye(count)[columns[i]] for columns, count in coded]
        parts.append((_side_by_side(values, table.n_rows), _side_by_side(spread, table.n_rows)))
    return parts


def encode_ordinal(schema: Schema, data: Sequence[Table]) -> tuple[list[Floats], list[str]]:
    """Each table with labels as positions, and which columns are labels ("c") or numbers ("q")."""
    columns: list[list[NDArray[Any]]] = []
    for column in schema.modelled:
        cells = [complete_column(table, column) for table in data]
        columns.append(
            category_codes(cells, column)[0] if column.kind.discrete else [numeric_values(one, column) for one in cells]
        )
    kinds = ["c" if column.kind.discrete else "q" for column in schema.modelled]
    return [_side_by_side([column[i] for column in columns], table.n_rows) for i, table in enumerate(data)], kinds


def _side_by_side(columns: list[NDArray[Any]], height: int) -> Floats:
    return np.column_stack([np.zeros((height, 0)), *columns]).astype(np.float64)
