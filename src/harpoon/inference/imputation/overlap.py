"""Overlap: whether missing cells lie where training rows have observed ones (positivity; Rosenbaum and Rubin, 1983).

Imputation learns a column from the rows in which it is observed. Beside values of another column with which it never
is, such as a measure that is only taken from the age of eight, nothing was learnt, and imputed values are extrapolated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from harpoon.data import Columns, Mask, Schema
from harpoon.data.column import format_value
from harpoon.data.contingency import ContingencyTables
from harpoon.exceptions import ExtrapolationWarning, warn

MIN_MISSING_ROWS = 20  # training rows of a range of values, in all of which the column is missing
MIN_CELLS, MIN_FRACTION = 5, 0.05  # of the missing cells of a column


class NoOverlap(NamedTuple):
    """Missing cells of a column beside values of another numeric column with which it was never observed."""

    column: str
    other: str
    cells: Mask  # which cells of the column, (n,)


def find_no_overlap(
    tables: ContingencyTables, schema: Schema, rows: Columns, skipped: Collection[str]
) -> list[NoOverlap]:
    """Return, for each column with such cells, the other column beside which most of its missing cells are.

    Labels and few values are no ranges: beside them a column is structurally missing.
    """
    found = []
    ranges = [column.name for column in schema.modelled if column.kind.numeric and not column.values]
    for name in rows:
        if name in skipped or not rows[name].unknown.any():
            continue
        candidates = [
            NoOverlap(name, other, _cells(tables, rows, name, other))
            for other in ranges
            if tables.pair(other, name) is not None
        ]
        best = max(candidates, key=lambda each: int(each.cells.sum()), default=None)
        if best and best.cells.sum() >= max(MIN_CELLS, MIN_FRACTION * rows[name].unknown.sum()):
            found.append(best)
    return found


def _cells(tables: ContingencyTables, rows: Columns, name: str, other: str) -> Mask:
    """Return which missing cells of a column are beside bins of another one in which it was never observed, (n,)."""
    counts = tables.pair(other, name)
    if counts is None:
        raise KeyError((other, name))
    never = counts[:, :-1].sum(axis=1) == 0
    never[-1] = False  # where the other column is missing, too
    run = np.cumsum(np.diff(never, prepend=False))  # neighbouring bins are one range
    never &= np.bincount(run, weights=counts[:, -1])[run] >= MIN_MISSING_ROWS
    at = tables.columns[other].locate(rows[other])
    mask: Mask = rows[name].unknown & never[at]
    most = np.bincount(run[at[mask]], minlength=1).argmax()  # one range, so that it can be named
    mask &= run[at] == most
    return mask


def warn_no_overlap(found: Collection[NoOverlap], schema: Schema, rows: Columns) -> None:
    """Warn of missing cells that are imputed beside values with which their column was never observed."""
    for name, other, cells in found:
        values, column = rows[other].values[cells], schema[other]
        low, high = (format_value(column, float(end)) for end in (values.min(), values.max()))
        message = (
            f"Extrapolation: no training row has an observed {name!r} beside {other!r} from {low} to {high}, as "
            f"{cells.sum():,} of {rows[name].unknown.sum():,} missing cells of {name!r} here are. What is imputed "
            "there follows no observed value; check it, or leave those cells missing."
        )
        warn(ExtrapolationWarning(message, code="no_overlap", column=name, other=other, cells=int(cells.sum())))
