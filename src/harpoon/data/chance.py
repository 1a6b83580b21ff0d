"""Chance: whether a column would be a function of another one in all rows although the two were independent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_EXPECTED_ROWS = (
    20.0  # rows that would contradict what is found if two columns were independent; fewer prove nothing
)


def chance_of_difference(counts: NDArray[np.int64]) -> float:
    """Return the probability that two independent rows have different labels (Gini impurity), from counts, (labels,).

    >>> chance_of_difference(np.array([5, 5]))
    0.5
    """
    shares = counts / max(int(counts.sum()), 1)
    return float(1 - (shares**2).sum())


def is_proven_function(counts: NDArray[np.int64], n_repeated: int) -> bool:
    """Return whether enough rows would contradict a function if its values were independent of its argument.

    Args:
        counts: The rows of each value of the function, (values,).
        n_repeated: The rows that repeat the argument of an earlier row, and so can contradict it.
    """
    return n_repeated * chance_of_difference(counts) >= MIN_EXPECTED_ROWS
