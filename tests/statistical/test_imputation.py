"""Multiple imputation: draws, their intervals and means, and pooled estimates."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LinearRegression

from harpoon import Harpoon, InvalidOption, TooFewDrawsWarning
from harpoon.inference.imputation.results import _mode
from tests.support.oracles import mixture_table, y_moments


@pytest.fixture(scope="module")
def model(mixture_model):
    return mixture_model


@pytest.fixture(scope="module")
def incomplete() -> pa.Table:
    table = mixture_table(400, seed=5)
    return table.set_column(1, "y", pa.array(table["y"].to_pylist(), mask=np.arange(400) % 2 == 0))


@pytest.fixture(scope="module")
def draws(model, incomplete):
    return model.impute(incomplete, draws=20, random_state=0)


def test_draws_are_completed_tables_that_differ_only_in_missing_cells(draws, incomplete):
    assert len(draws) == len(list(draws)) == 20
    first, second = draws.tables[:2]
    assert first.schema == incomplete.schema
    assert first["x"] == second["x"] == incomplete["x"]
    observed = np.arange(400) % 2 == 1
    a, b = (np.asarray(table["y"]) for table in (first, second))
    assert (a[observed] == b[observed]).all()
    assert (a[~observed] != b[~observed]).all()


def test_the_same_seed_gives_the_same_draws_for_any_number_of_draws(model, incomplete, draws):
    few = model.impute(incomplete, draws=2, random_state=0)
    assert few.tables == draws.tables[:2]


def test_several_draws_have_one_progress_bar_and_one_callback_each(incomplete, model, capsys, monkeypatch):
    model.impute(incomplete, draws=3, ar_steps=1)
    assert "Sampling" not in capsys.readouterr().err  # the model was made without bars
    monkeypatch.setattr(model, "progress", True)
    model.impute(incomplete, draws=3, ar_steps=1)
    assert capsys.readouterr().err.count("Sampling") == 1
    steps = []
    monkeypatch.setattr(model, "progress", steps.append)
    model.impute(incomplete, draws=3, ar_steps=1)
    assert [step.done for step in steps] == [1, 1, 1]


def test_the_coverage_of_intervals_is_near_their_level(draws):
    truth = np.asarray(mixture_table(400, seed=5)["y"])[::2]
    low, high = draws.interval(0.9)
    low, high = np.asarray(low["y"])[::2], np.asarray(high["y"])[::2]
    assert 0.82 <= np.mean((low <= truth) & (truth <= high)) <= 0.97
    narrow = draws.interval(0.5)
    assert np.mean(np.asarray(narrow[1]["y"])[::2] - np.asarray(narrow[0]["y"])[::2]) < np.mean(high - low)


def test_too_few_draws_for_a_level_are_a_warning(draws, model, incomplete):
    few = model.impute(incomplete, draws=4, random_state=0)
    with pytest.warns(TooFewDrawsWarning, match=r"at least 19 draws, got 4\..* about 0\.60.*draws=19"):
        low, high = few.interval(0.9)
    values = np.stack([np.asarray(table["y"]) for table in few])
    assert (np.asarray(low["y"]) == values.min(axis=0)).all()
    assert (np.asarray(high["y"]) == values.max(axis=0)).all()
    few.interval(0.5)
    draws.interval(0.9)
    with pytest.warns(TooFewDrawsWarning, match="at least 39 draws, got 20"):
        draws.interval(0.95)


def test_an_observed_cell_is_its_own_interval(draws, incomplete):
    low, high = draws.interval(0.9)
    assert low.column_names == ["x", "y"]
    observed = np.arange(400) % 2 == 1
    assert (np.asarray(low["y"])[observed] == np.asarray(high["y"])[observed]).all()
    assert low["x"] == incomplete["x"]


def test_the_mean_of_many_draws_is_near_the_expectation(model, draws, incomplete):
    mean = np.asarray(draws.mean()["y"])[::2]
    expected = model.expect(incomplete).numbers["y"][::2]
    assert np.abs(mean - expected).mean() < 0.3
    assert y_moments(0.0)[1] > 0.5  # a single draw is this far off


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_intervals_and_means_come_in_the_library_of_the_table(kind):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, 60).astype(object)
    x[::4] = None
    table = kind({"x": pd.array(x, dtype="Int64") if kind is pd.DataFrame else list(x), "c": list("ab" * 30)})
    draws = Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False).fit(table).impute(table, draws=3)
    for frame in (*draws, *draws.interval(0.5), draws.mean()):
        assert isinstance(frame, kind)
        assert frame["x"].dtype == table["x"].dtype
    assert list(draws.interval(0.5)[0].columns) == ["x"]


def test_pooled_estimates_of_draws_are_near_those_of_the_complete_table(draws):
    def regression(table):
        return LinearRegression().fit(np.asarray(table["x"])[:, None], np.asarray(table["y"]))

    truth = regression(mixture_table(400, seed=5))
    pooled = draws.pool(regression)
    assert pooled.names == ("intercept", "0")
    assert pooled.estimate == pytest.approx([truth.intercept_, *truth.coef_], abs=0.15)
    assert (pooled.within > 0).all()
    assert (pooled.fmi < 1).all()


def test_bad_arguments_of_pooling_and_intervals_are_errors(draws, model, incomplete):
    with pytest.raises(InvalidOption, match="coef_"):
        draws.pool(lambda _table: "a text")
    with pytest.raises(InvalidOption, match="at least 2 draws"):
        model.impute(incomplete, draws=1).pool(lambda _table: ([1.0], [1.0]))
    with pytest.raises(InvalidOption, match="between 0 and 1"):
        draws.interval(90)
    with pytest.raises(InvalidOption, match="draws"):
        model.impute(incomplete, draws=0)


def test_a_table_without_rows_is_returned(model, incomplete):
    nothing = incomplete.slice(0, 0)
    assert model.impute(nothing).equals(nothing)
    assert model.expect(nothing).numbers["y"].shape == (0,)
    assert model.expect(nothing).probabilities["c"].shape == (0, 2)
    assert model.expect(nothing).categories["c"] == ("a", "b")
    assert [table.num_rows for table in model.impute(nothing, draws=2)] == [0, 0]


@given(arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(0, 5)), elements=st.integers(0, 3)))
@settings(max_examples=50, deadline=None)
def test_the_mode_is_the_first_of_the_most_frequent_codes(codes):
    expected = [np.bincount(column).argmax() for column in codes.T]
    assert _mode(codes).tolist() == expected


@pytest.mark.parametrize("size", [1, 7, 33])
def test_a_sample_in_parts_equals_the_whole(arrow_fitted, tools, size):
    model, n = arrow_fitted.model, 33
    whole = model.sample(n, given={"job": "chef"}, random_state=3)
    starts = range(0, n, size)
    parts = [
        model.sample(min(size, n - start), given={"job": "chef"}, row_offset=start, random_state=3) for start in starts
    ]
    tools.assert_same(pa.concat_tables(parts).combine_chunks(), whole.combine_chunks())


def test_partial_rows_completed_in_parts_equal_the_whole(arrow_fitted, tools):
    partial = arrow_fitted.table.select(["age", "job"])
    whole = arrow_fitted.model.sample(given=partial, random_state=3)
    parts = [
        arrow_fitted.model.sample(given=partial.slice(start, 20), row_offset=start, random_state=3)
        for start in range(0, partial.num_rows, 20)
    ]
    tools.assert_same(pa.concat_tables(parts).combine_chunks(), whole.combine_chunks())


def test_under_a_condition_each_part_is_a_sample_of_its_own(arrow_fitted, tools):
    def sample(row_offset):
        return arrow_fitted.model.sample(8, where="age >= 40", row_offset=row_offset, random_state=3)

    tools.assert_same(sample(8), sample(8))
    tools.assert_same(sample(0), arrow_fitted.model.sample(8, where="age >= 40", random_state=3))
    assert not sample(0).equals(sample(8))
    assert min(sample(8)["age"].to_pylist()) >= 40


def test_arguments_of_another_call_are_named(model, incomplete):
    with pytest.raises(InvalidOption, match="draws is an argument of another call"):
        model.sample(3, draws=3)
    with pytest.raises(InvalidOption, match="Did you mean 'draws'"):
        model.impute(incomplete, drws=3)
    with pytest.raises(InvalidOption, match=r"row_offset.* must be at most"):
        model.sample(3, row_offset=2**63)
