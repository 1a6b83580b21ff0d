"""Calendar parts: month, weekday, hour and so on of a timestamp, each a variable of the row like any other.

A timestamp is a number on a line, and a network that reads it as one learns its cycles badly: that it is cold in every
January, and at night. So its parts are categories of their own. They are observed where the timestamp is, they are
sampled before it, and then the timestamp is the nearest time with these parts (`docs/columns.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from harpoon.data import Column, ColumnArray, ColumnCounts, Columns, Floats, Kind, TableCounts
from harpoon.data.calendar import DAY, HOUR, Ints, date_part, to_local
from harpoon.encoding.base import Codec, Part, PartType, ValueCells
from harpoon.encoding.calendar_grid import (
    PERIODS,
    Calendar,
    Parts,
    integers_from_json,
    nearest_code,
    ticks_of,
)
from harpoon.encoding.numeric import SpikedNumericCodec, integer_origin, to_valid_values

MIN_DAYS = {"month": 60, "day": 60, "weekday": 14, "hour": 2}  # range below which a part is no cycle
MIN_HOURS_OF_MINUTES = 2
MAX_FEW_VALUES = 16  # minutes and days of the month are modelled if they have at most this many values
N_TIMES = 4096  # possible times that stand for those of a column with more
MIN_UNEVENNESS = 0.1  # total variation between the days of the month and those of the calendar, to model them


@dataclass(frozen=True)
class CalendarPartCodec(Codec):
    """A one-hot vector of the values that a calendar part of a timestamp has in the training table.

    Attributes:
        timestamp: The column whose part it is.
        part: A name in `PERIODS`.
        values: The values of the part, ascending.
    """

    timestamp: Column
    part: str
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.part not in PERIODS or not self.values or list(self.values) != sorted(set(self.values)):
            raise ValueError(f"a calendar part of {self.timestamp.name!r} must be one of {', '.join(PERIODS)}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """None: it does not hold the values of a column."""
        return ()

    @property
    def label(self) -> str:
        """What it encodes, as SQL."""
        return f"{self.part}({self.timestamp.name})"

    @property
    def parts(self) -> tuple[Part, ...]:
        """One category."""
        return (Part(len(self.values), PartType.CATEGORICAL),)

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind has calendar parts."""
        return kind in (Kind.DATE, Kind.DATETIME)

    def is_observed(self, rows: Columns) -> NDArray[np.bool_]:
        """Return in which rows the timestamp is observed, (n,)."""
        return ~rows[self.timestamp.name].missing

    def encode_columns(self, rows: Columns) -> Floats:
        """Return one-hot vectors, (n, values); a part that the training table does not have is the nearest that it has.

        Rows without a timestamp are zeros.
        """
        cells = rows[self.timestamp.name]
        return self.encode_times(cells.values) * ~cells.missing[:, None]

    def encode_times(self, times: Ints) -> Floats:
        """Return the one-hot vectors of times, (n, values)."""
        tick = ticks_of(self.timestamp)
        value = date_part(self.part, to_local(times, tick, self.timestamp.zone), tick)
        return np.asarray(np.eye(len(self.values))[nearest_code(value, self.part, self.values)])

    def decode_columns(self, x: Floats, *, is_mean: bool = False) -> Columns:  # noqa: ARG002
        """Return no cells: the timestamp is decoded with all its parts."""
        return {}

    def decode_part(self, x: Floats) -> Ints:
        """Return the most probable value of the part, (n,)."""
        return np.asarray(np.array(self.values, dtype=np.int64)[x.argmax(axis=1)])

    def expectations(self, x: Floats) -> dict[str, Floats]:  # noqa: ARG002
        """Return nothing: it has no column."""
        return {}

    def soft_columns(self, x: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return nothing: it has no column."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {
            "codec": type(self).__name__,
            "columns": [self.timestamp.name],
            "part": self.part,
            "values": list(self.values),
        }

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        return cls(columns[0], data["part"], integers_from_json(data["values"]))


@dataclass(frozen=True)
class TimestampCodec(SpikedNumericCodec):
    """A numeric codec of dates or datetimes whose sampled values are possible times of its calendar."""

    calendar: Calendar

    @classmethod
    def from_numeric(cls, codec: SpikedNumericCodec, times: Ints) -> TimestampCodec:
        """Add the calendar of the distinct times of the training table to a codec."""
        calendar = Calendar.fit(codec.column, times, _listed_times(codec))
        return cls(codec.column, codec.scaler, codec.normal_scores, codec.spikes, calendar)

    @classmethod
    def supports(cls, kind: Kind) -> bool:
        """Return whether the kind has calendar parts."""
        return CalendarPartCodec.supports(kind)

    def decode(self, x: Floats, *, is_mean: bool = False) -> ColumnArray:
        """Return possible times of the calendar; of an expectation, times at the column's resolution."""
        return super().decode(x, is_mean=True) if is_mean else self.decode_with_parts(x, {})

    def is_possible(self, cells: ColumnArray) -> NDArray[np.bool_]:
        """Return which times lie on the grid of the calendar, (n,)."""
        times = np.asarray(cells.values, dtype=np.int64)
        return np.asarray(self.calendar.nearest(times, {}) == times)

    def is_on_grid(self, times: Ints) -> NDArray[np.bool_]:
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
        return {**super().to_json(), "calendar": self.calendar.to_json()}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Self:
        """Restore from `to_json`."""
        codec = SpikedNumericCodec.from_json(columns, data)
        calendar = Calendar.from_json(codec.column, data["calendar"], _listed_times(codec))
        return cls(codec.column, codec.scaler, codec.normal_scores, codec.spikes, calendar)


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
            timestamp = TimestampCodec.from_numeric(codec, of_column.values.values)
            values = timestamp.calendar.values
            parts += [CalendarPartCodec(column, name, values[name]) for name in cycles(column, values, of_column)]
            others.append(timestamp)
        else:
            others.append(codec)
    return parts, others


def cycles(column: Column, values: Mapping[str, tuple[int, ...]], counts: ColumnCounts) -> list[str]:
    """Return the calendar parts that are variables of their own: those that vary, and repeat within the range."""
    days = (int(column.maximum or 0) - int(column.minimum or 0)) * ticks_of(column) / DAY
    names = [name for name in values if len(values[name]) > 1 and days >= MIN_DAYS.get(name, 0)]
    kept = {name for name in names if name in ("month", "hour")}
    if "weekday" in names and len(values["day"]) > 1:  # the weekday of the first of a month means nothing
        kept.add("weekday")
    if "day" in names and (len(values["day"]) <= MAX_FEW_VALUES or _is_uneven(column, counts)):
        kept.add("day")
    is_long = days * DAY >= MIN_HOURS_OF_MINUTES * HOUR
    if "minute" in names and len(values["minute"]) <= MAX_FEW_VALUES and is_long:
        kept.add("minute")
    return [name for name in names if name in kept]


def _is_uneven(column: Column, counts: ColumnCounts) -> bool:
    """Return whether some days of the month are clearly more frequent than others, as paydays are."""
    times, tick = counts.values.values, ticks_of(column)
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
