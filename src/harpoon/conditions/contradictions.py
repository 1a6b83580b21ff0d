"""Contradictions: conditions that no row satisfies, because they leave no value to a column.

Each column is checked on its own in every branch: `x > 5 and x < 4` is found, `x > y and y > x` is not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.conditions import bound
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import BoundPredicate, all_of, columns_of
from harpoon.conditions.branches import overlapping_branches
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import And, Or, Predicate
from harpoon.data import Column, ColumnArray, Kind, Schema

MAX_NUMBERS = 1000  # a condition that compares a column with more numbers is not checked
MAX_INTEGER = 2**62  # larger ones are evaluated as Python integers
MAX_EXACT_FLOAT = 2.0**53  # beyond it, neighbouring integers are the same float


def explain_contradiction(tree: Predicate, schema: Schema) -> str:
    """Return which parts of a condition exclude each other, in words; "" if some row may satisfy the condition.

    >>> from harpoon.conditions.parser import parse
    >>> schema = Schema((Column("x", Kind.INTEGER), Column("y", Kind.NUMBER)))
    >>> explain_contradiction(parse("x > 5 and y > 0 and x < 6"), schema)
    'x > 5 and x < 6 exclude each other'
    """
    parts = _find_contradictions(tree, schema)
    return "; ".join(f"{part} {'exclude each other' if isinstance(part, And) else 'is never true'}" for part in parts)


def _find_contradictions(tree: Predicate, schema: Schema) -> list[Predicate]:
    """Return a minimal part without solutions for each alternative of a condition; [] if some row may satisfy it."""
    if not _is_contradiction(bind(tree, schema), schema):
        return []
    if isinstance(tree, Or):
        return [part for member in tree.members for part in _find_contradictions(member, schema)] or [tree]
    if not isinstance(tree, And):
        return [tree]
    subset = tuple(tree.members[i] for i in _minimal_subset([bind(member, schema) for member in tree.members], schema))
    return [And(subset)] if len(subset) > 1 else _find_contradictions(subset[0], schema)


def _minimal_subset(predicates: Sequence[BoundPredicate], schema: Schema) -> list[int]:
    """Return the indices of a minimal subset of predicates that contradicts itself, given that all together do."""

    def contradicts(indices: Iterable[int]) -> bool:
        return _is_contradiction(all_of(predicates[i] for i in sorted(indices)), schema)

    subset: list[int] = []
    rest = range(len(predicates))
    while not contradicts(subset):
        # The shortest prefix that contradicts the subset ends with a predicate that is necessary.
        last = bisect_left(rest, 1, key=lambda i: contradicts([*subset, *range(i + 1)]))
        subset, rest = [*subset, last], range(last)
    return sorted(subset)


def _is_contradiction(predicate: BoundPredicate, schema: Schema) -> bool:
    """Return whether every branch of a condition leaves no value to a column, not even a missing one."""
    return all(
        any(_excludes_all(parts, schema[name]) for name, parts in _by_column(branch.parts).items())
        for branch in overlapping_branches(predicate)
    )


def _by_column(parts: Iterable[BoundPredicate]) -> dict[str, list[BoundPredicate]]:
    """Return the parts that use one column only, by its name."""
    by_column: dict[str, list[BoundPredicate]] = {}
    for part in parts:
        names = columns_of(part)
        if len(names) == 1:
            by_column.setdefault(names.pop(), []).append(part)
    return by_column


def _excludes_all(parts: list[BoundPredicate], column: Column) -> bool:
    """Return whether no value of a column satisfies all parts; those that cannot be decided are ignored."""
    compared = {part: set() if column.kind.discrete else _compared_numbers(part) for part in parts}
    decidable = {part: numbers for part, numbers in compared.items() if numbers is not None}
    numbers = set().union(*decidable.values())
    if len(numbers) > MAX_NUMBERS:
        return False
    values = _representative_values(column, numbers or {0})
    cells = ColumnArray("other", np.append(values, 0), np.arange(len(values) + 1) == len(values))  # the last is missing
    return not evaluate(all_of(decidable), {column.name: cells}).any()


def _representative_values(column: Column, numbers: set[int | float]) -> NDArray[Any]:
    """Return values of a column that include one from each interval between the numbers."""
    if column.kind.discrete:
        return np.arange(len(column.categories or ()))
    if column.kind is Kind.INTEGER or column.kind.temporal:
        near = {i for x in numbers for i in (math.floor(x) - 1, math.floor(x), math.ceil(x), math.ceil(x) + 1)}
        return np.array(sorted(near), dtype=np.int64 if max(map(abs, near)) < MAX_INTEGER else object)
    points = np.array(sorted(numbers), dtype=np.float64)
    return np.concatenate([points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf)])


def _compared_numbers(predicate: BoundPredicate) -> set[int | float] | None:
    """Return the numbers with which a condition compares its column; None if it also compares other terms."""
    match predicate:
        case bound.Compare(_, bound.ColumnRef(), bound.NumberLiteral(value)):
            return {value} if isinstance(value, int) or abs(value) < MAX_EXACT_FLOAT else None
        case bound.AllOf(parts) | bound.AnyOf(parts):
            found = [numbers for part in parts if (numbers := _compared_numbers(part)) is not None]
            return set().union(*found) if len(found) == len(parts) else None
        case bound.IsMissing():
            return set()
    return None
