"""Drawn rows against real ones, one column at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.cells import Cells
from harpoon.conforming import conform
from harpoon.errors import InvalidTable
from harpoon.frames import Table
from harpoon.kinds import Column
from harpoon.metrics.encoded import labels, numbers, tables
from harpoon.schema import Schema


def similarity(schema: Schema, real: object, drawn: object) -> dict[str, float]:
    """How alike each column is in two tables: 1 where it has the same distribution, 0 where nothing is shared.

    For numbers, dates and times it is 1 minus the Kolmogorov–Smirnov distance, the largest difference of the two
    distribution functions; for labels 1 minus the total variation, half the sum of the differences of their shares.
    Missing cells are left out.

    >>> import pyarrow as pa
    >>> real = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "a", "b"]})
    >>> similarity(Schema.infer(real), real, pa.table({"x": [1.0, 2.0, 3.0, 9.0], "c": ["a", "b", "a", "b"]}))
    {'x': 0.75, 'c': 0.75}
    """
    pair = tables(schema, real, drawn)
    scores = {}
    for column in schema.modelled:
        distance = _ks_distance if column.kind.numeric else _total_variation
        left, right = (_present(table, column) for table in pair)
        scores[column.name] = 1.0 - distance(left, right)
    return scores


def _present(table: Table, column: Column) -> NDArray[Any]:
    """The cells of a column that are not missing, as numbers or as labels."""
    cells: Cells = table.cells(column.name)
    if cells.missing.all():
        raise InvalidTable(f"Column {column.name!r} must have a cell that is not missing to be scored.")
    cells = cells[~cells.missing]
    conform(cells, column)
    return numbers(cells, column) if column.kind.numeric else labels(cells)


def _ks_distance(left: NDArray[Any], right: NDArray[Any]) -> float:
    points = np.concatenate([left, right])
    below = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (left, right)]
    return float(np.abs(below[0] - below[1]).max())


def _total_variation(left: NDArray[Any], right: NDArray[Any]) -> float:
    counts, others = Counter(left.tolist()), Counter(right.tolist())
    shares = [abs(counts[label] / len(left) - others[label] / len(right)) for label in sorted(counts | others, key=str)]
    return sum(shares) / 2
