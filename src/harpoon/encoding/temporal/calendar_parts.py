"""Calendar parts: month, weekday, hour and so on of a timestamp, each a variable of the row like any other.

A timestamp is a number on a line, and a network that reads it as one learns its cycles badly: that it is cold in every
January, and at night. So its parts are categories of their own. They are observed where the timestamp is, they are
sampled before it, and then the timestamp is the nearest time with these parts (`docs/columns.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Column, ColumnArray, ColumnCounts, Columns, Floats, Kind, Mask, TableCounts
from harpoon.data.date_parts import DAY, HOUR, Ints, date_part, to_local
from harpoon.encoding.codec import Codec, HiddenCodec, Part, PartType, ValueCells
from harpoon.encoding.numeric import SpikedNumericCodec, integer_origin, to_valid_values
from harpoon.encoding.temporal.calendar_columns import (
    CalendarColumn,
    find_calendar_columns,
    find_date_columns,
    parts_of_times,
    with_label_codecs,
)
from harpoon.encoding.temporal.calendar_grid import DAY_PARTS, SIZES, Calendar, Parts, integers_from_json, nearest_code

MIN_DAYS = {"month": 60, "day": 60, "weekday": 14, "hour": 2}  # range below which a part is no cycle
MIN_HOURS_OF_MINUTES = 2
MAX_PART_VALUES = 16  # minutes and days of the month are modelled if they have at most this many values
N_TIMES = 4096  # possible times that stand for those of a column with more
MIN_UNEVENNESS = 0.1  # total variation between the days of the month and those of the calendar, to model them


@dataclass(frozen=True)
class CalendarPartCodec(HiddenCodec):
    """A one-hot vector of the values that a calendar part of a timestamp has in the training table.

    Attributes:
        timestamp: The column whose part it is.
        part: A name in `SIZES`.
        values: The values of the part, ascending.
        copies: The columns of the table that are functions of the part.
        dates: The columns that are the date of the timestamp, if it is a part of the date.
    """

    timestamp: Column
    part: str
    values: tuple[int, ...]
    copies: tuple[CalendarColumn, ...] = ()
    dates: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        if self.part not in SIZES or not self.values or list(self.values) != sorted(set(self.values)):
            raise ValueError(f"a calendar part of {self.timestamp.name!r} must be one of {', '.join(SIZES)}")
        if any(each.part != self.part for each in self.copies):
            raise ValueError(f"a column that is {self.label} must be a function of this part")

    @property
    def label(self) -> str:
        """What it encodes, as SQL."""
        return f"{self.part}({self.timestamp.name})"

    @property
    def parts(self) -> tuple[Part, ...]:
        """One categorical part, with a feature for each value."""
        return (Part(len(self.values), PartType.CATEGORICAL),)

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind has calendar parts."""
        return kind.is_timestamp

    @property
    def is_discrete(self) -> bool:
        """Whether columns of the table follow from it, so that it and their labels determine each other."""
        return bool(self.copies)

    def is_observed(self, rows: Columns) -> Mask:
        """Return in which rows the timestamp is observed, or a column that says this part of it, (n,)."""
        return self.known_parts(rows)[1]

    def known_parts(self, rows: Columns) -> tuple[Ints, Mask]:
        """Return the part of each row, (n,), and where it is known: from the timestamp, or from a column that has it.

        A timestamp that is null has no parts.
        """
        cells = rows[self.timestamp.name]
        parts, known = parts_of_times(self.timestamp, self.part, cells.values), ~cells.missing
        for date in self.dates:
            used = cells.unknown & ~known & ~rows[date.name].missing
            if used.any():
                parts, known = (
                    np.where(used, parts_of_times(date, self.part, rows[date.name].values), parts),
                    known | used,
                )
        for copy in self.copies:
            if copy.is_injective and not known.all():
                of_copy, has_part = copy.parts_of(rows[copy.name].values)
                used = cells.unknown & ~known & ~rows[copy.name].missing & has_part
                parts, known = np.where(used, of_copy, parts), known | used
        return parts, known

    def encode_columns(self, rows: Columns) -> Floats:
        """Return one-hot vectors, (n, values); a part that the training table does not have is the nearest that it has.

        Rows in which the part is not known are zeros.
        """
        parts, known = self.known_parts(rows)
        return self._one_hot(parts) * known[:, None]

    def encode_times(self, times: Ints) -> Floats:
        """Return the one-hot vectors of times, (n, values)."""
        return self._one_hot(parts_of_times(self.timestamp, self.part, times))

    def _one_hot(self, parts: Ints) -> Floats:
        return np.asarray(np.eye(len(self.values))[nearest_code(parts, self.part, self.values)])

    def decode_part(self, x: Floats) -> Ints:
        """Return the most probable value of the part, (n,)."""
        return np.asarray(np.array(self.values, dtype=np.int64)[x.argmax(axis=1)])

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {
            "codec": type(self).__name__,
            "columns": [self.timestamp.name, *(date.name for date in self.dates)],
            "part": self.part,
            "values": list(self.values),
            "copies": [each.to_json() for each in self.copies],
        }

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        copies = tuple(map(CalendarColumn.from_json, data.get("copies", ())))
        return cls(columns[0], data["part"], integers_from_json(data["values"]), copies, tuple(columns[1:]))


@dataclass(frozen=True)
class TimestampCodec(SpikedNumericCodec):
    """A numeric codec of dates or datetimes whose sampled values are possible times of its calendar.

    Attributes:
        calendar: The possible times.
        date_columns: The columns of the table that are the date of each time.
    """

    calendar: Calendar
    date_columns: tuple[str, ...] = ()

    @classmethod
    def from_numeric(cls, codec: SpikedNumericCodec, counts: ColumnCounts) -> TimestampCodec:
        """Add the calendar of the times of the training table to a codec."""
        times = counts.values.values
        calendar = Calendar.fit(codec.column, times, _listed_times(codec), counts.counts, counts.min_rows)
        return cls(codec.column, codec.scaler, codec.normal_scores, codec.spikes, calendar)

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind has calendar parts."""
        return CalendarPartCodec.supports(kind)

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        """Return possible times of the calendar; of an expectation, times at the column's resolution."""
        return super().decode(x, is_mean=True) if is_mean else self.decode_with_parts(x, {})

    def is_possible(self, cells: ColumnArray) -> Mask:
        """Return which times lie on the grid of the calendar, (n,)."""
        times = np.asarray(cells.values, dtype=np.int64)
        return np.asarray(self.calendar.nearest(times, {}) == times)

    def is_on_grid(self, times: Ints) -> Mask:
        """Return which times have calendar parts that occur in the training table, (n,), listed or not."""
        return self.calendar.by_parts.contains(times)

    def to_grid(self, times: Ints) -> Ints:
        """Return the nearest times with parts that occur in the training table, (n,)."""
        return self.calendar.by_parts.nearest(times, {})

    def standardised_times(self, z: Floats) -> Ints:
        """Return the times of standardised values, (n,), at the column's resolution."""
        return to_valid_values(self.scaler.inverse(z), self.column)

    def decode_with_parts(self, x: Floats, parts: Parts) -> ColumnArray:
        """Return the possible times that have the given parts and are nearest to those of the features, (n, d).

        Spikes are exact times and stay as they are.
        """
        cells = super().decode(x)
        times = self.calendar.nearest(cells.values, parts)
        if self.spikes:
            times = np.where(x[:, -1 - len(self.spikes) :].argmax(axis=1) > 0, cells.values, times)
        return cells.with_values(times)

    def value_cells(self, n_intervals: int) -> ValueCells | None:
        """Return the spikes and possible times, each for the ranks next to it."""
        found = super().value_cells(n_intervals)
        if found is None or self.normal_scores is None or np.array_equal(found.low, found.high):
            return found
        edges = np.linspace(0, 1, N_TIMES + 1)
        times = self.calendar.nearest(self.normal_scores_to_values((edges[1:] + edges[:-1]) / 2), {})
        values = np.concatenate([found.low[: len(self.spikes)], times])
        return ValueCells(values, values, edges)

    def nearest_values(self, values: Floats) -> NDArray[Any]:
        """Return the nearest possible times, (n,)."""
        return self.calendar.nearest(super().nearest_values(values), {})

    def rank_cells(self, names: Sequence[str]) -> tuple[dict[str, Ints], Floats]:
        """Return the possible times, or days: their parts by name, (k,) each, and lowest and highest ranks, (k, 2).

        A rank between the two decodes to this time, or to a time of this day.
        """
        parts, first, last = self.calendar.cells(names)
        if self.normal_scores is None:
            return parts, np.zeros((len(first), 2))
        margin = 0.0 if self.calendar.is_listed else int(self.column.step or 1) / 2
        origin = integer_origin(self.column)
        low, _ = self.normal_scores.rank_interval((first - origin).astype(np.float64) - margin)
        _, high = self.normal_scores.rank_interval((last - origin).astype(np.float64) + margin)
        return parts, np.stack([low, high], axis=1)

    def combinations(self, names: Sequence[str]) -> dict[str, Ints]:
        """Return which values of parts occur together, (combinations,) each; none if all do (`Calendar`)."""
        possible = self.calendar.combinations(names)
        if not possible or not self.spikes:
            return possible
        of_spikes = self.calendar.parts_of(to_valid_values(np.array(self.spikes), self.column), list(possible))
        return {name: np.concatenate([values, of_spikes[name]]) for name, values in possible.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {**super().to_json(), "calendar": self.calendar.to_json(), "date_columns": list(self.date_columns)}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        codec = SpikedNumericCodec.from_json(columns, data)
        calendar = Calendar.from_json(codec.column, data["calendar"], _listed_times(codec))
        dates = tuple(map(str, data.get("date_columns", ())))
        return cls(codec.column, codec.scaler, codec.normal_scores, codec.spikes, calendar, dates)


def with_calendars(codecs: Sequence[Codec], counts: TableCounts) -> tuple[list[CalendarPartCodec], list[Codec]]:
    """Return the calendar parts of timestamps, and all codecs, those of timestamps with calendars.

    A timestamp of which every value is a spike is a category already, and has no parts.
    """
    parts: list[CalendarPartCodec] = []
    others: list[Codec] = []
    for codec in codecs:
        kinds = [column.kind for column in codec.columns]
        if isinstance(codec, SpikedNumericCodec) and codec.normal_scores and CalendarPartCodec.supports(kinds[0]):
            column = codec.column
            of_column = counts[column.name].coerced(column)
            timestamp = TimestampCodec.from_numeric(codec, of_column)
            values = timestamp.calendar.values
            parts += [CalendarPartCodec(column, name, values[name]) for name in cycles(column, values, of_column)]
            others.append(timestamp)
        else:
            others.append(codec)
    return parts, others


def with_calendar_columns(
    parts: Sequence[CalendarPartCodec], others: Sequence[Codec], rows: Columns, counts: TableCounts, scaling: str
) -> tuple[list[CalendarPartCodec], list[Codec]]:
    """Return calendar parts and all other codecs, after a search in rows for columns that are functions of parts.

    A part of which a column is a function is a variable in any case, and numbers that are parts are labels.
    """
    parts, found, names = list(parts), list[Codec](), set[str]()
    times_of_day = [codec for codec in others if isinstance(codec, TimestampCodec)]
    dates_of = {codec.column.name: find_date_columns(others, codec.column, rows) for codec in times_of_day}
    all_dates = {date.name for dates in dates_of.values() for date in dates}
    for codec in others:
        if not isinstance(codec, TimestampCodec) or codec.column.name in all_dates:
            found.append(codec)
            continue
        copies, dates = find_calendar_columns(others, codec.column, rows), dates_of[codec.column.name]
        times = counts[codec.column.name].coerced(codec.column).values.values
        parts = _with_copies(parts, codec, copies, dates, times)
        names |= {each.name for each in copies}
        found.append(replace(codec, date_columns=tuple(date.name for date in dates)))
    return parts, with_label_codecs(found, names, counts, scaling)


def _with_copies(
    parts: list[CalendarPartCodec],
    timestamp: TimestampCodec,
    copies: Sequence[CalendarColumn],
    dates: tuple[Column, ...],
    times: Ints,
) -> list[CalendarPartCodec]:
    """Return calendar parts, those of a timestamp with the columns that are functions of them, or its date.

    The year, the month and the day say which date it is.
    """
    by_part: dict[str, list[CalendarColumn]] = {part: [] for part in ("year", "month", "day") if dates}
    for each in copies:
        by_part.setdefault(each.part, []).append(each)
    own = {part.part: index for index, part in enumerate(parts) if part.timestamp == timestamp.column}
    for name, columns in by_part.items():
        if name in own:
            parts[own[name]] = replace(parts[own[name]], copies=tuple(columns))
        else:
            values = np.unique(parts_of_times(timestamp.column, name, times))
            parts.append(CalendarPartCodec(timestamp.column, name, tuple(values.tolist()), tuple(columns)))
    return [
        replace(part, dates=dates) if part.timestamp == timestamp.column and part.part in DAY_PARTS else part
        for part in parts
    ]


def cycles(column: Column, values: Mapping[str, tuple[int, ...]], counts: ColumnCounts) -> list[str]:
    """Return the calendar parts that are variables of their own: those that vary, and repeat within the range."""
    days = (int(column.maximum or 0) - int(column.minimum or 0)) * column.tick / DAY
    names = [name for name in values if len(values[name]) > 1 and days >= MIN_DAYS.get(name, 0)]
    kept = {name for name in names if name in ("month", "hour")}
    if "weekday" in names and len(values["day"]) > 1:  # the weekday of the first of a month means nothing
        kept.add("weekday")
    if "day" in names and (len(values["day"]) <= MAX_PART_VALUES or _is_uneven(column, counts)):
        kept.add("day")
    is_long = days * DAY >= MIN_HOURS_OF_MINUTES * HOUR
    if "minute" in names and len(values["minute"]) <= MAX_PART_VALUES and is_long:
        kept.add("minute")
    return [name for name in names if name in kept]


def _is_uneven(column: Column, counts: ColumnCounts) -> bool:
    """Return whether some days of the month are clearly more frequent than others, as paydays are."""
    times, tick = counts.values.values, column.tick
    local = to_local(times, tick, column.zone)
    every = np.arange(local.min() // (DAY // tick), local.max() // (DAY // tick) + 1)
    expected = np.bincount(date_part("day", every, DAY), minlength=32) / len(every)
    found = np.bincount(date_part("day", local, tick), weights=counts.counts, minlength=32)
    n_days = len(np.unique(np.floor_divide(local, DAY // tick)))
    # Rows of one day are no independent draws: the noise is that of as many draws as there are days.
    noise = float(np.sqrt(expected / (2 * np.pi * min(n_days, counts.n_observed))).sum())
    distance = float(np.abs(found / found.sum() - expected).sum() / 2)
    return distance > max(MIN_UNEVENNESS, 2 * noise)


def _listed_times(codec: SpikedNumericCodec) -> Ints | None:
    """Return all times of the training table that are no spikes, if the normal scores keep them."""
    if codec.normal_scores is None or not codec.normal_scores.has_all_values:
        return None
    return to_valid_values(np.array(codec.normal_scores.values), codec.column)
