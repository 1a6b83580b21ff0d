"""A table at a glance: its columns, its missing cells and the associations of its columns. Also: rows of a table."""

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
from harpoon.report.summary import (
    Associations,
    ColumnFacts,
    ColumnPair,
    Missingness,
    MissingPattern,
    finite_or_none,
)

MAX_PATTERNS = 12
MAX_MATRIX_COLUMNS = 30  # a larger heat map cannot be read
MAX_PAIRS = 10
MAX_DESCRIPTION_CHARACTERS = 200
Floats = NDArray[np.float64]


def take_rows(table: Table, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Table:
    """Return some rows of a table, by index or by mask."""
    index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    arrow = table.arrow.take(index)
    return Table(arrow, "pyarrow", arrow, table.mixed)


def sample_rows(table: Table, max_rows: int, rng: np.random.Generator) -> Table:
    """Choose at most `max_rows` rows at random; they keep their order."""
    if table.n_rows <= max_rows:
        return take_rows(table, np.arange(table.n_rows))
    return take_rows(table, np.sort(rng.choice(table.n_rows, max_rows, replace=False)))


def complete_rows(table: Table, schema: Schema) -> Table:
    """Return the rows without a missing cell in a modelled column."""
    missing = [table.column(column.name).missing for column in schema.modelled]
    return take_rows(table, ~np.any(missing, axis=0) if missing else np.zeros(table.n_rows, dtype=np.bool_))


def column_facts(schema: Schema, table: Table | None) -> list[ColumnFacts]:
    """Describe each column."""
    return [
        ColumnFacts(
            name=column.name,
            kind=column.kind.value,
            description=shorten(describe(replace(column, missing=0.0)), shown=MAX_DESCRIPTION_CHARACTERS),
            modelled=column.kind.modelled,
            missing=_missing_fraction(table, column.name) if table is not None else finite_or_none(column.missing),
        )
        for column in schema
    ]


def missingness(table: Table) -> Missingness:
    """Count missing cells, and the columns that are missing together."""
    missing = np.column_stack([table.column(name).missing for name in table.names])
    counts = Counter(map(bytes, missing))
    # Complete rows first, then by frequency. Ties are broken by the pattern itself, so that the order is well defined.
    order = sorted(counts, key=lambda pattern: (any(pattern), -counts[pattern], pattern))
    return Missingness(
        fraction=finite_or_none(float(missing.mean())) or 0.0,
        complete=finite_or_none(float((~missing.any(axis=1)).mean())) or 0.0,
        patterns=[
            MissingPattern(
                columns=[name for name, is_missing in zip(table.names, pattern, strict=True) if is_missing],
                rows=counts[pattern],
                fraction=finite_or_none(counts[pattern] / table.n_rows) or 0.0,
            )
            for pattern in order[:MAX_PATTERNS]
        ],
        more_patterns=max(len(counts) - MAX_PATTERNS, 0),
    )


def associations(schema: Schema, real: Table | None, synthetic: Table) -> Associations:
    """Compute the associations of all pairs of columns, and how they differ from those of the real rows."""
    names = [column.name for column in schema.modelled]
    if real is not None:  # equally many rows of each: associations of categories are biased upwards in small samples
        size = min(real.n_rows, synthetic.n_rows)
        real, synthetic = (
            take_rows(table, np.linspace(0, table.n_rows - 1, size).astype(np.int64)) for table in (real, synthetic)
        )
    of_synthetic = metrics.association(schema, synthetic)
    of_real = metrics.association(schema, real) if real is not None else None
    # With real rows the largest differences are shown, without them the strongest associations.
    weight = np.nan_to_num(np.abs(of_synthetic - of_real) if of_real is not None else np.abs(of_synthetic))
    np.fill_diagonal(weight, 0.0)
    shown = np.sort(np.argsort(-weight.max(axis=1), kind="stable")[:MAX_MATRIX_COLUMNS])
    upper = np.triu_indices(len(names), 1)
    differences = np.abs(of_synthetic - of_real)[upper] if of_real is not None else np.zeros(0)
    differences = differences[np.isfinite(differences)]
    return Associations(
        columns=[names[i] for i in shown],
        real=_matrix(of_real, shown) if of_real is not None else None,
        synthetic=_matrix(of_synthetic, shown),
        difference=finite_or_none(round(float(differences.mean()), 6)) if len(differences) else None,
        pairs=_pairs(names, of_real, of_synthetic, weight),
        columns_left_out=len(names) - len(shown),
    )


def _pairs(names: list[str], of_real: Floats | None, of_synthetic: Floats, weight: Floats) -> list[ColumnPair]:
    rows, columns = np.triu_indices(len(names), 1)
    order = np.argsort(-weight[rows, columns], kind="stable")[:MAX_PAIRS]
    return [
        ColumnPair(
            left=names[i],
            right=names[j],
            real=finite_or_none(float(of_real[i, j])) if of_real is not None else None,
            synthetic=finite_or_none(float(of_synthetic[i, j])),
        )
        for i, j in zip(rows[order], columns[order], strict=True)
        if np.isfinite(of_synthetic[i, j])
    ]


def _matrix(values: Floats, shown: NDArray[np.int64]) -> list[list[float | None]]:
    return [[finite_or_none(round(value, 4)) for value in row] for row in values[np.ix_(shown, shown)].tolist()]


def _missing_fraction(table: Table, name: str) -> float | None:
    return finite_or_none(float(table.column(name).missing.mean())) if name in table.names else None
