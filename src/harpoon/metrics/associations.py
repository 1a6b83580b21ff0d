"""Association of the columns of a table, in pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, ColumnArray, Floats, Schema, coerce, factorize
from harpoon.metrics.arrays import read_tables

MIN_ROWS = 2
MIN_CATEGORIES = 2


def association(schema: Schema, data: object) -> Floats:
    """Return the association of each pair of modelled columns, (columns, columns).

    Two numeric columns: Spearman's rank correlation, from -1 to 1. Two categorical columns: Cramér's V, from 0 to 1. A
    categorical and a numeric column: the correlation ratio η of the ranks, from 0 to 1. Rows in which one of the two
    is missing are left out. The value is NaN where a column is constant.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1, 2, 3, 4], "y": [9.0, 5.0, 4.0, 1.0], "c": ["a", "a", "b", "b"]})
    >>> association(Schema.infer(table), table).round(2).tolist()
    [[1.0, -1.0, 0.89], [-1.0, 1.0, 0.89], [0.89, 0.89, 1.0]]
    """
    (table,) = read_tables(schema, data)
    columns = [(_rank(table.column(column.name), column), column.kind.discrete) for column in schema.modelled]
    result = np.full((len(columns), len(columns)), np.nan)
    for i, left in enumerate(columns):
        for j, right in enumerate(columns[: i + 1]):
            result[i, j] = result[j, i] = _strength(left, right)
    return result


def _rank(cells: ColumnArray, column: Column) -> Floats:
    """Return the ranks of a column, or the codes of its categories, (n,); NaN where a cell is missing."""
    from scipy.stats import rankdata

    coerced = coerce(cells, column)  # also raises if the cells do not have the kind of the column
    cells = factorize(cells) if column.kind.discrete else coerced
    values = np.full(len(cells), np.nan)
    # Codes are among the categories in use: the categories of the column may be many more.
    values[~cells.missing] = rankdata(cells.observed, "dense" if column.kind.discrete else "average")
    return values


def _strength(left: tuple[Floats, bool], right: tuple[Floats, bool]) -> float:
    (a, a_discrete), (b, b_discrete) = left, right
    both = ~np.isnan(a) & ~np.isnan(b)
    if both.sum() < MIN_ROWS:
        return float("nan")
    a, b = a[both], b[both]
    if a_discrete and b_discrete:
        return cramers_v(a.astype(np.int64), b.astype(np.int64))
    if a_discrete or b_discrete:
        return correlation_ratio(*((a.astype(np.int64), b) if a_discrete else (b.astype(np.int64), a)))
    a, b = a - a.mean(), b - b.mean()
    return _ratio(float(a @ b), float(np.sqrt((a @ a) * (b @ b))))


def cramers_v(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Return Cramér's V of two columns of codes: sqrt(χ² / (n · (min(rows, columns) - 1))) of their contingency table.

    >>> cramers_v(np.array([0, 0, 1, 1]), np.array([2, 2, 0, 0])), cramers_v(np.array([0, 0]), np.array([0, 1]))
    (1.0, nan)
    """
    from scipy.stats.contingency import association as contingency_association
    from scipy.stats.contingency import crosstab

    counts = crosstab(a, b).count
    return float(contingency_association(counts, "cramer")) if min(counts.shape) >= MIN_CATEGORIES else float("nan")


def correlation_ratio(codes: NDArray[np.int64], values: Floats) -> float:
    """Return η, the square root of the fraction of the variance of the values that is between the categories."""
    centred = values - values.mean()
    counts, sums = np.bincount(codes), np.bincount(codes, weights=centred)
    if (counts > 0).sum() < MIN_CATEGORIES:
        return float("nan")
    between = float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())
    return float(np.sqrt(_ratio(between, float(centred @ centred))))


def _ratio(part: float, total: float) -> float:
    return part / total if total > 0 else float("nan")
