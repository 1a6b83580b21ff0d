"""Calendar parts of dates and times: year, month, weekday, hour and so on, in the time zone of a column.

Times are integers: ticks since 1970, where a tick is a unit of time in nanoseconds (`DAY` for dates). A *local* time is
what a clock on the wall shows; its ticks are counted as if the wall were in UTC. Arrow knows the zones; it has no
daylight saving after 2037.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harpoon.data.column_array import NANOSECONDS

Ints = NDArray[np.int64]
SECOND = 10**9  # nanoseconds
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
TIME_UNITS = {  # in nanoseconds, the longest first
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": 10**6,
    "microsecond": 10**3,
    "nanosecond": 1,
}
MAX_TICKS = 2.0**63 - 1024  # the largest float that is an integer of 64 bits; later times are clipped
UNITS = {tick: unit for unit, tick in NANOSECONDS.items()}


def to_local(times: Ints, tick: int, zone: str) -> Ints:
    """Return the local times of instants, (n,), in a time zone; "" is UTC."""
    if not zone or not len(times):
        return times
    return np.asarray(pc.local_timestamp(_timestamps(times, tick, zone)).cast(pa.int64()))


def from_local(times: Ints, tick: int, zone: str, *, later: bool = False) -> Ints:
    """Return the instants of local times, (n,): of a repeated one the earlier or the later.

    A local time that the clocks skip becomes the first instant after the gap.
    """
    if not zone or not len(times):
        return times
    local = _timestamps(times, tick, None)
    ambiguous = "latest" if later else "earliest"
    instants = pc.assume_timezone(local, zone, ambiguous=ambiguous, nonexistent="latest")
    return np.asarray(instants.cast(pa.int64()))


def is_zone(zone: str) -> bool:
    """Return whether a time zone is known, such as "Europe/Berlin" or "+01:00"."""
    try:
        to_local(np.zeros(1, dtype=np.int64), SECOND, zone)
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError):
        return False
    return True


def date_part(part: str, local: Ints, tick: int) -> Ints:
    """Return a part of local times, an entry of `PARTS`.

    >>> days = np.array(["2024-02-29", "2023-12-31"], dtype="datetime64[D]").astype(np.int64)
    >>> {part: date_part(part, days, DAY).tolist() for part in ("month", "dayofyear", "weekday", "isodow", "week")}
    {'month': [2, 12], 'dayofyear': [60, 365], 'weekday': [4, 0], 'isodow': [4, 7], 'week': [9, 52]}
    """
    per_day = DAY // tick
    days = np.floor_divide(local, per_day)
    return PARTS[part](days, (local - days * per_day) * tick)


def _timestamps(times: Ints, tick: int, zone: str | None) -> pa.Array:
    return pa.array(times.astype(np.int64)).cast(pa.timestamp(UNITS[tick], zone))


def _floor(days: Ints, unit: str) -> Any:  # noqa: ANN401
    """Return the first day of the year or month, as a datetime64 of that unit."""
    return days.astype("datetime64[D]").astype(f"datetime64[{unit}]")


def _since(days: Ints, unit: str) -> Ints:
    """Return the number of days since the start of the year or month."""
    return np.asarray(days - _floor(days, unit).astype("datetime64[D]").astype(np.int64))


def _year(days: Ints) -> Ints:
    return np.asarray(_floor(days, "Y").astype(np.int64) + 1970)


def _month(days: Ints) -> Ints:
    return np.asarray(_floor(days, "M").astype(np.int64) % 12 + 1)


def _week(days: Ints) -> Ints:
    """Return the week of ISO 8601: week 1 of a year has its first Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return _since(thursday, "Y") // 7 + 1


# From the day number and the time of day in nanoseconds. Days of the week are numbered as in DuckDB: `weekday` from
# Sunday = 0 to Saturday = 6, `isodow` from Monday = 1 to Sunday = 7. 1970-01-01 is a Thursday.
PARTS: dict[str, Callable[[Ints, Ints], Ints]] = {
    "year": lambda days, _time: _year(days),
    "quarter": lambda days, _time: (_month(days) + 2) // 3,
    "month": lambda days, _time: _month(days),
    "week": lambda days, _time: _week(days),
    "day": lambda days, _time: _since(days, "M") + 1,
    "dayofyear": lambda days, _time: _since(days, "Y") + 1,
    "weekday": lambda days, _time: (days + 4) % 7,
    "isodow": lambda days, _time: (days + 3) % 7 + 1,
    "hour": lambda _days, time: time // HOUR,
    "minute": lambda _days, time: time // MINUTE % 60,
    "second": lambda _days, time: time // SECOND % 60,
}
# The smallest and the largest value of each part; a year has none.
RANGES = {
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dayofyear": (1, 366),
    "weekday": (0, 6),
    "isodow": (1, 7),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
TIMES_OF_DAY = ("hour", "minute", "second")  # parts that a date does not have
