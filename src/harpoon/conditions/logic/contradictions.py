"""Contradictions: conditions that no row satisfies, because they leave no value to a column.

Every branch is checked in three ways. A column may have no value left: `x > 5 and x < 4`. Its values are those that a
sampled cell can have: its categories, or the range of its training cells at their resolution. Two labels may exclude
each other: `city = 'Paris' and country = 'Italy'`. And several numbers may have no solution within their ranges, alone
or by a sum or a product that always holds: `x > y and y > x`, or `total < part`. What cannot be decided is no
contradiction.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.conditions.binding import bound
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import BoundPredicate, DatePart, all_of, columns_of, has_date_part, leaves, terms
from harpoon.conditions.binding.branches import Branch, overlapping_branches
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.evaluation.interval_arithmetic import may_satisfy
from harpoon.conditions.language.expressions import And, Or, Predicate, conjunction
from harpoon.conditions.logic.calendar_values import (
    PartValues,
    date_parts_of,
    excludes_all_days,
    excludes_all_values,
    known_values,
    possible_values,
)
from harpoon.conditions.logic.invariants import (
    Invariant,
    Invariants,
    LabelAxis,
    LabelDomain,
    LabelDomains,
    ProductInvariant,
    SumInvariant,
)
from harpoon.conditions.logic.linear_program import Bounds, inequalities, is_infeasible, of_sum
from harpoon.conditions.logic.products import excludes
from harpoon.data import MAX_EXACT_INTEGER, Column, ColumnArray, Mask, Schema
from harpoon.data.date_parts import Ints

MAX_NUMBERS = 1000  # a condition that compares a column with more numbers is not checked
MAX_INTEGER = 2**62  # larger ones are evaluated as Python integers


@dataclass(frozen=True)
class Domain:
    """The values that the cells of each column can have.

    Attributes:
        schema: The categories and ranges of the columns.
        nullable: The columns that can have missing cells; None: all.
        free: Columns that can have other values than the training table, such as those of observed cells.
        part_values: The values of calendar parts that sampled cells can have, by the name of the column.
        invariants: What holds in every row.
        has_steps: Whether numbers have the resolution of the training table.
        unlimited: Numbers whose range does not count.
    """

    schema: Schema
    nullable: Collection[str] | None = None
    free: Collection[str] = ()
    part_values: Mapping[str, PartValues] = field(default_factory=dict)
    invariants: Invariants = field(default_factory=Invariants)
    has_steps: bool = True
    unlimited: Collection[str] = ()

    def can_be_null(self, name: str) -> bool:
        """Return whether a cell of the column can be missing."""
        return self.nullable is None or name in self.nullable

    def limits(self, column: Column) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value of a numeric column, if it has a range and stays in it."""
        known = column.kind.numeric and column.clip and column.minimum is not None and column.maximum is not None
        is_free = column.name in self.free or column.name in self.unlimited
        return (column.minimum, column.maximum) if known and not is_free else None

    def known_values(self, term: DatePart) -> Ints | None:
        """Return the values that sampled cells can have in a calendar part, or None if that is not known."""
        column = self.schema[next(iter(columns_of(term)))]
        if column.name in self.free:
            return None
        return known_values(term, column, self.part_values.get(column.name, {}))

    def step(self, column: Column) -> int | float:
        """Return the resolution of a number or a time; 0: none is known."""
        if column.kind.temporal or not self.has_steps:
            return int(column.kind.temporal)
        known = column.step if column.name not in self.free else None
        return known or int(column.kind.integral)

    def with_invariants(self, kept: Iterable[Invariant]) -> Domain:
        """Return the domain with some of its invariants only."""
        chosen = set(map(id, kept))
        return replace(self, invariants=self.invariants.select(lambda invariant: id(invariant) in chosen))

    def with_limits(self, names: Collection[str]) -> Domain:
        """Return the domain in which no other numbers have a range."""
        return replace(self, unlimited={column.name for column in self.schema if column.kind.numeric} - set(names))


def find_contradictions(tree: Predicate, domain: Domain) -> list[Predicate]:
    """Return a minimal part without solutions for each alternative of a condition; [] if some row may satisfy it."""
    schema = domain.schema
    if not is_contradiction(bind(tree, schema), domain):
        return []
    if isinstance(tree, Or):
        return [part for member in tree.members for part in find_contradictions(member, domain)] or [tree]
    if not isinstance(tree, And):
        return [tree]
    members = [bind(member, schema) for member in tree.members]
    needed = minimal_subset(
        len(members), lambda kept: is_contradiction(all_of(members[i] for i in sorted(kept)), domain)
    )
    subset = tuple(tree.members[i] for i in needed)
    return [conjunction(subset)] if len(subset) > 1 else find_contradictions(subset[0], domain)


def minimal_subset(count: int, contradicts: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return a minimal subset of 0 to count - 1 that contradicts itself, given that all together do."""
    subset: list[int] = []
    rest = range(count)
    while rest and not contradicts(subset):
        # The shortest prefix that contradicts the subset ends with an element that is necessary.
        last = bisect_left(rest, 1, key=lambda i: contradicts([*subset, *range(i + 1)]))
        subset, rest = [*subset, last], range(last)
    return sorted(subset)


def is_contradiction(predicate: BoundPredicate, domain: Domain) -> bool:
    """Return whether no branch of a condition has a solution, not even with missing cells."""
    return all(_is_empty(branch, domain) for branch in overlapping_branches(predicate))


def _is_empty(branch: Branch, domain: Domain) -> bool:
    """Return whether a branch leaves no value to a column, no labels that occur together, or no numbers."""
    by_column = parts_by_column(branch.parts)
    if any(_excludes_all(parts, name, domain) for name, parts in by_column.items()):
        return True
    pairs = domain.invariants.pairs
    used = {name for invariant in pairs for name in invariant.columns} & set(by_column)
    if len(used) > 1 and LabelDomains(pairs, lambda axis: label_domain(axis, by_column, domain)).is_empty:
        return True
    return _excludes_numbers(branch.parts, by_column, domain)


def label_domain(axis: LabelAxis, by_column: dict[str, list[BoundPredicate]], domain: Domain) -> LabelDomain:
    """Return which labels of a column satisfy the parts that use it alone."""
    predicate, null = all_of(by_column.get(axis.column, ())), domain.can_be_null(axis.column)
    if axis.values is None:
        observed = [*by_column.get(axis.column, ()), bound.IsMissing(axis.column, missing=False)]
        is_null = null and bool(evaluate(predicate, _cells(axis.column, [], null=True)).all())
        return LabelDomain(np.array([not _excludes_all(observed, axis.column, domain), is_null]))
    known = ~np.isnan(axis.values)
    satisfied = evaluate(predicate, _cells(axis.column, np.where(known, axis.values, 0), null=null))
    return LabelDomain(satisfied[: len(known)] | ~known, bool(satisfied[len(known) :].any()))


def _cells(name: str, values: Any, *, null: bool) -> dict[str, ColumnArray]:  # noqa: ANN401
    """Return values as cells of a column, and a missing cell after them."""
    filled = np.append(np.asarray(values, dtype=None if len(values) else np.int64), 0) if null else np.asarray(values)
    return {name: ColumnArray("other", filled, np.arange(len(filled)) >= len(values))}


def _excludes_numbers(
    parts: Sequence[BoundPredicate], by_column: dict[str, list[BoundPredicate]], domain: Domain
) -> bool:
    """Return whether comparisons of several numbers, or sums and products that hold in every row, leave no numbers."""
    comparisons = [each for part in parts for each in leaves(part, bound.AllOf) if isinstance(each, bound.Compare)]
    several = [each for each in comparisons if len(columns_of(each)) > 1 or _compared_numbers(each) is None]
    several = [each for each in several if not has_date_part(each)]
    observed = {name for each in comparisons if not _ignores_missing(each) for name in columns_of(each)}
    known = domain.invariants.implied_observed(observed)
    invariants = domain.invariants.select(
        lambda invariant: (
            bool(invariant.columns & observed)
            and all(name in known or not domain.can_be_null(name) for name in invariant.columns)
        )
    )
    kept: tuple[SumInvariant | ProductInvariant, ...] = (*invariants.sums, *invariants.products)
    if not several and not any(len(invariant.columns & set(by_column)) > 1 for invariant in kept):
        return False
    names = set().union(*map(columns_of, comparisons), *(invariant.columns for invariant in kept))
    limits = {name: _range(by_column.get(name, []), name, domain) for name in names}
    certain = {name: ends for name, ends in limits.items() if name in observed or not domain.can_be_null(name)}
    if not all(may_satisfy(each, certain, 1).all() for each in several):
        return True
    constraints = [one for each in comparisons if not has_date_part(each) for one in inequalities(each)]
    if any(excludes(each, constraints, limits) for each in invariants.products):
        return True
    return is_infeasible([*constraints, *(one for each in invariants.sums for one in of_sum(each))], limits)


def _ignores_missing(comparison: bound.Compare) -> bool:
    """Return whether a comparison may hold although a cell is missing."""
    operations = (term for term in terms(comparison) if isinstance(term, bound.Operation))
    return any(operation.operator in ("least", "greatest") for operation in operations)


def _range(parts: list[BoundPredicate], name: str, domain: Domain) -> Bounds:
    """Return the smallest and the largest value of a number that satisfies the parts which use it alone."""
    column = domain.schema[name]
    values, satisfied, is_bounded = _satisfying_values(parts, column, domain)
    found = values[satisfied]
    if not len(found):  # a contradiction, which is found for the column itself
        return -math.inf, math.inf
    low, high = float(found[0]), float(found[-1])
    return (
        low if is_bounded or not satisfied[0] else -math.inf,
        high if is_bounded or not satisfied[-1] else math.inf,
    )


def parts_by_column(parts: Iterable[BoundPredicate]) -> dict[str, list[BoundPredicate]]:
    """Return the parts that use one column only, by its name."""
    by_column: dict[str, list[BoundPredicate]] = {}
    for part in parts:
        names = columns_of(part)
        if len(names) == 1:
            by_column.setdefault(names.pop(), []).append(part)
    return by_column


def _excludes_all(parts: list[BoundPredicate], name: str, domain: Domain) -> bool:
    """Return whether no value of a column satisfies all parts; those that cannot be decided are ignored."""
    column = domain.schema[name]
    if _excludes_parts(parts, domain):
        return True
    if column.kind.discrete and name in domain.free:
        return False
    if _satisfying_values(parts, column, domain)[1].any():
        return False
    null = evaluate(all_of(_decidable(parts, column, domain)), _cells(name, [], null=True))
    return not (domain.can_be_null(name) and null.any())


def _excludes_parts(parts: list[BoundPredicate], domain: Domain) -> bool:
    """Return whether some calendar part of a column is left without a value."""
    terms = set().union(*map(date_parts_of, parts))
    if not terms:
        return False
    if any(
        excludes_all_values(parts, term, values)
        for term in terms
        for values in (possible_values(term.part), domain.known_values(term))
    ):
        return True
    alternatives = (part.parts for part in parts if isinstance(part, bound.AnyOf))
    if any(all(_excludes_parts([each], domain) for each in each_part) for each_part in alternatives):
        return True
    column = domain.schema[next(iter(columns_of(next(iter(terms)))))]
    known = domain.part_values.get(column.name, {})
    return domain.limits(column) is not None and excludes_all_days(parts, column, known)


def _decidable(parts: list[BoundPredicate], column: Column, domain: Domain) -> dict[BoundPredicate, set[int | float]]:
    """Return the parts that representative values decide, with the numbers that they compare a column with."""
    is_listed = column.kind.discrete or (column.values and domain.limits(column))
    compared = {part: set() if is_listed else _compared_numbers(part) for part in parts}
    return {part: numbers for part, numbers in compared.items() if numbers is not None}


def _satisfying_values(parts: list[BoundPredicate], column: Column, domain: Domain) -> tuple[NDArray[Any], Mask, bool]:
    """Return representative values of a column in ascending order, which satisfy its parts, and whether it is bounded.

    If it is not, values beyond the first and the last are like them.
    """
    decidable, limits = _decidable(parts, column, domain), domain.limits(column)
    numbers = set().union(*decidable.values())
    if column.values and limits:
        values = np.array(column.values)
    elif len(numbers) > MAX_NUMBERS:
        return np.zeros(1), np.ones(1, dtype=np.bool_), False
    else:
        values = _representative_values(column, numbers or {0}, limits, domain.step(column))
    return values, evaluate(all_of(decidable), _cells(column.name, values, null=False)), limits is not None


def _representative_values(
    column: Column, numbers: set[int | float], limits: tuple[Any, Any] | None, step: float
) -> NDArray[Any]:
    """Return values of a column that include one from each interval between the numbers, within the limits."""
    if column.kind.discrete:
        return np.arange(len(column.categories or ()))
    if column.kind.integral and step:
        near = {i for x in numbers for i in _multiples(x, int(step))}
        if limits is not None:
            near = {i for i in near if limits[0] <= i <= limits[1]} | set(map(int, limits))
        return np.array(sorted(near), dtype=np.int64 if max(map(abs, near)) < MAX_INTEGER else object)
    points = np.array(sorted(numbers), dtype=np.float64)
    around = np.concatenate([points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf)])
    if step and np.abs(points).max() / step < MAX_EXACT_INTEGER:
        decimals = round(-math.log10(step))
        steps = np.floor(points / step)[:, None] + np.arange(-2, 4)
        around = np.unique(np.round(steps * step, decimals))
    if limits is not None:
        around = np.append(around[(around >= limits[0]) & (around <= limits[1])], np.array(limits, dtype=np.float64))
    return np.unique(around)


def _multiples(number: float, step: int) -> set[int]:
    """Return the multiples of a step around a number: two below, two above, and itself if it is one."""
    low, high = math.floor(number) // step * step, -(-math.ceil(number) // step) * step
    return {low - step, low, high, high + step}


def _compared_numbers(predicate: BoundPredicate) -> set[int | float] | None:
    """Return the numbers with which a condition compares its column; None if it also compares other terms."""
    numbers: set[int | float] = set()
    for leaf in leaves(predicate):
        match leaf:
            case bound.Compare(_, bound.ColumnRef(), bound.NumberLiteral(value)) if (
                isinstance(value, int) or abs(value) < MAX_EXACT_INTEGER
            ):
                numbers.add(value)
            case bound.IsMissing():
                pass
            case _:
                return None
    return numbers
