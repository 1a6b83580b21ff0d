"""Scores of filled cells against the truth that was hidden.

A mask is true where a cell was hidden; its columns are those of the true table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import dataframe
from harpoon.data.coercion import coerce
from harpoon.data.column import Column
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidTable
from harpoon.metrics.arrays import complete_column, category_values, numeric_values

Mask = NDArray[np.bool_]
RELATIVE_TOLERANCE = 1e-6


def standardised_mse(schema: Schema, truth: object, imputed: object, mask: Mask, train: object) -> float:
    """Mean squared error over hidden numeric cells, in deviations of the training column (ddof 0)."""
    true, guess, reference = dataframe.read(truth), dataframe.read(imputed), dataframe.read(train)
    errors = []
    for column, hidden in _hidden(schema, true, mask, numeric=True):
        deviation = coerce(reference.column(column.name), column).observed.astype(np.float64).std() or 1.0
        difference = _values(guess, column)[hidden] - _values(true, column)[hidden]
        errors.append((difference / deviation) ** 2)
    return _mean(errors)


def accuracy(schema: Schema, truth: object, imputed: object, mask: Mask) -> float:
    """The share of hidden categorical cells that were filled with the true label."""
    true, guess = dataframe.read(truth), dataframe.read(imputed)
    hits = []
    for column, hidden in _hidden(schema, true, mask, numeric=False):
        hits.append(
            category_values(complete_column(guess, column))[hidden]
            == category_values(complete_column(true, column))[hidden]
        )
    return _mean(hits)


def coverage(schema: Schema, truth: object, interval: tuple[object, object], mask: Mask) -> float:
    """The share of hidden numeric cells whose true value lies between the ends of an interval, or on one of them.

    A number that others determine is drawn as they say it, and the interval is that number alone; so a value is on an
    end if it is the same to six digits.

    Args:
        schema: What the columns are.
        truth: The complete table.
        interval: The lower and the upper ends: two tables of the numeric columns, as `draws.interval(0.9)` gives.
        mask: True where a cell was hidden. Of one column alone: leave the others false.

    >>> import pyarrow as pa
    >>> truth, low, high = pa.table({"x": [1, 2, 3, 4]}), pa.table({"x": [0, 0, 0, 5]}), pa.table({"x": [2, 2, 2, 9]})
    >>> coverage(Schema.infer(truth), truth, (low, high), np.array([[True], [True], [True], [False]]))
    0.6666666666666666
    """
    true, low, high = (dataframe.read(table) for table in (truth, *interval))
    inside = []
    for column, hidden in _hidden(schema, true, mask, numeric=True):
        value, bottom, top = (_values(table, column)[hidden] for table in (true, low, high))
        slack = RELATIVE_TOLERANCE * np.abs(value)
        inside.append((bottom - slack <= value) & (value <= top + slack))
    return _mean(inside)


def _hidden(schema: Schema, table: Table, mask: Mask, *, numeric: bool) -> Iterator[tuple[Column, Mask]]:
    """The modelled columns of one sort, each with the rows in which it was hidden."""
    if mask.shape != (table.n_rows, len(table.names)):
        raise InvalidTable(
            f"A mask must have the shape of its table, {table.n_rows, len(table.names)}, got {mask.shape}."
        )
    for column in schema.modelled:
        if column.kind.numeric == numeric:
            yield column, mask[:, table.names.index(column.name)]


def _values(table: Table, column: Column) -> NDArray[np.float64]:
    return numeric_values(complete_column(table, column), column)


def _mean(parts: list[NDArray[Any]]) -> float:
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(values.mean()) if len(values) else float("nan")
