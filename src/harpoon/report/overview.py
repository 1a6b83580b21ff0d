"""What a table is made of: its columns, its missing cells, and which columns go together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harpoon import metrics
from harpoon._text import shorten
from harpoon.data.column import describe
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.report.rows import finite, rows_of
from harpoon.report.summary import Associations, Fact, Missingness, Pair, Pattern

MOST_PATTERNS = 12
MOST_COLUMNS = 30  # in a heat map that can still be read
MOST_PAIRS = 10
LONGEST = 200
Floats = NDArray[np.float64]


def facts(schema: Schema, table: Table | None) -> list[Fact]:
    """One record per column."""
    return [
        Fact(
            name=column.name,
            kind=column.kind.value,
            about=shorten(describe(replace(column, missing=0.0)), shown=LONGEST),
            modelled=column.kind.modelled,
            missing=_missing_share(table, column.name) if table is not None else finite(column.missing),
        )
        for column in schema
    ]


def missingness(table: Table) -> Missingness:
    """Which cells are missing, and which are missing together."""
    missing = np.column_stack([table.column(name).missing for name in table.names])
    counts = Counter(map(bytes, missing))
    # Complete rows first, then by how many rows; the pattern itself decides between equals, so that order is a law.
    order = sorted(counts, key=lambda row: (any(row), -counts[row], row))
    shown = [
        Pattern(
            columns=[name for name, gone in zip(table.names, row, strict=True) if gone],
            rows=counts[row],
            share=finite(counts[row] / table.n_rows) or 0.0,
        )
        for row in order[:MOST_PATTERNS]
    ]
    return Missingness(
        share=finite(float(missing.mean())) or 0.0,
        complete=finite(float((~missing.any(axis=1)).mean())) or 0.0,
        patterns=shown,
        others=max(len(counts) - MOST_PATTERNS, 0),
    )


def associations(schema: Schema, real: Table | None, drawn: Table) -> Associations:
    """How strongly columns go together, and how much of that is another in drawn rows."""
    names = [column.name for column in schema.modelled]
    if real is not None:  # as many rows of each: labels seem to go together more where rows are few
        size = min(real.n_rows, drawn.n_rows)
        real, drawn = (rows_of(one, np.linspace(0, one.n_rows - 1, size).astype(np.int64)) for one in (real, drawn))
    ours = metrics.association(schema, drawn)
    theirs = metrics.association(schema, real) if real is not None else None
    # Without real rows the strongest pairs are what is worth a look, with them those that differ most.
    weight = np.nan_to_num(np.abs(ours - theirs) if theirs is not None else np.abs(ours))
    np.fill_diagonal(weight, 0.0)
    kept = np.sort(np.argsort(-weight.max(axis=1), kind="stable")[:MOST_COLUMNS])
    apart = np.abs(ours - theirs)[np.triu_indices(len(names), 1)] if theirs is not None else np.zeros(0)
    apart = apart[np.isfinite(apart)]
    return Associations(
        columns=[names[place] for place in kept],
        real=_square(theirs, kept) if theirs is not None else None,
        drawn=_square(ours, kept),
        difference=finite(round(float(apart.mean()), 6)) if len(apart) else None,
        pairs=_pairs(names, theirs, ours, weight),
        left_out=len(names) - len(kept),
    )


def _pairs(names: list[str], theirs: Floats | None, ours: Floats, weight: Floats) -> list[Pair]:
    rows, columns = np.triu_indices(len(names), 1)
    order = np.argsort(-weight[rows, columns], kind="stable")[:MOST_PAIRS]
    return [
        Pair(
            left=names[i],
            right=names[j],
            real=finite(float(theirs[i, j])) if theirs is not None else None,
            drawn=finite(float(ours[i, j])),
        )
        for i, j in zip(rows[order], columns[order], strict=True)
        if np.isfinite(ours[i, j])
    ]


def _square(values: Floats, kept: NDArray[np.int64]) -> list[list[float | None]]:
    return [[finite(round(value, 4)) for value in row] for row in values[np.ix_(kept, kept)].tolist()]


def _missing_share(table: Table, name: str) -> float | None:
    return finite(float(table.column(name).missing.mean())) if name in table.names else None
