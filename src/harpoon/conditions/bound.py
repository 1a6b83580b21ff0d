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

OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Cell:
    """The number in a row's cell."""

    column: str


@dataclass(frozen=True)
class Number:
    """A number."""

    value: int | float


@dataclass(frozen=True)
class Operation:
    """A number worked out from others.

    The operator is "+", "-", "*", "/" (two operands), "negative", "abs", "log" (to base 10), "ln", "exp" (one), "least"
    or "greatest" (one or more; missing ones are looked past).
    """

    operator: str
    operands: tuple[Term, ...]


Term = Cell | Number | Operation


@dataclass(frozen=True)
class Always:
    """True in every row, or false in every row."""

    truth: bool


@dataclass(frozen=True)
class Inequality:
    """Two numbers compared with =, !=, <, <=, > or >=.

    `step` is the grid of the difference of the two sides: where it is known, `left > right` is `left >= right + step`.
    """

    operator: str
    left: Term
    right: Term
    step: float | None = None


@dataclass(frozen=True)
class Member:
    """A category or boolean that has one of the labels at the positions `allowed`, out of `count`."""

    column: str
    allowed: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Alike:
    """Two categories that have the same label, or do not.

    `partners[i]` is the position on the right of the label that has position i on the left; -1: the right has it not.
    """

    left: str
    right: str
    partners: tuple[int, ...]
    same: bool = True


@dataclass(frozen=True)
class Missing:
    """A cell that is missing, or is not."""

    column: str
    missing: bool = True


@dataclass(frozen=True)
class All:
    """All of the parts."""

    parts: tuple[Bound, ...]


@dataclass(frozen=True)
class Either:
    """At least one of the parts."""

    parts: tuple[Bound, ...]


Bound = Always | Inequality | Member | Alike | Missing | All | Either


def all_of(parts: Iterable[Bound]) -> Bound:
    """The parts joined by "and": flat, and without what is always so."""
    return _joined(All, parts)


def either_of(parts: Iterable[Bound]) -> Bound:
    """The parts joined by "or": flat, and without what is never so."""
    return _joined(Either, parts)


def negated(bound: Bound) -> Bound:  # noqa: PLR0911
    """The opposite, with the "not" taken down to the leaves.

    >>> negated(All((Missing("age"), Member("job", (0, 2), count=3))))
    Either(parts=(Missing(column='age', missing=False), Member(column='job', allowed=(1,), count=3)))
    """
    match bound:
        case All(parts):
            return Either(tuple(map(negated, parts)))
        case Either(parts):
            return All(tuple(map(negated, parts)))
        case Always(truth):
            return Always(not truth)
        case Inequality(operator):
            return replace(bound, operator=OPPOSITE[operator])
        case Member(_, allowed, count):
            return replace(bound, allowed=tuple(sorted(set(range(count)) - set(allowed))))
        case Alike(same=same):
            return replace(bound, same=not same)
        case Missing(missing=missing):
            return replace(bound, missing=not missing)


def of_complete(bound: Bound) -> Bound:
    """The condition for rows without a missing cell, such as all that are drawn."""
    match bound:
        case All(parts):
            return all_of(map(of_complete, parts))
        case Either(parts):
            return either_of(map(of_complete, parts))
        case Missing(missing=missing):
            return Always(truth=not missing)
        case _:
            return bound


def columns_of(bound: Bound | Term) -> set[str]:
    """The columns that a condition, or a number in one, looks at."""
    match bound:
        case Cell(column) | Member(column) | Missing(column):
            return {column}
        case Alike(left, right):
            return {left, right}
        case Inequality(_, first, second):
            return columns_of(first) | columns_of(second)
        case All(parts) | Either(parts):
            return set().union(*map(columns_of, parts))
        case Operation(_, operands):
            return set().union(*map(columns_of, operands))
        case Always() | Number():
            return set()


def _joined(join: type[All | Either], parts: Iterable[Bound]) -> Bound:
    flat = list(_flat(join, parts))
    neutral = join is All
    if Always(not neutral) in flat:
        return Always(not neutral)
    flat = [part for part in flat if not isinstance(part, Always)]
    if not flat:
        return Always(neutral)
    return flat[0] if len(flat) == 1 else join(tuple(flat))


def _flat(join: type[All | Either], parts: Iterable[Bound]) -> Iterator[Bound]:
    for part in parts:
        yield from part.parts if isinstance(part, join) else (part,)
