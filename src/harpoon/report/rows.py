"""The rows of a table that a report shows or scores: chosen by weight, at random, or because they are complete."""

from __future__ import annotations

import numpy as np

from harpoon._utils.weighted_rows import systematic_resample
from harpoon.data import Schema, Table
from harpoon.data.survey_weights import read_known_weights


def weighted_rows(table: Table, schema: Schema, random: np.random.Generator) -> Table:
    """Return as many rows, chosen in proportion to their weights; the table itself if it has none."""
    weights = read_known_weights(table, schema)
    if weights is None:
        return table
    order = random.permutation(table.n_rows)  # rows that alternate would be chosen all or never
    chosen = systematic_resample(weights[order], table.n_rows, random)
    return table.take(np.sort(order[chosen]))


def sample_rows(table: Table, max_rows: int, rng: np.random.Generator) -> Table:
    """Choose at most `max_rows` rows at random; they keep their order."""
    if table.n_rows <= max_rows:
        return table
    return table.take(np.sort(rng.choice(table.n_rows, max_rows, replace=False)))


def complete_rows(table: Table, schema: Schema) -> Table:
    """Return the rows without a missing cell in a modelled column; none if no column is modelled."""
    missing = [table.column(column.name).missing for column in schema.modelled]
    return table.take(np.flatnonzero(~np.any(missing, axis=0)) if missing else np.zeros(0, dtype=np.int64))
