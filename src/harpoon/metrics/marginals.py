"""Marginal distributions of synthetic and real tables: single columns, and correlations of pairs."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, Schema, Table, coerce
from harpoon.exceptions import InvalidTable
from harpoon.metrics.arrays import category_values, complete_column, numeric_values, read_tables

NOISE_LEVEL = 0.05  # how often chance alone exceeds the noise of a distance
MAX_CORRELATED = 1000  # with more categories, their fractions count as independent


def similarity(schema: Schema, real: object, synthetic: object) -> dict[str, float]:
    """Return the similarity of each column in two tables: 1 for equal distributions, 0 for disjoint ones.

    For numeric and temporal columns it is 1 minus the Kolmogorov–Smirnov distance, the largest difference of the
    cumulative distribution functions. For categorical columns it is 1 minus the total variation distance, half the sum
    of the absolute differences of the category frequencies. Missing cells are left out.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "a", "b"]})
    >>> similarity(Schema.infer(real), real, pa.table({"x": [1.0, 2.0, 3.0, 9.0], "c": ["a", "b", "a", "b"]}))
    {'x': 0.75, 'c': 0.75}
    """
    tables, scores = read_tables(schema, real, synthetic), {}
    for column in schema.modelled:
        distance = ks_distance if column.kind.numeric else total_variation_distance
        scores[column.name] = 1.0 - distance(*(_observed(table, column) for table in tables))
    return scores


def ks(schema: Schema, real: object, synthetic: object) -> float:
    """Return the mean similarity of the numeric columns, 1 minus the Kolmogorov–Smirnov distance.

    >>> import pyarrow as pa
    >>> real, synthetic = pa.table({"x": [1.0, 2.0, 3.0, 4.0]}), pa.table({"x": [1.0, 2.0, 3.0, 9.0]})
    >>> ks(Schema.infer(real), real, synthetic)
    0.75
    """
    return _mean_similarity(schema, real, synthetic, numeric=True)


def total_variation(schema: Schema, real: object, synthetic: object) -> float:
    """Return the mean similarity of the boolean and categorical columns, 1 minus the total variation distance.

    >>> import pyarrow as pa
    >>> real, synthetic = pa.table({"c": ["a", "a", "a", "b"]}), pa.table({"c": ["a", "a", "b", "b"]})
    >>> total_variation(Schema.infer(real), real, synthetic)
    0.75
    """
    return _mean_similarity(schema, real, synthetic, numeric=False)


def correlation_similarity(schema: Schema, real: object, synthetic: object) -> float:
    """Return the similarity of the correlations of numeric columns: 1 if all agree, 0 if all change between 1 and -1.

    It is the mean over pairs of columns of 1 minus half the difference of Pearson's correlations. Pairs with a column
    that is constant in one of the tables are left out.

    >>> import pyarrow as pa
    >>> real, synthetic = (pa.table({"x": [1.0, 2.0], "y": y}) for y in ([1.0, 2.0], [2.0, 1.0]))
    >>> f"{correlation_similarity(Schema.infer(real), real, synthetic):.2f}"
    '0.00'
    """
    numeric = [column for column in schema.modelled if column.kind.numeric]
    if not numeric:
        return float("nan")
    correlations = []
    for table in read_tables(schema, real, synthetic):
        values = np.column_stack([numeric_values(complete_column(table, column), column) for column in numeric])
        scaled = values - values.mean(axis=0)
        length = np.sqrt((scaled**2).sum(axis=0))
        scaled = scaled / np.where(length > 0, length, np.nan)
        correlations.append((scaled.T @ scaled)[np.triu_indices(len(numeric), k=1)])
    similarities = 1.0 - np.abs(correlations[0] - correlations[1]) / 2
    return float(np.nanmean(similarities)) if np.isfinite(similarities).any() else float("nan")


def _mean_similarity(schema: Schema, real: object, synthetic: object, *, numeric: bool) -> float:
    scores = similarity(schema, real, synthetic)
    kept = [score for name, score in scores.items() if schema[name].kind.numeric == numeric]
    return float(np.mean(kept)) if kept else float("nan")


def _observed(table: Table, column: Column) -> NDArray[Any]:
    """Return the observed cells of a column, as floats or as categories."""
    cells = table.column(column.name)
    if cells.missing.all():
        raise InvalidTable(f"Column {column.name!r} must have at least one observed cell to be scored.")
    cells = cells[~cells.missing]
    coerce(cells, column)
    return numeric_values(cells, column) if column.kind.numeric else category_values(cells)


def ks_distance(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the Kolmogorov–Smirnov distance of two samples of numbers."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(left, right, method="asymp").statistic)


def total_variation_distance(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the total variation distance of two samples of categories."""
    p, q = Counter(left.tolist()), Counter(right.tolist())
    differences = [abs(p[c] / len(left) - q[c] / len(right)) for c in sorted(p | q, key=str)]
    return sum(differences) / 2


def ks_noise(n_left: int, n_right: int, level: float = NOISE_LEVEL) -> float:
    """Return the Kolmogorov–Smirnov distance that two samples of one distribution exceed with probability `level`.

    >>> f"{ks_noise(200, 200):.4f}"
    '0.1358'
    """
    return min(1.0, math.sqrt(-math.log(level / 2) / 2 * (1 / max(n_left, 1) + 1 / max(n_right, 1))))


def total_variation_noise(
    fractions: NDArray[np.float64], n_left: int, n_right: int, level: float = NOISE_LEVEL
) -> float:
    """Return the total variation distance that two samples of these category fractions exceed with `level`, about.

    The differences of the fractions are jointly normal, so that mean and variance of the sum of their sizes have a
    closed form. Of a column with many categories, the distance of two samples is large by chance alone.

    >>> [f"{total_variation_noise(np.full(k, 1 / k), 200, 200):.2f}" for k in (2, 100)]
    ['0.10', '0.45']
    """
    from scipy.stats import norm

    p = fractions[(fractions > 0) & (fractions < 1)]
    deviation = np.sqrt(p * (1 - p) * (1 / max(n_left, 1) + 1 / max(n_right, 1)))
    if len(p) <= MAX_CORRELATED:
        r = -np.sqrt(np.outer(p / (1 - p), p / (1 - p))).clip(max=1.0)
        np.fill_diagonal(r, 1.0)
        of_pair = (np.sqrt(1 - r**2) + r * np.arcsin(r) - 1) * 2 / np.pi  # covariance of the sizes of normal numbers
        variance = float(deviation @ of_pair @ deviation) / 4
    else:
        variance = float((deviation**2).sum()) * (1 - 2 / math.pi) / 4
    mean = float(deviation.sum()) * math.sqrt(2 / math.pi) / 2
    of_all = mean + float(norm.isf(level)) * math.sqrt(max(variance, 0.0))
    of_one = float(norm.isf(level / 2)) * float(deviation.max(initial=0.0))  # exact for two categories
    return min(1.0, max(of_all, of_one))
