"""Regressions: unusual tables, dtypes and calls that once failed."""

import datetime as dt
import os
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import harpoon
from harpoon import Harpoon, HarpoonError, InvalidOption, Schema, SchemaMismatch
from harpoon.sklearn import HarpoonImputer

QUICK = {"hidden": 8, "max_epochs": 1, "diffusion_steps": 3, "random_state": 0, "progress": False}


def fit(table, **changes) -> Harpoon:
    return Harpoon("paper", **{**QUICK, **changes}).fit(table)


def columns(n: int = 40) -> dict:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=n), "i": rng.integers(0, 9, n), "c": np.array(["a", "b"])[rng.integers(0, 2, n)]}


@pytest.mark.parametrize(("trained", "given"), [("float32", "float64"), ("float64", "float32")])
def test_a_wider_or_narrower_float_keeps_its_cells_and_its_dtype(trained, given):
    model = fit(pd.DataFrame(columns()).astype({"x": trained}))
    frame = pd.DataFrame(columns()).astype({"x": given})
    frame.loc[3, "x"] = np.nan
    filled = model.impute(frame)
    assert filled["x"].dtype == given
    assert (filled["x"].drop(3) == frame["x"].drop(3)).all()


def test_decimals_keep_their_digits():
    digits = [Decimal(i).scaleb(-3) for i in range(40)]
    model = fit(pa.table({"d": pa.array(digits), "x": columns()["x"]}))
    frame = pa.table({"d": pa.array([*digits[:39], None], type=pa.decimal128(12, 5)), "x": columns()["x"]})
    filled = model.impute(frame)
    assert filled["d"].type == pa.decimal128(12, 5)
    assert filled["d"].to_pylist()[:39] == frame["d"].to_pylist()[:39]
    assert filled["d"].null_count == 0


@pytest.mark.parametrize("name", ["c", "k", "t", "d", "s"])
def test_a_column_of_nan_alone_is_filled_for_every_kind(name):
    n = 40
    table = pd.DataFrame(columns(n)).assign(
        k=pd.Categorical(columns(n)["c"]),
        t=pd.date_range("2024-01-01", periods=n),
        d=[dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(n)],
        s="always",
    )
    with pytest.warns(harpoon.ColumnLeftOutWarning, match="constant"):
        model = fit(table)
    filled = model.impute(table.assign(**{name: np.nan}))
    assert filled[name].notna().all()
    assert filled[name].dtype == table[name].dtype


def test_a_polars_column_of_null_floats_alone_is_filled():
    table = pl.DataFrame(columns())
    filled = fit(table).impute(table.with_columns(c=pl.lit(None, dtype=pl.Float64)))
    assert filled["c"].dtype == pl.String
    assert filled["c"].null_count() == 0


def test_numbers_as_column_names_stay_numbers():
    table = pd.DataFrame(dict(enumerate(columns().values())))
    model = fit(table)
    assert list(model.sample(3).columns) == [0, 1, 2]
    given = table[[0, 2]].head(2)
    sampled = model.sample(given=given)
    assert list(sampled.columns) == [0, 1, 2]
    assert (sampled[[0, 2]] == given).all().all()
    assert Schema.infer(table, exclude=[0])["0"].kind == "skipped"


def test_column_names_that_are_tuples_are_kept_in_given_rows():
    table = pd.DataFrame(columns())
    table.columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "i"), ("b", "c")])
    sampled = fit(table).sample(given=table.head(2).iloc[:, [0]])
    assert sampled.shape == (2, 3)
    assert (sampled[("a", "x")] == table[("a", "x")].head(2)).all()


def test_given_rows_without_columns_are_an_error():
    with pytest.raises(InvalidOption, match="columns"):
        fit(pd.DataFrame(columns())).sample(given=pd.DataFrame(index=[7, 8, 9]))


@pytest.mark.parametrize("value", [1e300, 1e19, -1e25])
def test_a_number_too_large_for_an_integer_is_an_error(value):
    model = fit(pa.table(columns()))
    with pytest.raises(SchemaMismatch, match="integers"):
        model.sample(2, given={"i": value})


def test_times_with_and_without_zone_do_not_mix():
    aware = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=40, tz="America/New_York"), **columns()})
    model = fit(aware)
    with pytest.raises(SchemaMismatch, match="time zone"):
        model.sample(2, given={"t": dt.datetime(2024, 1, 1, 12)})
    elsewhere = aware.assign(t=aware["t"].dt.tz_convert("Asia/Tokyo"))
    elsewhere.loc[0, "x"] = np.nan
    assert (model.impute(elsewhere)["t"] == elsewhere["t"]).all()


def test_times_beyond_the_range_of_the_unit_are_an_error():
    model = fit(pa.table({"t": pa.array(range(40), pa.timestamp("ns")), **columns()}))
    far = pa.table({"t": pa.array([2**40, None], pa.timestamp("s")), "x": [1.0, 2.0], "i": [1, 2], "c": ["a", "b"]})
    with pytest.raises(SchemaMismatch, match="do not fit"):
        model.impute(far)


@pytest.mark.parametrize("value", [2, 0.5, -1])
def test_a_boolean_is_neither_two_nor_a_half(value):
    model = fit(pa.table({"b": [True, False] * 20, **columns()}))
    with pytest.raises(SchemaMismatch, match="true and false"):
        model.sample(2, given={"b": value})


def test_an_enum_that_lacks_a_category_is_filled():
    enum = pl.Enum(["a", "b"])
    model = fit(pl.DataFrame({"e": pl.Series(["b"] * 39 + ["a"], dtype=enum), **columns()}))
    frame = pl.DataFrame({"e": pl.Series([None] * 39 + ["a"], dtype=pl.Enum(["a", "q"])), **columns()})
    filled = model.impute(frame)
    assert filled["e"].null_count() == 0
    assert filled["e"][39] == "a"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("i", {"step": 0.5}),
        ("i", {"minimum": 0.5}),
        ("x", {"step": 25}),
        ("c", {"categories": ["a", 1]}),
        ("c", {"categories": [1.0, float("nan")]}),
        ("c", {"kind": "constant", "categories": []}),
    ],
)
def test_invalid_edits_of_a_schema_are_errors(name, changes):
    with pytest.raises(InvalidOption, match=name):
        Schema.infer(pa.table(columns())).replace(name, **changes)


def test_another_unit_than_the_table_s_is_an_error():
    table = pa.table({"t": pa.array(range(40), pa.timestamp("us")), **columns()})
    with pytest.raises(InvalidOption, match="'us'"):
        fit(table, schema=Schema.infer(table).replace("t", unit="s"))


@pytest.mark.parametrize("kind", ["category", "datetime", "duration", "number", "boolean"])
def test_an_empty_column_is_empty_for_every_requested_kind(kind):
    table = pa.table({"e": pa.nulls(40), **columns()})
    with pytest.warns(harpoon.ColumnLeftOutWarning, match="empty"):
        model = fit(table, schema=Schema.infer(table, kinds={"e": kind}))
    assert model.impute(table)["e"].null_count == 40


def test_exclude_overrides_kinds():
    assert Schema.infer(pa.table(columns()), kinds={"c": "category"}, exclude=["c"])["c"].kind == "skipped"


def test_the_caller_s_torch_settings_do_not_matter(tmp_path):
    table = pa.table(columns())
    model = fit(table)
    model.save(tmp_path / "m.harpoon")
    with torch.no_grad():
        fit(table)
    with torch.inference_mode():
        assert fit(table).impute(table).equals(table)
    torch.set_default_dtype(torch.float64)
    try:
        assert harpoon.load(tmp_path / "m.harpoon").sample(3) == model.sample(3)
        assert fit(table).sample(3) == model.sample(3)
        anchored = Harpoon(max_epochs=1, hidden=8, progress=False, random_state=0).fit(table)
        assert anchored.sample(3).num_rows == 3
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_schedule_without_signal_is_an_error():
    with pytest.raises(InvalidOption, match="fewer steps"):
        Harpoon("paper", diffusion_steps=1000, beta_end=0.9)


def test_an_option_may_be_given_to_the_imputer_in_either_way():
    imputer = HarpoonImputer("paper", random_state=0, options={"max_epochs": 3, "hidden": 8, "diffusion_steps": 3})
    assert len(imputer.fit(np.random.default_rng(0).normal(size=(30, 2))).model_.history_.epochs) == 3


def test_saving_through_a_link_writes_its_target_and_keeps_the_mode(tmp_path):
    model = fit(pa.table(columns()))
    target, link = tmp_path / "real.harpoon", tmp_path / "link.harpoon"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to(target)
    model.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert harpoon.load(target).sample(2) == model.sample(2)


def test_a_model_cannot_be_saved_to_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HarpoonError, match="regular file"):
        fit(pa.table(columns())).save(tmp_path / "pipe")


def test_saving_does_not_touch_other_files(tmp_path):
    own = tmp_path / ".harpoon-2024-backup.csv"
    own.write_bytes(b"a year of work")
    fit(pa.table(columns())).save(tmp_path / "m.harpoon")
    assert sorted(path.name for path in tmp_path.iterdir()) == [own.name, "m.harpoon"]


def test_a_type_mismatch_names_both_types():
    model = fit(pa.table(columns()))
    with pytest.raises(SchemaMismatch, match="are texts, but the table holds numbers"):
        model.impute(pa.table({**columns(), "c": list(range(40))}))


def test_a_column_of_naive_nat_gets_its_zone_back():
    aware = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=40, tz="America/New_York"), **columns()})
    filled = fit(aware).impute(aware.assign(t=pd.NaT))
    assert filled["t"].dtype == aware["t"].dtype
    assert filled["t"].between(aware["t"].min(), aware["t"].max()).all()


def test_spikes_are_exact_without_a_resolution():
    rng = np.random.default_rng(0)
    values = np.array([1 / 3, 2 / 3, np.pi])
    table = pd.DataFrame(
        {"y": values[rng.integers(0, 3, 200)], "x": np.where(rng.random(200) < 0.6, 0.0, rng.normal(size=200))}
    )
    sampled = Harpoon(hidden=16, max_epochs=20, random_state=0, progress=False).fit(table).sample(300)
    assert sampled["y"].isin(values).mean() > 0.9
    assert 0.3 < (sampled["x"] == 0).mean() < 0.9


def test_an_extreme_observed_cell_leaves_the_others_finite():
    rng = np.random.default_rng(0)
    model = Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False)
    model.fit(pd.DataFrame({"a": rng.normal(size=100), "b": rng.normal(size=100)}))
    incomplete = pd.DataFrame({"a": [1e25, 1e300], "b": [np.nan, np.nan]})
    assert np.isfinite(model.impute(incomplete)["b"]).all()
    assert np.isfinite(model.impute(incomplete, draws=2).mean()["b"]).all()
    assert (model.impute(incomplete)["a"] == incomplete["a"]).all()


def test_an_expected_number_is_rounded_into_an_integer_column():
    model = Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False)
    model.fit(pd.DataFrame({"x": np.linspace(0.55, 1.45, 40), "y": np.arange(40.0)}))
    filled = model.impute(pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "y": [1.0, 2.0]}))
    assert filled["x"].dtype == "Int64"
    assert filled["x"].tolist() == [1, 1]


def test_a_constant_that_varies_at_impute_keeps_its_cells_or_is_an_error():
    with pytest.warns(harpoon.ColumnLeftOutWarning):
        model = fit(pd.DataFrame({"k": 5, "z": "z", **columns()}))
    frame = pd.DataFrame({"k": [7.0, np.nan, 8.5], "z": ["z", "z", None], "x": 0.5, "i": 1, "c": "a"})
    filled = model.impute(frame)
    assert filled["k"].tolist() == [7.0, 5.0, 8.5]
    assert filled["z"].tolist() == ["z", "z", "z"]
    with pytest.raises(HarpoonError, match="'z'"):
        model.impute(frame.assign(z=[1, None, 2]))


def test_wide_decimals_are_sampled():
    values = [Decimal(10**10 + i).scaleb(0) for i in range(40)]
    model = fit(pa.table({"d": pa.array(values, pa.decimal128(38, 20)), "x": columns()["x"]}))
    assert model.sample(3).num_rows == 3


def test_means_and_intervals_of_draws_have_the_resolution_of_the_column():
    rng = np.random.default_rng(0)
    table = pa.table({"tenth": rng.normal(size=60).round(1), "hundred": 100 * rng.integers(1, 50, 60)})
    incomplete = table.set_column(0, "tenth", pa.array([None] * 30 + table["tenth"].to_pylist()[30:]))
    incomplete = incomplete.set_column(1, "hundred", pa.array(table["hundred"].to_pylist()[:30] + [None] * 30))
    draws = Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False).fit(table).impute(incomplete, draws=3)
    for frame in (draws.mean(), *draws.interval(0.5)):
        tenths = np.asarray(frame["tenth"])
        assert (tenths == tenths.round(1)).all()
        assert (np.asarray(frame["hundred"]) % 100 == 0).all()


def test_a_categorical_without_categories_is_filled():
    table = pd.DataFrame({"k": pd.Categorical(columns()["c"]), **columns()})
    filled = fit(table).impute(table.head(2).assign(k=pd.Categorical([None, None])))
    assert filled["k"].isin(["a", "b"]).all()


def test_fitting_a_loaded_model_keeps_the_given_schema(tmp_path):
    table = pa.table(columns())
    fit(table, schema=Schema.infer(table, kinds={"i": "category"})).save(tmp_path / "m.harpoon")
    assert harpoon.load(tmp_path / "m.harpoon", progress=False).fit(table).schema_["i"].kind == "category"


def test_an_edited_minimum_does_not_shift_the_resolution():
    table = pa.table({"n": [10 * i for i in range(40)], **columns()})
    sampled = fit(table, schema=Schema.infer(table).replace("n", minimum=5)).sample(50)
    assert all(value % 10 == 0 or value == 5 for value in sampled["n"].to_pylist())
