"""Which cells to hide, to see how well they are filled: MCAR, MAR and MNAR masks of the paper's protocol.

A mask is a Boolean array, true where a cell is hidden. The mechanisms look at a table as a matrix of numbers;
`numbers` makes one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harpoon.data import dataframe
from harpoon.exceptions import InvalidOption

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


OBSERVED_SHARE, OBSERVED_SHARE_WHEN_RARE, RARE = 0.3, 0.1, 0.7
BISECTIONS = 100
WIDEST = 50.0


def to_matrix(data: object) -> Matrix:
    """A table as a matrix: numbers as they are, labels as their positions."""
    table = dataframe.read(data)
    return np.column_stack([table.column(name).values.astype(np.float64) for name in table.names])


def mcar(X: Matrix, p: float, rng: np.random.Generator) -> Mask:
    """Each cell hidden with probability p."""
    return rng.random(X.shape) < p


def mar(X: Matrix, p: float, rng: np.random.Generator) -> Mask:
    """A few columns always seen decide, by a random logistic model, what is hidden in the others.

    A share q of the columns is always seen, and the others are hidden at the rate p / (1 - q), which makes p of all
    cells.
    """
    q = OBSERVED_SHARE if p <= RARE else OBSERVED_SHARE_WHEN_RARE
    mask = np.zeros(X.shape, dtype=np.bool_)
    inputs, outputs = _split(X.shape[1], q, rng)
    mask[:, outputs] = _logistic(X[:, inputs], len(outputs), p / (1 - q), rng)
    return mask


def mnar(X: Matrix, p: float, rng: np.random.Generator) -> Mask:
    """The same logistic model at the rate p, and its input columns hidden completely at random."""
    mask = np.zeros(X.shape, dtype=np.bool_)
    inputs, outputs = _split(X.shape[1], OBSERVED_SHARE, rng)
    mask[:, outputs] = _logistic(X[:, inputs], len(outputs), p, rng)
    mask[:, inputs] = rng.random((len(X), len(inputs))) < p
    return mask


def sample_mask(mechanism: str, data: object, p: float, seed: int) -> Mask:
    """A mask by name, for a table.

    >>> import pyarrow as pa
    >>> mask = draw("MCAR", pa.table({"x": range(5000), "y": range(5000)}), 0.25, seed=0)
    >>> mask.shape, f"{mask.mean():.2f}"
    ((5000, 2), '0.25')
    """
    if mechanism not in MECHANISMS:
        raise InvalidOption.one_of("The mechanism of a mask", mechanism, MECHANISMS)
    if not 0 <= p <= 1:
        raise InvalidOption(f"p, the share of hidden cells, must be from 0 to 1, got {p!r}.")
    return MECHANISMS[mechanism](to_matrix(data), p, np.random.default_rng(seed))


def _split(columns: int, share: float, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns that feed the logistic model, and columns that it hides."""
    inputs = np.sort(rng.choice(columns, max(int(share * columns), 1), replace=False))
    return inputs, np.setdiff1d(np.arange(columns), inputs)


def _logistic(X: Matrix, outputs: int, rate: float, rng: np.random.Generator) -> Mask:
    """Each output column hidden with a probability that depends on X, at the given rate."""
    weights = rng.standard_normal((X.shape[1], outputs))
    deviations = (X @ weights).std(axis=0)
    scores = X @ (weights / np.where(deviations > 0, deviations, 1.0))
    probabilities = _sigmoid(scores + np.array([_intercept(scores[:, j], rate) for j in range(outputs)]))
    return rng.random(probabilities.shape) < probabilities


def _intercept(scores: Matrix, rate: float) -> float:
    """The b for which the mean of sigmoid(scores + b) is the rate, by bisection."""
    centre = float(scores.mean())
    low, high = -WIDEST - centre, WIDEST - centre
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(scores + middle).mean() < rate else (low, middle)
    return (low + high) / 2


def _sigmoid(x: Matrix) -> Matrix:
    return np.exp(-np.logaddexp(0, -x))


MECHANISMS: dict[str, Callable[[Matrix, float, np.random.Generator], Mask]] = {"MCAR": mcar, "MAR": mar, "MNAR": mnar}
