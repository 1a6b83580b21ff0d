"""Types of numeric terms: number, date, datetime or duration, with unit and resolution.

Times of different units are converted to the finer unit, exactly. As in DuckDB, a date minus a date is a number of
days, and a date plus a number is a date.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np

from harpoon._formatting import closest_matches, format_list
from harpoon.conditions.binding import bound
from harpoon.conditions.language.expressions import COMPARISONS, Arithmetic, Call, ColumnName, Literal, Negative, Term
from harpoon.conditions.language.sql_names import quote_name
from harpoon.data import Column, Kind, Schema
from harpoon.data.column import MAX_STEP
from harpoon.data.column_array import NANOSECONDS
from harpoon.data.date_parts import DAY, PARTS, TIMES_OF_DAY, date_part, from_local, to_local
from harpoon.exceptions import InvalidCondition

TICKS = (DAY, *NANOSECONDS.values())  # units of time in nanoseconds, coarsest first
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
TERM_TYPES = {Kind.DATE: "date", Kind.DATETIME: "datetime", Kind.DURATION: "duration"}
POINTS_IN_TIME = ("date", "datetime")
MIN_STEP = 1e-18
TYPE_EXAMPLES = {
    "number": "a number",
    "date": "a date, such as DATE '2024-01-31'",
    "datetime": "a datetime, such as TIMESTAMP '2024-01-31 12:00:00'",
    "duration": "a duration, such as INTERVAL '3' DAY",
}
# Parts of a time that people write as names.
PART_EXAMPLES = {
    "weekday": "Weekdays are numbers: `weekday` counts from Sunday = 0, `isodow` from Monday = 1.",
    "isodow": "Weekdays are numbers: `isodow` counts from Monday = 1, `weekday` from Sunday = 0.",
    "month": "Months are numbers: January = 1.",
}
# Type of `left operator right`. Other combinations are errors.
RESULT_TYPES = {
    **{(operator, "number", "number"): "number" for operator in "+-*/"},
    ("-", "date", "date"): "number",
    ("-", "date", "datetime"): "duration",
    ("-", "datetime", "date"): "duration",
    ("-", "datetime", "datetime"): "duration",
    **{(operator, "date", "number"): "date" for operator in "+-"},
    ("+", "number", "date"): "date",
    **{(operator, point, "duration"): "datetime" for operator in "+-" for point in POINTS_IN_TIME},
    **{("+", "duration", point): "datetime" for point in POINTS_IN_TIME},
    **{(operator, "duration", "duration"): "duration" for operator in "+-"},
    ("*", "duration", "number"): "duration",
    ("*", "number", "duration"): "duration",
    ("/", "duration", "number"): "duration",
    ("/", "duration", "duration"): "number",
}


@dataclass(frozen=True)
class TypedTerm:
    """A numeric term with its type."""

    term: bound.NumericTerm
    type: str  # "number", "date", "datetime" or "duration"
    tick: int = 0  # the unit of a time, in nanoseconds; 0 for a number
    zoned: bool = False  # whether a datetime has a time zone
    resolution: Fraction | None = None  # a number of which every value is an integer multiple; None if there is none
    zone: str = ""  # the time zone whose clocks and calendar count; "" is UTC

    def in_ticks(self, tick: int) -> TypedTerm:
        """Convert a time to a unit that is as fine or finer."""
        if self.tick == tick:
            return self
        factor = self.tick // tick
        term: bound.NumericTerm = bound.Operation("*", (self.term, bound.NumberLiteral(factor)))
        if isinstance(self.term, bound.NumberLiteral):
            term = bound.NumberLiteral(self.term.value * factor)
        resolution = None if self.resolution is None else self.resolution * factor
        return replace(self, term=term, tick=tick, resolution=resolution)


def find_column(name: str, schema: Schema) -> Column:
    """Return the column of that name; raise if there is none or if it is not modelled."""
    column = next((column for column in schema if column.name == name), None)
    if column is None:
        near = [f"`{quote_name(other)}`" for other in closest_matches(name, schema.names)]
        hint = f"Did you mean {' or '.join(near)}?" if near else f"The columns are {format_list(schema.names)}."
        if any(name in (column.categories or ()) for column in schema):  # SQL reads "text" as a name
            hint = f"Put text in single quotes: '{name}'."
        raise InvalidCondition(f"there is no column {name!r}. {hint}")
    if not column.kind.modelled and column.kind is not Kind.CONSTANT:
        why = column.note or f"its kind is {column.kind.value}"
        raise InvalidCondition(f"column {name!r} is not modelled ({why}), so a condition cannot use it.")
    return column


def replace_constant(value: Term, schema: Schema) -> Term:
    """Replace a constant column by its value; return any other term unchanged."""
    if isinstance(value, ColumnName):
        column = find_column(value.name, schema)
        if column.kind is Kind.CONSTANT and column.categories:
            return Literal.of(column.categories[0])
    return value


def compare_terms(op: str, left: Term, right: Term, schema: Schema) -> bound.BoundPredicate:
    """Bind a comparison of two terms that are numbers or times; a text on the right may spell a time."""
    if isinstance(right, Literal) and isinstance(right.value, str | bool):
        if isinstance(right.value, bool) or _type_term(left, schema).type not in POINTS_IN_TIME:
            raise _incomparable_error(left, right, schema)
        beside = _type_term(left, schema)
        op = _around_gap(op, right.value, beside)
        right = _parse_time(right.value, beside)
    first, second = _align_units((left, right), schema)
    if isinstance(first.term, bound.NumberLiteral) and isinstance(second.term, bound.NumberLiteral):
        return bound.Constant(COMPARISONS[op](first.term.value, second.term.value))
    resolution = _common_resolution(first, second)  # floats cannot resolve one outside MIN_STEP to MAX_STEP
    step = float(resolution) if resolution is not None and MIN_STEP <= resolution <= MAX_STEP else None
    return bound.Compare(op, first.term, second.term, step)


def bind_number(value: Term, schema: Schema) -> TypedTerm:
    """Bind a term that is a number in every row; raise InvalidCondition if it is a time."""
    typed = _type_term(value, schema)
    if typed.type == "number":
        return typed
    advice = "Divide it by INTERVAL '1' DAY" if typed.type == "duration" else "Take a part, such as its year"
    raise InvalidCondition(f"{describe_term(value, schema)} is not a number. {advice}.")


def _type_term(value: Term, schema: Schema) -> TypedTerm:  # noqa: PLR0911
    """Bind a numeric term to the schema and determine its type."""
    value = replace_constant(value, schema)
    match value:
        case ColumnName(name):
            return _column_term(find_column(name, schema))
        case Literal(plain):
            return _literal(plain)
        case Negative(operand):
            return _function("negative", _type_term(operand, schema), value)
        case Call("least" | "greatest" as function, arguments):
            return _extreme(function, _align_units(arguments, schema))
        case Call(function, (Literal(str(text)),)) if function in PARTS:
            return _date_part(function, _type_term(_parse_time(text), schema), value)
        case Call(function, (argument,)) if function in PARTS:
            return _date_part(function, _type_term(argument, schema), value)
        case Call(function, (argument,)):
            return _function(function, _type_term(argument, schema), value)
        case Arithmetic(operator, left, right):
            return _arithmetic(operator, _type_term(left, schema), _type_term(right, schema), value)
    raise InvalidCondition(f"{value} is not a value.")


def _align_units(values: Sequence[Term], schema: Schema) -> list[TypedTerm]:
    """Type several terms and convert them to a common unit; raise if they cannot be compared."""
    typed = _read_dates([_type_term(value, schema) for value in values])
    first = typed[0]
    for value, other in zip(values[1:], typed[1:], strict=True):
        if len({"time" if t.type in POINTS_IN_TIME else t.type for t in (first, other)}) > 1:
            raise _incomparable_error(values[0], value, schema)
        if first.zoned != other.zoned:
            raise InvalidCondition(
                f"{describe_term(values[0], schema)} cannot be compared with {describe_term(value, schema)}: only one "
                "has a time zone. Write DATE '2024-01-31' or TIMESTAMPTZ '2024-01-31 12:00:00+01:00' for a column with "
                "a time zone, TIMESTAMP '2024-01-31 12:00:00' for one without."
            )
    tick = min(t.tick for t in typed)
    return [t.in_ticks(tick) for t in typed]


def describe_term(value: Term, schema: Schema) -> str:
    """Describe a term and its type in words."""
    match value:
        case ColumnName(name):
            return f"column {name!r} ({find_column(name, schema).kind.value})"
        case Literal(str(text)):
            return f"the text {text!r}"
        case Literal(bool(truth)):
            return f"the boolean {str(truth).lower()}"
        case _:
            return f"{value} ({_type_term(value, schema).type})"


def _incomparable_error(left: Term, right: Term, schema: Schema) -> InvalidCondition:
    advice = f"Compare it with {TYPE_EXAMPLES[_type_term(left, schema).type]}."
    if isinstance(left, Call) and left.function in PART_EXAMPLES:
        advice = f"{advice} {PART_EXAMPLES[left.function]}"
    return InvalidCondition(
        f"{describe_term(left, schema)} cannot be compared with {describe_term(right, schema)}. {advice}"
    )


def _read_dates(terms: list[TypedTerm]) -> list[TypedTerm]:
    """Return the terms with each date that is written beside a time with a time zone as midnight in that zone."""
    zone = next((term.zone for term in terms if term.zoned), None)
    if zone is None:
        return terms
    read = []
    for typed in terms:
        if typed.type == "date" and isinstance(typed.term, bound.NumberLiteral):
            midnight = _instant(EPOCH + dt.timedelta(days=int(typed.term.value) * (typed.tick // DAY)), zone)
            read.append(replace(_literal(midnight), zone=zone))
        else:
            read.append(typed)
    return read


def _instant(local: dt.datetime, zone: str) -> dt.datetime:
    """Return the instant at which the clocks of a time zone show a time, or the first one after it where they skip it.

    Of a time that they show twice, it is the later one, as in DuckDB.
    """
    microsecond = dt.timedelta(microseconds=1)
    ticks = np.array([(local - EPOCH) // microsecond], dtype=np.int64)
    return EPOCH.replace(tzinfo=dt.UTC) + int(from_local(ticks, NANOSECONDS["us"], zone, later=True)[0]) * microsecond


def _around_gap(op: str, text: str, beside: TypedTerm) -> str:
    """Return the operator that means the same for the first instant after the gap, if the clocks skip a local time.

    No time equals a local time that does not exist; all times after it are at or after the end of the gap.
    """
    local = _read_time(text)
    if not beside.zoned or not isinstance(local, dt.datetime) or local.tzinfo is not None:
        return op
    ticks = np.array([(local - EPOCH) // dt.timedelta(microseconds=1)], dtype=np.int64)
    tick = NANOSECONDS["us"]
    if (to_local(from_local(ticks, tick, beside.zone), tick, beside.zone) == ticks).all():
        return op
    if op in ("=", "!="):
        raise InvalidCondition(f"{text} does not exist in {beside.zone}: its clocks skip that time.")
    return {">": ">=", "<=": "<"}.get(op, op)


def _read_time(text: str) -> dt.date | None:
    """Read a text as a date or datetime; None if it is neither."""
    for read in (dt.date.fromisoformat, dt.datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def _parse_time(text: str, beside: TypedTerm | None = None) -> Literal:
    """Read a text as a date or datetime; beside a time with a time zone, as one in that zone."""
    time = _read_time(text)
    if time is None:
        raise InvalidCondition(
            f"the text {text!r} is not a date. Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'."
        )
    if isinstance(time, dt.datetime) and time.tzinfo is None and beside is not None and beside.zoned:
        return Literal.of(_instant(time, beside.zone))
    return Literal.of(time)


def _common_resolution(*terms: TypedTerm) -> Fraction | None:
    """Return the greatest common divisor of the resolutions: the resolution of sums and differences of the terms."""
    known = [term.resolution for term in terms if term.resolution is not None]
    if len(known) < len(terms):
        return None
    return Fraction(gcd(*(step.numerator for step in known)), lcm(*(step.denominator for step in known)))


def _column_term(column: Column) -> TypedTerm:
    if column.kind.discrete:
        raise InvalidCondition(
            f"column {column.name!r} is a {column.kind.value}, not a number. Compare it with one of its values "
            f"({format_list(column.categories or ())})."
        )
    term_type = TERM_TYPES.get(column.kind, "number")
    step = column.step or (0 if column.kind is Kind.NUMBER else 1)
    resolution = Fraction(str(step)) if step else None
    return TypedTerm(bound.ColumnRef(column.name), term_type, column.tick, column.zoned, resolution, column.zone)


def _literal(plain: Any) -> TypedTerm:  # noqa: ANN401
    match plain:
        case bool() | str():
            raise InvalidCondition(f"{Literal(plain)} is neither a number nor a time.")
        case int() | float():
            return TypedTerm(bound.NumberLiteral(plain), "number", resolution=abs(Fraction(str(plain))))
        case dt.timedelta():
            return _ticks("duration", plain)
        case dt.datetime():
            zoned = plain.tzinfo is not None
            naive = plain.astimezone(dt.UTC).replace(tzinfo=None) if zoned else plain
            return _ticks("datetime", naive - EPOCH, zoned=zoned)
        case _:
            return _ticks("date", dt.datetime.combine(plain, dt.time()) - EPOCH)


def _ticks(term_type: str, since_epoch: dt.timedelta, *, zoned: bool = False) -> TypedTerm:
    """Convert a time to the coarsest unit in which it is exact, so that most columns keep their own unit."""
    nanoseconds = since_epoch // dt.timedelta(microseconds=1) * 1000
    tick = next(tick for tick in TICKS if nanoseconds % tick == 0)
    count = nanoseconds // tick
    return TypedTerm(bound.NumberLiteral(count), term_type, tick, zoned, Fraction(abs(count)))


def _function(function: str, operand: TypedTerm, value: Term) -> TypedTerm:
    signed = function in ("negative", "abs")
    if operand.type != "number" and not (signed and operand.type == "duration"):
        raise InvalidCondition(f"{value} is not defined: it takes a number, got {TYPE_EXAMPLES[operand.type]}.")
    resolution = operand.resolution if signed else None
    return replace(operand, term=bound.Operation(function, (operand.term,)), resolution=resolution)


def _date_part(part: str, time: TypedTerm, value: Term) -> TypedTerm:
    if time.type not in POINTS_IN_TIME:
        raise InvalidCondition(
            f"{value} is not defined: it takes a date or a datetime, got {TYPE_EXAMPLES[time.type]}."
        )
    if part in TIMES_OF_DAY and time.tick == DAY and time.type == "date":
        raise InvalidCondition(f"{value} is not defined: a date has no time of day.")
    step = int(time.resolution) if time.resolution and time.resolution.denominator == 1 else 1
    term: bound.NumericTerm = bound.DatePart(part, time.term, time.tick, time.zone, step)
    if isinstance(time.term, bound.NumberLiteral):
        ticks = np.array([time.term.value], dtype=np.int64)
        term = bound.NumberLiteral(int(date_part(part, to_local(ticks, time.tick, time.zone), time.tick)[0]))
    return TypedTerm(term, "number", resolution=Fraction(1))


def _extreme(function: str, operands: list[TypedTerm]) -> TypedTerm:
    term_type = "datetime" if any(t.type == "datetime" for t in operands) else operands[0].type
    term = bound.Operation(function, tuple(t.term for t in operands))
    return replace(operands[0], term=term, type=term_type, resolution=_common_resolution(*operands))


def _arithmetic(operator: str, left: TypedTerm, right: TypedTerm, value: Term) -> TypedTerm:
    term_type = RESULT_TYPES.get((operator, left.type, right.type))
    if term_type is None:
        raise InvalidCondition(
            f"{value} is not defined: the left side is {TYPE_EXAMPLES[left.type]}; the right side is "
            f"{TYPE_EXAMPLES[right.type]}. Use {operator} with numbers or durations."
        )
    left, right = _read_dates([left, right])
    if left.zoned != right.zoned and "duration" not in (left.type, right.type):
        raise InvalidCondition(f"{value} mixes a time with a time zone and one without.")
    tick = min((t.tick for t in (left, right) if t.tick), default=0)
    left, right = (t.in_ticks(tick) if t.tick else t for t in (left, right))
    term = bound.Operation(operator, (left.term, right.term))
    zoned = term_type == "datetime" and (left.zoned or right.zoned)
    tick, zone = tick if term_type != "number" else 0, (left.zone or right.zone) if zoned else ""
    return TypedTerm(term, term_type, tick, zoned, _resolution(operator, left, right), zone)


def _resolution(operator: str, left: TypedTerm, right: TypedTerm) -> Fraction | None:
    if operator in "+-":
        return _common_resolution(left, right)
    if operator == "/" or left.resolution is None or right.resolution is None:
        return None
    return left.resolution * right.resolution
