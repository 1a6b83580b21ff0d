"""Calendar parts of dates and datetimes as columns to count: how many rows are in February, on a Monday, at 4 o'clock.

A bin of a timestamp is a stretch of time, in which nearly all months and hours occur. So the parts of a timestamp have
bins of their own in the counts of a table (`harpoon.data.contingency`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray, Columns
from harpoon.data.date_parts import PARTS, TIMES_OF_DAY, Ints, date_part, to_local
from harpoon.data.schema import Schema
from harpoon.data.value_counts import MAX_DISTINCT_VALUES, ColumnCounts, TableCounts

# The parts that are also counted in pairs: days of a year and seconds are too many.
PAIRED_PARTS = ("year", "quarter", "month", "day", "weekday", "isodow", "hour")


class CountedPart(NamedTuple):
    """A calendar part of a column."""

    column: str
    part: str
    tick: int  # the unit of time of the column, in nanoseconds
    zone: str  # the time zone whose clocks show the part

    @classmethod
    def of_column(cls, column: Column, part: str) -> CountedPart:
        """Return a part of a column of dates or datetimes."""
        return cls(column.name, part, column.tick, column.zone)

    def values(self, times: Ints) -> Ints:
        """Return the part of times, (n,)."""
        return date_part(self.part, to_local(times, self.tick, self.zone), self.tick)

    def cells(self, rows: Columns) -> ColumnArray:
        """Return the part of the cells of rows; missing where they are."""
        missing = rows[self.column].missing
        times = np.where(missing, 0, rows[self.column].values)
        return ColumnArray("integer", np.where(missing, 0, self.values(times)), missing)

    def counts(self, of_column: ColumnCounts) -> ColumnCounts:
        """Return the counts of the part from those of its column."""
        moved = of_column.move(self.values(of_column.values.values.astype(np.int64)))
        return replace(moved, values=ColumnArray("integer", moved.values.values, moved.values.missing))


def counted_parts(schema: Schema, counts: TableCounts) -> dict[str, CountedPart]:
    """Return the parts of all columns of a schema that can be counted, by name; merged counts do not tell all parts."""
    found: dict[str, CountedPart] = {}
    for column in schema.modelled:
        if not column.kind.is_timestamp or counts[column.name].n_distinct >= MAX_DISTINCT_VALUES // 2:
            continue
        names = [part for part in PARTS if column.kind is Kind.DATETIME or part not in TIMES_OF_DAY]
        found |= {part_name(column.name, part, schema.names): CountedPart.of_column(column, part) for part in names}
    return found


def part_name(column: str, part: str, taken: Collection[str]) -> str:
    """Return a name for a part of a column that no column has.

    >>> part_name("t", "month", ["t", "month(t)"])
    "month(t)'"
    """
    name = f"{part}({column})"
    while name in taken:
        name += "'"
    return name
