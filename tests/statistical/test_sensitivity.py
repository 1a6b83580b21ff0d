"""Shifts of missing cells (delta adjustment) and tipping points."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from harpoon import Harpoon, InvalidOption, Schema, tipping_point
from tests.support import frames
from tests.support.oracles import mixture_table

N = 400


@pytest.fixture(scope="module")
def model(mixture_model):
    return mixture_model


def without(name, every=2, n=N):
    """Return the mixture table without every second cell of some columns."""
    table = mixture_table(n, seed=5)
    for column in [name] if isinstance(name, str) else name:
        cells = pa.array(table[column].to_pylist(), mask=np.arange(n) % every == 0)
        table = table.set_column(table.column_names.index(column), column, cells)
    return table


def mean_of(name):
    def estimator(table):
        values = np.asarray(table[name])
        return [values.mean()], [values.var(ddof=1) / len(values)], len(values) - 1

    return estimator


def fraction_of(category):
    def estimator(table):
        fraction = np.mean(np.asarray(table["c"]) == category)
        return [fraction], [fraction * (1 - fraction) / len(table)]

    return estimator


def test_imputed_numbers_are_shifted_by_standard_deviations_and_nothing_else_changes(model):
    table = without(["y", "c"])
    plain = model.impute(table, draws=3, random_state=0)
    shifted = model.impute(table, draws=3, shift={"y": -0.25}, random_state=0)
    column, missing = model.schema_["y"], np.arange(N) % 2 == 0
    offset = -0.25 * np.std(np.asarray(table["y"].drop_null()), ddof=1)
    for before, after in zip(plain, shifted, strict=True):
        assert before["x"] == after["x"]
        assert before["c"] == after["c"]
        y, new = np.asarray(before["y"]), np.asarray(after["y"])
        assert (new[~missing] == y[~missing]).all()
        assert new[missing] == pytest.approx(np.clip(y[missing] + offset, column.minimum, column.maximum), abs=1e-9)
    assert shifted.mean()["y"] != plain.mean()["y"]
    assert plain.shift({"y": -0.25}).tables == shifted.tables
    assert plain.shift({"y": 0}).tables == plain.tables


@pytest.mark.parametrize("library", frames.LIBRARIES)
def test_shifted_values_are_values_that_the_column_can_hold(library):
    days = [date(2020, 1, 1) + timedelta(days=i % 50) for i in range(60)]
    columns = {"day": days, "count": [i % 40 for i in range(60)], "price": [round(0.25 * i, 2) for i in range(60)]}
    table = frames.make(
        library, {name: [None if i % 3 == 0 else v for i, v in enumerate(vs)] for name, vs in columns.items()}
    )
    model = frames.fit(table)
    plain, shifted = (
        model.impute(table, draws=2, shift=by, random_state=0) for by in (None, dict.fromkeys(columns, 9))
    )
    for name in columns:
        assert frames.dtypes(shifted.tables[0])[name] == frames.dtypes(plain.tables[0])[name]
        cells = frames.read_back(shifted.tables[0])[name]
        largest = max(value for i, value in enumerate(frames.read_back(plain.tables[0])[name]) if i % 3)
        assert all(cells[i] > largest for i in range(0, 60, 3))  # beyond the range of training
        assert all(cells[i] == before for i, before in enumerate(frames.read_back(plain.tables[0])[name]) if i % 3)


@pytest.mark.parametrize("clip", [True, False])
def test_a_shift_leaves_the_range_of_the_training_table(clip):
    """Otherwise a tipping point beyond the range would never be found."""
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=90).round(3), "z": np.arange(90) % 7})
    frame.loc[::3, "x"] = np.nan
    schema = Schema.infer(frame).replace("x", clip=clip)
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, schema=schema, progress=False).fit(frame)
    plain, far = (model.impute(frame, draws=1, shift=by, random_state=0).tables[0] for by in (None, {"x": 9.0}))
    assert (far["x"] - plain["x"]).to_numpy()[::3] == pytest.approx(9 * frame["x"].std(), abs=1e-3)


@pytest.fixture(scope="module")
def counts():
    """A count, a flag and a rating, of which every third cell is missing."""
    rng = np.random.default_rng(1)
    columns = {"n": rng.poisson(30, 600), "flag": rng.integers(0, 2, 600), "rating": rng.integers(1, 6, 600)}
    frame = pd.DataFrame(columns).astype("Int64")
    frame.loc[::3] = pd.NA
    frame["x"] = rng.normal(size=600)
    return frame, frames.fit(frame)


@pytest.mark.parametrize("shift", [-0.31, 0.01, 0.04, 0.1, 0.52])
def test_the_mean_of_integers_is_shifted_by_what_was_asked(counts, shift):
    """Each cell moves to one of the two integers around the shift, and their mean by the shift."""
    frame, model = counts
    plain, shifted = (model.impute(frame, draws=1, shift=by, random_state=0).tables[0] for by in (None, {"n": shift}))
    moved = (shifted["n"] - plain["n"]).to_numpy(dtype=float)[::3]
    offset = shift * frame["n"].std()
    assert moved.mean() == pytest.approx(offset, abs=2 / len(moved))
    assert set(moved) <= {np.floor(offset), np.ceil(offset)}


def test_numbers_with_few_values_are_shifted_in_log_odds_and_keep_their_values(counts):
    frame, model = counts
    shares = []
    for by in (-1.0, 0.0, 1.0, 30.0):
        draws = model.impute(frame, draws=20, shift={"flag": {1: by}, "rating": {5: by}}, random_state=0)
        cells = pd.concat([table[["flag", "rating"]].iloc[::3] for table in draws])
        assert set(cells["flag"]) <= {0, 1}
        assert set(cells["rating"]) <= {1, 2, 3, 4, 5}
        shares.append((cells["flag"].mean(), (cells["rating"] == 5).mean()))
    assert (np.diff(shares, axis=0) > 0.02).all()
    assert shares[-1] == (1, 1)
    odds = [p[0] / (1 - p[0]) for p in shares[:3]]
    assert np.diff(np.log(odds)) == pytest.approx([1, 1], abs=0.2)
    mean = lambda table: (table["flag"].astype(float).mean(), 0.0001)  # noqa: E731
    point = tipping_point(model, frame, mean, "flag", category=1, value=0.6, draws=5, max_shift=4.0, random_state=0)
    assert point.upwards > 0
    with pytest.raises(InvalidOption, match=r"'flag' must be in log-odds of values, because it has only 2: \{1: 0.5\}"):
        model.impute(frame, draws=2, shift={"flag": 0.5})
    with pytest.raises(InvalidOption, match="'x' has no missing cells in this table"):
        model.impute(frame, draws=2, shift={"x": 0.5})


@pytest.mark.parametrize("shift", [-1.5, 0.0, 0.8])
def test_the_odds_of_a_category_are_multiplied(model, shift):
    table = without(["y", "c"])
    draws = model.impute(table, draws=60, shift={"c": {"b": shift}}, random_state=1)
    expectation = model.expect(table)
    p = expectation.probabilities["c"][::2, expectation.categories["c"].index("b")]
    odds = p / (1 - p) * np.exp(shift)
    expected = odds / (1 + odds)
    drawn = np.mean([np.asarray(t["c"])[::2] == "b" for t in draws], axis=0)
    assert drawn.mean() == pytest.approx(
        expected.mean(), abs=4 * np.sqrt(np.mean(expected * (1 - expected)) / drawn.size / 60)
    )
    assert drawn == pytest.approx(expected, abs=0.3)
    assert all(t["x"] == table["x"] for t in draws)


def test_a_larger_shift_only_adds_cells_of_the_category(model):
    table = without(["y", "c"])
    low, high = (model.impute(table, draws=3, shift={"c": {"b": by}}, random_state=1) for by in (0.0, 1.0))
    for before, after in zip(low, high, strict=True):
        b, more = (np.asarray(t["c"]) == "b" for t in (before, after))
        assert (b <= more).all()
        assert b.sum() < more.sum()


def test_other_missing_cells_follow_the_shifted_category(model):
    table = without(["x", "y", "c"], every=1)
    rows = {category: model.sample(N, given={"c": category}, random_state=0) for category in "ab"}
    for category in "ab":
        drawn = model.impute(table, draws=1, shift={"c": {category: 40.0}}, random_state=3).tables[0]
        assert set(drawn["c"].to_pylist()) == {category}
        means = {other: np.mean(np.asarray(rows[other]["y"])) for other in "ab"}
        mine = np.mean(np.asarray(drawn["y"]))
        assert abs(mine - means[category]) < abs(mine - means["b" if category == "a" else "a"])


def test_the_tipping_point_of_a_mean_is_where_its_interval_reaches_the_value(model):
    table, estimator = without("y"), mean_of("y")
    plain = model.impute(table, draws=5, random_state=0)
    _, high = plain.pool(estimator).interval()
    value = float(high[0]) + 0.02
    point = tipping_point(model, table, estimator, "y", value=value, draws=5, max_shift=0.5, steps=4, random_state=0)
    assert point.upwards is not None
    assert point.downwards is None
    assert point.nearest == point.upwards
    contains = (point.low <= value) & (value <= point.high)
    assert not contains[point.shifts < point.upwards].any()
    assert contains[point.shifts == point.upwards].all()
    assert (np.diff(point.estimate) > 0).all()
    bound = 0.5 * np.diff(point.shifts) * np.std(np.asarray(table["y"].drop_null()), ddof=1)
    assert (np.diff(point.estimate) <= bound + 1e-9).all()  # half of the cells are missing; some are clipped
    assert "does not contain" in str(point)
    assert f"shifted by {point.upwards:+.2f} standard deviations" in str(point)


def test_the_tipping_point_of_a_category_is_in_log_odds(model):
    table = without(["y", "c"])
    options = {"category": "b", "draws": 3, "max_shift": 3.0, "steps": 3, "random_state": 0}
    point = tipping_point(model, table, fraction_of("b"), "c", value=0.5, **options)
    assert (np.diff(point.estimate) >= 0).all()
    tipped = [shift for shift in (point.downwards, point.upwards) if shift is not None]
    assert tipped
    assert "log-odds" in str(point)
    none = tipping_point(model, table, fraction_of("b"), "c", value=2.0, **options)
    assert none.nearest is None
    assert "does not change if missing values of c = b are shifted by -3 to 3 log-odds" in str(none)


def test_bad_shifts_are_errors_with_a_sentence(model):
    table = without("y")
    for shift, message in (
        ({"z": 1}, "A column to shift must be one of"),
        ({"y": "far"}, "finite number"),
        ({"y": {"a": 1}}, "finite number"),
        ({"c": 0.5}, r"must be in log-odds of categories: \{'b': 0.5\}"),
        ({"c": {"q": 1}}, "A label of column 'c' to shift"),
        ({"c": {"a": np.nan}}, "finite number"),
        (3, "mapping"),
    ):
        with pytest.raises(InvalidOption, match=message):
            model.impute(table, draws=2, shift=shift)
    with pytest.raises(InvalidOption, match="needs draws"):
        model.impute(table, shift={"y": 1})
    with pytest.raises(InvalidOption, match="cannot be combined with where"):
        model.impute(table, draws=2, shift={"y": 1}, where="y > -100")
    with pytest.raises(InvalidOption, match="the table has 0 of them"):
        model.impute(without("y", every=1), draws=2, shift={"y": 1})
    with pytest.raises(InvalidOption, match="when they are sampled"):
        model.impute(table, draws=2).shift({"c": {"a": 1}})
    with pytest.raises(InvalidOption, match="no missing cells"):
        tipping_point(model, table, mean_of("y"), "x", draws=2)
    with pytest.raises(InvalidOption, match="pass category, such as 'b'"):
        tipping_point(model, table, mean_of("y"), "c", draws=2)
    with pytest.raises(InvalidOption, match="term must be one of"):
        tipping_point(model, table, mean_of("y"), "y", draws=2, term="x")
    with pytest.raises(InvalidOption, match="max_shift"):
        tipping_point(model, table, mean_of("y"), "y", max_shift=0)


def test_shifted_categories_need_a_conditional_network():
    paper = Harpoon("paper", hidden=16, max_epochs=1, random_state=0, progress=False).fit(mixture_table(100, seed=5))
    table = without("c", n=100)
    with pytest.raises(InvalidOption, match="conditioned on observed cells"):
        paper.impute(table, draws=2, shift={"c": {"a": 1}})
