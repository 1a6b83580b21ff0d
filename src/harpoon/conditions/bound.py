"""Conditions that have been held against a table: the form that the exact reading and the penalty share.

A bound condition is in negation normal form: `All` and `Either` of leaves, and no "not". A leaf and its negation are
both false where a cell they look at is missing, or a value they work out is not finite (a division by zero, the
logarithm of a negative number). That is all there is to SQL's third truth value: a row is picked when the condition is
true, and "unknown" can only become true again through a "not", of which there is none.

Numbers are in the units the cells are stored in: days for dates, ticks of the column's unit for datetimes and
durations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

NEGATED_OPERATOR = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class ColumnRef:
    """The number in a row's cell."""

    column: str


@dataclass(frozen=True)
class NumberLiteral:
    """A number."""

    value: int | float


@dataclass(frozen=True)
class Operation:
    """A number worked out from others.

    The operator is "+", "-", "*", "/" (two operands), "negative", "abs", "log" (to base 10), "ln", "exp" (one), "least"
    or "greatest" (one or more; missing ones are looked past).
    """

    operator: str
    operands: tuple[NumericTerm, ...]


NumericTerm = ColumnRef | NumberLiteral | Operation


@dataclass(frozen=True)
class Constant:
    """True in every row, or false in every row."""

    truth: bool


@dataclass(frozen=True)
class Compare:
    """Two numbers compared with =, !=, <, <=, > or >=.

    `step` is the grid of the difference of the two sides: where it is known, `left > right` is `left >= right + step`.
    """

    operator: str
    left: NumericTerm
    right: NumericTerm
    step: float | None = None


@dataclass(frozen=True)
class IsIn:
    """A category or boolean that has one of the labels at the positions `allowed`, out of `count`."""

    column: str
    allowed: tuple[int, ...]
    n_categories: int


@dataclass(frozen=True)
class SameCategory:
    """Two categories that have the same label, or do not.

    `partners[i]` is the position on the right of the label that has position i on the left; -1: the right has it not.
    """

    left: str
    right: str
    partners: tuple[int, ...]
    same: bool = True


@dataclass(frozen=True)
class IsMissing:
    """A cell that is missing, or is not."""

    column: str
    missing: bool = True


@dataclass(frozen=True)
class AllOf:
    """All of the parts."""

    parts: tuple[BoundPredicate, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one of the parts."""

    parts: tuple[BoundPredicate, ...]


BoundPredicate = Constant | Compare | IsIn | SameCategory | IsMissing | AllOf | AnyOf


def all_of(parts: Iterable[BoundPredicate]) -> BoundPredicate:
    """The parts joined by "and": flat, and without what is always so."""
    return _join(AllOf, parts)


def any_of(parts: Iterable[BoundPredicate]) -> BoundPredicate:
    """The parts joined by "or": flat, and without what is never so."""
    return _join(AnyOf, parts)


def negate(bound: BoundPredicate) -> BoundPredicate:  # noqa: PLR0911
    """The opposite, with the "not" taken down to the leaves.

    >>> negated(All((Missing("age"), Member("job", (0, 2), count=3))))
    Either(parts=(Missing(column='age', missing=False), Member(column='job', allowed=(1,), count=3)))
    """
    match bound:
        case AllOf(parts):
            return AnyOf(tuple(map(negate, parts)))
        case AnyOf(parts):
            return AllOf(tuple(map(negate, parts)))
        case Constant(truth):
            return Constant(not truth)
        case Compare(operator):
            return replace(bound, operator=NEGATED_OPERATOR[operator])
        case IsIn(_, allowed, count):
            return replace(bound, allowed=tuple(sorted(set(range(count)) - set(allowed))))
        case SameCategory(same=same):
            return replace(bound, same=not same)
        case IsMissing(missing=missing):
            return replace(bound, missing=not missing)


def assume_complete(bound: BoundPredicate) -> BoundPredicate:
    """The condition for rows without a missing cell, such as all that are drawn."""
    match bound:
        case AllOf(parts):
            return all_of(map(assume_complete, parts))
        case AnyOf(parts):
            return any_of(map(assume_complete, parts))
        case IsMissing(missing=missing):
            return Constant(truth=not missing)
        case _:
            return bound


def columns_of(bound: BoundPredicate | NumericTerm) -> set[str]:
    """The columns that a condition, or a number in one, looks at."""
    match bound:
        case ColumnRef(column) | IsIn(column) | IsMissing(column):
            return {column}
        case SameCategory(left, right):
            return {left, right}
        case Compare(_, first, second):
            return columns_of(first) | columns_of(second)
        case AllOf(parts) | AnyOf(parts):
            return set().union(*map(columns_of, parts))
        case Operation(_, operands):
            return set().union(*map(columns_of, operands))
        case Constant() | NumberLiteral():
            return set()


def _join(join: type[AllOf | AnyOf], parts: Iterable[BoundPredicate]) -> BoundPredicate:
    flat = list(_flatten(join, parts))
    neutral = join is AllOf
    if Constant(not neutral) in flat:
        return Constant(not neutral)
    flat = [part for part in flat if not isinstance(part, Constant)]
    if not flat:
        return Constant(neutral)
    return flat[0] if len(flat) == 1 else join(tuple(flat))


def _flatten(join: type[AllOf | AnyOf], parts: Iterable[BoundPredicate]) -> Iterator[BoundPredicate]:
    for part in parts:
        yield from part.parts if isinstance(part, join) else (part,)
