"""The numeric side of binding: what an expression measures, in which unit, and on which grid.

A quantity is a number, a date, a datetime or a span of time. Times of different units are brought to the finer one,
exactly. As in DuckDB, a date less a date is a number of days, and a date plus a number is a date.
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

DAY = 86_400 * 10**9
TICKS = (DAY, *NANOSECONDS.values())
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
TERM_TYPES = {Kind.DATE: "date", Kind.DATETIME: "datetime", Kind.DURATION: "span"}
POINTS_IN_TIME = ("date", "datetime")
TYPE_EXAMPLES = {
    "number": "a number",
    "date": "a date, such as DATE '2024-01-31'",
    "datetime": "a datetime, such as TIMESTAMP '2024-01-31 12:00:00'",
    "span": "a span of time, such as INTERVAL '3' DAY",
}
# What an operator makes of what two operands measure. All else is refused.
RESULT_TYPES = {
    **{(operator, "number", "number"): "number" for operator in "+-*/"},
    ("-", "date", "date"): "number",
    ("-", "date", "datetime"): "span",
    ("-", "datetime", "date"): "span",
    ("-", "datetime", "datetime"): "span",
    **{(operator, "date", "number"): "date" for operator in "+-"},
    ("+", "number", "date"): "date",
    **{(operator, moment, "span"): "datetime" for operator in "+-" for moment in POINTS_IN_TIME},
    **{("+", "span", moment): "datetime" for moment in POINTS_IN_TIME},
    **{(operator, "span", "span"): "span" for operator in "+-"},
    ("*", "span", "number"): "span",
    ("*", "number", "span"): "span",
    ("/", "span", "number"): "span",
    ("/", "span", "span"): "number",
}


@dataclass(frozen=True)
class TypedTerm:
    """A numeric expression.

    Attributes:
        term: How it is worked out.
        measure: "number", "date", "datetime" or "span".
        tick: The unit of a time, in nanoseconds; 0 for a number.
        zoned: Whether a datetime knows its time zone.
        grid: What every value of it is a multiple of, if that is known.
    """

    term: NumericTerm
    type: str
    tick: int = 0
    zoned: bool = False
    resolution: Fraction | None = None

    def in_ticks(self, tick: int) -> TypedTerm:
        """The same time in a unit that is as fine or finer."""
        if self.tick == tick:
            return self
        factor = self.tick // tick
        term = (
            NumberLiteral(self.term.value * factor)
            if isinstance(self.term, NumberLiteral)
            else Operation("*", (self.term, NumberLiteral(factor)))
        )
        return replace(
            self, term=term, tick=tick, resolution=None if self.resolution is None else self.resolution * factor
        )


def find_column(name: str, schema: Schema) -> Column:
    """The column of that name, if a condition can speak of it."""
    column = next((column for column in schema if column.name == name), None)
    if column is None:
        near = [f"`{quote_name(other)}`" for other in closest_matches(name, schema.names)]
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {format_list(schema.names)}."
        if any(
            name in (column.categories or ()) for column in schema
        ):  # in SQL, what stands in double quotes is a name
            hint = f"Text goes in single quotes: '{name}'."
        raise InvalidCondition(f"there is no column {name!r}. {hint}")
    if not column.kind.modelled and column.kind is not Kind.CONSTANT:
        why = column.note or f"its kind is {column.kind.value}"
        raise InvalidCondition(f"column {name!r} is not modelled ({why}), so no condition can look at it.")
    return column


def replace_constant(value: Term, schema: Schema) -> Term:
    """A constant column as its one value; anything else as it is."""
    if isinstance(value, ColumnName):
        column = find_column(value.name, schema)
        if column.kind is Kind.CONSTANT and column.categories:
            return Literal.of(column.categories[0])
    return value


def type_term(value: Term, schema: Schema) -> TypedTerm:
    """A value of a condition as a quantity, or an error that says why it is none."""
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
    raise InvalidCondition(f"{value} is no value.")


def align_units(values: Sequence[Term], schema: Schema) -> list[TypedTerm]:
    """Values that can be compared, as quantities in one unit."""
    quantities = [type_term(value, schema) for value in values]
    first = quantities[0]
    for value, other in zip(values[1:], quantities[1:], strict=True):
        if len({"moment" if q.type in POINTS_IN_TIME else q.type for q in (first, other)}) > 1:
            raise incomparable_error(values[0], value, schema)
        if first.zoned != other.zoned:
            raise InvalidCondition(
                f"of {describe_term(values[0], schema)} and {describe_term(value, schema)}, one knows its time zone. Write "
                "TIMESTAMPTZ '2024-01-31 12:00:00+01:00' for a column that does, TIMESTAMP '2024-01-31 12:00:00' else."
            )
    tick = min(q.tick for q in quantities)
    return [q.in_ticks(tick) for q in quantities]


def incomparable_error(left: Term, right: Term, schema: Schema) -> InvalidCondition:
    """Two values that are of different kinds."""
    return InvalidCondition(
        f"{describe_term(left, schema)} cannot be compared with {describe_term(right, schema)}. "
        f"Compare it with {TYPE_EXAMPLES[type_term(left, schema).type]}."
    )


def describe_term(value: Term, schema: Schema) -> str:
    """A value in words, with the kind of thing it is."""
    match value:
        case ColumnName(name):
            return f"column {name!r} ({find_column(name, schema).kind.value})"
        case Literal(str(text)):
            return f"the text {text!r}"
        case Literal(bool(truth)):
            return f"the truth value {str(truth).lower()}"
        case _:
            return f"{value} ({type_term(value, schema).type})"


def parse_time(text: str) -> Literal:
    """Text as the date or datetime it spells."""
    for read in (dt.date.fromisoformat, dt.datetime.fromisoformat):
        try:
            return Literal.of(read(text))
        except ValueError:
            continue
    raise InvalidCondition(f"the text {text!r} is no date. Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'.")


def common_resolution(*grids: Fraction | None) -> Fraction | None:
    """What sums and differences of multiples of these are a multiple of."""
    common = Fraction(0)
    for grid in grids:
        if grid is None:
            return None
        below = common.denominator * grid.denominator
        common = Fraction(gcd(common.numerator * grid.denominator, grid.numerator * common.denominator), below)
    return common


def _column_term(column: Column) -> TypedTerm:
    if column.kind.discrete:
        raise InvalidCondition(
            f"column {column.name!r} is a {column.kind.value}, which has no size. Compare it with its own values "
            f"({format_list(column.categories or ())})."
        )
    measure = TERM_TYPES.get(column.kind, "number")
    whole = column.kind is not Kind.NUMBER
    step = column.step or (1 if whole else 0)
    tick = {"number": 0, "date": DAY}.get(measure, NANOSECONDS.get(column.unit, 1))
    return TypedTerm(ColumnRef(column.name), measure, tick, column.zoned, Fraction(str(step)) if step else None)


def _literal(plain: Any) -> TypedTerm:  # noqa: ANN401
    match plain:
        case bool() | str():
            raise InvalidCondition(f"{Literal(plain)} is no number and no time.")
        case int() | float():
            return TypedTerm(NumberLiteral(plain), "number", resolution=abs(Fraction(str(plain))))
        case dt.timedelta():
            return _ticks("span", plain)
        case dt.datetime():
            zoned = plain.tzinfo is not None
            naive = plain.astimezone(dt.UTC).replace(tzinfo=None) if zoned else plain
            return _ticks("datetime", naive - EPOCH, zoned=zoned)
        case _:
            return _ticks("date", dt.datetime.combine(plain, dt.time()) - EPOCH)


def _ticks(measure: str, since: dt.timedelta, *, zoned: bool = False) -> TypedTerm:
    """A time in the coarsest unit that tells it exactly, so that most columns stay in their own."""
    nanoseconds = since // dt.timedelta(microseconds=1) * 1000
    tick = next(tick for tick in TICKS if nanoseconds % tick == 0)
    count = nanoseconds // tick
    return TypedTerm(NumberLiteral(count), measure, tick, zoned, Fraction(abs(count)))


def _function(function: str, operand: TypedTerm, value: Term) -> TypedTerm:
    signed = function in ("negative", "abs")
    if operand.type != "number" and not (signed and operand.type == "span"):
        raise InvalidCondition(f"{value} makes no sense: it takes a number, not {TYPE_EXAMPLES[operand.type]}.")
    return replace(
        operand, term=Operation(function, (operand.term,)), resolution=operand.resolution if signed else None
    )


def _extreme(function: str, operands: list[TypedTerm]) -> TypedTerm:
    measure = "datetime" if any(q.type == "datetime" for q in operands) else operands[0].type
    term = Operation(function, tuple(q.term for q in operands))
    return replace(
        operands[0], term=term, type=measure, resolution=common_resolution(*(q.resolution for q in operands))
    )


def _arithmetic(operator: str, left: TypedTerm, right: TypedTerm, value: Term) -> TypedTerm:
    measure = RESULT_TYPES.get((operator, left.type, right.type))
    if measure is None:
        raise InvalidCondition(
            f"{value} makes no sense: {TYPE_EXAMPLES[left.type]}, {operator} {TYPE_EXAMPLES[right.type]}. Add, subtract, "
            "multiply and divide numbers and spans of time; subtract dates."
        )
    if left.zoned != right.zoned and "span" not in (left.type, right.type):
        raise InvalidCondition(f"{value} mixes a time that knows its time zone with one that does not.")
    tick = min((q.tick for q in (left, right) if q.tick), default=0)
    left, right = (q.in_ticks(tick) if q.tick else q for q in (left, right))
    term = Operation(operator, (left.term, right.term))
    zoned = measure == "datetime" and (left.zoned or right.zoned)
    return TypedTerm(term, measure, tick if measure != "number" else 0, zoned, _resolution(operator, left, right))


def _resolution(operator: str, left: TypedTerm, right: TypedTerm) -> Fraction | None:
    if left.resolution is None or right.resolution is None or operator == "/":
        return None
    return (
        left.resolution * right.resolution if operator == "*" else common_resolution(left.resolution, right.resolution)
    )
