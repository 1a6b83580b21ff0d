"""What every part of a report needs: some of the rows, numbers that JSON can hold, values as people write them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column import Column, Kind, format_time
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema

DIGITS = 6
SMALLEST_APART, LARGEST_PLAIN = 10**4, 10**9


def some(table: Table, most: int, rng: np.random.Generator) -> Table:
    """At most so many rows, chosen at random and kept in their order."""
    if table.n_rows <= most:
        return rows_of(table, np.arange(table.n_rows))
    return rows_of(table, np.sort(rng.choice(table.n_rows, most, replace=False)))


def rows_of(table: Table, index: NDArray[np.int64] | NDArray[np.bool_]) -> Table:
    """Some rows of a table, by place or by mask, whatever library the table is of."""
    places = np.flatnonzero(index) if index.dtype == np.bool_ else index
    taken = table.arrow.take(places)
    return Table(taken, "pyarrow", taken, table.mixed)


def complete(table: Table, schema: Schema) -> Table:
    """The rows without a missing cell in a modelled column."""
    missing = [table.column(column.name).missing for column in schema.modelled]
    return rows_of(table, ~np.any(missing, axis=0) if missing else np.zeros(table.n_rows, dtype=np.bool_))


def only(column: Column) -> Schema:
    """The schema of a single column, to score it by itself."""
    return Schema((column,))


def finite(value: float) -> float | None:
    """A number with as many digits as anyone reads, or None where it is none."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def known(value: float | None) -> float:
    """Back from `finite`, to calculate with."""
    return math.nan if value is None else value


def mean(values: list[float | None]) -> float | None:
    """The mean of the numbers that there are."""
    there = [value for value in values if value is not None]
    return finite(sum(there) / len(there)) if there else None


def written(column: Column, value: float, digits: int = 4) -> str:
    """A value of a numeric or temporal column as people write it."""
    if column.kind is Kind.DURATION:
        return format_time(column, value)
    if column.kind.temporal:
        return format_time(column, value).removesuffix(":00").replace("T00:00", "").replace("T", " ")[:16]
    return figure(value, digits)


def figure(value: float, digits: int = 4) -> str:
    """A number with a few digits, and thousands apart where there are many (a year is none).

    >>> figure(1234.5), figure(54321.7), figure(0.000123456), figure(-2.0), figure(3e17)
    ('1234', '54,322', '0.0001235', '-2', '3e+17')
    """
    if SMALLEST_APART <= abs(value) < LARGEST_PLAIN:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value == round(value) and abs(value) < SMALLEST_APART else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share in per cent, with one decimal where that matters.

    >>> percent(0.5), percent(0.986), percent(0.0004), percent(0.0)
    ('50 %', '98.6 %', '0.04 %', '0 %')
    """
    return f"{100 * share:.3g} %"
