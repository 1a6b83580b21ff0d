"""Drawn rows against real ones, one column or one pair of columns at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.coercion import coerce
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidTable
from harpoon.metrics.arrays import complete_column, category_values, numeric_values, read_tables


def similarity(schema: Schema, real: object, synthetic: object) -> dict[str, float]:
    """How alike each column is in two tables: 1 where it has the same distribution, 0 where nothing is shared.

    For numbers, dates and times it is 1 minus the Kolmogorov–Smirnov distance, the largest difference of the two
    distribution functions; for labels 1 minus the total variation, half the sum of the differences of their shares.
    Missing cells are left out.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "a", "b"]})
    >>> similarity(Schema.infer(real), real, pa.table({"x": [1.0, 2.0, 3.0, 9.0], "c": ["a", "b", "a", "b"]}))
    {'x': 0.75, 'c': 0.75}
    """
    pair = read_tables(schema, real, synthetic)
    scores = {}
    for column in schema.modelled:
        distance = _ks_distance if column.kind.numeric else _total_variation
        left, right = (_present(table, column) for table in pair)
        scores[column.name] = 1.0 - distance(left, right)
    return scores


def ks(schema: Schema, real: object, synthetic: object) -> float:
    """The mean similarity of the numeric columns: 1 minus the Kolmogorov–Smirnov distance.

    >>> import pyarrow as pa
    >>> real, drawn = pa.table({"x": [1.0, 2.0, 3.0, 4.0]}), pa.table({"x": [1.0, 2.0, 3.0, 9.0]})
    >>> ks(Schema.infer(real), real, drawn)
    0.75
    """
    return _mean_of(schema, similarity(schema, real, synthetic), numeric=True)


def total_variation(schema: Schema, real: object, synthetic: object) -> float:
    """The mean similarity of the boolean and categorical columns: 1 minus the total variation.

    >>> import pyarrow as pa
    >>> real, drawn = pa.table({"c": ["a", "a", "a", "b"]}), pa.table({"c": ["a", "a", "b", "b"]})
    >>> total_variation(Schema.infer(real), real, drawn)
    0.75
    """
    return _mean_of(schema, similarity(schema, real, synthetic), numeric=False)


def correlation_similarity(schema: Schema, real: object, synthetic: object) -> float:
    """How alike numeric columns go together in two tables: 1 where all correlations agree, 0 where all are reversed.

    It is the mean over pairs of columns of 1 minus half the difference of Pearson's correlations. A column that is the
    same in every row of one of the tables goes with no other there, and its pairs are left out.

    >>> import pyarrow as pa
    >>> real, drawn = (pa.table({"x": [1.0, 2.0], "y": y}) for y in ([1.0, 2.0], [2.0, 1.0]))
    >>> f"{correlation_similarity(Schema.infer(real), real, drawn):.2f}"
    '0.00'
    """
    number = [column for column in schema.modelled if column.kind.numeric]
    if not number:
        return float("nan")
    sides = []
    for table in read_tables(schema, real, synthetic):
        values = np.column_stack([numeric_values(complete_column(table, column), column) for column in number])
        scaled = values - values.mean(axis=0)
        length = np.sqrt((scaled**2).sum(axis=0))
        scaled = scaled / np.where(length > 0, length, np.nan)
        sides.append((scaled.T @ scaled)[np.triu_indices(len(number), k=1)])
    alike = 1.0 - np.abs(sides[0] - sides[1]) / 2
    return float(np.nanmean(alike)) if np.isfinite(alike).any() else float("nan")


def _mean_of(schema: Schema, scores: dict[str, float], *, numeric: bool) -> float:
    found = [scores[column.name] for column in schema.modelled if column.kind.numeric == numeric]
    return float(np.mean(found)) if found else float("nan")


def _present(table: Table, column: Column) -> NDArray[Any]:
    """The cells of a column that are not missing, as numbers or as labels."""
    cells: ColumnArray = table.column(column.name)
    if cells.missing.all():
        raise InvalidTable(f"Column {column.name!r} must have a cell that is not missing to be scored.")
    cells = cells[~cells.missing]
    coerce(cells, column)
    return numeric_values(cells, column) if column.kind.numeric else category_values(cells)


def _ks_distance(left: NDArray[Any], right: NDArray[Any]) -> float:
    points = np.concatenate([left, right])
    below = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (left, right)]
    return float(np.abs(below[0] - below[1]).max())


def _total_variation(left: NDArray[Any], right: NDArray[Any]) -> float:
    counts, others = Counter(left.tolist()), Counter(right.tolist())
    shares = [abs(counts[label] / len(left) - others[label] / len(right)) for label in sorted(counts | others, key=str)]
    return sum(shares) / 2
