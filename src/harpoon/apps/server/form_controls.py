"""Conditions as form controls, one per column, and back: a range of numbers or times, or a set of categories.

    >>> from harpoon.conditions.language.parser import parse
    >>> job = Column("job", Kind.CATEGORY, categories=("chef", "nurse", "pilot"))
    >>> schema = Schema((Column("age", Kind.INTEGER), job))
    >>> controls, complete = to_controls(parse("20 < age <= 60 and not job = 'nurse'"), schema)
    >>> controls
    {'age': {'low': 20, 'low_open': True, 'high': 60}, 'job': {'categories': ['chef', 'pilot']}}
    >>> complete, str(from_controls(controls, schema))
    (True, "age > 20 and age <= 60 and job in ('chef', 'pilot')")

No control can show a part that compares columns with each other, or asks for missing cells; the controls are then not
complete.

    >>> str(remainder(parse("age >= 20 and age * 2 < 90"), schema))
    'age * 2 < 90'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from harpoon.apps.server.served_model import json_value
from harpoon.conditions import BoundPredicate, Predicate, bind, columns_of, evaluate
from harpoon.conditions.binding.bound import AllOf, AnyOf, ColumnRef, Compare, Constant, IsIn, NumberLiteral, leaves
from harpoon.conditions.language.expressions import ColumnName, Comparison, In, Literal, conjunction, members_of
from harpoon.data import Column, ColumnArray, Kind, Schema, as_category
from harpoon.exceptions import InvalidCondition

Control = Mapping[str, Any]
LOWER, UPPER = (">", ">=", "="), ("<", "<=", "=")
MICROSECOND = 1000  # nanoseconds


def to_controls(tree: Predicate, schema: Schema) -> tuple[dict[str, dict[str, Any]], bool]:
    """Return the controls that show a condition, and whether they show all of it."""
    bound = bind(tree, schema)
    parts = () if bound == Constant(truth=True) else leaves(bound, AllOf)
    allowed: dict[str, set[int]] = {}
    ranges: dict[str, list[tuple[float, str]]] = {}  # ends and operators
    complete = True
    for part in parts:
        match _merge_memberships(_as_membership(part, schema)):
            case IsIn(column, codes):
                allowed[column] = allowed.get(column, set(codes)) & set(codes)
            case Compare(operator, ColumnRef(column), NumberLiteral(end)) if operator != "!=":
                ranges.setdefault(column, []).append((end, operator))
            case _:
                complete = False
    controls = {name: _to_range(schema[name], found) for name, found in ranges.items()}
    controls |= {
        name: {"categories": [_categories(schema[name])[i] for i in sorted(codes)]} for name, codes in allowed.items()
    }
    possible = all(control.get("categories", True) for control in controls.values())
    return {name: controls[name] for name in schema.names if name in controls}, complete and possible


def remainder(tree: Predicate, schema: Schema) -> Predicate | None:
    """Return the part of a condition that no control can show, or None."""
    hidden = [member for member in members_of(tree) if not to_controls(member, schema)[1]]
    return conjunction(hidden) if hidden else None


def from_controls(controls: Mapping[str, Control], schema: Schema, rest: Predicate | None = None) -> Predicate | None:
    """Return the condition that controls show together with `rest`, or None for no condition."""
    parts = [part for name, control in controls.items() for part in _to_predicates(schema[name], control)]
    parts += [] if rest is None else [rest]
    return conjunction(parts) if parts else None


def _categories(column: Column) -> tuple[Any, ...]:
    return as_category(column).categories or ()


def _as_membership(part: BoundPredicate, schema: Schema) -> BoundPredicate:
    """Return a condition on a flag alone, which has two values, as one on categories."""
    names = columns_of(part)
    if len(names) != 1 or not (column := schema[next(iter(names))]).is_flag:
        return part
    values = np.array(_categories(column))
    cells = ColumnArray("other", np.append(values, 0), np.arange(len(values) + 1) == len(values))
    *satisfied, is_null = evaluate(part, {column.name: cells})
    return part if is_null else IsIn(column.name, tuple(np.flatnonzero(satisfied).tolist()), len(values))


def _merge_memberships(part: BoundPredicate) -> BoundPredicate:
    """Return conditions on the categories of one column that are joined by "or" as one condition."""
    members = [one for one in part.parts if isinstance(one, IsIn)] if isinstance(part, AnyOf) else []
    if not isinstance(part, AnyOf) or len(members) < len(part.parts) or len({one.column for one in members}) > 1:
        return part
    return IsIn(members[0].column, tuple({i for one in members for i in one.allowed}), members[0].n_categories)


def _to_range(column: Column, ends: list[tuple[float, str]]) -> dict[str, Any]:
    """Return the intersection of comparisons; of two equal ends, the open one counts."""
    control: dict[str, Any] = {}
    lowest = max(((end, operator == ">") for end, operator in ends if operator in LOWER), default=None)
    highest = min(((end, operator != "<") for end, operator in ends if operator in UPPER), default=None)
    if lowest is not None:
        control |= {"low": json_value(column, lowest[0])} | ({"low_open": True} if lowest[1] else {})
    if highest is not None:
        control |= {"high": json_value(column, highest[0])} | ({} if highest[1] else {"high_open": True})
    return control


def _to_predicates(column: Column, control: Control) -> Iterator[Predicate]:
    """Yield the parts of a condition that a control shows."""
    name, categories = ColumnName(column.name), control.get("categories")
    low, high = (control.get(end) for end in ("low", "high"))
    if categories is not None:
        if not categories:
            raise InvalidCondition(f"No category of column {column.name!r} is chosen. Choose at least one.")
        if set(categories) != set(_categories(column)):  # all categories are no condition
            values = tuple(map(Literal.of, categories))
            yield In(name, values) if len(values) > 1 else Comparison("=", name, values[0])
    if low is not None and low == high and not control.get("low_open") and not control.get("high_open"):
        yield Comparison("=", name, _literal(column, low))
        return
    if low is not None:
        yield Comparison(">" if control.get("low_open") else ">=", name, _literal(column, low))
    if high is not None:
        yield Comparison("<" if control.get("high_open") else "<=", name, _literal(column, high))


def _literal(column: Column, given: object) -> Literal:
    """Return the end of a range as a literal; in JSON dates and times are text."""
    number = isinstance(given, int | float) and not isinstance(given, bool)
    try:
        match column.kind, given:
            case Kind.DATE, str():
                return Literal.of(dt.date.fromisoformat(given))
            case Kind.DATETIME, str():
                moment = dt.datetime.fromisoformat(given)
                # A text without an offset is a time of the clocks of the column's zone, as Studio shows it.
                is_local = column.zoned and moment.tzinfo is None
                return Literal.of(moment.isoformat(sep=" ") if is_local else moment)
            case Kind.DURATION, int() if number:
                return Literal.of(dt.timedelta(microseconds=given * column.tick // MICROSECOND))
            case Kind.NUMBER | Kind.INTEGER, _ if number:
                return Literal.of(given)
    except (ValueError, OverflowError):
        pass
    wanted = "a date or a time in ISO format" if column.kind.is_timestamp else "a number"
    raise InvalidCondition(
        f"The range of column {column.name!r} ({column.kind}) cannot end at {given!r}; {wanted} is needed."
    )
