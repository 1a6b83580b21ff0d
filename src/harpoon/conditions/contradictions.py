"""Contradictions: conditions that no row satisfies, because they leave no value to a column.

Each column is checked on its own in every branch: `x > 5 and x < 4` is found, `x > y and y > x` is not. The values of a
column are those that a sampled cell can have: its categories, or the range of its training cells.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._text import format_list
from harpoon.conditions import bound
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import BoundPredicate, DatePart, all_of, columns_of
from harpoon.conditions.branches import overlapping_branches
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import And, IsNull, Like, Or, Predicate
from harpoon.conditions.part_values import (
    PartValues,
    date_parts_of,
    describe_possible,
    describe_values,
    excludes_all_days,
    excludes_all_values,
    known_values,
    possible_values,
)
from harpoon.conditions.sql import text_literal
from harpoon.data import Column, ColumnArray, Schema
from harpoon.data.calendar import Ints
from harpoon.data.column import format_value

NO_PART_VALUES: Mapping[str, PartValues] = {}
MAX_NUMBERS = 1000  # a condition that compares a column with more numbers is not checked
MAX_INTEGER = 2**62  # larger ones are evaluated as Python integers
MAX_EXACT_FLOAT = 2.0**53  # beyond it, neighbouring integers are the same float


@dataclass(frozen=True)
class Domain:
    """The values that the cells of each column can have.

    Attributes:
        schema: The categories and ranges of the columns.
        nullable: The columns that can have missing cells; None: all.
        free: Columns that can have other values than the training table, such as those of observed cells.
        part_values: The values of calendar parts that sampled cells can have, by the name of the column.
    """

    schema: Schema
    nullable: Collection[str] | None = None
    free: Collection[str] = ()
    part_values: Mapping[str, PartValues] = field(default_factory=dict)

    def can_be_null(self, name: str) -> bool:
        """Return whether a cell of the column can be missing."""
        return self.nullable is None or name in self.nullable

    def limits(self, column: Column) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value of a numeric column, if it has a range and stays in it."""
        known = column.kind.numeric and column.clip and column.minimum is not None and column.maximum is not None
        return (column.minimum, column.maximum) if known and column.name not in self.free else None

    def known_values(self, term: DatePart) -> Ints | None:
        """Return the values that sampled cells can have in a calendar part, or None if that is not known."""
        column = self.schema[next(iter(columns_of(term)))]
        if column.name in self.free:
            return None
        return known_values(term, column, self.part_values.get(column.name, {}))

    def without_limits(self) -> Domain:
        """Return the domain in which numbers have no range."""
        return replace(self, free={column.name for column in self.schema if column.kind.numeric} | set(self.free))


def explain_contradiction(
    tree: Predicate,
    schema: Schema,
    *,
    nullable: Collection[str] | None = None,
    free: Collection[str] = (),
    part_values: Mapping[str, PartValues] = NO_PART_VALUES,
) -> str:
    """Return which parts of a condition exclude each other, in words; "" if some row may satisfy the condition.

    `nullable`, `free` and `part_values` are those of `Domain`.

    >>> from harpoon import Kind
    >>> from harpoon.conditions.parser import parse
    >>> schema = Schema((Column("x", Kind.INTEGER), Column("y", Kind.NUMBER, minimum=0.0, maximum=2.5)))
    >>> explain_contradiction(parse("x > 5 and y > 0 and x < 6"), schema)
    'x > 5 and x < 6 exclude each other'
    >>> explain_contradiction(parse("x > 5 and y > 3"), schema)
    'y > 3 is never true, because y is from 0 to 2.5 in the training table'
    """
    domain = Domain(schema, nullable, free, part_values)
    parts = _find_contradictions(tree, domain)
    return "; ".join(f"{part} {_is_what(part)}{_because(part, domain)}" for part in parts)


def _is_what(part: Predicate) -> str:
    return "exclude each other" if isinstance(part, And) else "is never true"


def _because(part: Predicate, domain: Domain) -> str:
    """Return why no row satisfies a part of a condition, where that is not plain from its text."""
    predicate = bind(part, domain.schema)
    names = sorted(columns_of(predicate))
    match part:
        case IsNull() if names:
            return f", because {_why_never_null(domain.schema[names[0]])}"
        case Like(_, pattern) if names:
            return f", because no value of {names[0]} {_describe_pattern(pattern)}{_values_of(domain.schema[names[0]])}"
    if why := _why_no_part(predicate, domain, is_plain=isinstance(part, And)):
        return f", because {why}"
    limited = [column for name in names if domain.limits(column := domain.schema[name])]
    if limited and not _is_contradiction(predicate, domain.without_limits()):
        return f", because {' and '.join(map(_describe_range, limited))} in the training table"
    discrete = [domain.schema[name] for name in names if domain.schema[name].kind.discrete]
    if len(discrete) == len(names) == 1 and not isinstance(part, And):
        return f", because {names[0]} has no other value{_values_of(discrete[0])}"
    return ""


def _why_no_part(predicate: BoundPredicate, domain: Domain, *, is_plain: bool) -> str:
    """Return which values a calendar part can have, if a condition on it alone has no solution.

    `is_plain`: it is plain from the text which values of any time exclude each other.
    """
    for term in sorted(date_parts_of(predicate), key=str):
        possible, known = possible_values(term.part), domain.known_values(term)
        if excludes_all_values([predicate], term, possible):
            return "" if is_plain or possible is None else describe_possible(term)
        if known is not None and excludes_all_values([predicate], term, known):
            return f"{describe_values(term, known)} in the training table"
    return ""


def _why_never_null(column: Column) -> str:
    if column.missing:
        return f"every cell of {column.name} is filled here"
    return f"{column.name} is never missing in the training table"


def _describe_pattern(pattern: str) -> str:
    """Return the pattern of `like` in words."""
    inner = pattern.strip("%")
    if not inner or "%" in inner or "_" in inner or inner == pattern:
        return f"is like {text_literal(pattern)}"
    words = {(False, True): "begins with", (True, False): "ends with"}
    return f"{words.get((pattern.startswith('%'), pattern.endswith('%')), 'contains')} {text_literal(inner)}"


def _values_of(column: Column) -> str:
    return f" (it has {format_list(column.categories or ())})"


def _describe_range(column: Column) -> str:
    if column.values:
        values = [format_value(column, value) for value in column.values]
        return f"{column.name} has only the values {', '.join(values)}"
    low, high = (format_value(column, end) for end in (column.minimum or 0, column.maximum or 0))
    return f"{column.name} is from {low} to {high}"


def _find_contradictions(tree: Predicate, domain: Domain) -> list[Predicate]:
    """Return a minimal part without solutions for each alternative of a condition; [] if some row may satisfy it."""
    schema = domain.schema
    if not _is_contradiction(bind(tree, schema), domain):
        return []
    if isinstance(tree, Or):
        return [part for member in tree.members for part in _find_contradictions(member, domain)] or [tree]
    if not isinstance(tree, And):
        return [tree]
    subset = tuple(tree.members[i] for i in _minimal_subset([bind(member, schema) for member in tree.members], domain))
    return [And(subset)] if len(subset) > 1 else _find_contradictions(subset[0], domain)


def _minimal_subset(predicates: Sequence[BoundPredicate], domain: Domain) -> list[int]:
    """Return the indices of a minimal subset of predicates that contradicts itself, given that all together do."""

    def contradicts(indices: Iterable[int]) -> bool:
        return _is_contradiction(all_of(predicates[i] for i in sorted(indices)), domain)

    subset: list[int] = []
    rest = range(len(predicates))
    while not contradicts(subset):
        # The shortest prefix that contradicts the subset ends with a predicate that is necessary.
        last = bisect_left(rest, 1, key=lambda i: contradicts([*subset, *range(i + 1)]))
        subset, rest = [*subset, last], range(last)
    return sorted(subset)


def _is_contradiction(predicate: BoundPredicate, domain: Domain) -> bool:
    """Return whether every branch of a condition leaves no value to a column, not even a missing one."""
    return all(
        any(_excludes_all(parts, name, domain) for name, parts in _by_column(branch.parts).items())
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


def _excludes_all(parts: list[BoundPredicate], name: str, domain: Domain) -> bool:
    """Return whether no value of a column satisfies all parts; those that cannot be decided are ignored."""
    column = domain.schema[name]
    if _excludes_parts(parts, domain):
        return True
    if column.kind.discrete and name in domain.free:
        return False
    if column.values and domain.limits(column):  # a number with few values
        cells = ColumnArray("other", np.array([*column.values, 0]), np.array([False] * len(column.values) + [True]))
        return not evaluate(all_of(parts), {name: cells if domain.can_be_null(name) else cells[:-1]}).any()
    compared = {part: set() if column.kind.discrete else _compared_numbers(part) for part in parts}
    decidable = {part: numbers for part, numbers in compared.items() if numbers is not None}
    numbers = set().union(*decidable.values())
    if len(numbers) > MAX_NUMBERS:
        return False
    values = _representative_values(column, numbers or {0}, domain.limits(column))
    missing = [False] * len(values) + [True] * domain.can_be_null(name)
    cells = ColumnArray("other", np.resize(np.append(values, 0), len(missing)), np.array(missing, dtype=np.bool_))
    return not evaluate(all_of(decidable), {name: cells}).any()


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


def _representative_values(column: Column, numbers: set[int | float], limits: tuple[Any, Any] | None) -> NDArray[Any]:
    """Return values of a column that include one from each interval between the numbers, within the limits."""
    if column.kind.discrete:
        return np.arange(len(column.categories or ()))
    if column.kind.integral:
        near = {i for x in numbers for i in (math.floor(x) - 1, math.floor(x), math.ceil(x), math.ceil(x) + 1)}
        if limits is not None:
            near = {i for i in near if limits[0] <= i <= limits[1]} | set(map(int, limits))
        return np.array(sorted(near), dtype=np.int64 if max(map(abs, near)) < MAX_INTEGER else object)
    points = np.array(sorted(numbers), dtype=np.float64)
    around = np.concatenate([points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf)])
    if limits is None:
        return around
    return np.append(around[(around >= limits[0]) & (around <= limits[1])], np.array(limits, dtype=np.float64))


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
