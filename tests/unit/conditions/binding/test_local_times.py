"""Texts beside timestamps with a time zone mean what they mean in DuckDB, also where the clocks show an hour twice."""

import datetime as dt

import duckdb
import numpy as np
import pytest

from harpoon.conditions import bind, evaluate, to_predicate
from harpoon.data import Column, ColumnArray, Kind, Schema

REPEATED = {"America/New_York": "2024-11-03", "Europe/Berlin": "2024-10-27", "America/Havana": "2024-11-03"}
REPEATED |= {"Australia/Lord_Howe": "2024-04-07"}


def instants(day: str) -> np.ndarray:
    """Return every half hour around a day, in seconds."""
    start = int(dt.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())
    return np.arange(start - 86_400, start + 2 * 86_400, 1800)


@pytest.mark.parametrize("operator", ["=", ">", "<=", "!="])
@pytest.mark.parametrize(("zone", "day"), REPEATED.items())
def test_times_of_a_repeated_hour_are_the_later_ones(zone, day, operator):
    seconds = instants(day)
    cells = ColumnArray("datetime", seconds, np.zeros(len(seconds), dtype=bool), unit="s", zoned=True, zone=zone)
    schema = Schema((Column("t", Kind.DATETIME, unit="s", step=1, zoned=True, zone=zone),))
    with duckdb.connect() as judge:
        judge.execute(f"set timezone = '{zone}'")
        for text in [day, *(f"{day} {hour:02}:{minute:02}" for hour in range(6) for minute in (0, 30))]:
            where = f"t {operator} '{text}'"
            times = judge.sql("select to_timestamp(unnest(?)) as t", params=[seconds.tolist()])
            expected = np.array(times.project(f"({where})").fetchall())[:, 0]
            assert np.array_equal(evaluate(bind(to_predicate(where), schema), {"t": cells}), expected), where


def test_an_offset_says_which_of_two_equal_times_is_meant():
    schema = Schema((Column("t", Kind.DATETIME, unit="s", step=1, zoned=True, zone="America/New_York"),))
    seconds = instants("2013-11-03")
    cells = ColumnArray("datetime", seconds, np.zeros(len(seconds), dtype=bool), unit="s", zoned=True)
    for text, offset in (("2013-11-03 01:30-04:00", 4), ("2013-11-03 01:30-05:00", 5), ("2013-11-03 01:30", 5)):
        met = seconds[evaluate(bind(to_predicate(f"t = '{text}'"), schema), {"t": cells})]
        assert met.tolist() == [int(dt.datetime(2013, 11, 3, 1 + offset, 30, tzinfo=dt.UTC).timestamp())]
