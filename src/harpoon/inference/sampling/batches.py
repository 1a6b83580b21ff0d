"""Batches of rows: their positions, their size, and their results joined."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harpoon.data import Columns, Index, concat, take

MIN_BATCH_ROWS = 64  # a row on its own has the bits that it has among others: see `batch_positions`
MAX_NOISE_VALUES = 2**26  # random numbers held at once, at most


def batch_positions(rows: int, size: int) -> Iterator[tuple[Index, int]]:
    """Yield the positions of each batch and how many of them count; a small batch is padded with its own rows.

    Matrix products of a few rows are summed in another order, which a guided loop amplifies: a row would depend on
    how many others are sampled with it.
    """
    for start in range(0, rows, size):
        batch = np.arange(start, min(start + size, rows))
        yield np.resize(batch, max(len(batch), MIN_BATCH_ROWS)), len(batch)


def batch_size(requested: int, values_per_row: int) -> int:
    """Return the requested batch size, or less if the random numbers of a batch would be too many."""
    return max(1, min(requested, MAX_NOISE_VALUES // values_per_row))


def join_batches(parts: list[tuple[Columns, int]], given: Columns) -> Columns:
    """Join the rows that count of each batch; without batches return the given rows."""
    return concat([take(rows, slice(count)) for rows, count in parts]) if parts else dict(given)
