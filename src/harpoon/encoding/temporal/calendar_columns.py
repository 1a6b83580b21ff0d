"""Calendar columns: columns that repeat what a timestamp says, such as its month, its weekday or its date.

`month = month(t)`, `weekday = isodow(t) - 1` and `shift` as a function of `hour(t)` are found in the training rows, if
there is no exception. The calendar part becomes a variable of the row (`harpoon.encoding.temporal.calendar_parts`),
and is known where the column is, also if the timestamp is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, Columns, Kind, Mask, TableCounts
from harpoon.data.chance import MIN_EXPECTED_ROWS, is_proven_function
from harpoon.data.date_parts import DAY, PARTS, TIMES_OF_DAY, Ints, date_part, to_local
from harpoon.encoding.codec import Codec, ColumnCodec
from harpoon.encoding.numeric import MAX_LABELS, SpikedNumericCodec
from harpoon.encoding.scalers import floats_from_json
from harpoon.encoding.temporal.calendar_grid import integers_from_json

MAX_TABLE_VALUES = 31  # values of a part of which a column may be any function; with more, it is the part or a shift
SHIFTED = ("isodow", "weekday", "year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second")
TABULATED = ("year", "quarter", "month", "weekday", "day", "hour")


@dataclass(frozen=True)
class CalendarColumn:
    """A column that is a function of a calendar part of a timestamp.

    Attributes:
        name: The column.
        part: The calendar part that is a variable of the row: a name in `PARTS`.
        part_values: The values of the part in the training rows, ascending.
        values: The value of the column beside each of them: a number, or the code of a label.
        formula: The part that the column is, or a shift of it; "" if it is another function of the part.
        shift: What is added to the part of the formula.
    """

    name: str
    part: str
    part_values: tuple[int, ...]
    values: tuple[float, ...]
    formula: str = ""
    shift: int = 0

    def __post_init__(self) -> None:
        is_valid = self.part in PARTS and len(self.part_values) == len(self.values) > 0
        if not is_valid or list(self.part_values) != sorted(set(self.part_values)):
            raise ValueError(f"column {self.name!r} needs a value for each value of a calendar part")

    @property
    def is_injective(self) -> bool:
        """Whether the column determines the part."""
        return len(set(self.values)) == len(self.values)

    def cells_of(self, parts: Ints) -> tuple[NDArray[np.float64], Mask]:
        """Return the value of the column beside values of the part, (n,), and where it is known."""
        return _look_up(parts, np.array(self.part_values), np.array(self.values))

    def parts_of(self, values: NDArray[Any]) -> tuple[Ints, Mask]:
        """Return the part beside values of an injective column, (n,), and where it is known."""
        order = np.argsort(self.values, kind="stable")
        found, known = _look_up(values, np.array(self.values)[order], np.array(self.part_values)[order])
        return found.astype(np.int64), known

    def describe(self, timestamp: str) -> str:
        """Return the part, or the formula of the column.

        >>> CalendarColumn("wd", "weekday", (1, 2), (0.0, 1.0), "isodow", -1).describe("t")
        'isodow(t) - 1'
        """
        sign = "" if not self.shift else f" {'+' if self.shift > 0 else '-'} {abs(self.shift)}"
        return f"{self.formula or self.part}({timestamp}){sign}"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "part": self.part,
            "part_values": list(self.part_values),
            "values": list(self.values),
            "formula": self.formula,
            "shift": self.shift,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`, or raise ValueError."""
        name, formula, shift = data["name"], data["formula"], data["shift"]
        if not isinstance(name, str) or formula not in ("", *PARTS) or type(shift) is not int:
            raise ValueError("a calendar column needs a name, a part and an integer as its shift")
        values = floats_from_json(data["values"])
        return cls(name, data["part"], integers_from_json(data["part_values"]), values, formula, shift)


def parts_of_times(column: Column, part: str, times: Ints) -> Ints:
    """Return a part of times of a column, (n,), as the clocks of its zone show it."""
    tick = column.tick
    return date_part(part, to_local(times, tick, column.zone), tick)


def find_calendar_columns(codecs: Sequence[Codec], timestamp: Column, rows: Columns) -> list[CalendarColumn]:
    """Return the columns that are a function of a calendar part of a timestamp in all rows that have both."""
    columns = [codec.columns[0] for codec in codecs if _is_candidate(codec)]
    return [one for column in columns if (one := _find(column, timestamp, rows)) is not None]


def find_date_columns(codecs: Sequence[Codec], timestamp: Column, rows: Columns) -> tuple[Column, ...]:
    """Return the columns that are the date of a timestamp in all rows that have both."""
    if timestamp.kind is not Kind.DATETIME:
        return ()
    found = []
    for codec in codecs:
        column = codec.columns[0] if codec.columns else timestamp
        if not column.kind.is_timestamp or column.name == timestamp.name or column.zone:
            continue
        both = ~rows[column.name].missing & ~rows[timestamp.name].missing
        times, dates = rows[timestamp.name].values[both], rows[column.name].values[both]
        if both.sum() >= MIN_EXPECTED_ROWS and np.array_equal(dates_of(timestamp, column, times), dates):
            found.append(column)
    # A column of dates with a time of day somewhere is no date column: it would not have been equal.
    return tuple(found) if _has_time_of_day(timestamp, rows) else ()


def dates_of(timestamp: Column, column: Column, times: Ints) -> Ints:
    """Return the dates of times, (n,), as a column stores them."""
    days = np.floor_divide(to_local(times, timestamp.tick, timestamp.zone), DAY // timestamp.tick)
    return days if column.kind is Kind.DATE else days * (DAY // column.tick)


def with_label_codecs(codecs: Sequence[Codec], names: set[str], counts: TableCounts, scaling: str) -> list[Codec]:
    """Return codecs, of which those of some numbers encode each value as a label."""
    return [
        SpikedNumericCodec.fit_labels(codec.column, counts[codec.column.name].coerced(codec.column), scaling)
        if isinstance(codec, SpikedNumericCodec) and codec.normal_scores and codec.column.name in names
        else codec
        for codec in codecs
    ]


def _is_candidate(codec: Codec) -> bool:
    """Return whether a codec has one column, of numbers or labels, that can be encoded as labels."""
    if not isinstance(codec, ColumnCodec) or not codec.columns or codec.column.kind.temporal:
        return False
    return codec.column.kind.discrete or (isinstance(codec, SpikedNumericCodec) and codec.column.clip)


def _find(column: Column, timestamp: Column, rows: Columns) -> CalendarColumn | None:
    """Return what a column is a function of: the part itself, then a shift of it, then any function."""
    cells, times = rows[column.name].without_unseen(), rows[timestamp.name]
    both = ~cells.missing & ~times.missing
    values, observed = cells.values[both].astype(np.float64), times.values[both]
    if both.sum() < MIN_EXPECTED_ROWS:
        return None
    found = list(_candidates(column, timestamp, values, observed))
    found.sort(key=lambda one: (not one.formula, abs(one.shift), len(one.part_values)))
    return found[0] if found else None


def _candidates(
    column: Column, timestamp: Column, values: NDArray[np.float64], times: Ints
) -> Iterator[CalendarColumn]:
    """Yield each part that the values of a column, (n,), are a function of, beside times, (n,)."""
    for formula in SHIFTED:
        if timestamp.kind is Kind.DATE and formula in TIMES_OF_DAY:
            continue
        part = "weekday" if formula == "isodow" else formula
        parts = parts_of_times(timestamp, part, times)
        distinct, index = np.unique(parts, return_inverse=True)
        difference = values - parts_of_times(timestamp, formula, times)
        is_shift = column.kind.numeric and difference[0].is_integer() and (difference == difference[0]).all()
        is_any = formula in TABULATED and len(distinct) <= MAX_TABLE_VALUES
        if not 1 < len(distinct) <= MAX_LABELS or not (is_shift or is_any):
            continue
        table = np.zeros(len(distinct))
        table[index] = values
        counts = np.unique(values, return_counts=True)[1]
        if np.array_equal(table[index], values) and is_proven_function(counts, len(values) - len(distinct)):
            text, shift = (formula, int(difference[0])) if is_shift else ("", 0)
            yield CalendarColumn(column.name, part, tuple(distinct.tolist()), tuple(table.tolist()), text, shift)


def _has_time_of_day(timestamp: Column, rows: Columns) -> bool:
    times = rows[timestamp.name].observed
    return bool(len(times)) and any(parts_of_times(timestamp, part, times).any() for part in TIMES_OF_DAY)


def _look_up(keys: NDArray[Any], known: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.float64], Mask]:
    """Return the values of keys, (n,), by ascending known keys, and which keys are known."""
    index = np.searchsorted(known, keys).clip(max=len(known) - 1)
    return values[index].astype(np.float64), np.asarray(known[index] == keys)
