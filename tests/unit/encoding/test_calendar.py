"""Calendars of timestamps: which parts are modelled, and that sampled times have them, on the grid of the column."""

import datetime as dt
import json
import zoneinfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import Column, Kind, dataframe, read_columns
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.temporal.calendar_grid import DATE_PARTS, MAX_LISTED, Calendar
from harpoon.encoding.temporal.calendar_parts import CalendarPartCodec, TimestampCodec

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
START = pd.Timestamp("2019-01-01")
HOURS = START + pd.to_timedelta(np.arange(0, 4 * 365 * 24, 7), unit="h")  # more than are listed
DAYS = pd.date_range("2004-01-01", "2011-12-31")
# Tables of one timestamp, and the parts that are modelled.
GRIDS = {
    "hours": (HOURS, ["month", "weekday", "hour"]),
    "days": (DAYS, ["month", "weekday"]),
    "business days": (pd.bdate_range("2004-01-01", "2013-12-31"), ["month", "weekday"]),
    "few business days": (pd.bdate_range("2004-01-01", "2006-12-31"), ["month", "weekday"]),
    "first of months": (pd.date_range("1900-01-01", "2010-12-31", freq="MS"), ["month"]),
    "twice a month": (DAYS[DAYS.day.isin([1, 15])], ["month", "day", "weekday"]),
    "quarters of an hour": (pd.date_range("2020-01-01", "2020-01-25", freq="15min"), ["weekday", "hour", "minute"]),
    "opening hours": (HOURS[HOURS.hour.isin(range(9, 18)) & (HOURS.day_of_week < 5)], ["month", "weekday", "hour"]),
    "one evening": (pd.date_range("2020-01-01 18:00", periods=2000, freq="2s"), []),
    "seconds": (START + pd.to_timedelta(np.arange(5000) * 99_991, unit="s"), ["month", "weekday", "hour"]),
    "spikes": (pd.to_datetime(["2020-01-01", "2020-03-01", "2020-05-01"] * 5), []),
}
PARTS = {"month": "month", "day": "day", "weekday": "day_of_week", "hour": "hour", "minute": "minute"}


def codec_of(times, **options):
    table = dataframe.read(pd.DataFrame({"t": times}))
    schema = Schema.from_counts(count_columns(table))
    given = {"encoding": "mixed", "scaling": "standard", "calendar_parts": True, **options}
    return RowCodec.fit(schema, count_columns(table), **given), read_columns(table, schema)


def decoded(codec, x):
    column = codec.schema["t"]
    ticks = codec.decode(x)["t"].values
    unit = "D" if column.kind is Kind.DATE else column.unit
    times = pd.DatetimeIndex(ticks.astype(f"datetime64[{unit}]"))
    return times.tz_localize("UTC").tz_convert(column.zone or "UTC") if column.zoned else times


@pytest.mark.parametrize("name", GRIDS)
def test_parts_that_vary_and_repeat_are_modelled(name):
    times, expected = GRIDS[name]
    codec, _ = codec_of(times)
    assert [part.part for each in codec.timestamps for part in each.parts.values()] == expected
    assert codec_of(times, calendar_parts=False)[0].timestamps == ()


def test_days_of_the_month_are_modelled_where_some_are_more_frequent():
    random = np.random.default_rng(0)
    paydays = DAYS[(DAYS.day == 28) | (random.random(len(DAYS)) < 0.2)]
    often = paydays.repeat(np.where(paydays.day == 28, 20, 1))
    names = [[part.part for part in each.parts.values()] for each in codec_of(often)[0].timestamps]
    assert names == [["month", "day", "weekday"]]


@pytest.mark.parametrize("zone", [None, *ZONES])
@pytest.mark.parametrize("name", GRIDS)
def test_encoded_times_decode_to_themselves(name, zone):
    times = GRIDS[name][0]
    codec, rows = codec_of(times if zone is None else times.tz_localize("UTC").tz_convert(zone))
    assert np.array_equal(codec.decode(codec.encode(rows))["t"].values, rows["t"].values)


@st.composite
def sampled_rows(draw, name, zone=None):
    """Encoded rows with the number of one time and the parts of another, and these parts."""
    times = GRIDS[name][0] if zone is None else GRIDS[name][0].tz_localize("UTC").tz_convert(zone)
    codec, rows = codec_of(times)
    x = codec.encode(rows)
    seed = draw(st.integers(0, 2**32 - 1))
    own, other = np.random.default_rng(seed).integers(0, len(times), (2, 64))
    (timestamp,) = codec.timestamps
    position = next(part.start for part in codec.slices if part.column == timestamp.position)
    mixed = x[own].copy()
    mixed[:, :position] = x[other, :position]
    return codec, mixed, times[other], times


@pytest.mark.parametrize(
    ("name", "zone"), [*((name, None) for name in GRIDS if GRIDS[name][1]), *(("hours", zone) for zone in ZONES)]
)
def test_sampled_times_have_the_sampled_parts_and_lie_on_the_grid(name, zone):
    @given(sampled_rows(name, zone))
    @settings(max_examples=8, deadline=None)
    def check(sample):
        codec, x, other, times = sample
        found = decoded(codec, x)
        for part in codec.timestamps[0].parts.values():
            assert np.array_equal(getattr(found, PARTS[part.part]), getattr(other, PARTS[part.part]))
        assert found.min() >= times.min()
        assert found.max() <= times.max()
        codes = {each: set(np.unique(getattr(times, each))) for each in (*PARTS.values(), "second")}
        assert all(set(np.unique(getattr(found, each))) <= values for each, values in codes.items())
        if len(times) <= MAX_LISTED:
            assert found.isin(times).all()

    check()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_nearest_day_with_the_parts_is_found(seed):
    random = np.random.default_rng(seed)
    days = DAYS[random.random(len(DAYS)) < 0.9]
    column = Column("t", Kind.DATE, minimum=_number(days.min()), maximum=_number(days.max()), step=1)
    numbers = days.to_numpy().astype("datetime64[D]").astype(np.int64)
    calendar = Calendar.fit(column, numbers, None)
    names = list(DATE_PARTS[: random.integers(1, 4)])
    own, parts = random.choice(numbers, 20), calendar.parts_of(random.choice(numbers, 20), names)
    every = np.arange(column.minimum, column.maximum + 1)
    agrees = [calendar.parts_of(every, names)[name] == parts[name][:, None] for name in names]
    distance = np.where(np.logical_and.reduce(agrees), np.abs(every - own[:, None]), 10**9).min(axis=1)
    assert np.array_equal(np.abs(calendar.nearest(own, parts) - own), distance)


def _number(day):
    return int(np.datetime64(day, "D").astype(int))


def test_leap_days_are_days_of_leap_years():
    numbers = DAYS.to_numpy().astype("datetime64[D]").astype(np.int64)
    column = Column("t", Kind.DATE, minimum=int(numbers[0]), maximum=int(numbers[-1]), step=1)
    calendar = Calendar.fit(column, numbers, None)
    parts = {"month": np.full(len(numbers), 2), "day": np.full(len(numbers), 29)}
    found = calendar.nearest(numbers, parts).astype("datetime64[D]")
    assert set(found.astype(str)) == {"2004-02-29", "2008-02-29"}
    no_such_day = {"month": np.array([2]), "day": np.array([30])}
    assert calendar.nearest(numbers[:1], no_such_day).tolist() == numbers[:1].tolist()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_times_that_the_clocks_skip_are_never_found(zone):
    every = pd.date_range(START, "2021-12-31", freq="h", tz="UTC").tz_convert(zone)
    ticks = every.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[s]").astype(np.int64)
    column = Column(
        "t", Kind.DATETIME, minimum=int(ticks[0]), maximum=int(ticks[-1]), step=3600, unit="s", zoned=True, zone=zone
    )
    calendar = Calendar.fit(column, ticks, None)
    near = ticks[(every.month == 3) & (every.hour == 3)]
    found = calendar.nearest(near, {"hour": np.full(len(near), 2), "month": np.full(len(near), 3)})
    clocks = [dt.datetime.fromtimestamp(int(each), zoneinfo.ZoneInfo(zone)) for each in found]
    assert {(each.hour, each.month) for each in clocks} == {(2, 3)}


def test_without_a_range_times_beyond_the_training_table_are_possible():
    numbers = DAYS.to_numpy().astype("datetime64[D]").astype(np.int64)
    column = Column("t", Kind.DATE, minimum=int(numbers[0]), maximum=int(numbers[-1]), step=1, clip=False)
    later = np.array([numbers[-1] + 100])
    found = Calendar.fit(column, numbers, None).nearest(later, {"month": np.array([7])})
    assert found[0] > numbers[-1]


def test_an_unseen_part_is_encoded_as_the_nearest():
    column = Column("t", Kind.DATE, minimum=0, maximum=365)
    part = CalendarPartCodec(column, "month", (1, 4, 8))
    december, june = (np.array([np.datetime64(day, "D").astype(int)]) for day in ("1970-12-05", "1970-05-05"))
    assert part.encode_times(december).tolist() == [[1, 0, 0]]
    assert part.encode_times(june).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("name", ["hours", "few business days", "twice a month"])
def test_a_codec_is_restored_from_plain_data(name):
    codec, rows = codec_of(GRIDS[name][0])
    restored = RowCodec.from_json(codec.schema, json.loads(json.dumps(codec.to_json())))
    assert restored == codec
    assert np.array_equal(restored.encode(rows), codec.encode(rows))
    assert isinstance(restored.timestamps[0].codec, TimestampCodec)


DAMAGES = {
    "part": lambda data: data[0].update(part="era"),
    "values": lambda data: data[0].update(values=["1"]),
    "no values": lambda data: data[0].update(values=[]),
    "twice": lambda data: data.insert(0, data[0]),
    "no calendar": lambda data: data[-1].pop("calendar"),
    "no month": lambda data: data[-1]["calendar"]["values"].pop("month"),
    "wrong month": lambda data: data[-1]["calendar"]["values"].update(month=[13]),
    "days": lambda data: data[-1]["calendar"].update(days=[3, 2]),
    "not a timestamp": lambda data: data[-1].update(codec="SpikedNumericCodec"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_data_are_rejected(damage):
    codec, _ = codec_of(HOURS)
    data = json.loads(json.dumps(codec.to_json()))
    DAMAGES[damage](data)
    with pytest.raises((ValueError, LookupError, TypeError)):
        RowCodec.from_json(codec.schema, data)


def test_parts_of_a_timestamp_share_its_missing_indicator():
    times = pd.Series(HOURS).where(np.arange(len(HOURS)) % 3 > 0)
    codec, rows = codec_of(times, missing_indicators=True)
    (timestamp,) = codec.timestamps
    indicator = codec.indicator_of[timestamp.position]
    assert all(codec.indicator_of[part] == indicator < part < timestamp.position for part in timestamp.parts)
    observed = codec.observed(rows)
    assert all(np.array_equal(observed[:, part], observed[:, timestamp.position]) for part in timestamp.parts)
    x = codec.encode(rows)
    features = codec.repeat_per_part(observed)
    assert not x[~features].any()


@pytest.mark.parametrize("name", ["opening hours", "business days"])
def test_the_cells_of_a_timestamp_are_possible_times(name):
    times = GRIDS[name][0]
    codec, _ = codec_of(times)
    cells = codec.timestamps[0].codec.value_cells(512)
    np.testing.assert_array_equal(cells.low, cells.high)
    found = pd.DatetimeIndex(cells.low.astype(f"datetime64[{codec.schema['t'].unit or 'D'}]"))
    assert (cells.edges[0], cells.edges[-1]) == (0, 1)
    assert (found.day_of_week < 5).all()
    assert set(found.hour) <= set(times.hour)


def test_dates_of_arrow_have_no_hours():
    table = pa.table({"t": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=3 * day) for day in range(400)])})
    counts = count_columns(dataframe.read(table))
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard", calendar_parts=True)
    assert [part.part for part in codec.timestamps[0].parts.values()] == ["month", "weekday"]
