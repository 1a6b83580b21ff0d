"""Support: the upper bound is one, whatever the condition; it survives saving; extrapolations are warned of."""

import json
import pickle
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import ExtrapolationWarning, Harpoon, load
from harpoon.conditions import bind, evaluate, to_predicate
from harpoon.data import count_columns, dataframe, read_columns
from harpoon.data.contingency import ContingencyTables
from harpoon.data.schema import Schema
from harpoon.inference.diagnostics.answer_grade import grade_answer
from harpoon.inference.diagnostics.probability_intervals import probability_interval
from harpoon.inference.diagnostics.support import find_support
from harpoon.training.calibration import Calibration


def make_table(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).round(2)
    y = np.where(rng.random(rows) < 0.1, np.nan, x + rng.normal(size=rows))
    kind = np.where(x > 1, "high", rng.choice(["low", "mid"], rows))
    return pd.DataFrame({"x": x, "y": y, "kind": kind, "other": rng.choice(list("abc"), rows)})


CONDITIONS = (
    "x > 2",
    "kind = 'high' and x < 1",
    "kind in ('low', 'high') and x > 0.5",
    "y is null and kind = 'mid'",
    "y is not null and (x > 2 or other = 'a')",
    "abs(x - y) > 3 and kind = 'low'",
    "x * y < -2",
    "x / y > 4 and other != 'b'",
    "least(x, y) > 2",
    "exp(x) + ln(abs(y)) > 6",
    "not (x > -1 and kind = 'mid')",
    "x = 0.5 and other = 'c'",
)
TABLE = make_table(3000)
SCHEMA = Schema.infer(TABLE)
ROWS = read_columns(dataframe.read(TABLE), SCHEMA)
TABLES = ContingencyTables.fit(SCHEMA, count_columns(dataframe.read(TABLE)), len(TABLE), ROWS, ROWS).suppress()
NO_ROW = read_columns(dataframe.constant_table({}, 1), SCHEMA, partial=True)


@pytest.mark.parametrize("text", CONDITIONS)
def test_no_more_rows_satisfy_a_condition_than_the_upper_bound(text):
    predicate = bind(to_predicate(text), SCHEMA)
    support = find_support(TABLES, predicate, NO_ROW, table=ROWS)
    assert support.exact == int(evaluate(predicate, ROWS).sum())
    assert support.exact <= support.upper_bound <= len(TABLE)
    assert 0 <= support.estimate <= support.upper_bound


def test_one_and_two_way_counts_of_categories_are_exact():
    for text in ("kind = 'high'", "kind = 'low' and other = 'a'"):
        support = find_support(TABLES, bind(to_predicate(text), SCHEMA), NO_ROW, table=ROWS)
        assert support.upper_bound == support.exact == pytest.approx(support.estimate)


@pytest.mark.parametrize("text", ["x > 2 * y", "y >= 0.5 * x", "x + y < 1", "abs(x + y) < 1"])
def test_of_a_cell_that_some_values_satisfy_about_half_do(text):
    support = find_support(TABLES, bind(to_predicate(text), SCHEMA), NO_ROW, table=ROWS)
    counted = find_support(TABLES, bind(to_predicate(text), SCHEMA), NO_ROW)
    assert counted.estimate == pytest.approx(support.exact, rel=0.15)
    assert support.exact < 0.95 * counted.upper_bound


@pytest.mark.parametrize("text", ["x = 2 * y", "x > 2 * y and x > 0 and y > 0", "x > 2 * y or kind = 'low'"])
def test_counts_do_not_widen_the_interval_of_compared_columns(text):
    support = find_support(TABLES, bind(to_predicate(text), SCHEMA), NO_ROW, probability=0.001)
    assert not support.is_counted
    assert support.counted == support.estimate == pytest.approx(3)
    low, high = probability_interval(0.001, 2000, support)
    assert 0 < low < 0.001 < high < 0.01


def test_counts_of_parts_add_up_to_those_of_the_table():
    halves = [{name: cells[part] for name, cells in ROWS.items()} for part in (slice(0, 900), slice(900, None))]
    counts = count_columns(dataframe.read(TABLE))
    whole = ContingencyTables.fit(SCHEMA, counts, len(TABLE), ROWS, ROWS)
    parts = [ContingencyTables.fit(SCHEMA, counts, len(TABLE), half, ROWS).pair_counts for half in halves]
    np.testing.assert_array_equal(sum(parts), whole.pair_counts)


@pytest.fixture(scope="module")
def model():
    return Harpoon(hidden=32, max_epochs=5, random_state=0, progress=False).fit(TABLE)


def test_an_extrapolation_is_warned_of_at_the_line_of_the_caller(model, tmp_path):
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m", progress=False), pickle.loads(pickle.dumps(model))):  # noqa: S301
        one.progress = False
        with pytest.warns(ExtrapolationWarning, match="about 0 of 3000") as caught:
            one.sample(5, where="kind = 'high' and x < 0", on_shortfall="return", random_state=0)
        assert caught[0].filename == __file__
        assert one.sampling_info_.support.is_extrapolation
        assert one.support("kind = 'high' and x < 0") == model.support("kind = 'high' and x < 0")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows = one.sample(5, where="kind = 'high' and x > 1.2", random_state=0)
        assert rows.attrs["harpoon"]["support"]["rows"] == len(TABLE)
        assert not one.sampling_info_.support.is_extrapolation


def test_support_is_exact_where_the_table_is_at_hand(model):
    support = model.support("x > 1 and y < 0", data=TABLE)
    assert support.exact == int(((TABLE["x"] > 1) & (TABLE["y"] < 0)).sum())
    assert model.feasibility("x > 1 and y < 0", data=TABLE, random_state=0).support.exact == support.exact


def test_calibration_is_measured_on_held_out_cells_and_saved(model, tmp_path):
    found = model.calibration_
    assert found.grade in "ABCD"
    assert found.cells == found.categories + found.numbers
    assert 0 <= found.coverage <= 1
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").calibration_ == found
    paper = Harpoon("paper", hidden=16, max_epochs=1, random_state=0, progress=False).fit(TABLE.dropna())
    assert paper.calibration_ == Calibration()
    assert "not measured" in str(paper.calibration_)


def times_table(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    at = pd.Timestamp("2021-01-01", tz="Europe/Berlin") + pd.to_timedelta(rng.integers(0, 730 * 24, rows), unit="h")
    at = pd.Series(at).where(rng.random(rows) > 0.1)
    return pd.DataFrame({"t": at, "x": rng.normal(size=rows), "c": np.where(at.dt.hour < 7, "night", "day")})


def count_table(table: pd.DataFrame, min_rows: int = 1):
    read = dataframe.read(table)
    counts = {name: replace(each, min_rows=min_rows) for name, each in count_columns(read).items()}
    schema = Schema.from_counts(counts)
    columns = read_columns(read, schema)
    return schema, columns, ContingencyTables.fit(schema, counts, len(table), columns, columns).suppress()


TIMES = count_table(times_table(3000))


@given(
    st.lists(
        st.sampled_from(
            [
                "month(t) = {}",
                "hour(t) < {}",
                "weekday(t) = {} - 2",
                "year(t) = 2021",
                "isodow(t) > {} - 3",
                "c = 'day'",
                "quarter(t) = {} - 1",
                "day(t) >= {} * 2",
                "week(t) = {} * 4",
                "dayofyear(t) < {} * 20",
                "t > '2022-03-0{}'",
            ]
        ),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_no_more_rows_have_calendar_parts_than_the_upper_bound(texts, number):
    schema, columns, tables = TIMES
    predicate = bind(to_predicate(" and ".join(texts).format(*[number] * len(texts))), schema)
    found = find_support(tables, predicate, {}, table=columns)
    assert found.exact <= found.upper_bound <= 3000
    assert found.estimate <= found.upper_bound


@pytest.mark.parametrize(
    "where",
    [
        "month(t) = 2",
        "hour(t) < 4",
        "isodow(t) = 7 or isodow(t) = 1",
        "quarter(t) = 3 and year(t) = 2022",
        "weekday(t) > 2 and hour(t) < 12",
        "month(t) = 4 and c = 'night'",
        "100 * year(t) + month(t) = 202203",
    ],
)
def test_calendar_parts_are_counted(where):
    schema, columns, tables = TIMES
    found = find_support(tables, bind(to_predicate(where), schema), {}, table=columns)
    assert found.estimate == pytest.approx(found.exact, rel=0.05)


def test_conditions_on_three_calendar_parts_that_no_row_meets_are_extrapolations():
    schema, columns, tables = TIMES
    missed = []
    for month, weekday in product(range(1, 13), range(7)):
        predicate = bind(to_predicate(f"month(t) = {month} and weekday(t) = {weekday} and hour(t) = 5"), schema)
        if not evaluate(predicate, columns).any():
            missed.append(find_support(tables, predicate, {}).is_extrapolation)
    assert len(missed) > 10
    assert np.mean(missed) >= 0.95


def test_counts_of_calendar_parts_are_plain_data_and_add_up():
    schema, columns, tables = TIMES
    content = json.loads(json.dumps(tables.to_json()))
    loaded = ContingencyTables.from_json(schema, content, tables.pair_counts)
    assert loaded.parts == tables.parts
    assert loaded.to_json() == tables.to_json()
    pair = ("month(t)", "weekday(t)")
    halves = [{name: cells[part] for name, cells in columns.items()} for part in (slice(0, 900), slice(900, None))]
    whole = tables.count(columns, [pair])[pair]
    np.testing.assert_array_equal(sum(tables.count(half, [pair])[pair] for half in halves), whole)
    for damage in ({"parts": {"t": ["t", "month"]}}, {"parts": {"p": ["x", "month"]}}, {"parts": {"p": ["t", "era"]}}):
        with pytest.raises(ValueError, match="calendar part"):
            ContingencyTables.from_json(schema, content | damage, tables.pair_counts)


def test_bins_of_calendar_parts_rest_on_enough_rows():
    table = times_table(600)
    table["t"] = table["t"].where((table["t"].dt.hour != 3) | (np.arange(600) < 100))
    _, _, tables = count_table(table, min_rows=30)
    for name in tables.parts:
        bins = tables.columns[name]
        assert (bins.counts[:-1] >= 30).all()
        assert (bins.low <= bins.high).all()


def test_calendar_parts_that_are_not_counted_are_estimated_from_the_bins():
    """Bins hold times; how often a month occurs is that of some times in each bin. Older files have no more."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 3650, 2000), unit="D")
    schema, _, tables = count_table(pd.DataFrame({"t": days, "x": rng.normal(size=2000)}))
    tables = replace(tables, parts={})
    for where, expected in {"month(t) = 3": 1 / 12, "weekday(t) = 6": 1 / 7, "year(t) = 2004": 1 / 10}.items():
        predicate = bind(to_predicate(where), schema)
        found = find_support(tables, predicate, {})
        assert found.estimate / 2000 == pytest.approx(expected, rel=0.5)
        assert not found.is_counted
        sampled = find_support(tables, predicate, {}, probability=np.float64(0.0))
        assert sampled.is_extrapolation is True  # plain data, for JSON


@pytest.mark.parametrize(
    "text",
    [
        "x > 1 or other = 'a'",
        "not (x > 0 and kind = 'mid')",
        "x > 0.5 or y > 0.5",
        "(x > 0 or kind = 'low') and (x <= 0 or other = 'a')",
        "x > 0 or y > 0 or kind = 'high' or other = 'b'",
    ],
)
def test_rows_that_satisfy_several_alternatives_count_once(text):
    predicate = bind(to_predicate(text), SCHEMA)
    exact = find_support(TABLES, predicate, NO_ROW, table=ROWS).exact
    assert find_support(TABLES, predicate, NO_ROW).estimate == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("kind = 'low' and value > 20", 0),
        ("kind = 'low' and value > 40", 0),
        ("value < 20 and other > 70000", 0),
        ("value between 10 and 40", 0),
        ("number between 150 and 250", 0),
        ("number between 135 and 265", 80),
    ],
)
def test_wide_gaps_between_values_have_no_rows(text, most):
    rng = np.random.default_rng(0)
    kind = rng.choice(["low", "high"], 4000)
    table = pd.DataFrame({"kind": kind, "value": np.where(kind == "low", 0, 50) + rng.normal(size=4000)})
    table["other"] = np.where(kind == "low", 30000, 90000) + rng.normal(0, 3000, 4000)
    table["number"] = rng.choice([*range(140), *range(260, 400)], 4000)
    schema, rows, tables = count_table(table)
    predicate = bind(to_predicate(text), schema)
    found = find_support(tables, predicate, {})
    exact = find_support(tables, predicate, {}, table=rows).exact
    assert found.upper_bound >= exact
    assert found.estimate <= most or found.estimate == pytest.approx(exact, rel=0.3)


def test_bins_cut_at_gaps_hold_no_value_of_few_rows():
    values = np.r_[np.random.default_rng(0).normal(0, 1, 2000), np.random.default_rng(1).normal(50, 1, 2000)]
    _, _, tables = count_table(pd.DataFrame({"value": values}))
    bins = tables.columns["value"]
    assert not np.isin(bins.low[1:], values).any()
    assert not np.isin(bins.high[:-1], values).any()


def test_a_comparison_of_columns_that_no_count_tells_is_the_model_s_estimate():
    """Almost all rows are in pairs of bins that some values satisfy: half of them would be thousands."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000).round(2)
    schema, rows, tables = count_table(pd.DataFrame({"x": x, "y": 2 * x + rng.choice([-0.01, 0.01], 3000)}))
    predicate = bind(to_predicate("y = 2 * x"), schema)
    unknown = find_support(tables, predicate, {})
    assert unknown.is_modelled
    assert unknown.count_text.startswith("at most ")
    assert find_support(tables, predicate, {}, probability=0.01).count_text == (
        "about 30 of 3000 training rows (the model's own estimate, not a count)"
    )
    assert not find_support(tables, predicate, {}, table=rows).is_modelled
    good = Calibration(cells=4000, gain=1.0, coverage=0.9, numbers=4000)
    assert good.grade == "A"
    half = bind(to_predicate("y > 2 * x"), schema)
    assert grade_answer(good, find_support(tables, half, {}, probability=0.5)).grade == "C"
    assert grade_answer(good, find_support(tables, half, {}, table=rows, probability=0.5)).grade == "A"


@pytest.mark.parametrize(
    "text",
    [
        "x = y",
        "x > y",
        "y >= x",
        "x != y",
        "y > x + 0.055",
        "abs(x - y) < 0.025",
        "x - y between -0.055 and 0.025",
        "2 * (y - x) > 0.11",
        "least(x - y, 0.01) > 0",
        "not x < y or kind = 'a'",
    ],
)
@pytest.mark.parametrize("reload", [False, True])
def test_differences_of_columns_that_nearly_equal_each_other_are_counted(text, reload):
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000).round(2)
    y = np.where(rng.random(3000) < 0.1, np.nan, (x + rng.normal(0, 0.05, 3000)).round(2))
    schema, rows, tables = count_table(pd.DataFrame({"x": x, "y": y, "kind": rng.choice(list("abc"), 3000)}))
    if reload:
        tables = ContingencyTables.from_json(schema, json.loads(json.dumps(tables.to_json())), tables.pair_counts)
    predicate = bind(to_predicate(text), schema)
    found, exact = find_support(tables, predicate, {}), find_support(tables, predicate, {}, table=rows).exact
    assert found.estimate == pytest.approx(exact, rel=0.05)
    assert exact <= found.upper_bound
    assert not found.is_modelled


def test_differences_have_names_that_no_column_has():
    x = np.random.default_rng(0).normal(size=300).round(2)
    schema, _, tables = count_table(pd.DataFrame({"x": x, "y": x + 0.01, "x - y": x[::-1]}))
    assert set(tables.differences).isdisjoint(schema.names)
    content = tables.to_json()
    content["differences"] = {"x": ["x", "y"]}
    with pytest.raises(ValueError, match="a name that no column has"):
        ContingencyTables.from_json(schema, content, tables.pair_counts)


def test_comparisons_of_three_columns_are_not_counted():
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 1000)).round(2)
    schema, _, tables = count_table(pd.DataFrame({"a": a, "b": b, "c": c}))
    found = find_support(tables, bind(to_predicate("a > b + c + 5"), schema), {}, probability=0.1)
    assert found.is_modelled
    assert not find_support(tables, bind(to_predicate("a > 0 and b > 0 and c > 0"), schema), {}).is_modelled


GRIDS = {
    "tenths": lambda rng: (rng.integers(0, 100, 2000) / 10, rng.choice([0, 0, 0.1, 0.2, 0.3, -0.1], 2000)),
    "tiny": lambda rng: (rng.integers(0, 100, 2000) * 1e-14, rng.choice([0, 1e-14, -2e-14], 2000)),
    "huge": lambda rng: (rng.integers(0, 100, 2000) * 1e15, rng.choice([0, 1e13, -1e12], 2000)),
    "noise": lambda rng: (rng.normal(size=2000), rng.normal(0, 0.1, 2000)),
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "text",
    [
        "x - y < 0.2 * {u}",
        "x = y",
        "x != y",
        "x > y",
        "abs(x - y) < 0.1 * {u}",
        "x > y + 0.2 * {u}",
        "3 * x > 3 * y + 0.9 * {u}",
        "x / 3 = y / 3",
        "x - y > 0.3 * {u} or x > 4",
    ],
)
def test_rounding_errors_do_not_break_the_upper_bound(grid, text):
    x, noise = GRIDS[grid](np.random.default_rng(0))
    unit = {"tenths": 1.0, "tiny": 1e-13, "huge": 1e14, "noise": 1.0}[grid]
    schema, rows, tables = count_table(pd.DataFrame({"x": x, "y": x - noise}))
    assert tables.differences
    predicate = bind(to_predicate(text.format(u=unit)), schema)
    found, exact = find_support(tables, predicate, {}), find_support(tables, predicate, {}, table=rows).exact
    assert exact <= found.upper_bound
    assert 0 <= found.estimate <= found.upper_bound


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [
        ("a > b and a is null", 0),
        ("a = b and a is not null", 0.1),
        ("not (a is null or a = b)", 0.1),
        ("a > b and a > 40", 0.35),
        ("a > b and b > 40", 0.35),
        ("a is null or a = b", 0.1),
    ],
)
def test_differences_of_columns_with_missing_cells(text, tolerance):
    rng = np.random.default_rng(0)
    b = rng.integers(0, 50, 4000).astype(float)
    a = np.where(rng.random(4000) < 0.6, np.nan, b + rng.integers(-2, 3, 4000))
    schema, rows, tables = count_table(pd.DataFrame({"a": a, "b": b}))
    assert tables.differences
    predicate = bind(to_predicate(text), schema)
    found, exact = find_support(tables, predicate, {}), find_support(tables, predicate, {}, table=rows).exact
    assert exact <= found.upper_bound
    assert found.estimate == pytest.approx(exact, rel=tolerance)
