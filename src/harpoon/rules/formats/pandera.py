"""Schemas of Pandera, as its `to_yaml` and `to_json` write them.

Checks of a column are rules, and so is that it has no missing cells, which is Pandera's default. Checks of a whole
table are functions in Python: Pandera does not store them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harpoon.conditions.language.expressions import Not, Predicate
from harpoon.exceptions import InvalidCondition
from harpoon.rules.formats import translation as tr
from harpoon.rules.formats.translation import Check, Translation

ATTRIBUTES = (  # of a column that are no checks
    *("title", "description", "dtype", "nullable", "checks", "unique", "coerce", "required", "regex", "default"),
    *("metadata", "report_duplicates", "drop_invalid_rows", "name", "parsers"),
)
ATTRIBUTES_OF_TABLE = {
    "strict": "columns that the schema does not have are no rule for rows",
    "ordered": "the order of columns is no rule for rows",
    "unique": "it is a condition on several rows",
    "unique_column_names": "names of columns are no rule for rows",
    "index": "a table of Harpoon has no index",
}


def read(content: Mapping[str, Any], translation: Translation) -> None:
    """Read a schema."""
    columns = tr.mapping(content["columns"] or {}, "`columns`")
    for name, column in columns.items():
        _read_column(name, tr.mapping(column or {}, f"The column {name!r}"), translation)
    for key, why in ATTRIBUTES_OF_TABLE.items():
        if content.get(key):
            translation.skip(key, why)
    for name in tr.mapping(content.get("checks") or {}, "`checks`"):
        translation.skip(f"check {name} of the table", "it is a function of a whole table")
    if columns:
        translation.skip("types of columns", "the schema of a model has them")


def _read_column(name: str, column: Mapping[str, Any], translation: Translation) -> None:
    if column.get("regex"):
        translation.skip(f"columns that match {name!r}", "rules name single columns")
        return
    if not column.get("nullable", False):
        translation.add(f"{name} not null", tr.not_null(name))
    if column.get("unique"):
        translation.skip(f"{name} unique", "it is a condition on several rows")
    nested = column.get("checks")
    checks = {key: value for key, value in column.items() if key not in ATTRIBUTES}
    if isinstance(nested, Mapping):
        checks |= nested
    elif isinstance(nested, list):
        checks |= {key: value for each in nested for key, value in tr.mapping(each, "A check").items()}
    for check, value in checks.items():
        with translation.part(f"{name} {check}"):
            translation.add(f"{name} {check}", _check(name, check, value))


def _check(column: str, check: str, value: Any) -> Predicate:  # noqa: ANN401
    """Return a check of a column as a condition."""
    if check not in CHECKS:
        raise InvalidCondition("this check has no counterpart in a condition")
    if isinstance(value, Mapping) and "options" in value:
        options = value["options"] if isinstance(value["options"], Mapping) else {}
        if options.get("raise_warning"):
            raise InvalidCondition("it is a warning, not a rule")
        rest = {key: each for key, each in value.items() if key != "options"}
        value = rest["value"] if set(rest) == {"value"} else rest
    return CHECKS[check](column, value)


def _in_range(column: str, value: Any) -> Predicate:  # noqa: ANN401
    ends = tr.mapping(value, f"in_range of {column!r}")
    low, high = ends.get("min_value"), ends.get("max_value")
    strict = {"low_strict": not ends.get("include_min", True), "high_strict": not ends.get("include_max", True)}
    return tr.between(column, low, high, **strict)


def _values(key: str, value: Any) -> Any:  # noqa: ANN401
    """Return the list of a check, which newer versions store as an object."""
    return value.get(key) if isinstance(value, Mapping) else value


def _text(key: str, value: Any) -> str:  # noqa: ANN401
    value = _values(key, value)
    if not isinstance(value, str):
        raise InvalidCondition(f"{key} must be text")
    return value


CHECKS: dict[str, Check] = {
    **dict.fromkeys(("equal_to", "eq"), tr.comparison("=")),
    **dict.fromkeys(("not_equal_to", "ne"), tr.comparison("!=")),
    **dict.fromkeys(("greater_than", "gt"), tr.comparison(">")),
    **dict.fromkeys(("greater_than_or_equal_to", "ge"), tr.comparison(">=")),
    **dict.fromkeys(("less_than", "lt"), tr.comparison("<")),
    **dict.fromkeys(("less_than_or_equal_to", "le"), tr.comparison("<=")),
    **dict.fromkeys(("in_range", "between"), _in_range),
    "isin": lambda column, value: tr.one_of(column, _values("allowed_values", value)),
    "notin": lambda column, value: Not(tr.one_of(column, _values("forbidden_values", value))),
    "str_startswith": lambda column, value: tr.like(column, f"{_text('string', value)}%", _text("string", value)),
    "str_endswith": lambda column, value: tr.like(column, f"%{_text('string', value)}", _text("string", value)),
    "str_contains": lambda column, value: tr.matches(column, _text("pattern", value)),
    "str_matches": lambda column, value: tr.matches(column, _text("pattern", value), starts=True),
}
