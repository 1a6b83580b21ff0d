"""Projection: timestamps on the grid of their column, numbers that follow, and cells that never change."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import count_columns, dataframe, read_columns
from harpoon.data.schema import Schema
from harpoon.encoding import RowCodec
from harpoon.relations import Formula, follow_relations, off_grid, project, violates

N = 1200
MINUTE = 60 * 10**6  # in microseconds


@pytest.fixture(scope="module")
def visits():
    """Visits on business days, start and end between 8:00 and 18:00 at quarters of an hour."""
    random = np.random.default_rng(0)
    days = pd.bdate_range("2021-01-04", "2022-12-30")
    start, length = random.integers(32, 64, N), random.integers(1, 9, N)
    day = pd.Series(days[random.integers(0, len(days), N)])
    columns = {
        "start": day + pd.to_timedelta(15 * start, unit="min"),
        "end": day + pd.to_timedelta(15 * (start + length), unit="min"),
        "duration": pd.to_timedelta(15 * length + random.integers(0, 500, N), unit="min"),
        "minutes": 15 * length + random.integers(0, 500, N),
    }
    table = dataframe.read(pd.DataFrame(columns).astype({"start": "datetime64[us]", "end": "datetime64[us]"}))
    counts = count_columns(table)
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard", calendar_parts=True)
    position = {each.column.name: index for index, each in enumerate(codec.quantities)}
    tick = {"us": 1, "ns": 1000}[codec.schema["duration"].unit]
    start, end, duration, minutes = (position[name] for name in ("start", "end", "duration", "minutes"))
    formulas = [
        Formula(end, (start, minutes), (1.0, float(MINUTE)), None),
        Formula(start, (end, minutes), (1.0, -float(MINUTE)), None),
        Formula(duration, (end, start), (float(tick), -float(tick)), None),
        Formula(minutes, (end, start), (1 / MINUTE, -1 / MINUTE), None),
    ]
    return codec, read_columns(table, codec.schema), formulas


def sampled(rows, seed):
    """Return rows with computed ends at any minute, and what was given: nothing."""
    random = np.random.default_rng(seed)
    minutes = random.integers(1, 400, N)
    end = rows["start"].values + minutes * MINUTE
    new = {"minutes": minutes, "end": end, "duration": rows["duration"].values}
    changed = {name: cells.with_values(new.get(name, cells.values)) for name, cells in rows.items()}
    return changed, {name: replace(cells, missing=np.ones(N, dtype=bool)) for name, cells in changed.items()}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_projected_timestamps_lie_on_the_grid_and_all_relations_hold(visits, seed):
    codec, rows, formulas = visits
    before, given_cells = sampled(rows, seed)
    assert off_grid(before, given_cells, codec).mean() > 0.5
    after = project(before, given_cells, codec, formulas)
    moved = ~off_grid(after, given_cells, codec) & ~violates(after, codec, formulas)
    assert moved.mean() > 0.9
    end, start = (pd.Series(after[name].values[moved].astype("datetime64[us]")) for name in ("end", "start"))
    assert (end.dt.day_of_week < 5).all()
    assert (end.dt.minute % 15 == 0).all()
    assert (end - end.dt.normalize() <= pd.Timedelta(hours=18)).all()
    assert ((end - start) / pd.Timedelta(minutes=1) == after["minutes"].values[moved]).all()
    for name, cells in after.items():  # rows for which there is no solution stay as they were
        assert np.array_equal(cells.values[~moved], before[name].values[~moved])


@pytest.mark.parametrize("fixed", ["start", "end", "minutes"])
def test_observed_cells_never_change(visits, fixed):
    codec, rows, formulas = visits
    before, given_cells = sampled(rows, 1)
    given_cells = given_cells | {fixed: before[fixed]}
    for after in (
        project(before, given_cells, codec, formulas),
        follow_relations(before, given_cells, codec, formulas, max_steps=np.inf),
    ):
        assert np.array_equal(after[fixed].values, before[fixed].values)
        assert list(after) == list(before)


def test_only_small_changes_are_made_where_they_are_limited(visits):
    codec, rows, formulas = visits
    before, given_cells = sampled(rows, 2)
    can_hold = before["minutes"].values >= codec.schema["minutes"].minimum
    off = before["minutes"].values + np.where(np.arange(N) % 2, 1, 9)
    before = before | {"minutes": before["minutes"].with_values(off)}
    formulas = [each for each in formulas if len(each.sources) == 2 and codec.quantity_names[each.target] == "minutes"]
    after = follow_relations(before, given_cells, codec, formulas, max_steps=2.0)
    violated = violates(after, codec, formulas)
    assert np.array_equal(violated[can_hold], (np.arange(N) % 2 == 0)[can_hold])


def test_holidays_are_left_out_of_the_grid_where_days_are_dense():
    days = pd.bdate_range("2021-01-04", "2022-12-30")
    days = days[~((days.month == 12) & (days.day == 24))]
    sparse = days[::7]
    for kept, is_holiday in ((days, True), (sparse, False)):
        times = pd.Series(np.repeat(kept, 3)) + pd.to_timedelta(np.tile([9, 12, 15], len(kept)), unit="h")
        table = dataframe.read(pd.DataFrame({"t": times}))
        counts = count_columns(table)
        schema = Schema.from_counts(counts)
        codec = RowCodec.fit(schema, counts, encoding="mixed", scaling="standard", calendar_parts=True)
        (timestamp,) = codec.timestamps
        unit = schema["t"].unit
        asked = np.array(
            ["2021-12-24T12:00", "2021-12-25T12:00", "2021-12-23T12:00", "2021-12-23T13:00"],
            dtype=f"datetime64[{unit}]",
        )
        on_grid = timestamp.codec.is_on_grid(asked.astype(np.int64))
        expected = [not is_holiday, False, True, False] if is_holiday else on_grid.tolist()
        assert on_grid.tolist() == expected
        moved = timestamp.codec.to_grid(asked.astype(np.int64))
        assert timestamp.codec.is_on_grid(moved).all()


@pytest.mark.parametrize(("error", "is_mended"), [(0.0004, True), (0.02, False)])
def test_a_term_absorbs_the_rounding_of_a_coarser_total(error, is_mended):
    random = np.random.default_rng(0)
    part, total = random.integers(10**6, 10**7, N) / 1e5, random.integers(2 * 10**5, 4 * 10**5, N) / 1e3
    table = dataframe.read(pd.DataFrame({"part": part, "rest": np.round(total - part, 5), "total": total}))
    counts = count_columns(table)
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard")
    assert [codec.units[i].step for i in range(3)] == [1e-5, 1e-5, 1e-3]
    rows = read_columns(table, codec.schema)
    formulas = [Formula(2, (0, 1), (1.0, 1.0), None), Formula(1, (0, 2), (-1.0, 1.0), None)]
    before = rows | {"rest": rows["rest"].with_values(rows["rest"].values + error)}
    inside = before["rest"].values <= codec.schema["rest"].maximum
    given_cells = rows | {"rest": replace(rows["rest"], missing=np.ones(N, dtype=bool))}
    after = follow_relations(before, given_cells, codec, formulas, max_steps=2.0)
    assert np.array_equal(~violates(after, codec, formulas)[inside], np.full(inside.sum(), is_mended))
