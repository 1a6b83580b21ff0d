"""How good an answer is: functions of tables that return a number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from harpoon import frames
from harpoon.cells import Cells
from harpoon.conforming import as_labels, conform
from harpoon.errors import InvalidTable
from harpoon.frames import Table
from harpoon.kinds import Column
from harpoon.schema import Schema

Mask = NDArray[np.bool_]


def standardised_mse(schema: Schema, truth: object, filled: object, mask: Mask, train: object) -> float:
    """Mean squared error over hidden numeric cells, in deviations of the training column (ddof 0)."""
    true, guess, reference = frames.read(truth), frames.read(filled), frames.read(train)
    errors = []
    for place, column in _hidden(schema, true, numeric=True):
        deviation = conform(reference.cells(column.name), column).observed.astype(np.float64).std() or 1.0
        hidden = mask[:, place]
        difference = _values(guess, column)[hidden] - _values(true, column)[hidden]
        errors.append((difference / deviation) ** 2)
    return _mean(errors)


def accuracy(schema: Schema, truth: object, filled: object, mask: Mask) -> float:
    """The share of hidden categorical cells that were filled with the true label."""
    true, guess = frames.read(truth), frames.read(filled)
    hits = []
    for place, column in _hidden(schema, true, numeric=False):
        hidden = mask[:, place]
        hits.append(_labels(guess, column)[hidden] == _labels(true, column)[hidden])
    return _mean(hits)


def _hidden(schema: Schema, table: Table, *, numeric: bool) -> list[tuple[int, Column]]:
    places: Mapping[str, int] = {name: i for i, name in enumerate(table.names)}
    return [(places[c.name], c) for c in schema.modelled if c.kind.numeric == numeric]


def _values(table: Table, column: Column) -> NDArray[np.float64]:
    return conform(_complete(table, column), column).values.astype(np.float64)


def _labels(table: Table, column: Column) -> NDArray[np.object_]:
    """Labels as they are: one that the schema does not know can still be right or wrong."""
    cells = as_labels(_complete(table, column))
    labels = np.array(cells.labels, dtype=object)
    return np.asarray(labels[cells.values], dtype=object)


def _complete(table: Table, column: Column) -> Cells:
    cells = table.cells(column.name)
    if cells.missing.any():
        raise InvalidTable(f"Column {column.name!r} must have no missing cell to be scored.")
    return cells


def _mean(parts: list[NDArray[np.float64]]) -> float:
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(values.mean()) if len(values) else float("nan")
