"""Holding a condition against a table: names, kinds and labels are checked, and "not" is worked away.

    >>> from harpoon.kinds import Column, Kind
    >>> from harpoon.parsing import parse
    >>> schema = Schema((Column("age", Kind.INTEGER), Column("job", Kind.CATEGORY, categories=("chef", "nurse", "pilot"))))
    >>> bind(parse("not (age < 50 or job = 'nurse')"), schema).parts[1]
    Member(column='job', allowed=(0, 2), count=3)
    >>> bind(parse("job = 'nurs'"), schema)
    Traceback (most recent call last):
    harpoon.exceptions.InvalidCondition: In `job = 'nurs'`: column 'job' has no value 'nurs'. Did you mean 'nurse'?

The result is a tree of `harpoon.conditions.bound`, whose docstring says how missing cells are treated.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from harpoon._text import closest_matches, format_list, shorten
from harpoon.conditions.bound import (
    BoundPredicate,
    Compare,
    Constant,
    IsIn,
    IsMissing,
    NumberLiteral,
    SameCategory,
    all_of,
    any_of,
    negate,
)
from harpoon.conditions.expressions import (
    SWAPPED_OPERATOR,
    And,
    Between,
    ColumnName,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    Term,
)
from harpoon.conditions.term_types import (
    POINTS_IN_TIME,
    align_units,
    common_resolution,
    describe_term,
    find_column,
    incomparable_error,
    parse_time,
    replace_constant,
    type_term,
)
from harpoon.data.column import MAX_STEP, Column, Kind
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidCondition

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIN_STEP = 1e-18


def bind(predicate: Predicate, schema: Schema) -> BoundPredicate:
    """A condition as the readings of it need it, or an error that names the spot."""
    match predicate:
        case And(members):
            return all_of(bind(member, schema) for member in members)
        case Or(members):
            return any_of(bind(member, schema) for member in members)
        case Not(operand):
            return negate(bind(operand, schema))
    try:
        return _leaf(predicate, schema)
    except InvalidCondition as error:
        raise InvalidCondition(f"In `{shorten(str(predicate))}`: {error}") from None


def _leaf(predicate: Predicate, schema: Schema) -> BoundPredicate:
    match predicate:
        case Comparison(op, left, right):
            return _comparison(op, replace_constant(left, schema), replace_constant(right, schema), schema)
        case Between(operand, low, high):
            parts = (Comparison(">=", operand, low), Comparison("<=", operand, high))
            return all_of(_leaf(part, schema) for part in parts)
        case In(operand, options):
            return _in(replace_constant(operand, schema), options, schema)
        case Like(operand, pattern, any_case):
            return _like(replace_constant(operand, schema), _matcher(pattern, any_case=any_case), schema)
        case IsNull(operand):
            return _is_null(replace_constant(operand, schema))
    raise InvalidCondition(f"{predicate!r} is no condition.")


def _comparison(op: str, left: Term, right: Term, schema: Schema) -> BoundPredicate:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _plain_comparison(op, left, right, schema)
    if isinstance(left, Literal):  # a constant column, which by now is its value
        left, op, right = right, SWAPPED_OPERATOR[op], left
    column, other = _discrete(left, schema), _discrete(right, schema)
    if column and other:
        return _alike(op, column, other)
    if column and isinstance(right, Literal):
        return _member(column, _positions(op, column, right))
    labelled = column or other
    if labelled is None:
        return _inequality(op, left, right, schema)
    raise InvalidCondition(
        f"{describe_term(left, schema)} cannot be compared with {describe_term(right, schema)}. "
        f"Compare {labelled.name!r} with one of its values: {format_list(labelled.categories or ())}."
    )


def _plain_comparison(op: str, left: Literal, right: Literal, schema: Schema) -> BoundPredicate:
    """Texts and truth values have no size in a table, but can be told apart."""
    texts = all(isinstance(side.value, str) for side in (left, right))
    truths = all(isinstance(side.value, bool) for side in (left, right))
    return (
        Constant(COMPARISONS[op](left.value, right.value)) if texts or truths else _inequality(op, left, right, schema)
    )


def _inequality(op: str, left: Term, right: Term, schema: Schema) -> BoundPredicate:
    if isinstance(right, Literal) and isinstance(right.value, str | bool):
        if isinstance(right.value, bool) or type_term(left, schema).type not in POINTS_IN_TIME:
            raise incomparable_error(left, right, schema)
        right = parse_time(right.value)
    first, second = align_units((left, right), schema)
    if isinstance(first.term, NumberLiteral) and isinstance(second.term, NumberLiteral):
        return Constant(COMPARISONS[op](first.term.value, second.term.value))
    return Compare(op, first.term, second.term, _step(common_resolution(first.resolution, second.resolution)))


def _step(grid: Fraction | None) -> float | None:
    """A grid as a float, if it is one that a float can tell."""
    return float(grid) if grid is not None and MIN_STEP <= grid <= MAX_STEP else None


def _in(operand: Term, options: tuple[Literal, ...], schema: Schema) -> BoundPredicate:
    column = _discrete(operand, schema)
    if column is None:
        return any_of(_comparison("=", operand, option, schema) for option in options)
    return _member(column, {place for option in options for place in _positions("=", column, option)})


def _is_null(operand: Term) -> BoundPredicate:
    match operand:
        case ColumnName(name):
            return IsMissing(name)
        case Literal():
            return Constant(truth=False)
    raise InvalidCondition(f"only a cell can be missing; ask for its columns instead of {operand}.")


def _discrete(value: Term, schema: Schema) -> Column | None:
    """The category or boolean column that a value is, if it is one."""
    column = find_column(value.name, schema) if isinstance(value, ColumnName) else None
    return column if column is not None and column.kind.discrete else None


def _member(column: Column, places: set[int]) -> IsIn:
    return IsIn(column.name, tuple(sorted(places)), len(column.categories or ()))


def _alike(op: str, left: Column, right: Column) -> BoundPredicate:
    if op not in ("=", "!="):
        raise InvalidCondition(f"columns {left.name!r} and {right.name!r} hold labels; compare them with = or != only.")
    if _has_text(left) != _has_text(right):
        raise InvalidCondition(
            f"columns {left.name!r} and {right.name!r} share no label: one holds texts, one numbers."
        )
    places = {label: place for place, label in enumerate(right.categories or ())}
    return SameCategory(
        left.name, right.name, tuple(places.get(label, -1) for label in left.categories or ()), op == "="
    )


def _positions(op: str, column: Column, literal: Literal) -> set[int]:
    """The positions of the labels that compare so with a literal."""
    labels = column.categories or ()
    numbers = column.kind is Kind.CATEGORY and not _has_text(column)
    if op in ("=", "!=") or (column.ordered and not numbers):
        place = _place(column, literal)
        return {other for other in range(len(labels)) if COMPARISONS[op](other, place)}
    size = _number(literal.value)
    if numbers and size is not None:
        return {place for place, label in enumerate(labels) if COMPARISONS[op](label, size)}
    if numbers:
        raise InvalidCondition(f"column {column.name!r} holds numbers and cannot be compared with {literal}.")
    advice = ", or give its labels an order: schema.replace(..., ordered=True)" if column.kind is Kind.CATEGORY else ""
    raise InvalidCondition(
        f"column {column.name!r} ({column.kind.value}) has no order, so {op} says nothing. Use = or in (...){advice}."
    )


def _place(column: Column, literal: Literal) -> int:
    """The position of the label that a literal means."""
    labels = list(column.categories or ())
    found = next((label for label in _meanings(column, literal.value) if label in labels), None)
    if found is not None:
        return labels.index(found)
    near = _nearest(literal.value, labels)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"It has {format_list(labels)}."
    raise InvalidCondition(f"column {column.name!r} has no value {literal}. {hint}")


def _meanings(column: Column, plain: Any) -> list[Any]:  # noqa: ANN401
    """The labels that a value may stand for: 3 for "3" or "3.0", "3" for 3, true for "True" or "true"."""
    number = _number(plain)
    if column.kind is Kind.BOOLEAN:
        return [{"true": True, "false": False}.get(str(plain).casefold(), plain)]
    if not _has_text(column):
        return [] if number is None or isinstance(plain, bool) else [number]
    if isinstance(plain, str):
        return [plain]
    whole = number is not None and number == int(number)
    return [str(plain), str(plain).lower(), *([str(int(plain)), str(float(plain))] if whole else [])]


def _nearest(plain: object, labels: list[Any]) -> list[Any]:
    """The labels a user may have meant."""
    number = _number(plain)
    if number is None or any(isinstance(label, str | bool) for label in labels):
        return closest_matches(str(plain), map(str, labels))
    return sorted(labels, key=lambda label: abs(label - number))[:3]


def _number(plain: object) -> int | float | None:
    """A number, also if it is given as text."""
    if isinstance(plain, int | float):
        return plain
    try:
        return float(plain) if isinstance(plain, str) else None
    except ValueError:
        return None


def _has_text(column: Column) -> bool:
    return any(isinstance(label, str) for label in column.categories or ())


def _like(operand: Term, matches: Callable[[str], bool], schema: Schema) -> BoundPredicate:
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        return Constant(matches(operand.value))
    column = _discrete(operand, schema)
    if column is None or not _has_text(column):
        raise InvalidCondition(f"{describe_term(operand, schema)} is no text; `like` is for categories with texts.")
    return _member(column, {place for place, label in enumerate(column.categories or ()) if matches(label)})


def _matcher(pattern: str, *, any_case: bool) -> Callable[[str], bool]:
    """Whether a text looks like a pattern, in which % is any text and _ is any letter."""
    folded = pattern.lower() if any_case else pattern
    first, *rest = (re.escape(piece).replace("_", ".") for piece in folded.split("%"))
    # A piece between two % is fine where it is found first, so the search never comes back to it.
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    expression = re.compile(first + middle + ".*" * bool(rest) + "".join(rest[-1:]), re.DOTALL)
    return lambda text: expression.fullmatch(text.lower() if any_case else text) is not None
