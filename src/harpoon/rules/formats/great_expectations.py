"""Expectation suites of Great Expectations, as it stores them in JSON.

An expectation about each row is a rule if it must hold in all rows. Those about a whole table or column, and those with
`mostly` below 1 or a `row_condition`, are not translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harpoon.conditions.language.expressions import Comparison, Not, Predicate, as_term
from harpoon.conditions.language.functions import ColumnTuple, col
from harpoon.exceptions import InvalidCondition, RuleFileError
from harpoon.rules.formats import translation as tr
from harpoon.rules.formats.translation import Translation

Arguments = Mapping[str, Any]


def read(content: Mapping[str, Any], translation: Translation) -> None:
    """Read a suite."""
    for expectation in tr.sequence(content["expectations"], "`expectations`"):
        each = tr.mapping(expectation, "An expectation")
        name = tr.text(each.get("type", each.get("expectation_type")), "The type of an expectation")
        arguments = tr.mapping(each.get("kwargs") or {}, f"`kwargs` of {name}")
        title = _title(name, arguments)
        with translation.part(title):
            translation.add(title, _predicate(name, arguments))


def _title(name: str, arguments: Arguments) -> str:
    """Return a short name of an expectation."""
    columns = [arguments.get(key) for key in ("column", "column_A", "column_B")]
    columns += [*(arguments.get("column_list") or ())] if isinstance(arguments.get("column_list"), list) else []
    named = ", ".join(str(column) for column in columns if isinstance(column, str))
    return f"{name.removeprefix('expect_')}({named})"


def _predicate(name: str, arguments: Arguments) -> Predicate:
    if name not in EXPECTATIONS:
        raise InvalidCondition("it is no condition on single rows, or has no counterpart")
    if arguments.get("mostly") not in (None, 1, 1.0):
        raise InvalidCondition(f"it need not hold in all rows (mostly = {arguments['mostly']})")
    if arguments.get("row_condition"):
        raise InvalidCondition("it has a row_condition; write it as an implication")
    return EXPECTATIONS[name](arguments)


def _column(arguments: Arguments, key: str = "column") -> str:
    if not isinstance(arguments.get(key), str):
        raise RuleFileError(f"an expectation must name its {key}.")
    return str(arguments[key])


def _between(arguments: Arguments) -> Predicate:
    return tr.between(
        _column(arguments),
        arguments.get("min_value"),
        arguments.get("max_value"),
        low_strict=bool(arguments.get("strict_min")),
        high_strict=bool(arguments.get("strict_max")),
    )


def _greater(arguments: Arguments) -> Predicate:
    operator = ">=" if arguments.get("or_equal") else ">"
    return Comparison(operator, col(_column(arguments, "column_A")), col(_column(arguments, "column_B")))


def _pairs(arguments: Arguments) -> Predicate:
    columns = tuple(col(_column(arguments, key)) for key in ("column_A", "column_B"))
    pairs = [tr.sequence(pair, "A pair of values") for pair in tr.sequence(arguments.get("value_pairs_set"), "pairs")]
    return ColumnTuple(columns).is_in([[tr.literal(value).value for value in pair] for pair in pairs])


def _sum(arguments: Arguments) -> Predicate:
    names = [tr.text(name, "A column") for name in tr.sequence(arguments.get("column_list"), "`column_list`")]
    if not names:
        raise InvalidCondition("it has no columns")
    return Comparison("=", tr.total(names), as_term(tr.literal(arguments.get("sum_total"))))


def _like(arguments: Arguments) -> Predicate:
    pattern = arguments.get("like_pattern")
    if not isinstance(pattern, str):
        raise InvalidCondition("its pattern must be text")
    return tr.like(_column(arguments), pattern)


EXPECTATIONS: dict[str, Callable[[Arguments], Predicate]] = {
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": lambda a: tr.one_of(_column(a), a.get("value_set")),
    "expect_column_values_to_not_be_in_set": lambda a: Not(tr.one_of(_column(a), a.get("value_set"))),
    "expect_column_values_to_not_be_null": lambda a: tr.not_null(_column(a)),
    "expect_column_values_to_be_null": lambda a: col(_column(a)).is_null(),
    "expect_column_values_to_match_regex": lambda a: tr.matches(_column(a), a.get("regex")),
    "expect_column_values_to_not_match_regex": lambda a: Not(tr.matches(_column(a), a.get("regex"))),
    "expect_column_values_to_match_like_pattern": _like,
    "expect_column_pair_values_a_to_be_greater_than_b": _greater,
    "expect_column_pair_values_to_be_equal": lambda a: Comparison(
        "=", col(_column(a, "column_A")), col(_column(a, "column_B"))
    ),
    "expect_column_pair_values_to_be_in_set": _pairs,
    "expect_multicolumn_sum_to_equal": _sum,
}
