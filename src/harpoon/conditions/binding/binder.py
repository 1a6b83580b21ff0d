"""Binder: an expression tree and a schema to a bound predicate.

The binder checks names, kinds and categories, converts literals to the units of the columns, and pushes "not" down to
the leaves. `harpoon.conditions.binding.bound` describes the result and the treatment of missing cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harpoon._formatting import closest_matches, format_list, shorten
from harpoon.conditions.binding import case_when
from harpoon.conditions.binding.bound import (
    BoundPredicate,
    Constant,
    IsIn,
    IsMissing,
    SameCategory,
    all_of,
    any_of,
    negate,
)
from harpoon.conditions.binding.term_types import compare_terms, describe_term, find_column, replace_constant
from harpoon.conditions.language import expressions as ex
from harpoon.conditions.language.expressions import COMPARISONS, ColumnName, Literal, Predicate, Term
from harpoon.data import Column, Kind, Schema
from harpoon.exceptions import InvalidCondition

CategoryTest = Callable[[Any], bool]


def bind(predicate: Predicate, schema: Schema) -> BoundPredicate:
    """Bind a condition to a schema; raise `InvalidCondition` that quotes the part at fault.

    >>> from harpoon.conditions.language.parser import parse
    >>> job = Column("job", Kind.CATEGORY, categories=("chef", "nurse", "pilot"))
    >>> schema = Schema((Column("age", Kind.INTEGER), job))
    >>> bind(parse("not (age < 50 or job = 'nurse')"), schema).parts[1]
    IsIn(column='job', allowed=(0, 2), n_categories=3)
    >>> bind(parse("job = 'nurs'"), schema)
    Traceback (most recent call last):
    harpoon.exceptions.InvalidCondition: In `job = 'nurs'`: column 'job' has no value 'nurs'. Did you mean 'nurse'?
    """
    match predicate:
        case ex.And(members):
            return all_of(bind(member, schema) for member in members)
        case ex.Or(members):
            return any_of(bind(member, schema) for member in members)
        case ex.Not(operand):
            return negate(bind(operand, schema))
    try:
        return (
            _bind_leaf(predicate, schema)
            if (case := case_when.find_case(predicate)) is None
            else _bind_case(predicate, case, schema)
        )
    except InvalidCondition as error:
        raise InvalidCondition(f"In `{shorten(str(predicate))}`: {error}") from None


def _bind_leaf(predicate: Predicate, schema: Schema) -> BoundPredicate:
    match predicate:
        case ex.Comparison(op, left, right):
            return _bind_comparison(op, replace_constant(left, schema), replace_constant(right, schema), schema)
        case ex.Between(operand, low, high):
            parts = (ex.Comparison(">=", operand, low), ex.Comparison("<=", operand, high))
            return all_of(_bind_leaf(part, schema) for part in parts)
        case ex.In(operand, options):
            return _bind_in(replace_constant(operand, schema), options, schema)
        case ex.Like(operand, pattern, ignore_case):
            matches = _like_matcher(pattern, ignore_case=ignore_case)
            return _bind_like(replace_constant(operand, schema), matches, schema)
        case ex.IsNull(operand):
            return _bind_is_null(replace_constant(operand, schema))
    raise InvalidCondition(f"{predicate!r} is not a condition.")


def _bind_case(predicate: Predicate, case: ex.Case, schema: Schema) -> BoundPredicate:
    """Bind a comparison with a `case when`: the comparison with the result of the branch that is chosen."""
    if case_when.count_branches(predicate) > case_when.MAX_BRANCHES:
        raise InvalidCondition(f"its `case when` have more than {case_when.MAX_BRANCHES} branches. Split it.")
    conditions = [bind(condition, schema) for condition in case.conditions]
    return any_of(
        all_of(
            [
                *chosen,
                case_when.UNKNOWN if result is None else bind(case_when.substitute(predicate, case, result), schema),
            ]
        )
        for chosen, result in case_when.branches(case, conditions)
    )


def _bind_comparison(op: str, left: Term, right: Term, schema: Schema) -> BoundPredicate:
    match left, right:
        case (Literal(str() as a), Literal(str() as b)) | (Literal(bool() as a), Literal(bool() as b)):
            return Constant(COMPARISONS[op](a, b))
        case Literal(), Literal():
            return compare_terms(op, left, right, schema)
        case Literal(), _:  # a constant column, replaced by its value
            left, op, right = right, ex.SWAPPED_OPERATOR[op], left
    column, other = _categorical_column(left, schema), _categorical_column(right, schema)
    if column and other:
        return _same_category(op, column, other)
    if column and isinstance(right, Literal):
        return _is_in(column, _category_test(op, column, right))
    categorical = column or other
    if categorical is None:
        return compare_terms(op, left, right, schema)
    raise InvalidCondition(
        f"{describe_term(left, schema)} cannot be compared with {describe_term(right, schema)}. "
        f"Compare {categorical.name!r} with one of its values: {format_list(categorical.categories or ())}."
    )


def _bind_in(operand: Term, options: tuple[Literal, ...], schema: Schema) -> BoundPredicate:
    column = _categorical_column(operand, schema)
    if column is None:
        return any_of(_bind_comparison("=", operand, option, schema) for option in options)
    tests = [_category_test("=", column, option) for option in options]
    return _is_in(column, lambda category: any(test(category) for test in tests))


def _bind_is_null(operand: Term) -> BoundPredicate:
    match operand:
        case ColumnName(name):
            return IsMissing(name)
        case Literal():
            return Constant(truth=False)
    raise InvalidCondition(f"`is null` takes a column, got {operand}. Test its columns one by one.")


def _categorical_column(value: Term, schema: Schema) -> Column | None:
    """Return the categorical or boolean column that a term names, or None."""
    column = find_column(value.name, schema) if isinstance(value, ColumnName) else None
    return column if column is not None and column.kind.discrete else None


def _is_in(column: Column, accepts: CategoryTest) -> IsIn:
    categories = column.categories or ()
    allowed = tuple(code for code, category in enumerate(categories) if accepts(category))
    return IsIn(column.name, allowed, len(categories), accepts)


def _same_category(op: str, left: Column, right: Column) -> BoundPredicate:
    if op not in ("=", "!="):
        raise InvalidCondition(f"columns {left.name!r} and {right.name!r} are categorical; compare them with = or !=.")
    if _has_text(left) != _has_text(right):
        raise InvalidCondition(
            f"columns {left.name!r} and {right.name!r} have no category in common: one holds texts, the other numbers."
        )
    code_of = {category: code for code, category in enumerate(right.categories or ())}
    partners = tuple(code_of.get(category, -1) for category in left.categories or ())
    return SameCategory(left.name, right.name, partners, op == "=")


def _category_test(op: str, column: Column, literal: Literal) -> CategoryTest:
    """Return a function that says whether a category satisfies a comparison with a literal."""
    compare, numeric = COMPARISONS[op], column.kind is Kind.CATEGORY and not _has_text(column)
    if op in ("=", "!="):
        wanted = (column.categories or ())[_code_of(column, literal)]
        return lambda category: compare(category, wanted)
    if column.ordered and not numeric:
        rank, limit = (
            {category: code for code, category in enumerate(column.categories or ())},
            _code_of(column, literal),
        )
        return lambda category: category in rank and compare(rank[category], limit)
    number = _to_number(literal.value)
    if numeric and number is not None:
        return lambda category: compare(category, number)
    if numeric:
        raise InvalidCondition(f"column {column.name!r} holds numbers and cannot be compared with {literal}.")
    advice = ", or order its categories: schema.replace(..., ordered=True)" if column.kind is Kind.CATEGORY else ""
    raise InvalidCondition(
        f"column {column.name!r} ({column.kind.value}) has no order, so {op} is not defined. Use = or in (...){advice}."
    )


def _code_of(column: Column, literal: Literal) -> int:
    """Return the code of the category that a literal stands for."""
    categories = list(column.categories or ())
    found = next((c for c in _candidates(column, literal.value) if c in categories), None)
    if found is not None:
        return categories.index(found)
    near = _closest_categories(literal.value, categories)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"It has {format_list(categories)}."
    raise InvalidCondition(f"column {column.name!r} has no value {literal}. {hint}")


def _candidates(column: Column, plain: Any) -> list[Any]:  # noqa: ANN401
    """Return the categories that a value may stand for: 3 for "3" or "3.0", "3" for 3, True for "True" or "true"."""
    number = _to_number(plain)
    if column.kind is Kind.BOOLEAN or all(isinstance(category, bool) for category in column.categories or ()):
        return [{"true": True, "false": False}.get(str(plain).casefold(), plain)]
    if not _has_text(column):
        return [] if number is None or isinstance(plain, bool) else [number]
    if isinstance(plain, str):
        return [plain]
    is_integer = number is not None and number == int(number)
    return [str(plain), str(plain).lower(), *([str(int(plain)), str(float(plain))] if is_integer else [])]


def _closest_categories(plain: object, categories: list[Any]) -> list[Any]:
    """Return the categories that the user may have meant."""
    number = _to_number(plain)
    if number is None or any(isinstance(category, str | bool) for category in categories):
        return closest_matches(str(plain), map(str, categories))
    return sorted(categories, key=lambda category: abs(category - number))[:3]


def _to_number(plain: object) -> int | float | None:
    """Convert a number, or text that spells one; None for anything else."""
    if isinstance(plain, int | float):
        return plain
    try:
        return float(plain) if isinstance(plain, str) else None
    except ValueError:
        return None


def _has_text(column: Column) -> bool:
    return any(isinstance(category, str) for category in column.categories or ())


def _bind_like(operand: Term, matches: Callable[[str], bool], schema: Schema) -> BoundPredicate:
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        return Constant(matches(operand.value))
    column = _categorical_column(operand, schema)
    if column is None or not _has_text(column):
        raise InvalidCondition(
            f"{describe_term(operand, schema)} is not a text; `like` takes a categorical column of texts."
        )
    return _is_in(column, matches)


def _like_matcher(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """Compile a LIKE pattern, in which % is any text and _ is any character."""
    folded = pattern.lower() if ignore_case else pattern
    first, *rest = (re.escape(segment).replace("_", ".") for segment in folded.split("%"))
    # The first match of a segment between two % is always good enough, so atomic groups avoid backtracking.
    middle = "".join(f"(?>.*?{segment})" for segment in rest[:-1])
    expression = re.compile(first + middle + ".*" * bool(rest) + "".join(rest[-1:]), re.DOTALL)
    return lambda text: expression.fullmatch(text.lower() if ignore_case else text) is not None
