"""Types of numeric terms: number, date, datetime or duration, with unit and resolution.

Times of different units are converted to the finer unit, exactly. As in DuckDB, a date minus a date is a number of
days, and a date plus a number is a date.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import Any

from harpoon._text import closest_matches, format_list
from harpoon.conditions.bound import ColumnRef, NumberLiteral, NumericTerm, Operation
from harpoon.conditions.expressions import Arithmetic, Call, ColumnName, Literal, Negative, Term
from harpoon.conditions.sql import quote_name
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import NANOSECONDS
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidCondition

DAY = 86_400 * 10**9  # nanoseconds
TICKS = (DAY, *NANOSECONDS.values())  # units of time in nanoseconds, coarsest first
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
TERM_TYPES = {Kind.DATE: "date", Kind.DATETIME: "datetime", Kind.DURATION: "duration"}
POINTS_IN_TIME = ("date", "datetime")
TYPE_EXAMPLES = {
    "number": "a number",
    "date": "a date, such as DATE '2024-01-31'",
    "datetime": "a datetime, such as TIMESTAMP '2024-01-31 12:00:00'",
    "duration": "a duration, such as INTERVAL '3' DAY",
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
    """A numeric term with its type.

    Attributes:
        term: The bound term.
        type: "number", "date", "datetime" or "duration".
        tick: The unit of a time, in nanoseconds; 0 for a number.
        zoned: Whether a datetime has a time zone.
        resolution: A number of which every value is an integer multiple, or None if there is no such number.
    """

    term: NumericTerm
    type: str
    tick: int = 0
    zoned: bool = False
    resolution: Fraction | None = None

    def in_ticks(self, tick: int) -> TypedTerm:
        """Convert a time to a unit that is as fine or finer."""
        if self.tick == tick:
            return self
        factor = self.tick // tick
        term = (
            NumberLiteral(self.term.value * factor)
            if isinstance(self.term, NumberLiteral)
            else Operation("*", (self.term, NumberLiteral(factor)))
        )
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


def type_term(value: Term, schema: Schema) -> TypedTerm:
    """Bind a numeric term to the schema and determine its type."""
    value = replace_constant(value, schema)
    match value:
        case ColumnName(name):
            return _column_term(find_column(name, schema))
        case Literal(plain):
            return _literal(plain)
        case Negative(operand):
            return _function("negative", type_term(operand, schema), value)
        case Call("least" | "greatest" as function, arguments):
            return _extreme(function, align_units(arguments, schema))
        case Call(function, (argument,)):
            return _function(function, type_term(argument, schema), value)
        case Arithmetic(operator, left, right):
            return _arithmetic(operator, type_term(left, schema), type_term(right, schema), value)
    raise InvalidCondition(f"{value} is not a value.")


def align_units(values: Sequence[Term], schema: Schema) -> list[TypedTerm]:
    """Type several terms and convert them to a common unit; raise if they cannot be compared."""
    typed = [type_term(value, schema) for value in values]
    first = typed[0]
    for value, other in zip(values[1:], typed[1:], strict=True):
        if len({"time" if t.type in POINTS_IN_TIME else t.type for t in (first, other)}) > 1:
            raise incomparable_error(values[0], value, schema)
        if first.zoned != other.zoned:
            raise InvalidCondition(
                f"{describe_term(values[0], schema)} cannot be compared with {describe_term(value, schema)}: only one "
                "has a time zone. Write TIMESTAMPTZ '2024-01-31 12:00:00+01:00' for a column with a time zone, "
                "TIMESTAMP '2024-01-31 12:00:00' for one without."
            )
    tick = min(t.tick for t in typed)
    return [t.in_ticks(tick) for t in typed]


def incomparable_error(left: Term, right: Term, schema: Schema) -> InvalidCondition:
    """Return the error for two terms of different types."""
    return InvalidCondition(
        f"{describe_term(left, schema)} cannot be compared with {describe_term(right, schema)}. "
        f"Compare it with {TYPE_EXAMPLES[type_term(left, schema).type]}."
    )


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
            return f"{value} ({type_term(value, schema).type})"


def parse_time(text: str) -> Literal:
    """Parse text as a date or a datetime."""
    for read in (dt.date.fromisoformat, dt.datetime.fromisoformat):
        try:
            return Literal.of(read(text))
        except ValueError:
            continue
    raise InvalidCondition(
        f"the text {text!r} is not a date. Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'."
    )


def common_resolution(*resolutions: Fraction | None) -> Fraction | None:
    """Return the greatest common divisor, which is the resolution of sums and differences."""
    common = Fraction(0)
    for resolution in resolutions:
        if resolution is None:
            return None
        a, b = common.numerator * resolution.denominator, resolution.numerator * common.denominator
        common = Fraction(gcd(a, b), common.denominator * resolution.denominator)
    return common


def _column_term(column: Column) -> TypedTerm:
    if column.kind.discrete:
        raise InvalidCondition(
            f"column {column.name!r} is a {column.kind.value}, not a number. Compare it with one of its values "
            f"({format_list(column.categories or ())})."
        )
    term_type = TERM_TYPES.get(column.kind, "number")
    step = column.step or (0 if column.kind is Kind.NUMBER else 1)
    tick = {"number": 0, "date": DAY}.get(term_type, NANOSECONDS.get(column.unit, 1))
    return TypedTerm(ColumnRef(column.name), term_type, tick, column.zoned, Fraction(str(step)) if step else None)


def _literal(plain: Any) -> TypedTerm:  # noqa: ANN401
    match plain:
        case bool() | str():
            raise InvalidCondition(f"{Literal(plain)} is neither a number nor a time.")
        case int() | float():
            return TypedTerm(NumberLiteral(plain), "number", resolution=abs(Fraction(str(plain))))
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
    return TypedTerm(NumberLiteral(count), term_type, tick, zoned, Fraction(abs(count)))


def _function(function: str, operand: TypedTerm, value: Term) -> TypedTerm:
    signed = function in ("negative", "abs")
    if operand.type != "number" and not (signed and operand.type == "duration"):
        raise InvalidCondition(f"{value} is not defined: it takes a number, got {TYPE_EXAMPLES[operand.type]}.")
    resolution = operand.resolution if signed else None
    return replace(operand, term=Operation(function, (operand.term,)), resolution=resolution)


def _extreme(function: str, operands: list[TypedTerm]) -> TypedTerm:
    term_type = "datetime" if any(t.type == "datetime" for t in operands) else operands[0].type
    term = Operation(function, tuple(t.term for t in operands))
    resolution = common_resolution(*(t.resolution for t in operands))
    return replace(operands[0], term=term, type=term_type, resolution=resolution)


def _arithmetic(operator: str, left: TypedTerm, right: TypedTerm, value: Term) -> TypedTerm:
    term_type = RESULT_TYPES.get((operator, left.type, right.type))
    if term_type is None:
        raise InvalidCondition(
            f"{value} is not defined: the left side is {TYPE_EXAMPLES[left.type]}; the right side is "
            f"{TYPE_EXAMPLES[right.type]}. Use {operator} with numbers or durations."
        )
    if left.zoned != right.zoned and "duration" not in (left.type, right.type):
        raise InvalidCondition(f"{value} mixes a time with a time zone and one without.")
    tick = min((t.tick for t in (left, right) if t.tick), default=0)
    left, right = (t.in_ticks(tick) if t.tick else t for t in (left, right))
    term = Operation(operator, (left.term, right.term))
    zoned = term_type == "datetime" and (left.zoned or right.zoned)
    return TypedTerm(term, term_type, tick if term_type != "number" else 0, zoned, _resolution(operator, left, right))


def _resolution(operator: str, left: TypedTerm, right: TypedTerm) -> Fraction | None:
    if left.resolution is None or right.resolution is None or operator == "/":
        return None
    if operator == "*":
        return left.resolution * right.resolution
    return common_resolution(left.resolution, right.resolution)
