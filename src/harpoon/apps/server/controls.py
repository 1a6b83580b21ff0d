"""Conditions as controls, one for each column, and back: a range of numbers or times, or a set of labels.

    >>> from harpoon.parsing import parse
    >>> schema = Schema((Column("age", Kind.INTEGER), Column("job", Kind.CATEGORY, categories=("chef", "nurse", "pilot"))))
    >>> controls, complete = controls_of(parse("20 < age <= 60 and not job = 'nurse'"), schema)
    >>> controls
    {'age': {'low': 20, 'low_open': True, 'high': 60}, 'job': {'labels': ['chef', 'pilot']}}
    >>> complete, str(condition_of(controls, schema))
    (True, "age > 20 and age <= 60 and job in ('chef', 'pilot')")

What a condition says of several columns together no control can show; it is then not complete.

    >>> str(beyond(parse("age >= 20 and age * 2 < 90"), schema))
    'age * 2 < 90'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harpoon.apps.server.columns import value_of
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import (
    AllOf,
    AnyOf,
    BoundPredicate,
    ColumnRef,
    Compare,
    Constant,
    IsIn,
    NumberLiteral,
    assume_complete,
)
from harpoon.conditions.expressions import And, ColumnName, Comparison, In, Literal, Predicate
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import NANOSECONDS
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidCondition

Control = Mapping[str, Any]
LOWER, UPPER = (">", ">=", "="), ("<", "<=", "=")
MICROSECOND = 1000  # nanoseconds


def controls_of(tree: Predicate, schema: Schema) -> tuple[dict[str, dict[str, Any]], bool]:
    """What controls can show of a condition, and whether that is all of it."""
    bound = assume_complete(bind(tree, schema))
    parts = bound.parts if isinstance(bound, AllOf) else () if bound == Constant(truth=True) else (bound,)
    labels: dict[str, set[int]] = {}
    ranges: dict[str, list[Compare]] = {}
    complete = True
    for part in parts:
        member, inequality = _as_member(part), _as_range(part)
        if member is not None:
            labels[member.column] = labels.get(member.column, set(member.allowed)) & set(member.allowed)
        elif inequality is not None:
            ranges.setdefault(inequality.left.column, []).append(inequality)  # type: ignore[union-attr]
        else:
            complete = False
    controls = {name: _shown_range(schema[name], found) for name, found in ranges.items()}
    controls |= {
        name: {"labels": [(schema[name].categories or ())[i] for i in sorted(a)]} for name, a in labels.items()
    }
    possible = all(control.get("labels", True) for control in controls.values())
    return {name: controls[name] for name in schema.names if name in controls}, complete and possible


def beyond(tree: Predicate, schema: Schema) -> Predicate | None:
    """The part of a condition that has to be said besides the controls; None if there is no such part."""
    members = tree.members if isinstance(tree, And) else (tree,)
    return _all_of([member for member in members if not controls_of(member, schema)[1]])


def condition_of(controls: Mapping[str, Control], schema: Schema, besides: Predicate | None = None) -> Predicate | None:
    """The condition that controls show, and what is said besides; None if nothing is asked for."""
    parts = [part for name, control in controls.items() for part in _asked(schema[name], control)]
    return _all_of(parts if besides is None else [*parts, besides])


def _all_of(parts: Sequence[Predicate]) -> Predicate | None:
    return And(tuple(parts)) if len(parts) > 1 else next(iter(parts), None)


def _as_member(part: BoundPredicate) -> IsIn | None:
    """Labels of one column, also where they are joined by "or"."""
    if not isinstance(part, AnyOf):
        return part if isinstance(part, IsIn) else None
    members = [one for one in part.parts if isinstance(one, IsIn)]
    if len(members) < len(part.parts) or len({one.column for one in members}) > 1:
        return None
    return IsIn(members[0].column, tuple({i for one in members for i in one.allowed}), members[0].n_categories)


def _as_range(part: BoundPredicate) -> Compare | None:
    match part:
        case Compare(operator, ColumnRef(), NumberLiteral()) if operator != "!=":
            return part
    return None


def _shown_range(column: Column, found: list[Compare]) -> dict[str, Any]:
    """The narrowest range; of two equal ends, the open one is narrower."""
    ends = [(part.right.value, part.operator) for part in found if isinstance(part.right, NumberLiteral)]
    control: dict[str, Any] = {}
    lowest = max(((end, operator == ">") for end, operator in ends if operator in LOWER), default=None)
    highest = min(((end, operator != "<") for end, operator in ends if operator in UPPER), default=None)
    if lowest is not None:
        control |= {"low": value_of(column, lowest[0])} | ({"low_open": True} if lowest[1] else {})
    if highest is not None:
        control |= {"high": value_of(column, highest[0])} | ({} if highest[1] else {"high_open": True})
    return control


def _asked(column: Column, control: Control) -> Iterator[Predicate]:
    """The parts of a condition that a control asks for."""
    name, labels = ColumnName(column.name), control.get("labels")
    low, high = (control.get(end) for end in ("low", "high"))
    if labels is not None:
        if not labels:
            raise InvalidCondition(f"No label of column {column.name!r} is chosen. Choose at least one.")
        if set(labels) < set(column.categories or ()) or not set(labels) <= set(column.categories or ()):
            values = tuple(map(Literal.of, labels))
            yield In(name, values) if len(values) > 1 else Comparison("=", name, values[0])
    if low is not None and low == high and not control.get("low_open") and not control.get("high_open"):
        yield Comparison("=", name, _literal(column, low))
        return
    if low is not None:
        yield Comparison(">" if control.get("low_open") else ">=", name, _literal(column, low))
    if high is not None:
        yield Comparison("<" if control.get("high_open") else "<=", name, _literal(column, high))


def _literal(column: Column, given: object) -> Literal:
    """The end of a range as a condition has it: dates and times are text, all else is a number."""
    number = isinstance(given, int | float) and not isinstance(given, bool)
    try:
        match column.kind, given:
            case Kind.DATE, str():
                return Literal.of(dt.date.fromisoformat(given))
            case Kind.DATETIME, str():
                moment = dt.datetime.fromisoformat(given)
                return Literal.of(moment.replace(tzinfo=moment.tzinfo or dt.UTC) if column.zoned else moment)
            case Kind.DURATION, int() if number:
                return Literal.of(dt.timedelta(microseconds=given * NANOSECONDS[column.unit] // MICROSECOND))
            case Kind.NUMBER | Kind.INTEGER, _ if number:
                return Literal.of(given)
    except (ValueError, OverflowError):
        pass
    wanted = "a date or a time in ISO format" if column.kind in (Kind.DATE, Kind.DATETIME) else "a number"
    raise InvalidCondition(
        f"The range of column {column.name!r} ({column.kind}) cannot end at {given!r}; {wanted} is needed."
    )
