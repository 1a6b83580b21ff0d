"""The calendar of a column: which dates and times it can have, and the nearest of them.

A column of business days has no Sundays, one of measurements on the hour has no minutes, and none has a time that the
clocks of its zone skip. Which values of each calendar part occur is learnt from the training table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from harpoon.data import Column, Kind, Mask, WeightedValues
from harpoon.data.date_parts import DAY, HOUR, MINUTE, RANGES, SECOND, Ints, date_part, from_local, to_local
from harpoon.data.value_counts import nearest, sum_counts

DATE_PARTS = ("month", "day", "weekday")
DAY_PARTS = (*DATE_PARTS, "year", "quarter", "week", "dayofyear")  # the last ones are modelled if columns have them
TIME_PARTS = {"hour": HOUR, "minute": MINUTE, "second": SECOND}  # and their lengths in nanoseconds
# The number of values of each part, in the order in which parts are modelled. Months and days count from 1.
PERIODS = {"month": 12, "day": 31, "weekday": 7, "hour": 24, "minute": 60, "second": 60}
SIZES = {**PERIODS, "year": 2**16, "quarter": 4, "week": 53, "dayofyear": 366}  # of all parts of `DAY_PARTS`, too
MAX_LISTED = 1000  # distinct times, or days, that are listed one by one; as many as normal scores keep
MIN_DENSITY = 0.9  # of the possible days that occur, from which on the other ones are holidays
N_BESIDE = 5  # candidates on each side: all days of a month with a weekday
N_FAR = 100  # the same for the few times that clocks skip on all of these days: those of other years, too

Parts = Mapping[str, Ints]  # values of calendar parts by name, (n,) each


class _Candidates(NamedTuple):
    """Times or days in groups of equal parts: sorted by group, and by value inside a group."""

    names: tuple[str, ...]  # the parts that define the groups
    values: Ints  # (k,)
    keys: Ints  # of each value: its group, and its position among all values, (k,)
    distinct: Ints  # all values in ascending order

    @classmethod
    def from_parts(cls, values: Ints, parts: Parts) -> _Candidates:
        """Group distinct values in ascending order by their parts."""
        groups = _group_numbers(parts, len(values))
        order = np.argsort(groups, kind="stable")
        keys = (groups * (len(values) + 1) + np.arange(len(values)))[order]
        return cls(tuple(parts), values[order], keys, values)

    def around(self, values: Ints, parts: Parts, n_beside: int) -> tuple[Ints, Mask]:
        """Return the candidates of the same parts around values, (n, 2 * n_beside), and which of them exist."""
        stride = len(self.distinct) + 1
        group = _group_numbers({name: parts[name] for name in self.names}, len(values))
        query = group * stride + np.searchsorted(self.distinct, values)
        index = np.searchsorted(self.keys, query)[:, None] + np.arange(-n_beside, n_beside)
        inside = index.clip(0, len(self.keys) - 1)
        exists = (inside == index) & (self.keys[inside] // stride == group[:, None])
        return self.values[inside], exists


@dataclass(frozen=True)
class Calendar:
    """The dates or times of a column.

    Attributes:
        column: The column. Parts are those that the clocks of its time zone show.
        values: The values of each calendar part in the training table, ascending.
        times: All times of the training table in ascending order, if they are few: then no others are possible.
        days: All local days of the training table in ascending order, if they are few.
        time_of_day: The earliest and the latest local time of day in the training table, in ticks; None for dates.
    """

    column: Column
    values: Mapping[str, tuple[int, ...]]
    times: tuple[int, ...] | None = None
    days: tuple[int, ...] | None = None
    time_of_day: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        expected = set(PERIODS) if self.column.kind is Kind.DATETIME else set(DATE_PARTS)
        lists = [*self.values.values(), *(each for each in (self.times, self.days) if each is not None)]
        if set(self.values) != expected or not all(len(each) and list(each) == sorted(set(each)) for each in lists):
            raise ValueError(f"the calendar of column {self.column.name!r} needs ascending values of each part")
        for part, values in self.values.items():
            first = int(part in ("month", "day"))
            if values[0] < first or values[-1] >= first + PERIODS[part]:
                raise ValueError(f"the calendar of column {self.column.name!r} has an invalid {part}")
        if self.time_of_day is not None:
            first, last = self.time_of_day
            if not 0 <= first <= last < DAY // self.column.tick:
                raise ValueError(f"the calendar of column {self.column.name!r} has an invalid time of day")

    @classmethod
    def fit(cls, column: Column, times: Ints, listed: Ints | None, rows: Ints | None = None, min_rows: int = 1) -> Self:
        """Fit to the distinct times of a column; `listed`: those to choose from, if they are few.

        `rows` is how many rows each time has. Parts and days of fewer than `min_rows` rows are left out, and so are the
        times of day before and after those of as many rows.
        """
        tick = column.tick
        rows = np.ones(len(times), dtype=np.int64) if rows is None else rows
        local = to_local(times, tick, column.zone)
        names = PERIODS if column.kind is Kind.DATETIME else DATE_PARTS
        values = {part: _common_values(date_part(part, local, tick), rows, min_rows) for part in names}
        days, of_day = sum_counts(np.floor_divide(local, DAY // tick), rows)
        is_listed = listed is None and len(days) <= MAX_LISTED and bool((of_day >= min_rows).all())
        time_of_day = WeightedValues.from_values((local % (DAY // tick)).astype(np.float64), rows)
        ends = time_of_day.order_statistics(np.array([min_rows - 1, time_of_day.n_values - min_rows]))
        return cls(
            column,
            values,
            None if listed is None else tuple(listed.tolist()),
            tuple(days.tolist()) if is_listed else None,
            (int(ends.min()), int(ends.max())) if column.kind is Kind.DATETIME else None,
        )

    def parts_of(self, times: Ints, names: Sequence[str]) -> dict[str, Ints]:
        """Return parts of times by name, (n,) each."""
        local = to_local(times, self.column.tick, self.column.zone)
        return {name: date_part(name, local, self.column.tick) for name in names}

    def nearest(self, times: Ints, parts: Parts) -> Ints:
        """Return the nearest possible time with the given parts, (n,), or the nearest possible one where none has them.

        Where no possible day has the given parts, other days of the range are searched, too.

        >>> column = Column("day", Kind.DATE, minimum=0, maximum=3650, step=1)
        >>> calendar = Calendar(column, {"month": tuple(range(1, 13)), "day": (1,), "weekday": tuple(range(7))})
        >>> calendar.nearest(np.array([100]), {}).astype("datetime64[D]").astype(str).tolist()
        ['1970-04-01']
        >>> calendar.nearest(np.array([100]), {"month": np.array([7])}).astype("datetime64[D]").astype(str).tolist()
        ['1970-07-01']
        """
        found, agrees = self._search(times, parts, N_BESIDE)
        searches: tuple[tuple[Calendar, Parts, int], ...] = (
            (self, parts, N_FAR),
            (self._unlisted, parts, N_FAR),
            (self, {}, N_BESIDE),
        )
        for calendar, wanted, n_beside in searches if parts else ():
            rest = np.flatnonzero(~agrees)
            if len(rest):
                of_rest = {name: values[rest] for name, values in wanted.items()}
                found[rest], agrees[rest] = calendar._search(times[rest], of_rest, n_beside)
        return found

    @cached_property
    def _unlisted(self) -> Calendar:
        """The calendar of all times in the range: a given date or day may be one that the training table lacks."""
        dates = {part: tuple(range(RANGES[part][0], RANGES[part][1] + 1)) for part in DATE_PARTS}
        return replace(self, values={**self.values, **dates}, times=None, days=None)

    @cached_property
    def by_parts(self) -> Calendar:
        """The calendar of all times whose parts occur in the training table, and not only of the listed ones.

        Days stay listed where hardly any is left out, which then is a holiday and not a chance.
        """
        unlisted = replace(self, times=None, days=None)
        is_dense = self.days is not None and len(self.days) >= MIN_DENSITY * len(unlisted._days)
        return replace(unlisted, days=self.days) if is_dense else unlisted

    def contains(self, times: Ints) -> Mask:
        """Return which times are in the range and have parts that occur in the training table, (n,)."""
        local, known, per_day = (
            to_local(times, self.column.tick, self.column.zone),
            self._in_range(times),
            DAY // self.column.tick,
        )
        for name, values in self.values.items():
            known &= np.isin(date_part(name, local, self.column.tick), values)
        if self.days is not None and self.column.clip:
            known &= np.isin(np.floor_divide(local, per_day), self._days)
        if self.time_of_day is not None:
            first, last = self.time_of_day
            known &= (local % per_day >= first) & (local % per_day <= last)
        return known

    def combinations(self, names: Sequence[str]) -> dict[str, Ints]:
        """Return which values of parts occur together in a possible time, (combinations,) each.

        Parts that can have any value beside any other are left out.
        """
        parts, *_ = self.cells(names)
        if not parts:
            return {}
        distinct = np.unique(np.stack(list(parts.values())), axis=1)
        is_full = distinct.shape[1] == np.prod([len(np.unique(values)) for values in distinct])
        return {} if is_full else dict(zip(parts, distinct, strict=True))

    def cells(self, names: Sequence[str]) -> tuple[dict[str, Ints], Ints, Ints]:
        """Return the possible times, or days, in ascending order: their parts by name, first and last time, (k,) each.

        Parts of the time of day are left out for days.
        """
        used = [name for name in names if self.is_listed or name in DAY_PARTS]
        parts = self._parts_of_candidates(used)
        if self._times is not None:
            return parts, self._times, self._times
        tick, step = self.column.tick, int(self.column.step or 1)
        start, stop = (from_local((self._days + end) * (DAY // tick), tick, self.column.zone) for end in (0, 1))
        return parts, start, stop - step

    def to_json(self) -> dict[str, Any]:
        """Return the calendar as plain data, without the listed times, which normal scores keep."""
        days = None if self.days is None else list(self.days)
        time_of_day = None if self.time_of_day is None else list(self.time_of_day)
        values = {part: list(values) for part, values in self.values.items()}
        return {"values": values, "days": days, "time_of_day": time_of_day}

    @classmethod
    def from_json(cls, column: Column, data: Mapping[str, Any], listed: Ints | None) -> Self:
        """Restore from `to_json` and the listed times, or raise ValueError."""
        times = None if listed is None else tuple(listed.tolist())
        days = None if data["days"] is None else integers_from_json(data["days"])
        values = {part: integers_from_json(values) for part, values in data["values"].items()}
        time_of_day = None if data["time_of_day"] is None else integers_from_json(data["time_of_day"])
        if time_of_day is not None and len(time_of_day) != 2:  # noqa: PLR2004
            raise ValueError("a range of times of day has two ends")
        return cls(column, values, times, days, (time_of_day[0], time_of_day[1]) if time_of_day else None)

    @property
    def is_listed(self) -> bool:
        """Whether the possible times are those of a list, and not all times of some days."""
        return self._times is not None

    @property
    def _range(self) -> tuple[int, int]:
        """The first and the last possible time; beyond those of the training table with `clip=False`."""
        low, high = int(self.column.minimum or 0), int(self.column.maximum or 0)
        beyond = 0 if self.column.clip else high - low
        return low - beyond, high + beyond

    @cached_property
    def _times(self) -> Ints | None:
        if self.times is None or not self.column.clip:
            return None
        low, high = self._range
        inside = [time for time in self.times if low <= time <= high]
        return np.array(inside, dtype=np.int64) if inside else None

    @cached_property
    def _days(self) -> Ints:
        """The possible local days in ascending order."""
        days = np.floor_divide(
            to_local(np.array(self._range), self.column.tick, self.column.zone), DAY // self.column.tick
        )
        if self.days is not None and self.column.clip:
            return np.array(self.days, dtype=np.int64)
        every = np.arange(days[0], days[1] + 1)
        allowed = [np.isin(date_part(part, every, DAY), self.values[part]) for part in DATE_PARTS]
        possible = every[np.logical_and.reduce(allowed)]
        return possible if len(possible) else every

    def _parts_of_candidates(self, names: Sequence[str]) -> dict[str, Ints]:
        if self._times is not None:
            return self.parts_of(self._times, names)
        return {name: date_part(name, self._days, DAY) for name in names}

    @cached_property
    def _cache(self) -> dict[tuple[str, ...], _Candidates]:
        return {}

    def _candidates(self, names: Sequence[str]) -> _Candidates:
        """Return the listed times, or else the days, in groups by their parts."""
        used = tuple(name for name in names if self.is_listed or name in DAY_PARTS)
        if used not in self._cache:
            values = self._days if self._times is None else self._times
            self._cache[used] = _Candidates.from_parts(values, self._parts_of_candidates(used))
        return self._cache[used]

    def _search(self, times: Ints, parts: Parts, n_beside: int) -> tuple[Ints, Mask]:
        """Return the nearest possible time with the given parts, (n,), and where there is one; else the time itself."""
        if self._times is not None:
            candidates, exists = self._candidates(tuple(parts)).around(times, parts, n_beside)
        else:
            candidates, exists = self._on_days(times, parts, n_beside)
        distance = np.where(exists, np.abs((candidates - times[:, None]).astype(np.float64)), np.inf)
        best = distance.argmin(axis=1)[:, None]
        agrees = np.take_along_axis(exists, best, axis=1)[:, 0]
        return np.where(agrees, np.take_along_axis(candidates, best, axis=1)[:, 0], times), agrees

    def _on_days(self, times: Ints, parts: Parts, n_beside: int) -> tuple[Ints, Mask]:
        """Return times on possible days around given times, (n, candidates), and which of them are possible."""
        tick, zone = self.column.tick, self.column.zone
        local = to_local(times, tick, zone)
        days, exists = self._candidates(tuple(parts)).around(np.floor_divide(local, DAY // tick), parts, n_beside)
        if self.column.kind is Kind.DATE:
            return days, exists & self._in_range(days)
        wall = (days * (DAY // tick) + self._time_of_day(local, parts)[:, None]).ravel()
        shape = (len(times), -1)
        instants = [from_local(wall, tick, zone, later=later) for later in (False, True)]
        possible = [
            exists & ((to_local(each, tick, zone) == wall) & self._in_range(each)).reshape(shape) for each in instants
        ]
        return np.hstack([each.reshape(shape) for each in instants]), np.hstack(possible)

    def _time_of_day(self, local: Ints, parts: Parts) -> Ints:
        """Return the time of day in ticks, (n,): that of given parts, and what is left of the local times."""
        tick = self.column.tick
        total = local % max(SECOND // tick, 1)
        for name, length in TIME_PARTS.items():
            value = parts.get(name)
            if value is None:
                value = nearest(date_part(name, local, tick), np.array(self.values[name]))
            total = total + value * (length // tick)
        return total if self.time_of_day is None else np.clip(total, *self.time_of_day)

    def _in_range(self, times: Ints) -> Mask:
        """Return which times are in the range, at the resolution of the column."""
        low, high = self._range
        return np.asarray((times >= low) & (times <= high) & (times % int(self.column.step or 1) == 0))


def nearest_code(values: Ints, part: str, known: Sequence[int]) -> Ints:
    """Return the position of the nearest of some known values of a part, (n,); December is next to January."""
    distance = np.abs(values[:, None] - np.array(known))
    return np.asarray(np.minimum(distance, np.abs(SIZES[part] - distance)).argmin(axis=1), dtype=np.int64)


def integers_from_json(data: Any) -> tuple[int, ...]:  # noqa: ANN401
    """Return a list of integers as a tuple, or raise ValueError."""
    if not isinstance(data, list) or not all(type(value) is int for value in data):
        raise ValueError("expected a list of integers")
    return tuple(data)


def _group_numbers(parts: Parts, n: int) -> Ints:
    """Return a number for each combination of parts, (n,)."""
    group = np.zeros(n, dtype=np.int64)
    for name, values in parts.items():
        group = group * (SIZES[name] + 1) + values
    return group


def _common_values(values: Ints, rows: Ints, min_rows: int) -> tuple[int, ...]:
    """Return the distinct values that occur in at least so many rows; the most frequent one if none does."""
    distinct, counts = sum_counts(values, rows)
    common = distinct[counts >= min_rows]
    return tuple((common if len(common) else distinct[[counts.argmax()]]).tolist())
