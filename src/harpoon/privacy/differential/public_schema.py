"""What must be known of a table without a look at its rows: a schema that the user gives.

With differential privacy, kinds, categories and ranges are public knowledge. What the schema leaves open is set by a
rule that reads neither a cell nor a type of the table: one row can decide what type a column is read as.
"""

from __future__ import annotations

from dataclasses import replace

from harpoon._formatting import format_list
from harpoon.data import Column, Kind, Schema, Table
from harpoon.data.schema import check_columns
from harpoon.exceptions import InvalidOption

EXAMPLE = (
    'schema=Schema((Column("age", Kind.INTEGER, minimum=0, maximum=120), '
    'Column("job", Kind.CATEGORY, categories=("chef", "nurse"))))'
)
HOW = f"Describe each column by what is known without the table, such as {EXAMPLE}, or read it with Schema.load(file)."
BOOLEANS = (False, True)
MAX_NUMBER, MAX_TICKS = 1e15, 2**62  # the ends of a range


def complete_schema(given: Schema | None, table: Table) -> Schema:
    """Return the schema with what is open in it set by rules; of the table, only the names of columns are read."""
    if given is None:
        raise InvalidOption(
            f"privacy needs a schema: kinds, categories and ranges that are read off the rows leak. {HOW}"
        )
    check_columns(table.names, given.names, of="schema")
    columns = tuple(_complete(column) for column in given)
    if not any(column.kind.modelled for column in columns):
        raise InvalidOption("privacy needs a schema with a column that can be modelled, and this one has none.")
    return Schema(columns)


def _complete(column: Column) -> Column:
    column = replace(column, missing=0.0)
    if column.kind.discrete:
        categories = BOOLEANS if column.kind is Kind.BOOLEAN else column.categories
        if not categories:
            raise _open(column, "categories")
        return replace(column, categories=categories)
    if column.kind is Kind.CONSTANT and not column.categories:
        raise _open(column, "categories, its one value,")
    if not column.kind.numeric:
        return column
    if column.values:
        column = replace(column, minimum=column.values[0], maximum=column.values[-1])
    if column.minimum is None or column.maximum is None:
        raise _open(column, format_list([name for name in ("minimum", "maximum") if getattr(column, name) is None]))
    if column.values and not column.clip:
        raise InvalidOption(f"Column {column.name!r} of the schema has values and clip=false. Leave one of them out.")
    if column.minimum == column.maximum:
        raise InvalidOption(
            f"With privacy the minimum of column {column.name!r} must be below its maximum, and both are "
            f"{column.minimum}. A column with one value is of kind 'constant'."
        )
    step = int(column.kind.integral) if column.step is None else column.step
    _check_range(column, column.minimum, column.maximum, step)
    if not column.kind.temporal:
        return replace(column, step=step)
    if column.kind is not Kind.DATE and not column.unit:
        raise _open(column, 'unit of time, "s", "ms", "us" or "ns",')
    return replace(column, step=step, zoned=column.zoned or bool(column.zone))


def _check_range(column: Column, low: float, high: float, step: float) -> None:
    """Raise InvalidOption if a range cannot be divided into useful bins."""
    if max(abs(low), abs(high)) > (MAX_TICKS if column.kind.integral else MAX_NUMBER):
        raise InvalidOption(
            f"With privacy the range of column {column.name!r} must be useful, and {low} to {high} says nothing: its "
            "noisy counts have about a hundred intervals of this range. Give the smallest and the largest value that "
            "can be expected."
        )
    if not column.values and step > high - low:
        raise InvalidOption(
            f"The step of column {column.name!r} must be at most its range from {low} to {high}, got {step}. Give a "
            "smaller step, or 0 for none."
        )


def _open(column: Column, what: str) -> InvalidOption:
    return InvalidOption(
        f"With privacy the schema must have the {what} of column {column.name!r}: they cannot be read off the rows. "
        f"{HOW}"
    )
