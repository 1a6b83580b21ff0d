"""Weights of rows, such as those of a survey: how much of the population each row of a table stands for."""

from __future__ import annotations

import numpy as np

from harpoon._formatting import closest_matches, format_list, shorten
from harpoon.data.column_array import ColumnArray, Floats
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidOption, InvalidTable

MIN_WEIGHT, MAX_WEIGHT = 1e-100, 1e100  # so that sums of weights, and their squares, are finite
MAX_RATIO = 1e15  # of two weights, so that the squares of both are positive in single precision


def weight_column(weights: object) -> str | None:
    """Return the name of the column of weights, which may be an integer label of pandas; None: rows have no weights."""
    if weights is None or isinstance(weights, str):
        return weights
    if isinstance(weights, int | np.integer) and not isinstance(weights, bool):
        return str(weights)
    got = shorten(repr(weights)) if isinstance(weights, bool | bytes | list | tuple) else f"a {type(weights).__name__}"
    raise InvalidOption(
        f"weights must be the name of one column of the table, got {got}. Put the weights into a column of the table, "
        'and pass its name, such as weights="w".'
    )


def read_weights(table: Table, name: str) -> Floats:
    """Return the weights of the rows, (n,), from a column; raise unless all are positive numbers."""
    if not isinstance(name, str) or name not in table.names:
        near = closest_matches(str(name), table.names)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {format_list(table.names)}."
        raise InvalidOption(f"weights must be the name of a column of the table, got {name!r}. {hint}")
    cells = table.column(name)
    if cells.storage not in ("integer", "float"):
        raise InvalidTable(f"The weights in column {name!r} must be numbers, got {cells.storage} values.")
    return check_weights(cells.values.astype(np.float64), f"The weights in column {name!r}", cells)


def read_known_weights(table: Table, schema: Schema) -> Floats | None:
    """Return the weights of the rows, (n,); None if the model has no weights, or the table lacks their column."""
    return None if schema.weights is None or schema.weights not in table.names else read_weights(table, schema.weights)


def check_weights(values: Floats, which: str, cells: ColumnArray | None = None) -> Floats:
    """Return weights, (n,), or raise InvalidTable unless all are positive finite numbers."""
    missing = np.isnan(values) if cells is None else cells.missing | np.isnan(values)
    wrong = missing | ~(values >= MIN_WEIGHT) | (values > MAX_WEIGHT)
    if wrong.any():
        row = int(wrong.argmax())
        found = "no value" if missing[row] else f"{values[row]:g}"
        raise InvalidTable(
            f"{which} must be positive numbers from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, and row {row} has {found} (in "
            f"{int(wrong.sum())} of {len(values)} rows). Leave out rows that should not count, and estimate missing "
            "weights."
        )
    if len(values):
        check_ratio(float(values.min()), float(values.max()), which)
    return values


def check_ratio(smallest: float, largest: float, which: str) -> None:
    """Raise InvalidTable if a weight is so much larger than another one that the latter would count as zero."""
    if smallest < largest / MAX_RATIO:
        raise InvalidTable(
            f"{which} may differ by a factor of at most {MAX_RATIO:g}, got {smallest:g} and {largest:g}. Leave out "
            "rows that should not count."
        )
