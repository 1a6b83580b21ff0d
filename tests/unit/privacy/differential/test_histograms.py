"""Noisy histograms: what one row adds to them, and the counts that are made of them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Column, InvalidOption, Kind, Privacy, Schema
from harpoon.data import coerce_observed, dataframe, n_rows, take
from harpoon.privacy.differential.histograms import (
    NoisyHistograms,
    PublicBins,
    count_exactly,
    project,
    public_bins,
    release,
)
from harpoon.privacy.differential.noise_sources import SeededNoise
from harpoon.privacy.differential.public_schema import complete_schema

SCHEMA = Schema(
    (
        Column("label", Kind.CATEGORY, categories=("a", "b", "c")),
        Column("flag", Kind.BOOLEAN, categories=(False, True)),
        Column("few", Kind.NUMBER, values=(0.0, 0.5, 1.0), minimum=0.0, maximum=1.0),
        Column("age", Kind.INTEGER, minimum=0, maximum=120, step=1),
        Column("wide", Kind.INTEGER, minimum=-50_000, maximum=1_000_000, step=1),
        Column("number", Kind.NUMBER, minimum=-3.0, maximum=1e5, step=0),
        Column("cents", Kind.NUMBER, minimum=-1.0, maximum=1.0, step=0.01),
        Column("time", Kind.DATETIME, minimum=0, maximum=2 * 10**15, step=1, unit="us"),
    )
)
# Also what the schema does not foresee: other labels, and numbers out of range.
CELLS = st.fixed_dictionaries(
    {
        "label": st.sampled_from([None, "a", "b", "c", "unheard of"]),
        "flag": st.sampled_from([None, False, True]),
        "few": st.sampled_from([None, 0.0, 0.5, 1.0, 0.25]),
        "age": st.none() | st.integers(-10, 200),
        "wide": st.none() | st.integers(-(10**9), 10**9),
        "number": st.none() | st.floats(-1e9, 1e9),
        "cents": st.none() | st.floats(-2, 2),
        "time": st.none() | st.integers(-(10**15), 4 * 10**15),
    }
)
TYPES = pa.schema(
    {
        "label": pa.string(),
        "flag": pa.bool_(),
        "few": pa.float64(),
        "age": pa.int64(),
        "wide": pa.int64(),
        "number": pa.float64(),
        "cents": pa.float64(),
        "time": pa.timestamp("us"),
    }
)


def read(rows):
    table = dataframe.read(pa.Table.from_pylist(rows, TYPES))
    return {column.name: coerce_observed(table.column(column.name), column) for column in SCHEMA}


@settings(max_examples=15)
@given(st.lists(CELLS, min_size=1, max_size=6), st.data())
def test_one_row_adds_one_to_one_bin_of_each_column(rows, data):
    bins, removed = public_bins(SCHEMA), data.draw(st.integers(0, len(rows) - 1))
    table = read(rows)
    others = take(table, np.delete(np.arange(len(rows)), removed))
    change = count_exactly(table, bins) - count_exactly(others, bins)
    parts = np.split(change, np.cumsum([len(each) for each in bins.values()]))
    assert all(part.sum() == 1 and part.max() == 1 and part.min() == 0 for part in parts[:-1])
    assert parts[-1].tolist() == [1]  # the number of rows
    claimed = Privacy(1.0, 1e-6, steps=1).split(len(SCHEMA)).count_sensitivity
    assert np.linalg.norm(change) == pytest.approx(claimed)
    assert np.linalg.norm(change) <= claimed * (1 + 1e-12)


@settings(max_examples=15)
@given(st.lists(CELLS, min_size=1, max_size=6))
def test_cells_are_counted_where_their_value_is(rows):
    for name, cells in read(rows).items():
        each = PublicBins.of(SCHEMA[name])
        counts, prepared = each.count(cells), each.prepare(cells)
        assert len(counts) == len(each)
        assert counts.sum() == len(cells)
        assert counts[-2] == cells.missing.sum()
        assert counts[-1] == (prepared.missing & ~cells.missing).sum()
        for value in prepared.observed.tolist():
            index = int(np.searchsorted(each.starts, value, side="right")) - 1
            assert counts[index] > 0
            assert index >= 0
            slack = 0.01 if name == "cents" else 1e-9  # edges are rounded
            assert each.low[index] - slack <= value <= each.high[index] + slack


@pytest.mark.parametrize("column", SCHEMA.columns, ids=lambda column: column.name)
def test_bins_are_ascending_and_cover_the_range(column):
    each = PublicBins.of(column)
    assert (np.diff(each.starts) > 0).all()
    assert (each.low <= each.high).all()
    assert (each.high[:-1] <= each.low[1:]).all()
    assert len(each) < 400
    if column.kind.numeric:
        assert each.low[0] == column.minimum
        assert each.high[-1] == column.maximum
    if column.name in ("wide", "number"):  # 0 is often frequent, and has a bin of its own
        zero = np.searchsorted(each.starts, 0, side="right") - 1
        assert each.low[zero] == each.high[zero] == 0


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30), st.integers(1, 1000))
def test_projected_counts_are_the_nearest_with_their_total(noisy, total):
    noisy = np.array(noisy)
    counts = project(noisy, total)
    assert counts.sum() == total
    assert counts.min() >= 0
    other = np.full(len(noisy), total / len(noisy))
    assert np.linalg.norm(counts - noisy) <= np.linalg.norm(other - noisy) + np.sqrt(len(noisy))


def test_without_noise_the_moments_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    x = rng.lognormal(size=5000)
    schema = Schema((Column("x", Kind.NUMBER, minimum=0.0, maximum=100.0, step=0),))
    rows = {"x": coerce_observed(dataframe.read(pa.table({"x": x})).column("x"), schema["x"])}
    split = Privacy(1000.0, 0.1, steps=1).split(1)
    found = release(rows, public_bins(schema), split, SeededNoise(0))
    counts = found.to_table_counts(rows)["x"]
    assert abs(found.rows - 5000) < 10
    assert abs(counts.n_observed - found.rows) <= 1
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    values = np.repeat(counts.values.values, counts.counts)
    assert np.quantile(values, levels) == pytest.approx(np.quantile(x, levels), rel=0.15, abs=0.05)
    assert values.mean() == pytest.approx(x.mean(), rel=0.05)


def test_no_more_cells_are_foreign_than_there_are():
    bins = public_bins(Schema((SCHEMA["label"],)))
    found = NoisyHistograms(bins, {"label": np.array([0, 0, 0, 0, 102])}, 100, 1.0)
    assert found.foreign_fraction("label") == 1.0


def test_the_largest_count_of_a_stored_bin_is_at_least_the_noisy_one():
    bins = PublicBins.of(SCHEMA["age"])
    noisy = SeededNoise(0).discrete_normal(len(bins), 10.0)
    stored = bins.to_column_bins(noisy, 200, 10.0)
    assert (stored.above[:-1] >= noisy[:-2]).all()
    assert (stored.above >= stored.counts).all()
    assert stored.above[-1] >= noisy[-2:].sum()
    assert stored.counts.sum() == 200


def test_noise_is_hardly_ever_taken_for_missing_cells():
    """Missing and foreign cells have noise each, and a column has missing cells if their sum is clear of both."""
    bins, std, draws = PublicBins.of(SCHEMA["flag"]), 30.0, 6000
    noise = SeededNoise(0).discrete_normal(draws * len(bins), std).reshape(draws, len(bins))
    complete = np.array([500, 500, 0, 0])
    cells = coerce_observed(dataframe.read(pa.table({"flag": pa.array([], pa.bool_())})).column("flag"), SCHEMA["flag"])
    found = sum(bins.to_counts(complete + one, 1000, std, cells).n_missing > 0 for one in noise)
    assert found <= 2  # of 6,000, where 0.2 are expected, and 8 if the limit was 3 standard deviations instead of 4


def test_noise_of_a_small_budget_is_large():
    rows, bins = read([dict.fromkeys(TYPES.names)] * 100), public_bins(SCHEMA)
    split = Privacy(0.5, 1e-6, steps=1).split(len(SCHEMA))
    found = release(rows, bins, split, SeededNoise(0))
    assert n_rows(rows) == 100
    noise = np.concatenate([found.counts[name][:-2] for name in bins])
    assert np.std(noise) == pytest.approx(split.counts.noise_multiplier * 3, rel=0.15)


TABLE = dataframe.read(
    pa.table({"n": [1.0, 2.0], "c": ["a", "b"], "i": [1, 2], "t": pa.array([1, 2], pa.timestamp("ms"))})
)


def complete(**changed):
    columns = {
        "n": Column("n", Kind.NUMBER, minimum=0, maximum=1),
        "c": Column("c", Kind.CATEGORY, categories=("a",)),
        "i": Column("i", Kind.INTEGER, minimum=0, maximum=9),
        "t": Column("t", Kind.DATETIME, minimum=0, maximum=10, unit="ms"),
    }
    return complete_schema(Schema(tuple((columns | changed).values())), TABLE)


def test_what_the_schema_leaves_open_is_set_without_a_look_at_the_table():
    found = complete()
    assert (found["n"].step, found["i"].step, found["t"].step, found["t"].unit) == (0, 1, 1, "ms")
    assert (found["n"].minimum, found["n"].maximum, found["c"].categories) == (0, 1, ("a",))
    assert complete(n=Column("n", Kind.NUMBER, values=(1.0, 3.0)))["n"].maximum == 3.0
    clocks = Column("t", Kind.DATETIME, minimum=0, maximum=10, unit="us", zone="Europe/Berlin")
    assert complete(t=clocks)["t"] == replace(clocks, step=1, zoned=True)  # and not the unit of the table


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Column("n", Kind.NUMBER), "must have the 'minimum', 'maximum' of column 'n'"),
        (Column("n", Kind.NUMBER, maximum=3), "must have the 'minimum' of column 'n'"),
        (Column("n", Kind.NUMBER, minimum=3, maximum=3), "must be below its maximum"),
        (Column("n", Kind.NUMBER, values=(1.0, 2.0), clip=False), "has values and clip=false"),
        (Column("n", Kind.NUMBER, minimum=-1e308, maximum=1e308), "range of column 'n' must be useful"),
        (Column("i", Kind.INTEGER, minimum=0, maximum=2**63 - 1), "range of column 'i' must be useful"),
        (Column("n", Kind.NUMBER, minimum=0, maximum=1, step=10), "step of column 'n' must be at most its range"),
        (Column("c", Kind.CATEGORY), "must have the categories of column 'c'"),
        (Column("t", Kind.DATETIME, minimum=0, maximum=9), "must have the unit of time, .* of column 't'"),
        (Column("i", Kind.CONSTANT), "must have the categories, its one value, of column 'i'"),
    ],
)
def test_an_open_schema_is_refused_with_a_sentence_that_shows_how(column, message):
    with pytest.raises(InvalidOption, match=message) as error:
        complete(**{column.name: column})
    if "must have" in message:
        assert 'Column("age", Kind.INTEGER, minimum=0, maximum=120)' in str(error.value)


def test_a_schema_is_needed_and_must_model_something():
    with pytest.raises(InvalidOption, match=r"privacy needs a schema: .*Schema\(\(Column"):
        complete_schema(None, TABLE)
    skipped = Schema(tuple(Column(name, Kind.SKIPPED) for name in TABLE.names))
    with pytest.raises(InvalidOption, match="a column that can be modelled"):
        complete_schema(skipped, TABLE)


@pytest.mark.parametrize(
    ("kind", "unit", "message"),
    [
        (Kind.DATE, "", "a finite number of days since 1970-01-01"),
        (Kind.DATETIME, "us", "a finite number of microseconds since 1970-01-01 00:00 UTC"),
        (Kind.DURATION, "s", "a finite number of seconds, got '2020-01-01'"),
        (Kind.DATETIME, "", 'a finite number of units .unit="s", "ms", "us" or "ns".'),
    ],
)
def test_the_units_of_a_range_of_times_are_named(kind, unit, message):
    with pytest.raises(InvalidOption, match=message):
        Column("t", kind, minimum="2020-01-01", unit=unit)


@given(st.lists(CELLS, min_size=1, max_size=6))
def test_coerced_cells_can_be_coerced_again(rows):
    for name, cells in read(rows).items():
        known = cells.without_unseen()
        again = coerce_observed(known, SCHEMA[name])
        assert again.values.tolist() == known.values.tolist()
        assert again.missing.tolist() == known.missing.tolist()
        assert again.categories == known.categories
