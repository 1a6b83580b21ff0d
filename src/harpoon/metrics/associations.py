"""How strongly the columns of a table go together, two at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harpoon.data.coercion import coerce, factorize
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.schema import Schema
from harpoon.metrics.arrays import Floats, read_tables

FEWEST = 2


def association(schema: Schema, data: object) -> Floats:
    """A square of numbers, one row and one column for each modelled column of the table.

    Of two numbers it is the rank correlation of Spearman, from -1 to 1; of two columns of labels Cramér's V, and of
    labels and numbers the correlation ratio of the ranks, both from 0 to 1. Rows in which one of the two is missing are
    left out. Where a column does not vary, there is no such number (NaN).

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1, 2, 3, 4], "y": [9.0, 5.0, 4.0, 1.0], "c": ["a", "a", "b", "b"]})
    >>> association(Schema.infer(table), table).round(2).tolist()
    [[1.0, -1.0, 0.89], [-1.0, 1.0, 0.89], [0.89, 0.89, 1.0]]
    """
    (table,) = read_tables(schema, data)
    sides = [_side(table.column(column.name), column) for column in schema.modelled]
    found = np.full((len(sides), len(sides)), np.nan)
    for i, left in enumerate(sides):
        for j, right in enumerate(sides[: i + 1]):
            found[i, j] = found[j, i] = _strength(left, right)
    return found


@dataclass(frozen=True)
class _Side:
    """One column: ranks, or positions of labels."""

    values: NDArray[np.float64]
    present: NDArray[np.bool_]
    labels: bool


def _side(cells: ColumnArray, column: Column) -> _Side:
    from scipy.stats import rankdata

    coerce(cells, column)  # says what is wrong where texts stand for numbers, or times for labels
    cells = factorize(cells) if column.kind.discrete else coerce(cells, column)
    values = np.zeros(len(cells))
    # Positions among the labels in use: a list of labels may be much longer.
    places = np.unique(cells.observed, return_inverse=True)[1] if column.kind.discrete else rankdata(cells.observed)
    values[~cells.missing] = places
    return _Side(values, ~cells.missing, column.kind.discrete)


def _strength(left: _Side, right: _Side) -> float:
    both = left.present & right.present
    if both.sum() < FEWEST:
        return float("nan")
    a, b = left.values[both], right.values[both]
    if left.labels and right.labels:
        return _cramers_v(a.astype(np.int64), b.astype(np.int64))
    if left.labels or right.labels:
        return _correlation_ratio(*((a.astype(np.int64), b) if left.labels else (b.astype(np.int64), a)))
    return _correlation(a, b)


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    return _ratio(float(a @ b), float(np.sqrt((a @ a) * (b @ b))))


def _cramers_v(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    width = int(b.max()) + 1
    counts = np.bincount(a * width + b, minlength=(int(a.max()) + 1) * width).reshape(-1, width)
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(a)
    squares = float(((counts - expected) ** 2 / expected).sum())
    return float(np.sqrt(_ratio(squares, len(a) * (min(counts.shape) - 1))))


def _correlation_ratio(labels: NDArray[np.int64], numbers: Floats) -> float:
    """The square root of the share of the variance that lies between the labels."""
    centred = numbers - numbers.mean()
    counts, sums = np.bincount(labels), np.bincount(labels, weights=centred)
    if (counts > 0).sum() < FEWEST:
        return float("nan")
    between = float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())
    return float(np.sqrt(_ratio(between, float(centred @ centred))))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
