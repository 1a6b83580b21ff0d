"""Importance weights: what weighted rows are worth, and how to choose rows by their weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def effective_size(weights: Floats | NDArray[np.int64]) -> float:
    """Return the number of equally weighted rows that are as good as the weighted ones (Kish, 1965).

    >>> effective_size(np.ones(4)), effective_size(np.array([1.0, 0.0])), effective_size(np.zeros(2))
    (4.0, 1.0, 0.0)
    """
    total = float(weights.sum())
    return total**2 / float((weights**2).sum()) if total > 0 else 0.0


def systematic_resample(weights: Floats, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return positions of rows that are chosen in proportion to their weights, (count,), in ascending order.

    One random number decides; a row is repeated only if its weight exceeds that of one row of `count`.
    """
    cumulative = np.cumsum(weights)
    positions = (np.arange(count) + random.random()) / count
    return np.searchsorted(cumulative / cumulative[-1], positions, side="right").clip(max=len(cumulative) - 1)


def truncate(weights: Floats, most: float) -> Floats:
    """Return weights none of which exceeds `most` times their mean (Ionides, 2008): a little bias for less variance.

    >>> truncate(np.array([1.0, 1.0, 10.0]), 2.0)
    array([1., 1., 4.])
    """
    ascending = np.sort(weights)
    below = np.concatenate([[0.0], np.cumsum(ascending)])[:-1]
    above = len(weights) - np.arange(len(weights))
    # If the weights from position i on are cut to c, then c = most * (below_i + above_i * c) / n.
    room = len(weights) - most * above
    limit = np.divide(most * below, room, out=np.full(len(weights), np.inf), where=room > 0)
    fits = limit <= ascending
    return np.minimum(weights, limit[fits.argmax()]) if fits.any() else weights
