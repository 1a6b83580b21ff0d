"""Histograms and category fractions: what is counted, where bins begin and end, and what is left out of them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon import Schema
from harpoon.data import dataframe
from harpoon.report.distributions import Bins, CategoryFractions, describe_distribution, format_rounded_value

RNG = np.random.default_rng(0)


def read_column(values, dtype=None):
    """Return the inferred column and its cells."""
    table = dataframe.read(pa.table({"x": pa.array(values, dtype)}))
    return Schema.infer(table)["x"], table.column("x")


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float), min_size=2, max_size=300))
def test_every_observed_cell_is_counted_once(values):
    column, cells = read_column([*values, values[0] + 1.5, None])
    bins = Bins.fit(column, cells)
    found = bins.count(column, cells)
    assert found.counts.sum() + found.below + found.above + found.at_spikes.sum() == found.total == len(values) + 1
    assert found.fractions.sum() * found.total + found.at_spikes.sum() == pytest.approx(found.total)
    assert (np.diff(bins.edges) > 0).all()


def test_counts_are_those_of_numpy():
    values = RNG.normal(size=500)
    column, cells = read_column(values)
    bins = Bins.fit(column, cells)
    assert np.array_equal(bins.count(column, cells).counts, np.histogram(values, bins.edges)[0])
    assert len(bins.edges) - 1 == int(2 * 500 ** (1 / 3))


@pytest.mark.parametrize(("rows", "n_bins"), [(10, 8), (1000, 20), (100_000, 40)])
def test_the_number_of_bins_grows_with_the_number_of_rows(rows, n_bins):
    column, cells = read_column(RNG.random(rows))
    assert len(Bins.fit(column, cells).edges) - 1 == pytest.approx(n_bins, abs=1)


def test_bins_hold_equally_many_steps_of_the_resolution():
    column, cells = read_column((RNG.integers(0, 1000, 400) / 10).tolist())
    assert column.step == pytest.approx(0.1)
    widths = np.diff(Bins.fit(column, cells).edges) / 0.1
    assert widths == pytest.approx(np.round(widths))
    assert np.ptp(widths) == pytest.approx(0, abs=1e-6)
    integers, cells = read_column(list(range(10)) * 30)
    assert Bins.fit(integers, cells).edges == pytest.approx(np.arange(11) - 0.5)


def test_long_tails_are_outside_the_bins_and_short_ones_inside():
    column, cells = read_column([*RNG.normal(size=2000), 1e6])
    bins = Bins.fit(column, cells)
    found = bins.count(column, cells)
    assert bins.high < 5
    assert found.above >= 1
    assert 0 < found.below + found.above < 0.02 * found.total
    column, cells = read_column(RNG.normal(size=2000))
    assert Bins.fit(column, cells).count(column, cells).counts.sum() == 2000


def test_frequent_values_are_spikes_unless_each_value_has_a_bin():
    values = np.concatenate([np.zeros(400), np.full(300, 9.5), RNG.gamma(2, 3, 300)])
    column, cells = read_column(values)
    bins = Bins.fit(column, cells)
    assert bins.spikes.tolist() == [0.0, 9.5]
    assert bins.count(column, cells).at_spikes.tolist() == [400, 300]
    assert not len(Bins.fit(column, cells, find_spikes=False).spikes)
    few, cells = read_column([1, 1, 1, 2, 3] * 20)
    assert not len(Bins.fit(few, cells).spikes)


def test_two_tables_share_their_bins():
    column, left = read_column(RNG.normal(0, 1, 200))
    _, right = read_column(RNG.normal(8, 1, 200))
    bins = Bins.fit(column, left, right)
    for cells in (left, right):
        assert bins.count(column, cells).counts.sum() == 200


def test_rare_categories_are_counted_together_and_one_alone_is_not():
    names = [f"c{i}" for i in range(12) for _ in range(40 - i)]
    column, cells = read_column(names)
    found = CategoryFractions.count(column, cells, max_categories=8)
    assert found.categories == [f"c{i}" for i in range(8)]
    assert found.texts()[-1] == "4 others"
    assert found.fractions.sum() == pytest.approx(1)
    assert CategoryFractions.count(column, cells, max_categories=11).n_others == 0


def test_categories_are_sorted_by_their_largest_fraction_or_keep_their_order():
    column, left = read_column(["a"] * 3 + ["b"] * 2 + ["c"])
    _, right = read_column(["c"] * 9 + ["a"])
    found = CategoryFractions.count(column, left, right)
    assert found.categories == ["c", "a", "b"]
    assert found.fractions[0] == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    flags, cells = read_column([True, True, False])
    assert CategoryFractions.count(flags, cells).categories == [False, True]


def test_durations_have_one_unit_per_picture():
    table = dataframe.read(pa.table({"x": pa.array([60, 5400, 9000] * 9, pa.duration("s"))}))
    column = Schema.infer(table)["x"]
    drawn = describe_distribution(column, {"real": table})
    assert [tick["text"] for tick in drawn["ticks"]] == ["0.01667", "1.25", "2.5"]
    assert drawn["unit"] == "hours"
    assert format_rounded_value(column, 5400) == "90 minutes"


@pytest.mark.parametrize(
    ("values", "texts", "at"),
    [
        ([0, 1, 1], ["0", "1"], [0.25, 0.75]),
        ([1, 2, 3, 5], ["1", "2", "3", "5"], [0.1, 0.3, 0.5, 0.9]),
        ([0.1, 0.3], ["0.1", "0.3"], [1 / 6, 5 / 6]),
        (list(range(40)), ["0", "20", "39"], [0.5 / 40, 20.5 / 40, 39.5 / 40]),
    ],
)
def test_ticks_stand_below_their_values_and_none_is_shown_twice(values, texts, at):
    table = dataframe.read(pa.table({"x": values * 12}))
    column = replace(Schema.infer(table)["x"], step=0.1 if 0.1 in values else 1)
    ticks = describe_distribution(column, {"real": table})["ticks"]
    assert [tick["text"] for tick in ticks] == texts
    assert [tick["at"] for tick in ticks] == pytest.approx(at, abs=0.05)


def test_a_value_that_no_row_has_has_no_tick():
    values = [2, 3, 4, 5, 6, 8] * 50
    column, _ = read_column(values)
    assert column.values == (2, 3, 4, 5, 6, 8)
    drawn = describe_distribution(column, {"real": dataframe.read(pa.table({"x": values}))})
    assert [tick["text"] for tick in drawn["ticks"]] == ["2", "3", "4", "5", "6", "8"]
