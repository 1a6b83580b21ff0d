"""Calendar parts agree with the standard library, also around daylight saving and leap days."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harpoon import Column, InvalidOption, Kind
from harpoon.data.date_parts import HOUR, MINUTE, SECOND, date_part, from_local, is_zone, to_local

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
INSTANTS = st.integers(0, 2_100_000_000) | st.integers(1_698_540_000, 1_698_550_000)  # and the end of summer time


@given(INSTANTS, st.sampled_from(ZONES))
@example(1_698_541_200, "Europe/Berlin")
def test_parts_are_those_of_the_clocks_of_the_zone(second, zone):
    moment = dt.datetime.fromtimestamp(second, ZoneInfo(zone))
    local = to_local(np.array([second]), SECOND, zone)
    parts = {
        part: int(date_part(part, local, SECOND)[0]) for part in ("year", "month", "day", "hour", "minute", "week")
    }
    fields = {part: getattr(moment, part) for part in ("year", "month", "day", "hour", "minute")}
    assert parts == fields | {"week": moment.isocalendar().week}
    assert (
        date_part("isodow", local, SECOND) == moment.isoweekday() == (date_part("weekday", local, SECOND) - 1) % 7 + 1
    )
    assert date_part("dayofyear", local, SECOND) == moment.timetuple().tm_yday
    assert second in {int(from_local(local, SECOND, zone, later=later)[0]) for later in (False, True)}


def test_a_skipped_local_time_becomes_the_first_after_the_gap():
    local = np.array([dt.datetime(2024, 3, 31, 2, 30, tzinfo=dt.UTC).timestamp()], dtype=np.int64)
    instant = from_local(local, SECOND, "Europe/Berlin")
    assert dt.datetime.fromtimestamp(int(instant[0]), dt.UTC) == dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC)


def test_units_of_time():
    assert (HOUR, MINUTE) == (3600 * SECOND, 60 * SECOND)


def test_a_zone_must_exist():
    assert [is_zone(zone) for zone in ("", "+01:00", "Mars/Olympus")] == [True, True, False]
    with pytest.raises(InvalidOption, match="Europe/Berlin"):
        Column("t", Kind.DATETIME, unit="s", zoned=True, zone="Mars/Olympus")
