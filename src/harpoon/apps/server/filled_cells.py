"""Cells that were filled: where they are, what they hold now, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon.inference.imputation import MultipleImputation
from harpoon.io.text_types import plain_values

FilledCell = dict[str, Any]


def cells_filled(before: pa.Table, after: pa.Table, names: Sequence[str]) -> list[FilledCell]:
    """The cells of some columns that were missing, row by row.

    >>> cells_filled(pa.table({"x": [1, None], "y": [None, "b"]}), pa.table({"x": [1, 2], "y": ["a", "b"]}), ["x", "y"])
    [{'row': 0, 'column': 'y', 'value': 'a'}, {'row': 1, 'column': 'x', 'value': 2}]
    """
    found: list[FilledCell] = []
    for name in names:
        rows = np.flatnonzero(pc.is_null(before[name], nan_is_null=True))
        values = zip(rows.tolist(), plain_values(after[name].take(rows)), strict=True)
        found += [{"row": row, "column": name, "value": value} for row, value in values]
    return sorted(found, key=lambda cell: cell["row"])


def with_spread(cells: Sequence[FilledCell], draws: MultipleImputation, level: float) -> list[FilledCell]:
    """The same cells with the ends of their intervals, or with the share of draws that have their label, and each."""
    low, high = (
        {name: plain_values(end[name]) for name in end.column_names} for end in draws.interval(level, quiet=True)
    )
    drawn = {
        name: [plain_values(table[name]) for table in draws] for name in {cell["column"] for cell in cells} - set(low)
    }

    def spread(name: str, row: int, value: object) -> FilledCell:
        if name in low:
            return {"low": low[name][row], "high": high[name][row]}
        counts = Counter(values[row] for values in drawn[name])
        shares = {label: count / len(draws) for label, count in counts.most_common()}
        return {"probability": shares.get(value, 0.0), "probabilities": shares}

    return [{**cell, **spread(cell["column"], cell["row"], cell["value"])} for cell in cells]
