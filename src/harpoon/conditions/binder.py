"""Holding a condition against a table: names, kinds and labels are checked, and "not" is worked away.

    >>> from harpoon.kinds import Column, Kind
    >>> from harpoon.parsing import parse
    >>> schema = Schema((Column("age", Kind.INTEGER), Column("job", Kind.CATEGORY, labels=("chef", "nurse", "pilot"))))
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

from harpoon._text import closest, listed, shortened
from harpoon.conditions.bound import (
    Alike,
    Always,
    Bound,
    Inequality,
    Member,
    Missing,
    Number,
    all_of,
    either_of,
    negated,
)
from harpoon.conditions.expressions import (
    FLIPPED,
    And,
    Between,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Not,
    Or,
    Predicate,
    Value,
)
from harpoon.conditions.term_types import (
    MOMENTS,
    aligned,
    common_grid,
    described,
    find,
    incomparable,
    known,
    moment,
    quantity,
)
from harpoon.data.column import LARGEST_STEP, Column, Kind
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidCondition

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SMALLEST_STEP = 1e-18


def bind(predicate: Predicate, schema: Schema) -> Bound:
    """A condition as the readings of it need it, or an error that names the spot."""
    match predicate:
        case And(members):
            return all_of(bind(member, schema) for member in members)
        case Or(members):
            return either_of(bind(member, schema) for member in members)
        case Not(operand):
            return negated(bind(operand, schema))
    try:
        return _leaf(predicate, schema)
    except InvalidCondition as error:
        raise InvalidCondition(f"In `{shortened(str(predicate))}`: {error}") from None


def _leaf(predicate: Predicate, schema: Schema) -> Bound:
    match predicate:
        case Comparison(op, left, right):
            return _comparison(op, known(left, schema), known(right, schema), schema)
        case Between(operand, low, high):
            parts = (Comparison(">=", operand, low), Comparison("<=", operand, high))
            return all_of(_leaf(part, schema) for part in parts)
        case In(operand, options):
            return _in(known(operand, schema), options, schema)
        case Like(operand, pattern, any_case):
            return _like(known(operand, schema), _matcher(pattern, any_case=any_case), schema)
        case IsNull(operand):
            return _is_null(known(operand, schema))
    raise InvalidCondition(f"{predicate!r} is no condition.")


def _comparison(op: str, left: Value, right: Value, schema: Schema) -> Bound:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _plain_comparison(op, left, right, schema)
    if isinstance(left, Literal):  # a constant column, which by now is its value
        left, op, right = right, FLIPPED[op], left
    column, other = _discrete(left, schema), _discrete(right, schema)
    if column and other:
        return _alike(op, column, other)
    if column and isinstance(right, Literal):
        return _member(column, _positions(op, column, right))
    labelled = column or other
    if labelled is None:
        return _inequality(op, left, right, schema)
    raise InvalidCondition(
        f"{described(left, schema)} cannot be compared with {described(right, schema)}. "
        f"Compare {labelled.name!r} with one of its values: {listed(labelled.labels or ())}."
    )


def _plain_comparison(op: str, left: Literal, right: Literal, schema: Schema) -> Bound:
    """Texts and truth values have no size in a table, but can be told apart."""
    texts = all(isinstance(side.value, str) for side in (left, right))
    truths = all(isinstance(side.value, bool) for side in (left, right))
    return Always(COMPARE[op](left.value, right.value)) if texts or truths else _inequality(op, left, right, schema)


def _inequality(op: str, left: Value, right: Value, schema: Schema) -> Bound:
    if isinstance(right, Literal) and isinstance(right.value, str | bool):
        if isinstance(right.value, bool) or quantity(left, schema).measure not in MOMENTS:
            raise incomparable(left, right, schema)
        right = moment(right.value)
    first, second = aligned((left, right), schema)
    if isinstance(first.term, Number) and isinstance(second.term, Number):
        return Always(COMPARE[op](first.term.value, second.term.value))
    return Inequality(op, first.term, second.term, _step(common_grid(first.grid, second.grid)))


def _step(grid: Fraction | None) -> float | None:
    """A grid as a float, if it is one that a float can tell."""
    return float(grid) if grid is not None and SMALLEST_STEP <= grid <= LARGEST_STEP else None


def _in(operand: Value, options: tuple[Literal, ...], schema: Schema) -> Bound:
    column = _discrete(operand, schema)
    if column is None:
        return either_of(_comparison("=", operand, option, schema) for option in options)
    return _member(column, {place for option in options for place in _positions("=", column, option)})


def _is_null(operand: Value) -> Bound:
    match operand:
        case Name(name):
            return Missing(name)
        case Literal():
            return Always(truth=False)
    raise InvalidCondition(f"only a cell can be missing; ask for its columns instead of {operand}.")


def _discrete(value: Value, schema: Schema) -> Column | None:
    """The category or boolean column that a value is, if it is one."""
    column = find(value.name, schema) if isinstance(value, Name) else None
    return column if column is not None and column.kind.discrete else None


def _member(column: Column, places: set[int]) -> Member:
    return Member(column.name, tuple(sorted(places)), len(column.labels or ()))


def _alike(op: str, left: Column, right: Column) -> Bound:
    if op not in ("=", "!="):
        raise InvalidCondition(f"columns {left.name!r} and {right.name!r} hold labels; compare them with = or != only.")
    if _has_text(left) != _has_text(right):
        raise InvalidCondition(
            f"columns {left.name!r} and {right.name!r} share no label: one holds texts, one numbers."
        )
    places = {label: place for place, label in enumerate(right.labels or ())}
    return Alike(left.name, right.name, tuple(places.get(label, -1) for label in left.labels or ()), op == "=")


def _positions(op: str, column: Column, literal: Literal) -> set[int]:
    """The positions of the labels that compare so with a literal."""
    labels = column.labels or ()
    numbers = column.kind is Kind.CATEGORY and not _has_text(column)
    if op in ("=", "!=") or (column.ordered and not numbers):
        place = _place(column, literal)
        return {other for other in range(len(labels)) if COMPARE[op](other, place)}
    size = _number(literal.value)
    if numbers and size is not None:
        return {place for place, label in enumerate(labels) if COMPARE[op](label, size)}
    if numbers:
        raise InvalidCondition(f"column {column.name!r} holds numbers and cannot be compared with {literal}.")
    advice = ", or give its labels an order: schema.replace(..., ordered=True)" if column.kind is Kind.CATEGORY else ""
    raise InvalidCondition(
        f"column {column.name!r} ({column.kind.value}) has no order, so {op} says nothing. Use = or in (...){advice}."
    )


def _place(column: Column, literal: Literal) -> int:
    """The position of the label that a literal means."""
    labels = list(column.labels or ())
    found = next((label for label in _meanings(column, literal.value) if label in labels), None)
    if found is not None:
        return labels.index(found)
    near = _nearest(literal.value, labels)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"It has {listed(labels)}."
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
        return closest(str(plain), map(str, labels))
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
    return any(isinstance(label, str) for label in column.labels or ())


def _like(operand: Value, matches: Callable[[str], bool], schema: Schema) -> Bound:
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        return Always(matches(operand.value))
    column = _discrete(operand, schema)
    if column is None or not _has_text(column):
        raise InvalidCondition(f"{described(operand, schema)} is no text; `like` is for categories with texts.")
    return _member(column, {place for place, label in enumerate(column.labels or ()) if matches(label)})


def _matcher(pattern: str, *, any_case: bool) -> Callable[[str], bool]:
    """Whether a text looks like a pattern, in which % is any text and _ is any letter."""
    folded = pattern.lower() if any_case else pattern
    first, *rest = (re.escape(piece).replace("_", ".") for piece in folded.split("%"))
    # A piece between two % is fine where it is found first, so the search never comes back to it.
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    expression = re.compile(first + middle + ".*" * bool(rest) + "".join(rest[-1:]), re.DOTALL)
    return lambda text: expression.fullmatch(text.lower() if any_case else text) is not None
