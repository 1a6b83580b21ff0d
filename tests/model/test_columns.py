"""Columns of every kind through a model: left out, constant, excluded, unclipped, with unknown categories."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import harpoon
from harpoon import ColumnLeftOutWarning, Harpoon, HarpoonError, InvalidCondition, Kind, Schema, UnknownCategoryWarning
from harpoon.metrics.constraints import satisfies

ROWS = 60
LEFT_OUT = {
    Kind.CONSTANT: ["same"] * ROWS,
    Kind.EMPTY: [None] * ROWS,
    Kind.TEXT: [f"note {i} says something of its own" for i in range(ROWS)],
    Kind.IDENTIFIER: [f"K{i:04}" for i in range(ROWS)],
    Kind.SKIPPED: [[i] for i in range(ROWS)],
}


def test_columns_can_be_excluded(tools):
    table = pa.table({"a": [0.5, 1.5] * 15, "b": [0.25, 2.5] * 15})
    schema = Schema.infer(table, exclude=["a"])
    assert [c.name for c in schema.modelled] == ["b"]
    with pytest.warns(ColumnLeftOutWarning, match="'a'"):
        model = Harpoon(schema=schema, **tools.small).fit(table)
    assert model.sample(2).column_names == ["b"]


def test_a_column_that_is_not_clipped_exceeds_its_range(tools):
    table = pa.table({"x": [0.0, 1.0, 0.5, 0.25] * 10, "y": [0.5, 1.5] * 20})
    free = tools.fit(table, schema=Schema.infer(table).replace("x", clip=False, step=0)).sample(200)["x"].to_pylist()
    held = tools.fit(table).sample(200)["x"].to_pylist()
    assert min(held) >= 0
    assert max(held) <= 1
    assert min(free) < 0 or max(free) > 1


@pytest.fixture(scope="module")
def left_out(frame_of):
    """A model of a table that has one column of every kind that is not modelled."""
    columns = {kind.value: values for kind, values in LEFT_OUT.items()} | {"x": [0.5, 1.5, None] * 20}
    frame = frame_of(columns)
    with pytest.warns(ColumnLeftOutWarning) as caught:
        model = Harpoon(
            hidden=16, max_epochs=2, diffusion_steps=5, progress=False, random_state=0, incomplete_rows="mask"
        ).fit(frame)
    return model, frame, [str(w.message) for w in caught]


def test_fit_warns_once_of_each_column_that_is_left_out(left_out):
    _, _, messages = left_out
    assert len(messages) == len(LEFT_OUT)
    for kind, message in zip(LEFT_OUT, messages, strict=True):
        assert f"'{kind.value}'" in message
        assert "\n" not in message


def test_impute_keeps_the_columns_that_are_left_out(left_out, tools):
    model, frame, _ = left_out
    filled = model.impute(frame)
    names = [kind.value for kind in LEFT_OUT]
    before, after = (tools.read_back(f) for f in (frame, filled))
    assert list(before) == list(after)
    assert [repr(before[name]) for name in names] == [repr(after[name]) for name in names]
    assert {n: t for n, t in tools.dtypes(frame).items() if n in names} == {
        n: t for n, t in tools.dtypes(filled).items() if n in names
    }


def test_sampled_rows_have_the_constant_and_none_of_the_other_columns(left_out, tools):
    model, _, _ = left_out
    sampled = tools.read_back(model.sample(3))
    assert list(sampled) == ["constant", "x"]
    assert sampled["constant"] == ["same"] * 3


CONSTANTS = {
    "text": pa.array(["a"] * 30),
    "float": pa.array([0.25] * 30),
    "float32": pa.array([0.25] * 30, pa.float32()),
    "int8": pa.array([7] * 30, pa.int8()),
    "boolean": pa.array([True] * 30),
    "date": pa.array([dt.date(2020, 1, 2)] * 30),
    "datetime": pa.array([dt.datetime(2020, 1, 2, 3)] * 30, pa.timestamp("ms")),
    "duration": pa.array([dt.timedelta(5)] * 30, pa.duration("ms")),
    "category": pa.array(["a"] * 30).dictionary_encode(),
}


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_a_constant_is_the_same_in_every_sampled_row(frame_of, tools, constant):
    frame = frame_of({"c": constant, "x": [0.5, 1.5] * 15})
    sampled = tools.fit(frame).sample(3)
    assert tools.read_back(sampled)["c"] == tools.read_back(frame)["c"][:3]
    assert tools.dtypes(sampled) == tools.dtypes(frame)


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_missing_cells_of_a_constant_are_imputed_with_it(frame_of, tools, constant):
    holed = pa.array([None if i % 4 == 0 else v for i, v in enumerate(constant.to_pylist())], constant.type)
    frame, whole = (frame_of({"c": c, "x": [0.5, 1.5] * 15}) for c in (holed, constant))
    filled = tools.fit(frame).impute(frame)
    assert tools.read_back(filled)["c"] == tools.read_back(whole)["c"]


def test_a_left_out_column_may_hold_anything_at_impute_time(tools):
    table = pa.table({"note": LEFT_OUT[Kind.TEXT], "x": [0.5, 1.5, None] * 20})
    other = pa.table({"note": [[1]] * 3, "x": [None, 0.5, None]})
    assert tools.fit(table).impute(other)["note"].to_pylist() == [[1]] * 3


@pytest.fixture(scope="module")
def category_model(frame_of):
    frame = frame_of({"job": ["chef", "nurse", "chef", None] * 10, "x": [0.5, 1.5] * 20})
    return Harpoon(
        hidden=16, max_epochs=2, diffusion_steps=5, progress=False, random_state=0, incomplete_rows="mask"
    ).fit(frame)


def test_an_unknown_category_is_kept_and_named(category_model, frame_of, tools):
    frame = frame_of({"job": ["chef", "pilot", None, "pilot"], "x": [0.5, 1.5, 0.5, 1.5]})
    with pytest.warns(UnknownCategoryWarning, match=r"'job'.*'pilot' in 2 cells.*ignored.*kept") as caught:
        filled = tools.read_back(category_model.impute(frame))
    assert len(caught) == 1
    assert filled["job"][:2] + filled["job"][3:] == ["chef", "pilot", "pilot"]
    assert filled["job"][2] in ("chef", "nurse")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["chef", "pilot", "nurse", "pilot"]).dictionary_encode(),
        pa.array(["pilot"] * 4).dictionary_encode(),
        pa.DictionaryArray.from_arrays([3, 1, 2, None], ["nurse", "pilot", "chef", "diver"], ordered=True),
    ],
    ids=["some cells", "every cell", "ordered"],
)
def test_an_unknown_category_of_a_categorical_dtype_is_kept_with_the_dtype(category_model, frame_of, tools, column):
    frame = frame_of({"job": column, "x": [0.5, 1.5, None, 1.5]})
    with pytest.warns(UnknownCategoryWarning, match="'pilot'"):
        filled = category_model.impute(frame)
    pairs = zip(tools.read_back(frame)["job"], tools.read_back(filled)["job"], strict=True)
    assert all(after == before or (before is None and after in ("chef", "nurse")) for before, after in pairs)
    assert tools.dtypes(filled) == tools.dtypes(frame)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("job = 'chef'", False),
        ("job <> 'chef'", True),
        ("job in ('chef', 'nurse')", False),
        ("job not in ('chef', 'nurse')", True),
        ("job like 'pi%'", True),
        ("not (job like 'pi%')", False),
        ("job is not null and x < 9", True),
        ("job = 'chef' or x > 1", True),
    ],
)
@pytest.mark.filterwarnings("ignore::harpoon.UnknownCategoryWarning")
def test_a_condition_reads_an_unknown_category_as_it_is(category_model, frame_of, tools, where, holds):
    frame = frame_of({"job": ["pilot", "pilot"], "x": [None, 1.5]})
    if not holds:
        with pytest.raises(InvalidCondition, match="violated by observed cells, in rows 0, 1 "):
            category_model.impute(frame, where=where)
        return
    filled = category_model.impute(frame, where=where)
    assert tools.read_back(filled)["job"] == ["pilot", "pilot"]
    assert satisfies(category_model.schema_, filled, where).all()


def test_an_unknown_category_of_partial_rows_is_kept(category_model, frame_of, tools):
    with pytest.warns(UnknownCategoryWarning):
        sampled = category_model.sample(given=frame_of({"job": ["pilot", None, "chef"]}), where="x >= 0.5")
    job, _, other = tools.read_back(sampled)["job"]
    assert (job, other) == ("pilot", "chef")


def test_an_unknown_category_is_not_predicted(category_model, frame_of, tools):
    frame = frame_of({"job": ["pilot", None], "x": [None, 1e300]})
    with pytest.warns(UnknownCategoryWarning):
        expectation = category_model.expect(frame)
    assert expectation.numbers["x"][1] == 1e300
    assert expectation.probabilities["job"][0].tolist() == [0, 0]
    assert expectation.probabilities["job"][1].sum() == pytest.approx(1)
    with pytest.warns(UnknownCategoryWarning):
        draws = category_model.impute(frame, draws=3)
    assert "2 missing cells" in repr(draws)
    for table in (*draws, draws.mean()):
        assert tools.read_back(table)["job"][0] == "pilot"


def test_a_declared_category_without_cells_is_not_unknown(category_model, frame_of, tools):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], pa.int8()), ["chef", "nurse", "pilot"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled = tools.read_back(category_model.impute(frame_of({"job": column, "x": [0.5, 1.5, 0.5, None]})))
    assert filled["job"][:3] == ["chef", "nurse", "chef"]


def test_many_unknown_categories_are_listed_shortly(category_model, frame_of):
    frame = frame_of({"job": [f"job {i}" for i in range(40)], "x": [0.5, 1.5] * 20})
    with pytest.warns(UnknownCategoryWarning, match="35 more"):
        category_model.impute(frame)


def test_integer_categories_survive_floats_from_missing_cells(tools):
    whole = pd.DataFrame({"code": [1, 2, 3] * 10, "x": [0.5, 1.5] * 15})
    model = tools.fit(whole, schema=Schema.infer(whole, kinds={"code": "category"}))
    holed = whole.assign(code=whole["code"].where(np.arange(30) % 4 != 0))
    filled = model.impute(holed)
    assert filled["code"].dtype == np.int64
    assert set(filled["code"]) <= {1, 2, 3}
    assert (filled["code"] == whole["code"])[np.arange(30) % 4 != 0].all()


@pytest.mark.parametrize(
    "value", [[1, 2], {"a": 1}, {1, 2}, object(), 1j, 2**70, "\ud800"], ids=lambda value: type(value).__name__
)
def test_a_given_value_must_be_plain(arrow_fitted, value):
    with pytest.raises(HarpoonError, match="age"):
        arrow_fitted.model.sample(2, given={"age": value})


def test_an_integer_in_the_upper_half_of_an_unsigned_type_is_kept():
    one = pa.table({"id": pa.array([2**63 + 2048] * 40, pa.uint64()), "x": [float(i) for i in range(40)]})
    with pytest.warns(ColumnLeftOutWarning, match="constant"):
        drawn = Harpoon(max_epochs=1, hidden=8, progress=False, random_state=0).fit(one).sample(3)
    assert drawn["id"].to_pylist() == [2**63 + 2048] * 3


def test_a_categorical_of_intervals_is_kept_by_a_saved_model(tools, tmp_path):
    x = np.random.default_rng(0).normal(size=40)
    frame = pd.DataFrame({"bin": pd.cut(x, 4), "x": x})
    tools.fit(frame).save(tmp_path / "m")
    loaded = harpoon.load(tmp_path / "m", progress=False)
    filled = loaded.impute(frame.assign(x=np.where(np.arange(40) % 4, x, np.nan)))
    pd.testing.assert_series_equal(filled["bin"], frame["bin"])
    assert filled["x"].notna().all()
    assert list(loaded.sample(3).columns) == ["x"]


@pytest.mark.parametrize(
    "dtype", [pd.ArrowDtype(pa.decimal128(8, 2)), pd.ArrowDtype(pa.decimal256(40, 2)), object], ids=str
)
def test_decimals_keep_their_dtype(tools, tmp_path, dtype):
    prices = pd.Series([Decimal(i * i) / 100 for i in range(40)], dtype=dtype)
    frame = pd.DataFrame({"price": prices, "x": np.arange(40) / 7})
    tools.fit(frame).save(tmp_path / "m")
    model = harpoon.load(tmp_path / "m", progress=False)
    filled, missing = model.impute(frame.assign(price=prices.where(np.arange(40) % 4 != 0))), np.arange(40) % 4 == 0
    assert filled["price"].dtype == model.sample(3)["price"].dtype == prices.dtype
    assert filled["price"][~missing].tolist() == prices[~missing].tolist()
    assert all(isinstance(price, Decimal) for price in filled["price"])


def test_a_dtype_that_pandas_cannot_restore_does_not_change_other_columns():
    rng = np.random.default_rng(0)
    big = [None if rng.random() < 0.3 else 2**60 + 2 * int(v) + 1 for v in rng.integers(0, 500, 200)]
    columns = {
        "k": pa.array(rng.choice(["p", "q"], 200).tolist()).dictionary_encode(),
        "big": pa.array(big, pa.int64()),
    }
    table = pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    filled, sampled = model.impute(table), model.sample(50, random_state=0)
    assert filled["big"].dtype == sampled["big"].dtype == table["big"].dtype
    observed = table["big"].notna()
    assert filled["big"][observed].tolist() == table["big"][observed].tolist()
