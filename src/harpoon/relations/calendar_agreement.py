"""Calendar columns in sampled rows: parts and dates that are columns agree with their timestamp.

A cell that was not given follows from the timestamp. A timestamp that was not given moves to the nearest time that has
the given parts and date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Columns, Mask, n_rows, take
from harpoon.data.date_parts import Ints
from harpoon.encoding import Codec, RowCodec
from harpoon.encoding.temporal.calendar_columns import CalendarColumn, dates_of, parts_of_times
from harpoon.encoding.temporal.calendar_grid import DAY_PARTS, nearest_code
from harpoon.encoding.temporal.calendar_parts import CalendarPartCodec, TimestampCodec


def calendar_relations(codec: RowCodec) -> list[tuple[str, str, bool]]:
    """Return the columns that a timestamp determines: name, what it is, and whether that is its value."""
    found = []
    for timestamp, parts in _timestamps(codec):
        name = timestamp.column.name
        columns = [copy for part in parts for copy in part.copies]
        found += [(copy.name, copy.describe(name), bool(copy.formula)) for copy in columns]
        found += [(date, f"date({name})", True) for date in timestamp.date_columns]
    return found


def breaks_calendar(rows: Columns, codec: RowCodec) -> Mask:
    """Return in which rows a calendar column differs from what its timestamp says, (n,)."""
    broken = np.zeros(n_rows(rows), dtype=np.bool_)
    for timestamp, parts in _timestamps(codec):
        for name, values, known in _determined(timestamp, parts, rows, codec):
            broken |= known & ~rows[name].missing & (rows[name].values != values)
    return broken


def fill_calendar_columns(rows: Columns, codec: RowCodec) -> Columns:
    """Fill unknown calendar columns beside a known timestamp."""
    filled = dict(rows)
    for timestamp, parts in _timestamps(codec):
        for name, values, known in _determined(timestamp, parts, filled, codec):
            cells = filled[name]
            wanted = known & cells.unknown
            if wanted.any():
                written = np.where(wanted, values, cells.values).astype(cells.values.dtype)
                filled[name] = replace(cells, values=written, missing=cells.missing & ~wanted)
    return filled


def follow_calendar(rows: Columns, given: Columns, codec: RowCodec, *, only_dates: bool = False) -> Columns:
    """Return rows in which calendar columns agree with their timestamp; cells that are known in `given` stay.

    `only_dates`: parts that differ stay, so that their rows can be sampled again.
    """
    followed = dict(rows)
    for timestamp, parts in _timestamps(codec):
        name = timestamp.column.name
        cells = followed[name]
        free = given[name].unknown & ~cells.missing
        if free.any():
            moved = _move(timestamp, () if only_dates else parts, followed, given, codec)
            followed[name] = replace(cells, values=np.where(free, moved, cells.values))
        for column, values, known in _determined(timestamp, () if only_dates else parts, followed, codec):
            old = followed[column]
            changed = known & given[column].unknown & ~old.missing
            followed[column] = replace(old, values=np.where(changed, values, old.values).astype(old.values.dtype))
    return followed


def has_given_parts(timestamp: Codec, rows: Columns, codec: RowCodec, times: Ints) -> Mask:
    """Return which times, (k,), have the calendar parts and the date that rows have, (n, k)."""
    allowed = np.ones((n_rows(rows), len(times)), dtype=np.bool_)
    for each, parts in _timestamps(codec):
        if each is not timestamp:
            continue
        allowed &= _has_columns(each, [copy for part in parts for copy in part.copies], rows, times)
        for date in each.date_columns:
            cells = rows[date]
            values = dates_of(each.column, codec.schema[date], times)
            allowed &= cells.missing[:, None] | (cells.values[:, None] == values)
    return allowed


def _has_columns(timestamp: TimestampCodec, copies: list[CalendarColumn], rows: Columns, times: Ints) -> Mask:
    """Return which times, (k,), have the known cells of some calendar columns of rows, (n, k)."""
    allowed = np.ones((n_rows(rows), len(times)), dtype=np.bool_)
    for copy in copies:
        values, known = copy.cells_of(parts_of_times(timestamp.column, copy.part, times))
        cells = rows[copy.name]
        allowed &= cells.missing[:, None] | ~known | (cells.values[:, None] == values)
    return allowed


def _timestamps(codec: RowCodec) -> list[tuple[TimestampCodec, list[CalendarPartCodec]]]:
    """Return the timestamps with calendar columns, and their parts that have such columns."""
    parts = {each.position: list(each.parts.values()) for each in codec.timestamps}
    found = [
        (each, [part for part in parts.get(index, []) if part.copies])
        for index, each in enumerate(codec.codecs)
        if isinstance(each, TimestampCodec)
    ]
    return [(each, of_each) for each, of_each in found if of_each or each.date_columns]


def _determined(
    timestamp: TimestampCodec, parts: Sequence[CalendarPartCodec], rows: Columns, codec: RowCodec
) -> list[tuple[str, NDArray[Any], Mask]]:
    """Return each calendar column, the value that its timestamp determines, (n,), and where there is one, (n,)."""
    cells, found = rows[timestamp.column.name], list[tuple[str, NDArray[Any], Mask]]()
    for copy in [copy for part in parts for copy in part.copies]:
        values, known = copy.cells_of(parts_of_times(timestamp.column, copy.part, cells.values))
        found.append((copy.name, values, known & ~cells.missing))
    dates = {name: dates_of(timestamp.column, codec.schema[name], cells.values) for name in timestamp.date_columns}
    return [*found, *((name, values, ~cells.missing) for name, values in dates.items())]


def _move(
    timestamp: TimestampCodec, parts: Sequence[CalendarPartCodec], rows: Columns, given: Columns, codec: RowCodec
) -> Ints:
    """Return the nearest times with the given date and parts, (n,); times that have them stay.

    Where the nearest value of each part makes no date, all days are searched.
    """
    times = rows[timestamp.column.name].values
    moved = _move_to_parts(timestamp, parts, times, given, codec)
    copies = [copy for part in parts for copy in part.copies]
    of_days = [copy for copy in copies if copy.part in DAY_PARTS and not copy.is_injective]
    wrong = np.zeros(len(times), dtype=np.bool_)
    for copy in copies if of_days else ():
        values, known = copy.cells_of(parts_of_times(timestamp.column, copy.part, moved))
        wrong |= ~given[copy.name].missing & ~(known & (values == given[copy.name].values))
    if wrong.any():
        some = take(given, np.flatnonzero(wrong))
        _, days, _ = timestamp.calendar.cells(())
        distance = np.abs((days - times[wrong][:, None]).astype(np.float64))
        fits = _has_columns(timestamp, [copy for copy in copies if copy.part in DAY_PARTS], some, days)
        nearest = days[np.where(fits, distance, np.inf).argmin(axis=1)]
        exact = {part: parts_of_times(timestamp.column, part, nearest) for part in ("year", "month", "day")}
        exact |= {
            part.part: _wanted_part(part, some, times[wrong])[0][0] for part in parts if part.part not in DAY_PARTS
        }
        moved[wrong] = timestamp.calendar.nearest(times[wrong], exact)
    return moved


def _move_to_parts(
    timestamp: TimestampCodec, parts: Sequence[CalendarPartCodec], times: Ints, given: Columns, codec: RowCodec
) -> Ints:
    """Return the times with the nearest value of each given part, (n,), and the given date."""
    wanted: dict[str, tuple[Ints, Mask]] = {}
    right = np.ones(len(times), dtype=np.bool_)
    for part in parts:
        wanted[part.part], has_part = _wanted_part(part, given, times)
        right &= has_part
    for name in timestamp.date_columns:
        dates, known = given[name], ~given[name].missing
        column = codec.schema[name]
        right &= ~known | (dates_of(timestamp.column, column, times) == dates.values)
        for part_name in ("year", "month", "day"):
            values, is_wanted = wanted.get(part_name, (times, np.zeros_like(known)))
            of_date = parts_of_times(column, part_name, dates.values)
            wanted[part_name] = np.where(known, of_date, values), is_wanted | known
    wrong, moved = np.flatnonzero(~right), times.copy()
    patterns = np.array([known[wrong] for _, known in wanted.values()])
    for pattern in np.unique(patterns, axis=1).T if len(wrong) else ():
        some = wrong[(patterns == pattern[:, None]).all(axis=0)]
        used = [name for name, is_known in zip(wanted, pattern, strict=True) if is_known]
        moved[some] = timestamp.calendar.nearest(times[some], {name: wanted[name][0][some] for name in used})
    return moved


def _wanted_part(part: CalendarPartCodec, given: Columns, times: Ints) -> tuple[tuple[Ints, Mask], Mask]:
    """Return the value of a part beside given columns, (n,), where one is given, (n,), and which times have it, (n,).

    It is the value next to that of the time among those that the given column can have.
    """
    current = parts_of_times(part.timestamp, part.part, times)
    wanted, known, right = current.copy(), np.zeros(len(times), dtype=np.bool_), np.ones(len(times), dtype=np.bool_)
    for copy in sorted(part.copies, key=lambda copy: copy.is_injective):  # a month says more than its season
        cells = given[copy.name]
        values, is_listed = copy.cells_of(current)
        differs = ~cells.missing & ~(is_listed & (values == cells.values))
        known, right = known | ~cells.missing, right & ~differs
        for value in np.unique(cells.values[differs]).tolist():
            options = np.array(copy.part_values)[np.array(copy.values) == value]
            rows = np.flatnonzero(differs & (cells.values == value))
            if len(options):
                wanted[rows] = options[nearest_code(current[rows], part.part, options)]
    return (wanted, known), right
