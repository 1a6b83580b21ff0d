"""Differences between training rows and hold-out rows that are no risk, and make attacks find one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harpoon._formatting import format_percent
from harpoon.data import Floats
from harpoon.privacy.records import Records

MAX_MISMATCH = 0.05  # of the rows of a table, by which a column may differ
MAX_ERRORS = 4.0  # standard errors, by which it may differ
WHY = (
    "Attacks tell the two tables apart by such differences, so that a risk may be due to them and not to the model. "
    "Use hold-out rows that were set aside at random before the training, and prepare both tables in the same way."
)


@dataclass(frozen=True)
class Mismatch:
    """How many rows of either table lack a column, or have a label of it that the other table does not have."""

    column: str
    train: float
    holdout: float
    excess: float  # beyond what is expected by chance, relative to the largest excess that is not noted


def mismatch_notes(train: Records, holdout: Records) -> list[str]:
    """Note columns with other fractions of missing cells, and with labels that only one table has, in one text."""
    if not len(train) or not len(holdout):
        return []
    notes = []
    if found := _noted([_missing(train, holdout, column) for column in range(len(train.names))]):
        worst = found[0]
        notes.append(
            f"{_columns(found, 'a different fraction of missing cells')}: {format_percent(worst.train)} of the "
            f"training rows and {format_percent(worst.holdout)} of the hold-out rows lack it."
        )
    if found := _noted([_labels(train, holdout, column) for column in range(train.n_numbers, len(train.names))]):
        worst = found[0]
        notes.append(
            f"{_columns(found, 'labels that only one table has')}: {format_percent(worst.train)} of the training rows "
            f"have one that no hold-out row has, and {format_percent(worst.holdout)} of the hold-out rows one that no "
            "training row has."
        )
    return [" ".join([*notes, WHY])] if notes else []


def _noted(found: list[Mismatch]) -> list[Mismatch]:
    """Return what has to be noted, the worst first."""
    return sorted((one for one in found if one.excess > 1), key=lambda one: -one.excess)


def _columns(found: list[Mismatch], what: str) -> str:
    if len(found) == 1:
        return f"Column {found[0].column!r} has {what}"
    return f"{len(found)} columns have {what}, most of all {found[0].column!r}"


def _missing(train: Records, holdout: Records, column: int) -> Mismatch:
    of_train, of_holdout = (float(np.isnan(table.column(column)).mean()) for table in (train, holdout))
    excess = abs(of_train - of_holdout) / _tolerance(of_train, of_holdout, len(train), len(holdout))
    return Mismatch(train.names[column], of_train, of_holdout, excess)


def _labels(train: Records, holdout: Records, column: int) -> Mismatch:
    cells = [table.column(column) for table in (train, holdout)]
    fractions, excess = [], 0.0
    for own, other in (cells, cells[::-1]):
        new = float((~np.isnan(own) & ~np.isin(own, other)).mean())
        expected = _once(other)  # the estimate of Good and Turing for labels that a sample does not have
        fractions.append(new)
        excess = max(excess, (new - expected) / _tolerance(new, expected, len(own), len(other)))
    return Mismatch(train.names[column], fractions[0], fractions[1], excess)


def _once(cells: Floats) -> float:
    """Return the fraction of cells whose label no other cell has."""
    counts = np.unique(cells[~np.isnan(cells)], return_counts=True)[1]
    return float((counts == 1).sum()) / len(cells)


def _tolerance(one: float, other: float, n: int, m: int) -> float:
    """Return the largest difference of two fractions that is not noted."""
    pooled = (one * n + other * m) / (n + m)
    return max(MAX_MISMATCH, MAX_ERRORS * float(np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))))
