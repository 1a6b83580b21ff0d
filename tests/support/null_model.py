"""Imputed tables of a regression in which one term has no effect."""

from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm

from harpoon.inference.imputation.comparison import compare


@cache  # both methods compare the same tables
def proper_imputations(seed, n=60, missing=20, m=5):
    """Return tables with y imputed from the posterior predictive distribution of its regression on x and z."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"one": 1.0, "x": rng.normal(size=n), "z": rng.normal(size=n)})
    X, y = data.to_numpy(), 1 + 0.3 * data["x"].to_numpy() + rng.normal(size=n)
    X1, y1 = X[missing:], y[missing:]
    mean, inverse = np.linalg.lstsq(X1, y1)[0], np.linalg.inv(X1.T @ X1)
    tables = []
    for _ in range(m):
        variance = ((y1 - X1 @ mean) ** 2).sum() / rng.chisquare(len(y1) - 3)
        coefficients = rng.multivariate_normal(mean, variance * inverse)
        imputed = X[:missing] @ coefficients + np.sqrt(variance) * rng.normal(size=missing)
        tables.append(data.assign(y=np.concatenate([imputed, y1])))
    return tables


def null_p_value(seed, method):
    """Return the p-value of the term without effect."""

    def larger(data):
        return sm.OLS(data["y"], data[["one", "x", "z"]]).fit()

    def smaller(data):
        return sm.OLS(data["y"], data[["one", "x"]]).fit()

    return compare(proper_imputations(seed), larger, smaller, method=method).p_value
