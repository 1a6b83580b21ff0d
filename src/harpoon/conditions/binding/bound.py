"""Bound predicates: conditions checked against a schema, in negation normal form.

`evaluate` and `ConditionPenalty` both read this form. It consists of `AllOf` and `AnyOf` over leaves, without "not". A
leaf and its negation are both false in a row where a cell they use is missing, or where a term is not finite (a
division by zero, the logarithm of a negative number). This reproduces SQL's three-valued logic: a row is selected only
if the condition is true, and "unknown" could become true only through a "not".

Numbers are in the units in which cells are stored: days for dates, ticks of the column's unit for datetimes and
durations. A category is its code, the index into the column's `categories`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any

NEGATED_OPERATOR = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class ColumnRef:
    """The value of a numeric column."""

    column: str


@dataclass(frozen=True)
class NumberLiteral:
    """A number."""

    value: int | float


@dataclass(frozen=True)
class Operation:
    """A function of other numeric terms.

    The operator is "+", "-", "*", "/" (two operands), "negative", "abs", "log" (base 10), "ln", "exp" (one operand),
    "least" or "greatest" (one or more operands; missing ones are ignored).
    """

    operator: str
    operands: tuple[NumericTerm, ...]


@dataclass(frozen=True)
class DatePart:
    """A calendar part of a time, such as its month (`harpoon.data.date_parts.PARTS`).

    Attributes:
        part: The name of the part.
        operand: The time, in ticks.
        tick: The unit of the time, in nanoseconds.
        zone: The time zone whose clocks and calendar count; "" is UTC.
        step: The resolution of the time, in ticks.
    """

    part: str
    operand: NumericTerm
    tick: int
    zone: str = ""
    step: int = 1


NumericTerm = ColumnRef | NumberLiteral | Operation | DatePart


@dataclass(frozen=True)
class Constant:
    """True in every row, or false in every row."""

    truth: bool


@dataclass(frozen=True)
class Compare:
    """Two numeric terms compared with =, !=, <, <=, > or >=.

    `step` is the resolution of the difference of the two sides, if it is known. Then `left > right` is the same as
    `left >= right + step`.
    """

    operator: str
    left: NumericTerm
    right: NumericTerm
    step: float | None = None


@dataclass(frozen=True)
class IsIn:
    """A categorical or boolean column with a code in `allowed`; the codes are 0 to `n_categories` - 1.

    `accepts` says of a category that the schema does not have whether it satisfies the condition.
    """

    column: str
    allowed: tuple[int, ...]
    n_categories: int
    accepts: Callable[[Any], bool] = field(default=lambda _category: False, compare=False, repr=False)


@dataclass(frozen=True)
class SameCategory:
    """Two categorical columns that have the same category, or (`same=False`) different ones.

    `partners[i]` is the code in the right column of the category with code i in the left column; -1 if it has none.
    """

    left: str
    right: str
    partners: tuple[int, ...]
    same: bool = True


@dataclass(frozen=True)
class IsMissing:
    """A cell that is missing, or (`missing=False`) is not."""

    column: str
    missing: bool = True


@dataclass(frozen=True)
class AllOf:
    """A conjunction."""

    parts: tuple[BoundPredicate, ...]


@dataclass(frozen=True)
class AnyOf:
    """A disjunction."""

    parts: tuple[BoundPredicate, ...]


BoundPredicate = Constant | Compare | IsIn | SameCategory | IsMissing | AllOf | AnyOf


def all_of(parts: Iterable[BoundPredicate]) -> BoundPredicate:
    """Join predicates by "and", flattened and without constants."""
    return _join(AllOf, parts)


def any_of(parts: Iterable[BoundPredicate]) -> BoundPredicate:
    """Join predicates by "or", flattened and without constants."""
    return _join(AnyOf, parts)


def negate(bound: BoundPredicate) -> BoundPredicate:  # noqa: PLR0911
    """Return the negation, with "not" pushed down to the leaves (De Morgan).

    >>> negate(AllOf((IsMissing("age"), IsIn("job", (0, 2), n_categories=3))))
    AnyOf(parts=(IsMissing(column='age', missing=False), IsIn(column='job', allowed=(1,), n_categories=3)))
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
        case IsIn(_, allowed, n_categories, accepts):
            others = tuple(sorted(set(range(n_categories)) - set(allowed)))
            return replace(bound, allowed=others, accepts=lambda category: not accepts(category))
        case SameCategory(same=same):
            return replace(bound, same=not same)
        case IsMissing(missing=missing):
            return replace(bound, missing=not missing)


def complement(bound: BoundPredicate, nullable: Collection[str] = ()) -> BoundPredicate:
    """Return the condition of the rows that do not satisfy this one.

    That is its negation, or a missing cell of a nullable column where that makes the condition unknown: then neither
    holds.

    >>> complement(IsIn("job", (0, 2), n_categories=3), {"job"})
    AnyOf(parts=(IsIn(column='job', allowed=(1,), n_categories=3), IsMissing(column='job', missing=True)))
    """
    match bound:
        case AllOf(parts):
            return any_of(complement(part, nullable) for part in parts)
        case AnyOf(parts):
            return all_of(complement(part, nullable) for part in parts)
        case Constant() | IsMissing():
            return negate(bound)
        case Compare(_, left, right):
            return any_of((negate(bound), _is_unknown(left, nullable), _is_unknown(right, nullable)))
        case IsIn() | SameCategory():
            missing = (IsMissing(name) for name in sorted(columns_of(bound) & set(nullable)))
            return any_of((negate(bound), *missing))


def assume_complete(bound: BoundPredicate, nullable: Collection[str] = ()) -> BoundPredicate:
    """Simplify a condition for rows in which only the nullable columns have missing cells."""

    def simplify(leaf: BoundPredicate) -> BoundPredicate:
        if isinstance(leaf, IsMissing) and leaf.column not in nullable:
            return Constant(truth=not leaf.missing)
        return leaf

    return map_leaves(bound, simplify)


def leaves(
    bound: BoundPredicate, joined_by: type[AllOf | AnyOf] | UnionType = AllOf | AnyOf
) -> Iterator[BoundPredicate]:
    """Yield the conditions that "and" and "or" join, or one of the two; any other condition is its own leaf."""
    if isinstance(bound, joined_by):
        for part in bound.parts:
            yield from leaves(part, joined_by)
    else:
        yield bound


def map_leaves(bound: BoundPredicate, change: Callable[[BoundPredicate], BoundPredicate]) -> BoundPredicate:
    """Return a condition with each of its leaves changed, flattened and without constants."""
    if isinstance(bound, AllOf | AnyOf):
        return _join(type(bound), (map_leaves(part, change) for part in bound.parts))
    return change(bound)


def terms(bound: BoundPredicate | NumericTerm) -> Iterator[NumericTerm]:
    """Yield every term of a condition or of a term, itself among them."""
    inner: tuple[BoundPredicate | NumericTerm, ...] = ()
    match bound:
        case AllOf(parts) | AnyOf(parts):
            inner = parts
        case Compare(_, left, right):
            inner = left, right
        case Operation(_, operands):
            inner = operands
        case DatePart(_, operand):
            inner = (operand,)
    if isinstance(bound, NumericTerm):
        yield bound
    for each in inner:
        yield from terms(each)


def columns_of(bound: BoundPredicate | NumericTerm) -> set[str]:
    """Return the names of the columns that a condition, or a term of one, uses."""
    names = {term.column for term in terms(bound) if isinstance(term, ColumnRef)}
    if isinstance(bound, NumericTerm):
        return names
    for leaf in leaves(bound):
        match leaf:
            case IsIn(column) | IsMissing(column):
                names.add(column)
            case SameCategory(left, right):
                names |= {left, right}
    return names


def has_date_part(bound: BoundPredicate | NumericTerm) -> bool:
    """Return whether a condition, or a term of one, uses a calendar part."""
    return any(isinstance(term, DatePart) for term in terms(bound))


def name_date_parts(bound: BoundPredicate, names: Mapping[tuple[str, str], str]) -> BoundPredicate:
    """Return a condition in which calendar parts of columns are columns of their own, by column and part.

    >>> month = DatePart("month", ColumnRef("t"), tick=1)
    >>> name_date_parts(Compare("=", month, NumberLiteral(2)), {("t", "month"): "month(t)"}).left
    ColumnRef(column='month(t)')
    """

    def name(leaf: BoundPredicate) -> BoundPredicate:
        if not isinstance(leaf, Compare):
            return leaf
        return replace(leaf, left=_name_date_parts(leaf.left, names), right=_name_date_parts(leaf.right, names))

    return map_leaves(bound, name)


def _name_date_parts(term: NumericTerm, names: Mapping[tuple[str, str], str]) -> NumericTerm:
    match term:
        case DatePart(part, ColumnRef(column)) if (column, part) in names:
            return ColumnRef(names[column, part])
        case Operation(_, operands):
            return replace(term, operands=tuple(_name_date_parts(operand, names) for operand in operands))
    return term


def _is_unknown(term: NumericTerm, nullable: Collection[str]) -> BoundPredicate:
    """Return the condition of the rows in which missing cells leave a term without a value."""
    match term:
        case ColumnRef(column):
            return IsMissing(column) if column in nullable else Constant(truth=False)
        case NumberLiteral():
            return Constant(truth=False)
        case Operation(operator, operands):
            unknown = [_is_unknown(operand, nullable) for operand in operands]
            return all_of(unknown) if operator in ("least", "greatest") else any_of(unknown)
        case DatePart(_, operand):
            return _is_unknown(operand, nullable)


def _join(junction: type[AllOf | AnyOf], parts: Iterable[BoundPredicate]) -> BoundPredicate:
    flat = [leaf for part in parts for leaf in leaves(part, junction)]
    neutral = junction is AllOf  # "and true" and "or false" change nothing
    if Constant(not neutral) in flat:
        return Constant(not neutral)
    flat = [part for part in flat if not isinstance(part, Constant)]
    if not flat:
        return Constant(neutral)
    return flat[0] if len(flat) == 1 else junction(tuple(flat))
