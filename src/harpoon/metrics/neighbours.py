"""Drawn rows against real ones by where they lie: the three scores of Alaa et al. (2022), distances, and privacy.

Rows are points: each number goes from 0 to 1 over the range of the real rows, each label is a column of its own. This
is the encoding in which such scores are published (synthcity's "naive" variant, without a learnt embedding), so ours
can stand beside them. It has a price: a number with a few extreme values spans little of its range and weighs little
against the labels. `detection` has no such blind spot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidTable
from harpoon.metrics.arrays import Floats, encode_onehot, read_tables

LEVELS = np.linspace(0.0, 1.0, 30)
FEWEST = 2


def alpha_precision(schema: Schema, real: object, synthetic: object) -> float:
    """Whether drawn rows lie where real ones do: the α-score, from 0 to 1.

    For a share α, the smallest ball around the centre of the real rows that holds this share of them should hold the
    same share of the drawn rows. The score is 1 minus the difference, summed over 30 values of α from 0 to 1 and
    divided by their sum. Drawn rows that crowd in the centre lose as much as rows that lie too far out.

    Half of a table against the other half scores about 0.98. Where few different rows exist, many lie at one
    distance, and even a table against itself scores less than 1.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    >>> near, far = (pa.table({"x": np.random.default_rng(1).normal(shift, size=1000)}) for shift in (0, 9))
    >>> schema = Schema.infer(real)
    >>> f"{alpha_precision(schema, real, near):.2f}", f"{alpha_precision(schema, real, far):.2f}"
    ('0.98', '0.00')
    """
    points, others = _points(schema, real, synthetic)
    centre = points.mean(axis=0)
    radii = np.quantile(_length(points - centre), LEVELS)
    return _agreement(_shares_within(_length(others - centre), radii))


def beta_recall(schema: Schema, real: object, synthetic: object) -> float:
    """Whether real rows all have a drawn one near them, from 0 to 1.

    A real row is reached if its nearest drawn row is no farther than its nearest real one. For a share β, those reached
    by one of the β most central of these drawn rows should be β of all; the score sums the differences up as
    `alpha_precision` does. The β most central rows are found as synthcity finds them: among the drawn rows that are
    nearest to some real row.

    Two halves of a table reach half of each other, which scores about 0.5; only copies score 1.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    >>> f"{beta_recall(Schema.infer(real), real, real):.2f}"
    '1.00'
    """
    points, others = _points(schema, real, synthetic)
    nearest, distance = _nearest(points, others)
    reached = distance <= _nearest_other(points)
    outward = _length(others[nearest] - others.mean(axis=0))
    radii = np.quantile(outward, LEVELS)
    return _agreement(_shares_within(outward[reached], radii) * reached.mean())


def authenticity(schema: Schema, real: object, synthetic: object) -> float:
    """The share of drawn rows that are no copies of real ones.

    A drawn row counts as a copy if it is nearer to its nearest real row than any other real row is. This is the
    definition of the publication; synthcity asks the question from the side of the real rows. Give the rows that the
    model was trained on as the real ones: it is those that a model could copy. New rows of the same law score about
    one half.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    >>> authenticity(Schema.infer(real), real, real)
    0.0
    """
    points, others = _points(schema, real, synthetic)
    nearest, distance = _nearest(others, points)
    return float((distance >= _nearest_other(points)[nearest]).mean())


def nearest_distances(schema: Schema, real: object, synthetic: object) -> tuple[Floats, Floats]:
    """The distance of each drawn row to the nearest real one, and of each real row to the nearest other real one.

    Where a model copies, the first are much smaller than the second. Each number counts from 0 to 1 over its range.

    >>> import pyarrow as pa
    >>> real, drawn = pa.table({"x": [0.0, 1.0, 4.0]}), pa.table({"x": [4.0, 2.0]})
    >>> [distances.tolist() for distances in nearest_distances(Schema.infer(real), real, drawn)]
    [[0.0, 0.25], [0.25, 0.25, 0.75]]
    """
    points, others = _points(schema, real, synthetic)
    return _nearest(others, points)[1], _nearest_other(points)


def identifiability(schema: Schema, real: object, synthetic: object) -> float:
    """The share of real rows that have a drawn one nearer to them than any other real row (Yoon et al., 2020).

    Every column weighs the same, which is what synthcity does with this score too. New rows of the same law score
    about one half, copies 1 (unless a row stands twice in the real table: nothing is nearer than its twin).

    >>> import pyarrow as pa
    >>> real, drawn = pa.table({"x": [0.0, 1.0, 5.0, 9.0]}), pa.table({"x": [0.5, 4.0]})
    >>> identifiability(Schema.infer(real), real, drawn)
    0.75
    """
    points, others = _points(schema, real, synthetic)
    _, distance = _nearest(points, others)
    return float((distance < _nearest_other(points)).mean())


def distance_to_closest(schema: Schema, real: object, synthetic: object) -> float:
    """The distance of a drawn row to the closest real one: the median over the drawn rows.

    Give the rows that the model was trained on as the real ones, and hold the result against that of test rows: much
    less than theirs says that rows were copied, much more that they lie off the data.

    >>> import pyarrow as pa
    >>> real, drawn = pa.table({"x": [0.0, 1.0, 2.0, 10.0]}), pa.table({"x": [0.5, 8.0, 10.0]})
    >>> distance_to_closest(Schema.infer(real), real, drawn)
    0.05
    """
    return float(np.median(nearest_distances(schema, real, synthetic)[0]))


def _points(schema: Schema, real: object, synthetic: object) -> tuple[Floats, Floats]:
    """Both tables in the unit cube of the real one."""
    (values, spread), (other_values, other_spread) = encode_onehot(schema, read_tables(schema, real, synthetic))
    if len(values) < FEWEST:
        raise InvalidTable(f"The real table must have at least {FEWEST} rows to be compared with, got {len(values)}.")
    low, high = (values.min(axis=0), values.max(axis=0)) if values.shape[1] else (np.zeros(0), np.zeros(0))
    width = np.where(high > low, high - low, 1.0)
    return np.hstack([(values - low) / width, spread]), np.hstack([(other_values - low) / width, other_spread])


def _length(rows: Floats) -> Floats:
    length: Floats = np.sqrt((rows**2).sum(axis=1))
    return length


def _shares_within(distances: Floats, radii: Floats) -> Floats:
    return np.array([(distances <= radius).mean() if len(distances) else 0.0 for radius in radii])


def _agreement(curve: Floats) -> float:
    return float(max(0.0, 1.0 - np.abs(LEVELS - curve).sum() / LEVELS.sum()))


def _nearest(rows: Floats, among: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The nearest of other rows, and its distance."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=1).fit(among).kneighbors(rows, return_distance=False)[:, 0]
    return found, _length(rows - among[found])


def _nearest_other(rows: Floats) -> Floats:
    """The distance of each row to the nearest of the others.

    It is measured again from the rows: a fast search rounds, and would tell a row from its copy.
    """
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=1).fit(rows).kneighbors(return_distance=False)[:, 0]
    return _length(rows - rows[found])
