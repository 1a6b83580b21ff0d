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

from harpoon._text import closest, listed
from harpoon.conditions.bound import Cell, Number, Operation, Term
from harpoon.conditions.expressions import Arithmetic, Call, Literal, Name, Negative, Value
from harpoon.conditions.sql import quoted
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import NANOSECONDS
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidCondition

DAY = 86_400 * 10**9
TICKS = (DAY, *NANOSECONDS.values())
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
MEASURES = {Kind.DATE: "date", Kind.DATETIME: "datetime", Kind.DURATION: "span"}
MOMENTS = ("date", "datetime")
WRITTEN = {
    "number": "a number",
    "date": "a date, such as DATE '2024-01-31'",
    "datetime": "a datetime, such as TIMESTAMP '2024-01-31 12:00:00'",
    "span": "a span of time, such as INTERVAL '3' DAY",
}
# What an operator makes of what two operands measure. All else is refused.
RESULTS = {
    **{(operator, "number", "number"): "number" for operator in "+-*/"},
    ("-", "date", "date"): "number",
    ("-", "date", "datetime"): "span",
    ("-", "datetime", "date"): "span",
    ("-", "datetime", "datetime"): "span",
    **{(operator, "date", "number"): "date" for operator in "+-"},
    ("+", "number", "date"): "date",
    **{(operator, moment, "span"): "datetime" for operator in "+-" for moment in MOMENTS},
    **{("+", "span", moment): "datetime" for moment in MOMENTS},
    **{(operator, "span", "span"): "span" for operator in "+-"},
    ("*", "span", "number"): "span",
    ("*", "number", "span"): "span",
    ("/", "span", "number"): "span",
    ("/", "span", "span"): "number",
}


@dataclass(frozen=True)
class Quantity:
    """A numeric expression.

    Attributes:
        term: How it is worked out.
        measure: "number", "date", "datetime" or "span".
        tick: The unit of a time, in nanoseconds; 0 for a number.
        zoned: Whether a datetime knows its time zone.
        grid: What every value of it is a multiple of, if that is known.
    """

    term: Term
    measure: str
    tick: int = 0
    zoned: bool = False
    grid: Fraction | None = None

    def in_ticks(self, tick: int) -> Quantity:
        """The same time in a unit that is as fine or finer."""
        if self.tick == tick:
            return self
        factor = self.tick // tick
        term = (
            Number(self.term.value * factor)
            if isinstance(self.term, Number)
            else Operation("*", (self.term, Number(factor)))
        )
        return replace(self, term=term, tick=tick, grid=None if self.grid is None else self.grid * factor)


def find(name: str, schema: Schema) -> Column:
    """The column of that name, if a condition can speak of it."""
    column = next((column for column in schema if column.name == name), None)
    if column is None:
        near = [f"`{quoted(other)}`" for other in closest(name, schema.names)]
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {listed(schema.names)}."
        if any(name in (column.labels or ()) for column in schema):  # in SQL, what stands in double quotes is a name
            hint = f"Text goes in single quotes: '{name}'."
        raise InvalidCondition(f"there is no column {name!r}. {hint}")
    if not column.kind.modelled and column.kind is not Kind.CONSTANT:
        why = column.note or f"its kind is {column.kind.value}"
        raise InvalidCondition(f"column {name!r} is not modelled ({why}), so no condition can look at it.")
    return column


def known(value: Value, schema: Schema) -> Value:
    """A constant column as its one value; anything else as it is."""
    if isinstance(value, Name):
        column = find(value.name, schema)
        if column.kind is Kind.CONSTANT and column.labels:
            return Literal.of(column.labels[0])
    return value


def quantity(value: Value, schema: Schema) -> Quantity:
    """A value of a condition as a quantity, or an error that says why it is none."""
    value = known(value, schema)
    match value:
        case Name(name):
            return _cell(find(name, schema))
        case Literal(plain):
            return _literal(plain)
        case Negative(operand):
            return _function("negative", quantity(operand, schema), value)
        case Call("least" | "greatest" as function, arguments):
            return _extreme(function, aligned(arguments, schema))
        case Call(function, (argument,)):
            return _function(function, quantity(argument, schema), value)
        case Arithmetic(operator, left, right):
            return _arithmetic(operator, quantity(left, schema), quantity(right, schema), value)
    raise InvalidCondition(f"{value} is no value.")


def aligned(values: Sequence[Value], schema: Schema) -> list[Quantity]:
    """Values that can be compared, as quantities in one unit."""
    quantities = [quantity(value, schema) for value in values]
    first = quantities[0]
    for value, other in zip(values[1:], quantities[1:], strict=True):
        if len({"moment" if q.measure in MOMENTS else q.measure for q in (first, other)}) > 1:
            raise incomparable(values[0], value, schema)
        if first.zoned != other.zoned:
            raise InvalidCondition(
                f"of {described(values[0], schema)} and {described(value, schema)}, one knows its time zone. Write "
                "TIMESTAMPTZ '2024-01-31 12:00:00+01:00' for a column that does, TIMESTAMP '2024-01-31 12:00:00' else."
            )
    tick = min(q.tick for q in quantities)
    return [q.in_ticks(tick) for q in quantities]


def incomparable(left: Value, right: Value, schema: Schema) -> InvalidCondition:
    """Two values that are of different kinds."""
    return InvalidCondition(
        f"{described(left, schema)} cannot be compared with {described(right, schema)}. "
        f"Compare it with {WRITTEN[quantity(left, schema).measure]}."
    )


def described(value: Value, schema: Schema) -> str:
    """A value in words, with the kind of thing it is."""
    match value:
        case Name(name):
            return f"column {name!r} ({find(name, schema).kind.value})"
        case Literal(str(text)):
            return f"the text {text!r}"
        case Literal(bool(truth)):
            return f"the truth value {str(truth).lower()}"
        case _:
            return f"{value} ({quantity(value, schema).measure})"


def moment(text: str) -> Literal:
    """Text as the date or datetime it spells."""
    for read in (dt.date.fromisoformat, dt.datetime.fromisoformat):
        try:
            return Literal.of(read(text))
        except ValueError:
            continue
    raise InvalidCondition(f"the text {text!r} is no date. Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'.")


def common_grid(*grids: Fraction | None) -> Fraction | None:
    """What sums and differences of multiples of these are a multiple of."""
    common = Fraction(0)
    for grid in grids:
        if grid is None:
            return None
        below = common.denominator * grid.denominator
        common = Fraction(gcd(common.numerator * grid.denominator, grid.numerator * common.denominator), below)
    return common


def _cell(column: Column) -> Quantity:
    if column.kind.discrete:
        raise InvalidCondition(
            f"column {column.name!r} is a {column.kind.value}, which has no size. Compare it with its own values "
            f"({listed(column.labels or ())})."
        )
    measure = MEASURES.get(column.kind, "number")
    whole = column.kind is not Kind.NUMBER
    step = column.step or (1 if whole else 0)
    tick = {"number": 0, "date": DAY}.get(measure, NANOSECONDS.get(column.unit, 1))
    return Quantity(Cell(column.name), measure, tick, column.zoned, Fraction(str(step)) if step else None)


def _literal(plain: Any) -> Quantity:  # noqa: ANN401
    match plain:
        case bool() | str():
            raise InvalidCondition(f"{Literal(plain)} is no number and no time.")
        case int() | float():
            return Quantity(Number(plain), "number", grid=abs(Fraction(str(plain))))
        case dt.timedelta():
            return _ticks("span", plain)
        case dt.datetime():
            zoned = plain.tzinfo is not None
            naive = plain.astimezone(dt.UTC).replace(tzinfo=None) if zoned else plain
            return _ticks("datetime", naive - EPOCH, zoned=zoned)
        case _:
            return _ticks("date", dt.datetime.combine(plain, dt.time()) - EPOCH)


def _ticks(measure: str, since: dt.timedelta, *, zoned: bool = False) -> Quantity:
    """A time in the coarsest unit that tells it exactly, so that most columns stay in their own."""
    nanoseconds = since // dt.timedelta(microseconds=1) * 1000
    tick = next(tick for tick in TICKS if nanoseconds % tick == 0)
    count = nanoseconds // tick
    return Quantity(Number(count), measure, tick, zoned, Fraction(abs(count)))


def _function(function: str, operand: Quantity, value: Value) -> Quantity:
    signed = function in ("negative", "abs")
    if operand.measure != "number" and not (signed and operand.measure == "span"):
        raise InvalidCondition(f"{value} makes no sense: it takes a number, not {WRITTEN[operand.measure]}.")
    return replace(operand, term=Operation(function, (operand.term,)), grid=operand.grid if signed else None)


def _extreme(function: str, operands: list[Quantity]) -> Quantity:
    measure = "datetime" if any(q.measure == "datetime" for q in operands) else operands[0].measure
    term = Operation(function, tuple(q.term for q in operands))
    return replace(operands[0], term=term, measure=measure, grid=common_grid(*(q.grid for q in operands)))


def _arithmetic(operator: str, left: Quantity, right: Quantity, value: Value) -> Quantity:
    measure = RESULTS.get((operator, left.measure, right.measure))
    if measure is None:
        raise InvalidCondition(
            f"{value} makes no sense: {WRITTEN[left.measure]}, {operator} {WRITTEN[right.measure]}. Add, subtract, "
            "multiply and divide numbers and spans of time; subtract dates."
        )
    if left.zoned != right.zoned and "span" not in (left.measure, right.measure):
        raise InvalidCondition(f"{value} mixes a time that knows its time zone with one that does not.")
    tick = min((q.tick for q in (left, right) if q.tick), default=0)
    left, right = (q.in_ticks(tick) if q.tick else q for q in (left, right))
    term = Operation(operator, (left.term, right.term))
    zoned = measure == "datetime" and (left.zoned or right.zoned)
    return Quantity(term, measure, tick if measure != "number" else 0, zoned, _grid(operator, left, right))


def _grid(operator: str, left: Quantity, right: Quantity) -> Fraction | None:
    if left.grid is None or right.grid is None or operator == "/":
        return None
    return left.grid * right.grid if operator == "*" else common_grid(left.grid, right.grid)
