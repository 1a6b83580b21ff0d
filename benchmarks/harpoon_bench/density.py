"""Shape and Trend errors of a table, as the QualityReport of sdmetrics defines them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harpoon import Schema, metrics

N_BINS = 10  # of a number beside a category, of equal width in the real table


def shape_error(schema: Schema, real: pd.DataFrame, other: pd.DataFrame) -> float:
    """Return the mean distance of the columns: Kolmogorov–Smirnov of numbers, total variation of categories."""
    return 1 - float(np.mean(list(metrics.similarity(schema, real, other).values())))


def trend_error(schema: Schema, real: pd.DataFrame, other: pd.DataFrame) -> float:
    """Return the mean distance of the pairs of columns.

    For two numbers it is half the difference of their correlations, else the total variation distance of their joint
    frequencies, with numbers in ten bins.

    >>> table = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.0, 5.0], "c": ["a", "a", "b", "b"]})
    >>> trend_error(Schema.infer(table), table, table)
    0.0
    """
    numeric = {column.name: column.kind.numeric for column in schema.modelled}
    distances = []
    for a, b in combinations(numeric, 2):
        if numeric[a] and numeric[b]:
            correlations = [float(np.corrcoef(t[a].astype(float), t[b].astype(float))[0, 1]) for t in (real, other)]
            distances.append(abs(correlations[0] - correlations[1]) / 2)
        else:
            shares = [
                pd.Series(list(zip(*(_codes(real[n], t[n], numeric=numeric[n]) for n in (a, b)), strict=True)))
                for t in (real, other)
            ]
            left, right = (part.value_counts(normalize=True) for part in shares)
            distances.append(float(left.sub(right, fill_value=0).abs().sum()) / 2)
    return float(np.nanmean(distances))


def _codes(real: pd.Series, values: pd.Series, *, numeric: bool) -> NDArray[np.object_]:
    """Return categories, or the numbers of the bins of the real column."""
    if not numeric:
        return values.to_numpy(dtype=object)
    edges = np.histogram_bin_edges(real.astype(float), N_BINS)
    return np.digitize(values.astype(float), edges[1:-1]).astype(object)
