"""Scores by distances between synthetic and real rows: fidelity, coverage and privacy.

Rows are points: numeric values are scaled to [0, 1] over the range of the real rows, categories are one-hot. Published
scores use this encoding (synthcity's "naive" variant, without a learnt embedding), so the values are comparable. A
numeric column with a few extreme values has little weight in it against the categories; `detection` does not have this
weakness.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import norm
from numpy.typing import NDArray

from harpoon.data import Floats, Schema
from harpoon.exceptions import InvalidTable
from harpoon.metrics.arrays import encode_onehot, read_tables

LEVELS = np.linspace(0.0, 1.0, 30)  # of α and β
MIN_REAL_ROWS = 2


def alpha_precision(schema: Schema, real: object, synthetic: object) -> float:
    """Return the α-precision score (Alaa et al., 2022), from 0 to 1: whether synthetic rows lie where real rows do.

    For each fraction α, the smallest ball around the centre of the real rows that contains a fraction α of them should
    contain the same fraction of the synthetic rows. The score is 1 minus the sum of the absolute differences over 30
    values of α, divided by the sum of α. Synthetic rows that are too central lower it as much as outliers.

    One half of a table against the other scores about 0.98. If a table has few distinct rows, many have the same
    distance, and even the table against itself scores below 1.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    >>> near, far = (pa.table({"x": np.random.default_rng(1).normal(shift, size=1000)}) for shift in (0, 9))
    >>> schema = Schema.infer(real)
    >>> f"{alpha_precision(schema, real, near):.2f}", f"{alpha_precision(schema, real, far):.2f}"
    ('0.98', '0.00')
    """
    points, others = _points(schema, real, synthetic)
    centre = points.mean(axis=0)
    radii = np.quantile(norm(points - centre, axis=1), LEVELS)
    return _agreement(norm(others - centre, axis=1), radii)


def beta_recall(schema: Schema, real: object, synthetic: object) -> float:
    """Return the β-recall score (Alaa et al., 2022), from 0 to 1: whether synthetic rows cover the real rows.

    A real row is covered if its nearest synthetic row is at most as far as its nearest other real row. For each
    fraction β, the real rows that are covered by one of the β most central synthetic rows should be a fraction β of
    all. The score adds up the differences as `alpha_precision` does. As in synthcity, the most central rows are chosen
    among the synthetic rows that are nearest to some real row.

    Two halves of a table cover half of each other, which scores about 0.5; only copies score 1.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    >>> f"{beta_recall(Schema.infer(real), real, real):.2f}"
    '1.00'
    """
    points, others = _points(schema, real, synthetic)
    nearest, distance = _nearest(points, others)
    covered = distance <= _nearest(points)[1]
    from_centre = norm(others[nearest] - others.mean(axis=0), axis=1)
    radii = np.quantile(from_centre, LEVELS)
    return _agreement(from_centre[covered], radii, covered.mean())


def authenticity(schema: Schema, real: object, synthetic: object) -> float:
    """Return the fraction of synthetic rows that are not copies of real rows (Alaa et al., 2022).

    A synthetic row counts as a copy if it is nearer to its nearest real row than any other real row is. This is the
    published definition; synthcity compares from the side of the real rows. Pass the training rows as `real`, because
    those could be copied. New rows of the same distribution score about 0.5.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    >>> authenticity(Schema.infer(real), real, real)
    0.0
    """
    points, others = _points(schema, real, synthetic)
    nearest, distance = _nearest(others, points)
    return float((distance >= _nearest(points)[1][nearest]).mean())


def nearest_distances(schema: Schema, real: object, synthetic: object) -> tuple[Floats, Floats]:
    """Return the distance of each synthetic row to the nearest real row, and of each real row to the nearest other.

    If a model copies training rows, the first are much smaller than the second.

    >>> import pyarrow as pa
    >>> real, synthetic = pa.table({"x": [0.0, 1.0, 4.0]}), pa.table({"x": [4.0, 2.0]})
    >>> [distances.tolist() for distances in nearest_distances(Schema.infer(real), real, synthetic)]
    [[0.0, 0.25], [0.25, 0.25, 0.75]]
    """
    points, others = _points(schema, real, synthetic)
    return _nearest(others, points)[1], _nearest(points)[1]


def identifiability(schema: Schema, real: object, synthetic: object) -> float:
    """Return the fraction of real rows with a synthetic row nearer than any other real row (Yoon et al., 2020).

    Every column has the same weight, as in synthcity. New rows of the same distribution score about 0.5, copies 1
    (less if the real table has duplicate rows).

    >>> import pyarrow as pa
    >>> real, synthetic = pa.table({"x": [0.0, 1.0, 5.0, 9.0]}), pa.table({"x": [0.5, 4.0]})
    >>> identifiability(Schema.infer(real), real, synthetic)
    0.75
    """
    points, others = _points(schema, real, synthetic)
    _, distance = _nearest(points, others)
    return float((distance < _nearest(points)[1]).mean())


def distance_to_closest(schema: Schema, real: object, synthetic: object) -> float:
    """Return the median distance of a synthetic row to the closest real row (DCR).

    Pass the training rows as `real`, and compare with the result for test rows in place of the synthetic ones. A much
    smaller distance means that rows were copied; a much larger one, that they are unlike the data.

    >>> import pyarrow as pa
    >>> real, synthetic = pa.table({"x": [0.0, 1.0, 2.0, 10.0]}), pa.table({"x": [0.5, 8.0, 10.0]})
    >>> distance_to_closest(Schema.infer(real), real, synthetic)
    0.05
    """
    return float(np.median(nearest_distances(schema, real, synthetic)[0]))


def _points(schema: Schema, real: object, synthetic: object) -> tuple[Floats, Floats]:
    """Encode both tables, (n, d), with numeric values scaled to the range of the real table."""
    (numeric, onehot), (other_numeric, other_onehot) = encode_onehot(schema, read_tables(schema, real, synthetic))
    if len(numeric) < MIN_REAL_ROWS:
        raise InvalidTable(f"The real table must have at least {MIN_REAL_ROWS} rows, got {len(numeric)}.")
    low, high = numeric.min(axis=0), numeric.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.hstack([(numeric - low) / width, onehot]), np.hstack([(other_numeric - low) / width, other_onehot])


def _agreement(distances: Floats, radii: Floats, factor: float = 1.0) -> float:
    """Compare the fractions of distances within the radii, times a factor, with the levels: 1 if all are equal."""
    fractions = np.array([(distances <= radius).mean() if len(distances) else 0.0 for radius in radii])
    return float(max(0.0, 1.0 - np.abs(LEVELS - factor * fractions).sum() / LEVELS.sum()))


def _nearest(rows: Floats, among: Floats | None = None) -> tuple[NDArray[np.int64], Floats]:
    """Return the index and the distance of the nearest row of another table, or of the nearest other row of this one.

    The distance is computed from the rows, because that of the search is rounded and not exactly 0 for a copy.
    """
    from sklearn.neighbors import NearestNeighbors

    candidates, queries = (rows, None) if among is None else (among, rows)
    nearest = NearestNeighbors(n_neighbors=1).fit(candidates).kneighbors(queries, return_distance=False)[:, 0]
    return nearest, norm(rows - candidates[nearest], axis=1)
