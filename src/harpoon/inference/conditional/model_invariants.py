"""The invariants that every row of a model keeps: labels that occur together, sums, and products."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from itertools import product

import numpy as np

from harpoon.conditions import Predicate
from harpoon.conditions.language.expressions import ColumnName, Comparison, Literal, conjunction
from harpoon.conditions.logic.explanation import explain_contradiction
from harpoon.conditions.logic.invariants import Invariants, LabelAxis, LabelInvariant, ProductInvariant, SumInvariant
from harpoon.data import Column, ColumnArray, Columns, Schema, n_rows
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.relations import Exclusions, Formula, describe_dependency
from harpoon.relations.formula import HALF_STEP


def find_invariants(sampler: RowSampler) -> Invariants:
    """Return the invariants of a model; none if its network does not keep any."""
    exclusions = sampler.relations.exclusions
    pairs = () if exclusions is None else tuple(_label_invariants(exclusions))
    sums = tuple(_sum_invariant(sampler, one) for one in sampler.relations.exact_sums())
    return Invariants(
        pairs, sums, tuple(_product_invariant(sampler, one) for one in sampler.relations.exact_products())
    )


def _label_invariants(exclusions: Exclusions) -> list[LabelInvariant]:
    """Return an invariant for each two columns with a dependency, or with labels that imply or exclude each other."""
    determined, implied, excluded = (
        pairs.cpu().numpy() for pairs in (exclusions.determined, exclusions.implied, exclusions.excluded)
    )
    invariants = []
    for name, pairs in (("determined", determined), ("implied", implied), ("excluded", excluded)):
        is_dependency = name != "excluded"
        for a, b in np.unique(pairs[:, [0, 2]], axis=0).tolist():
            left, right = exclusions.variables[a], exclusions.variables[b]
            labels = pairs[(pairs[:, 0] == a) & (pairs[:, 2] == b)]
            possible = np.ones((len(left.features), len(right.features)), dtype=np.bool_)
            if is_dependency:
                possible[labels[:, 1]] = False
            possible[labels[:, 1], labels[:, 3]] = is_dependency
            text = describe_dependency(left.name, right.name).partition(" (")[0]
            for one, other in product(left.values.items(), right.values.items()):
                words = (
                    text
                    if name == "determined"
                    else f"no training row has these values of {one[0]} and {other[0]} together, though chance would"
                )
                invariants.append(LabelInvariant(LabelAxis(*one), LabelAxis(*other), possible, words))
    return invariants


def _sum_invariant(sampler: RowSampler, formula: Formula) -> SumInvariant:
    """Return a sum in the units of the table. It is exact unless it has to be rounded to the resolution of its target.

    A number whose resolution is not known is computed from the others, so that it is exact, too.
    """
    codec, units = sampler.codec, sampler.codec.units
    names, target, step = codec.quantity_names, formula.target, units[formula.target].step
    terms = [*zip(formula.weights, (units[source].step for source in formula.sources), strict=True)]
    parts = [formula.constant, *(weight * of_source for weight, of_source in terms)]
    is_exact = not step or (all(of_source for _, of_source in terms) and _are_multiples(parts, step))
    sources = dict(zip((names[source] for source in formula.sources), formula.weights, strict=True))
    is_hidden = not codec.hidden_quantities.isdisjoint(formula.columns)  # the range says it all
    text = "" if is_hidden else f"{names[target]} = {formula.describe(names)} in every training row"
    return SumInvariant(names[target], sources, formula.constant, 0.0 if is_exact else HALF_STEP * step, text)


def _product_invariant(sampler: RowSampler, formula: Formula) -> ProductInvariant:
    """Return a product in the units of the table. It is exact if it is a multiple of the resolution of its target."""
    names, units = sampler.codec.quantity_names, sampler.codec.units
    target, step = formula.target, units[formula.target].step
    factor = 1.0 if formula.factor is None else formula.factor
    of_sources = [units[source].step for source in formula.sources]
    is_exact = formula.is_exact and all(of_sources) and _are_multiples([math.prod(of_sources)], step)
    text = f"{names[target]} = {formula.describe(names)} in every training row"
    sources = tuple(names[source] for source in formula.sources)
    return ProductInvariant(names[target], sources, factor, 0.0 if is_exact else HALF_STEP * step, text)


def _are_multiples(numbers: list[float], step: float) -> bool:
    """Return whether numbers are multiples of a step, up to rounding."""
    steps = np.array(numbers) / step
    return bool(np.allclose(steps, np.round(steps), rtol=0, atol=1e-9))


def find_contradiction(tree: Predicate, sampler: RowSampler, rows: Columns, nullable: Collection[str]) -> str:
    """Return why no row beside some given cells satisfies a condition; "" if some may.

    Args:
        tree: The condition.
        sampler: The model, whose invariants rows keep.
        rows: Rows, of which some cells are given. Observed cells need not have values of the training table.
        nullable: The columns that can have missing cells.
    """
    codec, invariants = sampler.codec, find_invariants(sampler)
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
