"""Scores of imputed cells against the hidden true values.

A mask, (n, columns), is true where a cell was hidden; its columns are those of the true table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, Floats, Mask, Schema, Table, coerce, dataframe
from harpoon.exceptions import InvalidTable
from harpoon.metrics.arrays import category_values, complete_column, numeric_values

RELATIVE_TOLERANCE = 1e-6  # of a value on an end of its interval


def standardised_mse(schema: Schema, truth: object, imputed: object, mask: Mask, train: object) -> float:
    """Return the mean squared error of hidden numeric cells, in standard deviations (ddof 0) of the training column."""
    true, predicted, reference = dataframe.read(truth), dataframe.read(imputed), dataframe.read(train)
    errors = []
    for column, hidden in _hidden(schema, true, mask, numeric=True):
        std = coerce(reference.column(column.name), column).observed.astype(np.float64).std() or 1.0
        guess, value = (_values(table, column)[hidden] for table in (predicted, true))
        errors.append(((guess - value) / std) ** 2)
    return _mean(errors)


def accuracy(schema: Schema, truth: object, imputed: object, mask: Mask) -> float:
    """Return the fraction of hidden categorical cells that were imputed with the true category."""
    true, predicted = dataframe.read(truth), dataframe.read(imputed)
    hits = []
    for column, hidden in _hidden(schema, true, mask, numeric=False):
        guess, value = (category_values(complete_column(table, column))[hidden] for table in (predicted, true))
        hits.append(guess == value)
    return _mean(hits)


def coverage(schema: Schema, truth: object, interval: tuple[object, object], mask: Mask) -> float:
    """Return the fraction of hidden numeric cells whose true value is in an interval, ends included.

    A value that a relation determines has an interval of one point. A value is therefore on an end if both agree to a
    relative tolerance of 1e-6.

    Args:
        schema: The columns.
        truth: The complete table.
        interval: Two tables of the numeric columns, the lower and the upper ends, as `draws.interval(0.9)` returns.
        mask: True where a cell was hidden. To score one column, set the others to false.

    >>> import pyarrow as pa
    >>> truth, low, high = pa.table({"x": [1, 2, 3, 4]}), pa.table({"x": [0, 0, 0, 5]}), pa.table({"x": [2, 2, 2, 9]})
    >>> coverage(Schema.infer(truth), truth, (low, high), np.array([[True], [True], [True], [False]]))
    0.6666666666666666
    """
    true, low, high = (dataframe.read(table) for table in (truth, *interval))
    inside = []
    for column, hidden in _hidden(schema, true, mask, numeric=True):
        value, bottom, top = (_values(table, column)[hidden] for table in (true, low, high))
        tolerance = RELATIVE_TOLERANCE * np.abs(value)
        inside.append((bottom - tolerance <= value) & (value <= top + tolerance))
    return _mean(inside)


def _hidden(schema: Schema, table: Table, mask: Mask, *, numeric: bool) -> Iterator[tuple[Column, Mask]]:
    """Yield the numeric, or categorical, modelled columns, each with the rows in which it was hidden, (n,)."""
    if mask.shape != (table.n_rows, len(table.names)):
        raise InvalidTable(
            f"A mask must have the shape of its table, {table.n_rows, len(table.names)}, got {mask.shape}."
        )
    for column in schema.modelled:
        if column.kind.numeric == numeric:
            yield column, mask[:, table.names.index(column.name)]


def _values(table: Table, column: Column) -> Floats:
    return numeric_values(complete_column(table, column), column)


def _mean(parts: list[NDArray[Any]]) -> float:
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(values.mean()) if len(values) else float("nan")
