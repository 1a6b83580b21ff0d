"""A table at a glance: its columns, its missing cells and the associations of its columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harpoon import metrics
from harpoon._formatting import shorten
from harpoon.data import Floats, Schema, Table, describe
from harpoon.metrics.marginals import NOISE_LEVEL
from harpoon.report.summary import Associations, ColumnFacts, ColumnPair, Missingness, finite_or_none, finite_or_zero

MAX_PATTERNS = 12
MAX_MATRIX_COLUMNS = 30  # a larger heat map cannot be read
MAX_PAIRS = 10
MAX_DESCRIPTION_CHARACTERS = 200


def column_facts(schema: Schema, table: Table | None) -> list[ColumnFacts]:
    """Describe each column."""
    if table is None:
        missing = {column.name: column.missing for column in schema}
    else:
        missing = {name: float(table.column(name).missing.mean()) for name in table.names}
    return [
        ColumnFacts(
            name=column.name,
            kind=column.kind.value,
            description=shorten(describe(replace(column, missing=0.0)), shown=MAX_DESCRIPTION_CHARACTERS),
            modelled=column.kind.modelled,
            missing=finite_or_none(missing.get(column.name)),
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
        fraction=finite_or_zero(missing.mean()),
        complete=finite_or_zero((~missing.any(axis=1)).mean()),
        patterns=[
            {
                "columns": [name for name, is_missing in zip(table.names, pattern, strict=True) if is_missing],
                "rows": counts[pattern],
                "fraction": finite_or_zero(counts[pattern] / table.n_rows),
            }
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
            table.take(np.linspace(0, table.n_rows - 1, size).astype(np.int64)) for table in (real, synthetic)
        )
    of_synthetic = metrics.association(schema, synthetic)
    of_real = np.full_like(of_synthetic, np.nan) if real is None else metrics.association(schema, real)
    differences = np.abs(of_synthetic - of_real)
    noise = np.full_like(differences, np.nan)
    if real is not None:
        noise = _difference_noise(schema, real, synthetic, np.fmin(np.abs(of_real), np.abs(of_synthetic)))
    # With real rows the largest differences beyond chance are shown, without them the strongest associations.
    weight = np.nan_to_num(np.abs(of_synthetic) if real is None else differences - noise, nan=-np.inf)
    np.fill_diagonal(weight, -np.inf)
    shown = np.sort(np.argsort(-weight.max(axis=1), kind="stable")[:MAX_MATRIX_COLUMNS])
    known = differences[np.triu_indices(len(names), 1)]
    known = known[np.isfinite(known)]
    return Associations(
        columns=[names[i] for i in shown],
        real=None if real is None else _matrix(of_real, shown),
        synthetic=_matrix(of_synthetic, shown),
        difference=finite_or_none(round(float(known.mean()), 6)) if len(known) else None,
        pairs=_pairs(names, of_real, of_synthetic, noise, weight),
        columns_left_out=len(names) - len(shown),
    )


def _difference_noise(schema: Schema, real: Table, synthetic: Table, strength: Floats) -> Floats:
    """Return the difference of each association that chance alone exceeds, in any of the pairs, once in twenty times.

    The variance of a rank correlation ρ is (1 + ρ² / 2) (1 - ρ²)² / rows, approximately (Bonett and Wright, 2000), and
    those of Cramér's V and the correlation ratio are smaller. The rows are those in which both columns are observed:
    few, if they have many missing cells. The variance of a difference is the sum of both; `strength` is the smaller |ρ|
    of the two, (columns, columns).
    """
    tables, squared = (real, synthetic), np.nan_to_num(strength) ** 2
    names = [column.name for column in schema.modelled]
    observed = [np.column_stack([~table.column(name).missing for name in names]).astype(float) for table in tables]
    variance = np.sum([1 / np.maximum(cells.T @ cells, 1) for cells in observed], axis=0)
    n_pairs = max(len(names) * (len(names) - 1) // 2, 1)
    deviation = (1 - squared) * np.sqrt((1 + squared / 2) * variance)
    return np.asarray(ndtri(1 - NOISE_LEVEL / (2 * n_pairs)) * deviation)


def _pairs(names: list[str], of_real: Floats, of_synthetic: Floats, noise: Floats, weight: Floats) -> list[ColumnPair]:
    rows, columns = np.triu_indices(len(names), 1)
    order = np.argsort(-weight[rows, columns], kind="stable")[:MAX_PAIRS]
    return [
        ColumnPair(
            left=names[i],
            right=names[j],
            real=finite_or_none(of_real[i, j]),
            synthetic=finite_or_none(of_synthetic[i, j]),
            noise=finite_or_none(noise[i, j]),
        )
        for i, j in zip(rows[order], columns[order], strict=True)
        if np.isfinite(of_synthetic[i, j])
    ]


def _matrix(values: Floats, shown: NDArray[np.int64]) -> list[list[float | None]]:
    return [[finite_or_none(round(value, 4)) for value in row] for row in values[np.ix_(shown, shown)].tolist()]
