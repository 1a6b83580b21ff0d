"""Contradictions between a condition, given cells, and the invariants that every row of a model keeps."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np

from harpoon.conditions import Predicate
from harpoon.conditions.language.expressions import ColumnName, Comparison, Literal, conjunction
from harpoon.conditions.logic.explanation import explain_contradiction
from harpoon.conditions.logic.invariants import LabelAxis
from harpoon.data import Column, ColumnArray, Columns, Schema, n_rows
from harpoon.inference.sampling.row_sampler import RowSampler


def find_contradiction(tree: Predicate, sampler: RowSampler, rows: Columns, nullable: Collection[str]) -> str:
    """Return why no row beside some given cells satisfies a condition; "" if some may.

    Args:
        tree: The condition.
        sampler: The model, whose invariants rows keep.
        rows: Rows, of which some cells are given. Observed cells need not have values of the training table.
        nullable: The columns that can have missing cells.
    """
    codec, invariants = sampler.codec, sampler.model.invariants
    # The time between two timestamps is no column, but its range counts like that of one.
    schema = Schema((*codec.schema, *(codec.quantities[index].column for index in sorted(codec.hidden_quantities))))
    free = {name for name, cells in rows.items() if not _has_training_values(cells, schema[name])}
    observed = {name for name, cells in rows.items() if not cells.unknown.all()}
    explain = partial(explain_contradiction, schema=schema, nullable=nullable, free=free, part_values=codec.part_values)
    # Observed cells may contradict the invariants, and stay as they are.
    why = explain(tree, invariants=invariants.without(observed))
    used = {name for invariant in invariants.all for name in invariant.columns} & observed
    if why or n_rows(rows) != 1 or not (given := _as_conditions(rows, [schema[name] for name in sorted(used)])):
        return why
    # Observed times are no conditions, and a value that is no label of an invariant has no place in it.
    unusable = {name for name in observed if schema[name].kind.temporal} | free
    unusable |= {
        axis.column
        for invariant in invariants.pairs
        for axis in (invariant.left, invariant.right)
        if not _is_label(rows, axis)
    }
    invariants = invariants.without(unusable)
    both = conjunction((tree, *given))
    is_to_blame = [explain(conjunction(given), invariants=invariants), explain(both)]
    return "" if any(is_to_blame) else explain(both, invariants=invariants)


def _is_label(row: Columns, axis: LabelAxis) -> bool:
    """Return whether the cell of a row is unknown, or one of the labels of an invariant."""
    cells = row[axis.column]
    if cells.unknown[0] or axis.values is None:
        return bool(cells.unknown[0] or not cells.missing[0])
    return bool(cells.missing[0] or np.isnan(axis.values).any() or np.isin(cells.values[0], axis.values))


def _as_conditions(row: Columns, columns: list[Column]) -> tuple[Predicate, ...]:
    """Return the given labels and numbers of a row as conditions; times are left out."""
    found = []
    for column in columns:
        cells = row[column.name]
        if not cells.missing[0] and not column.kind.temporal and not cells.unseen:
            value = cells.values[0].item()
            literal = (column.categories or (False, True))[value] if column.kind.discrete else value
            found.append(Comparison("=", ColumnName(column.name), Literal.of(literal)))
    return tuple(found)


def _has_training_values(cells: ColumnArray, column: Column) -> bool:
    """Return whether the observed cells of a column have values that its training cells can have."""
    if not column.kind.numeric or column.minimum is None or column.maximum is None:
        return not cells.unseen
    values = cells.observed
    if column.step and not column.kind.temporal:
        decimals = round(-np.log10(column.step))
        with np.errstate(over="ignore"):  # numbers near the largest floats are in no range
            if (np.round(values, decimals) != values).any():
                return False
    return bool(((values >= column.minimum) & (values <= column.maximum)).all())
