"""Functions that begin an expression: columns, constants, and functions of several terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harpoon.conditions.language.expressions import (
    Call,
    Case,
    ColumnName,
    Comparison,
    Literal,
    Predicate,
    Term,
    as_predicate,
    as_term,
    conjunction,
    disjunction,
)
from harpoon.exceptions import InvalidCondition


def col(name: str) -> ColumnName:
    """Refer to a column by name, to build a condition.

    >>> print((col("price") / col("carat") <= 4000) & ~col("cut").like("Very%"))
    price / carat <= 4000 and cut not like 'Very%'
    """
    return ColumnName(name)


def lit(value: object) -> Literal:
    """Make an expression of a constant. Only needed in an expression without columns: `lit(2) * 3`."""
    return Literal.of(value)


def least(*values: object) -> Call:
    """Return the smallest of several values, ignoring missing ones.

    >>> least(col("a"), col("b"), 10) > 3
    least(col("a"), col("b"), 10) > 3
    """
    return Call("least", tuple(map(as_term, values)))


def greatest(*values: object) -> Call:
    """Return the largest of several values, ignoring missing ones."""
    return Call("greatest", tuple(map(as_term, values)))


def case(*branches: tuple[object, object], otherwise: object = None) -> Case:
    """Return the value of the first of some pairs (condition, value) whose condition is true.

    >>> print(case((col("job") == "chef", 40), (col("age") < 18, 20), otherwise=35) >= col("hours"))
    case when job = 'chef' then 40 when age < 18 then 20 else 35 end >= hours
    """
    conditions = tuple(as_predicate(condition) for condition, _ in branches)
    results = tuple(None if value is None else as_term(value) for _, value in branches)
    return Case(conditions, results, None if otherwise is None else as_term(otherwise))


@dataclass(frozen=True)
class ColumnTuple:
    """Several columns, to compare with rows of values."""

    terms: tuple[Term, ...]

    def is_in(self, options: Iterable[Iterable[object]]) -> Predicate:
        """Test for one of a list of tuples of values."""
        rows = [tuple(map(Literal.of, option)) for option in options]
        if not rows or any(len(row) != len(self.terms) for row in rows):
            raise InvalidCondition(f"is_in takes a list of one or more tuples of {len(self.terms)} values.")
        tests = [tuple(Comparison("=", t, value) for t, value in zip(self.terms, row, strict=True)) for row in rows]
        return disjunction(map(conjunction, tests))


def cols(*names: str) -> ColumnTuple:
    """Refer to several columns by name, to test for one of a list of tuples.

    >>> print(cols("city", "zip").is_in([("Basel", 4051), ("Bern", 3011)]))
    (city = 'Basel' and zip = 4051) or (city = 'Bern' and zip = 3011)
    """
    return ColumnTuple(tuple(map(col, names)))
