"""Missingness masks of the paper's protocol: MCAR, MAR and MNAR (Rubin, 1976; Muzellec et al., 2020).

A mask is a Boolean array, (n, columns), that is true where a cell is hidden. The mechanisms take a table as a matrix of
numbers, which `to_matrix` makes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Floats, Mask, dataframe
from harpoon.exceptions import InvalidOption

INPUT_FRACTION = 0.3  # of columns that the logistic model of MAR and MNAR depends on
INPUT_FRACTION_AT_HIGH_RATE = 0.1
HIGH_RATE = 0.7  # hidden fraction above which MAR needs more columns to hide cells in; MNAR follows it
MAX_INTERCEPT = 50.0  # distance of the intercept from minus the mean score


def to_matrix(data: object) -> Floats:
    """Return a table as a matrix, (n, columns), with categories as codes."""
    table = dataframe.read(data)
    return np.column_stack([table.column(name).values.astype(np.float64) for name in table.names])


def mcar(X: Floats, p: float, rng: np.random.Generator) -> Mask:
    """Sample a mask that is missing completely at random: each cell is hidden with probability p."""
    return rng.random(X.shape) < p


def mar(X: Floats, p: float, rng: np.random.Generator) -> Mask:
    """Sample a mask that is missing at random.

    A fraction q of the columns is always observed. In the others, a random logistic model of these columns hides cells
    at the rate p / (1 - q), which is a fraction p of all cells.
    """
    q = input_fraction(p)
    mask, _ = _logistic_mask(X, q, p / (1 - q), rng)
    return mask


def mnar(X: Floats, p: float, rng: np.random.Generator) -> Mask:
    """Sample a mask that is missing not at random: as MAR at the rate p, with cells of the inputs hidden at random."""
    mask, inputs = _logistic_mask(X, input_fraction(p), p, rng)
    mask[:, inputs] = rng.random((len(X), len(inputs))) < p
    return mask


def input_fraction(p: float) -> float:
    """Return q, the fraction of the columns that the logistic model of MAR and MNAR depends on.

    >>> input_fraction(0.5), input_fraction(0.75)
    (0.3, 0.1)
    """
    return INPUT_FRACTION if p <= HIGH_RATE else INPUT_FRACTION_AT_HIGH_RATE


def sample_mask(mechanism: str, data: object, p: float, seed: int) -> Mask:
    """Sample a mask for a table, by the name of the mechanism.

    >>> import pyarrow as pa
    >>> mask = sample_mask("MCAR", pa.table({"x": range(5000), "y": range(5000)}), 0.25, seed=0)
    >>> mask.shape, f"{mask.mean():.2f}"
    ((5000, 2), '0.25')
    """
    if mechanism not in MECHANISMS:
        raise InvalidOption.one_of("mechanism", mechanism, MECHANISMS)
    if not 0 <= p <= 1:
        raise InvalidOption(f"p, the fraction of hidden cells, must be from 0 to 1, got {p!r}.")
    return MECHANISMS[mechanism](to_matrix(data), p, np.random.default_rng(seed))


def _logistic_mask(X: Floats, fraction: float, rate: float, rng: np.random.Generator) -> tuple[Mask, NDArray[np.int64]]:
    """Hide cells by a random logistic model of a fraction of the columns.

    Returns the mask, and the columns that the model depends on, in which no cell is hidden. Each other column has the
    given expected rate.
    """
    from scipy.special import expit

    n_columns, mask = X.shape[1], np.zeros(X.shape, dtype=np.bool_)
    inputs = np.sort(rng.choice(n_columns, max(int(fraction * n_columns), 1), replace=False))
    outputs = np.setdiff1d(np.arange(n_columns), inputs)
    weights = rng.standard_normal((len(inputs), len(outputs)))
    std = (X[:, inputs] @ weights).std(axis=0)
    scores = X[:, inputs] @ (weights / np.where(std > 0, std, 1.0))
    probabilities = expit(scores + np.array([_intercept(column, rate) for column in scores.T]))
    mask[:, outputs] = rng.random(probabilities.shape) < probabilities
    return mask, inputs


def _intercept(scores: Floats, rate: float) -> float:
    """Return the b for which the mean of sigmoid(scores + b) is the rate, at most `MAX_INTERCEPT` from the centre."""
    from scipy.optimize import brentq
    from scipy.special import expit

    def excess(b: float) -> float:
        return float(expit(scores + b).mean()) - rate

    centre = float(scores.mean())
    low, high = -MAX_INTERCEPT - centre, MAX_INTERCEPT - centre
    if excess(low) >= 0 or excess(high) <= 0:  # a rate of 0, 1 or more
        return low if excess(low) >= 0 else high
    return float(brentq(excess, low, high, xtol=1e-14))


MECHANISMS: dict[str, Callable[[Floats, float, np.random.Generator], Mask]] = {"MCAR": mcar, "MAR": mar, "MNAR": mnar}
