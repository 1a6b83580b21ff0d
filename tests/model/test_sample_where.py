"""Sampling under a condition: sample(n, where=w) returns n rows, all of which satisfy w in DuckDB."""

import datetime as dt
import re

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harpoon import (
    Harpoon,
    HarpoonError,
    InfeasibleCondition,
    InvalidCondition,
    InvalidOption,
    SamplingFailed,
    col,
)
from harpoon.inference.sampling.row_sampler import RowSampler

N = 60


def make_table(rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c", "rare"], rows, p=[0.5, 0.3, 0.18, 0.02])
    x = rng.normal(np.select([kind == "a", kind == "b"], [-1.0, 1.0], 0.0), 0.7)
    count = np.where(rng.random(rows) < 0.4, 0, rng.poisson(np.exp(1 + 0.3 * x)))
    day = [dt.date(2024, 1, 1) + dt.timedelta(days=int(d)) for d in np.clip(60 + 40 * x, 0, 365)]
    return pd.DataFrame(
        {
            "kind": kind,
            "x": np.round(x, 2),
            "odd name": np.round(2 * x + rng.normal(0, 0.5, rows), 2),
            "count": count,
            "day": pd.array(day, dtype=pd.ArrowDtype(pa.date32())),
            "flag": rng.random(rows) < 1 / (1 + np.exp(-x)),
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def model():
    return Harpoon(hidden=64, depth=2, max_epochs=20, learning_rate=3e-3, random_state=0, progress=False).fit(TABLE)


@pytest.fixture(scope="module")
def paper():
    options = {"hidden": 64, "max_epochs": 40, "learning_rate": 1e-3, "sampling_steps": 50, "diffusion_steps": 50}
    return Harpoon("paper", beta_end=0.1, random_state=0, progress=False, **options).fit(TABLE)


def violations(rows, where):
    """Return how many rows violate the condition in DuckDB."""
    with duckdb.connect() as connection:
        connection.register("sampled", rows)
        return len(rows) - connection.execute(f"SELECT count(*) FROM sampled WHERE {where}").fetchone()[0]  # noqa: S608


CONDITIONS = {
    "range": "x >= 1",
    "category": "kind = 'b'",
    "both": "x >= 1 and kind = 'b'",
    "either": "x >= 2 or kind = 'rare'",
    "band": "x between 1.2 and 1.25",
    "list": "kind in ('rare', 'c')",
    "like": "kind like 'r%'",
    "not": "not (kind = 'a' or x < 0)",
    "three branches": "x > 2 or count >= 12 or not (kind <> 'rare' or flag)",
    "across": '"odd name" > x + 1',
    "rare across": '"odd name" > x + 2.4',
    "function": "abs(x) > 2 and exp(x) > 1",
    "date": "day between DATE '2024-05-01' and DATE '2024-05-20'",
    "date and more": "day > DATE '2024-04-15' and flag and count = 0",
    "zero": "count = 0",
    "integer": "count = 7",
    "chained": "1 <= count < 3",
    "two rare": "x > 2 and kind = 'rare'",
    "always": "x = x",
}


@pytest.mark.parametrize("where", CONDITIONS.values(), ids=CONDITIONS)
def test_n_rows_are_returned_that_satisfy_the_condition(model, where):
    rows = model.sample(N, where=where, random_state=1)
    judged = where.replace("1 <= count < 3", "1 <= count and count < 3")
    assert len(rows) == N
    assert violations(rows, judged) == 0
    assert model.sampling_info_.rows == N
    assert model.sampling_info_.violations == 0
    assert rows.attrs["harpoon"]["strategy"] == model.sampling_info_.strategy
    assert f"{N} rows, {model.sampling_info_.strategy}" in str(model.sampling_info_)
    assert rows.dtypes.to_dict() == TABLE.dtypes.to_dict()


@pytest.mark.parametrize("strategy", ["auto", "rejection", "conditioning", "guidance"])
@pytest.mark.parametrize("where", ["x >= 1 and kind = 'b'", "x >= 1.5 or kind = 'c'"])
def test_every_strategy_returns_rows_that_satisfy_the_condition(model, strategy, where):
    rows = model.sample(N, where=where, strategy=strategy, random_state=1)
    assert (len(rows), violations(rows, where)) == (N, 0)
    assert model.sampling_info_.strategy in ("rejection", "conditioning", "guidance")
    assert (model.sampling_info_.guided_violations is not None) == (model.sampling_info_.strategy == "guidance")


@pytest.mark.parametrize("where", ["x >= 1", "kind = 'b'", "x >= 0 and kind = 'b'", "x >= 1.5 or kind = 'b'"])
def test_the_paper_preset_guides_every_condition(paper, where):
    rows = paper.sample(N, where=where, random_state=1)
    assert (len(rows), violations(rows, where)) == (N, 0)
    assert paper.sampling_info_.strategy == "guidance"


def test_algorithm_1_alone_returns_its_rows_and_counts_violations(paper):
    rows = paper.sample(200, where="x >= 1", strategy="paper", random_state=1)
    fraction, unconditional = paper.sampling_info_.violations, paper.sample(200, random_state=1)
    assert len(rows) == 200
    assert fraction == pytest.approx(violations(rows, "x >= 1") / 200)
    # The gradient of a squared distance vanishes at the bound: rows come close to it, not over it.
    assert violations(rows, "x >= 0.95") < violations(unconditional, "x >= 0.95") / 4


LEAVES = st.one_of(
    st.builds(lambda v: col("x") >= v, st.sampled_from([-2.0, 0.0, 1.0, 1.5])),
    st.builds(lambda v: col("x") < v, st.sampled_from([-1.0, 0.0, 2.0])),
    st.builds(lambda v: col("kind").is_in(v), st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)),
    st.builds(lambda v: col("count") == v, st.sampled_from([0, 2, 5])),
    st.builds(lambda v: col("odd name") > col("x") + v, st.sampled_from([-0.5, 0.5])),
    st.just(col("flag") == True),  # noqa: E712
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@given(TREES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_condition_is_satisfied_or_infeasible(model, where):
    fraction = 1 - violations(TABLE, where) / len(TABLE)
    try:
        rows = model.sample(20, where=where, random_state=1)
    except InfeasibleCondition:
        assert fraction < 0.005
    else:
        assert (len(rows), violations(rows, where)) == (20, 0)


def test_the_same_seed_gives_the_same_rows_for_any_batch_size(model):
    for where in ("x >= 1 and kind = 'b'", '"odd name" > x + 2.4'):
        first, second = (
            model.sample(N, where=where, random_state=1, sampling_batch_size=size) for size in (64 * 64, 4096 * 3)
        )
        pd.testing.assert_frame_equal(first, second)


def test_text_and_operators_are_equivalent(model):
    text = model.sample(N, where="x >= 1 and kind in ('a', 'b')", random_state=1)
    operators = model.sample(N, where=(col("x") >= 1) & col("kind").is_in(["a", "b"]), random_state=1)
    pd.testing.assert_frame_equal(text, operators)


def test_branches_get_rows_in_proportion_to_their_probability(model):
    rows = model.sample(1000, where="kind = 'rare' or x > 2.2", strategy="conditioning", random_state=1)
    rare = (TABLE["kind"] == "rare").sum() / ((TABLE["kind"] == "rare") | (TABLE["x"] > 2.2)).sum()
    assert (rows["kind"] == "rare").mean() == pytest.approx(rare, abs=0.15)


IMPOSSIBLE = ["x >= 1000", "x > 1 and x < 0", "count < 0", "day < DATE '1990-01-01'", "kind is null", "1 > 2"]


@pytest.mark.parametrize("where", IMPOSSIBLE)
def test_an_impossible_condition_is_an_error_at_once(model, where):
    with pytest.raises(InfeasibleCondition, match="cannot be met"):
        model.sample(N, where=where)
    assert len(model.sample(N, where=where, on_shortfall="return")) == 0


def test_a_contradiction_is_named_without_sampling(model, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("rows were sampled")

    where = "kind = 'b' and x > 1 and x < 0.5"
    message = f"The condition {where} cannot be met: x > 1 and x < 0.5 exclude each other. Relax it."
    suggestion = model.feasibility(where).suggestion
    monkeypatch.setattr(RowSampler, "sample", fail)
    for call in (
        lambda: model.sample(N, where=where),
        lambda: model.sample(N, where=where, given={"x": 4.5}),
        lambda: model.impute(TABLE.head(3), where=where),
    ):
        with pytest.raises(InfeasibleCondition) as error:
            call()
        assert str(error.value) == message
    assert suggestion == "No row can satisfy it: x > 1 and x < 0.5 exclude each other."


def test_the_error_explains_which_part_is_rare_and_what_is_feasible(model):
    with pytest.raises(InfeasibleCondition) as error:
        model.sample(5, where="x * x - x * x >= 1 and kind = 'b'")
    assert "x * x - x * x >= 1 is met by 0 % of sampled rows; without it the rest would be met by" in str(error.value)


OUT_OF_RANGE = {
    "x >= 1000 and kind = 'b'": "x >= 1000 is never true, because x is from",
    "kind like 'z%'": "because no value of kind begins with 'z' (it has 'a', 'b'",
    "day < DATE '1990-01-01'": "because day is from",
    "kind is null": "because kind is never missing in the training table",
    "x + 0 > 1 and (x > 1000 or kind like '%z')": "no value of kind ends with 'z'",
}


@pytest.mark.parametrize("where", OUT_OF_RANGE)
def test_a_condition_beyond_the_training_values_says_why_without_sampling(model, monkeypatch, where):
    monkeypatch.setattr(RowSampler, "sample", None)
    with pytest.raises(InfeasibleCondition) as error:
        model.sample(5, where=where)
    assert OUT_OF_RANGE[where] in str(error.value)


def test_observed_cells_beyond_the_range_may_satisfy_what_no_training_value_does(model):
    assert (model.sample(3, where="x > 1000", given={"x": 2000.0})["x"] == 2000.0).all()
    table = TABLE.head(3).assign(x=[2000.0, 3000.0, 4000.0], kind=None)
    assert model.impute(table, where="x > 1000")["kind"].notna().all()


BAD = {
    "an unknown column": ("xx >= 1", InvalidCondition, "xx"),
    "an unknown category": ("kind = 'bb'", InvalidCondition, "bb"),
    "no condition": ("", InvalidCondition, "condition"),
    "Python": ("__import__('os')", InvalidCondition, "not supported"),
}


@pytest.mark.parametrize(("where", "error", "match"), BAD.values(), ids=BAD)
def test_bad_conditions_are_errors(model, where, error, match):
    with pytest.raises(error, match=match):
        model.sample(5, where=where)
    with pytest.raises(error, match=match):
        model.impute(TABLE.head(3), where=where)
    with pytest.raises(error, match=match):
        model.feasibility(where)


def test_options_of_a_condition_are_validated(model):
    with pytest.raises(InvalidOption, match="strategy"):
        model.sample(5, where="x > 0", strategy="hope")
    with pytest.raises(InvalidOption, match="on_shortfall"):
        model.sample(5, where="x > 0", on_shortfall="ignore")
    with pytest.raises(InvalidOption, match="category_loss"):
        model.sample(5, where="x > 0", category_loss="l3")


# Given rows


def test_given_values_and_a_condition_are_both_satisfied(model):
    rows = model.sample(N, given={"kind": "c"}, where="x >= 1", random_state=1)
    assert (rows["kind"] == "c").all()
    assert violations(rows, "x >= 1") == 0
    with pytest.raises(InvalidCondition, match="violated by observed cells"):
        model.sample(N, given={"kind": "c"}, where="kind = 'a'")


def test_partial_rows_are_completed_under_a_condition(model):
    partial = pd.DataFrame({"kind": ["a", None, "b", None] * 5, "count": [None, 3, None, 0] * 5})
    rows = model.sample(given=partial, where="x > 0.5", random_state=1)
    assert (len(rows), violations(rows, "x > 0.5")) == (20, 0)
    there = partial["count"].notna()
    assert (rows["count"][there] == partial["count"][there]).all()


def test_rows_are_completed_under_rare_conditions(model):
    partial = TABLE.head(16).drop(columns="x")
    for where in ("x between 0.3 and 0.4", "x > 2.5", "x in (-1.5, 1.5)"):
        rows = model.sample(given=partial, where=where, random_state=1)
        assert (len(rows), violations(rows, where)) == (16, 0)
        assert model.sampling_info_.strategy == "completion"
        assert (rows["kind"] == partial["kind"]).all()
    with pytest.raises(InvalidOption, match="given rows"):
        model.sample(given=partial, where="x > 0", on_shortfall="return")


def test_guidance_of_given_rows_ends_where_a_larger_scale_diverges(model, monkeypatch):
    sample, scales = RowSampler.sample, []

    def diverge(self, given, index, *, guidance_scale=None, **options):
        scales.append(guidance_scale)
        if guidance_scale is not None and guidance_scale > self.config.guidance_scale:
            raise SamplingFailed("infinite rows")
        return sample(self, given, index, guidance_scale=guidance_scale, **options)

    monkeypatch.setattr(RowSampler, "sample", diverge)
    with pytest.raises(InfeasibleCondition, match="could not be completed"):
        model.sample(given=TABLE.head(3).drop(columns="x"), where='x > "odd name" + 5', random_state=1)
    assert len([scale for scale in scales if scale is not None]) == 2


def test_completed_rows_have_the_distribution_of_rows_with_the_same_given_cells(model):
    partial = pd.DataFrame({"kind": ["b"] * 300})
    framed = model.sample(given=partial, where="x > 1.9", random_state=1)["x"]
    mapped = model.sample(300, given={"kind": "b"}, where="x > 1.9", random_state=2)["x"]
    assert framed.mean() == pytest.approx(mapped.mean(), abs=0.12)
    assert framed.std() == pytest.approx(mapped.std(), rel=0.4)


def test_imputed_cells_satisfy_the_condition(model):
    incomplete = TABLE.head(60).copy()
    incomplete.loc[::2, "x"] = None
    incomplete.loc[1::2, "count"] = None
    incomplete = incomplete[(incomplete["x"].isna()) | (incomplete["x"] < 0.8)]
    filled = model.impute(incomplete, where="x < 0.8 and count >= 0")
    assert violations(filled, "x < 0.8 and count >= 0") == 0
    observed = incomplete["x"].notna()
    assert (filled["x"][observed] == incomplete["x"][observed]).all()
    draws = model.impute(incomplete, where="x < 0.8", draws=3, random_state=1)
    assert all(violations(table, "x < 0.8") == 0 for table in draws)


def test_observed_cells_that_violate_the_condition_are_an_error(model):
    incomplete = TABLE.head(10).copy()
    incomplete["x"] = [0.0] * 9 + [5.0]
    incomplete.loc[0, "count"] = None
    with pytest.raises(InvalidCondition, match="row 9"):
        model.impute(incomplete, where="x < 1")


# Losses


def test_a_loss_guides_rows(model):
    def off(row):
        return (row["odd name"] - row["x"]).abs()

    unconditional, guided = model.sample(200, random_state=1), model.sample(200, loss=off, random_state=1)
    apart, together = ((rows["odd name"] - rows["x"]).abs().mean() for rows in (unconditional, guided))
    assert together < apart / 2


def test_a_loss_reads_probabilities_by_category(model):
    rows = model.sample(200, loss=lambda row: -row["kind"]["c"].clamp(min=1e-6).log(), random_state=1)
    assert (rows["kind"] == "c").mean() > 0.6
    with pytest.raises(HarpoonError, match="nope"):
        model.sample(5, loss=lambda row: row["kind"]["nope"])
    with pytest.raises(HarpoonError, match="nope"):
        model.sample(5, loss=lambda row: row["nope"])


def test_a_loss_of_the_batch_may_target_a_mean(model):
    rows = model.sample(300, loss_batch=lambda row: (row["x"].mean() - 0.8) ** 2, random_state=1)
    assert rows["x"].mean() == pytest.approx(0.8, abs=0.2)


def test_a_loss_and_a_condition_can_be_combined(model):
    rows = model.sample(N, loss=lambda row: (row["x"] - 1.5) ** 2, where="kind = 'b'", random_state=1)
    assert (rows["kind"] == "b").all()
    assert rows["x"].mean() == pytest.approx(1.5, abs=0.4)


BAD_LOSSES = {
    "no function": ({"loss": 3}, "function"),
    "no tensor": ({"loss": lambda row: 1.0}, "tensor"),
    "one number for all": ({"loss": lambda row: row["x"].mean()}, "one number per row"),
    "one number per row": ({"loss_batch": lambda row: row["x"]}, "a single number"),
    "no number": ({"loss": lambda row: torch.full_like(row["x"], float("nan"))}, "finite"),
    "a constant": ({"loss": lambda row: torch.zeros(len(row["x"]))}, "loss must depend on the row in a differentiable"),
    "a parameter": ({"loss": lambda row: torch.zeros(len(row["x"]), requires_grad=True)}, "differentiable"),
    "detached": ({"loss": lambda row: row["x"].detach().abs()}, "differentiable"),
    "a comparison": ({"loss": lambda row: (row["x"] > 1).double(), "where": "kind = 'b'"}, "differentiable"),
    "a constant of the batch": ({"loss_batch": lambda row: torch.tensor(1.0)}, "loss_batch must depend on the row"),
}


@pytest.mark.parametrize(("options", "match"), BAD_LOSSES.values(), ids=BAD_LOSSES)
def test_an_invalid_loss_is_an_error(model, options, match):
    with pytest.raises(InvalidOption, match=match):
        model.sample(5, **options)


# Feasibility


def test_feasibility_is_the_probability_under_the_model(model):
    found = model.feasibility("x >= 1 and kind = 'b'", data=TABLE, random_state=1)
    truth = ((TABLE["x"] >= 1) & (TABLE["kind"] == "b")).mean()
    assert found.training_fraction == pytest.approx(truth)
    assert found.probability == pytest.approx(truth, abs=0.05)
    assert found.interval[0] < found.probability < found.interval[1]
    assert [part.text for part in found.parts] == ["x >= 1", "kind = 'b'"]
    assert found.parts[1].probability == pytest.approx(0.3, abs=0.05)
    assert "% (95 % interval " in str(found)
    assert f"for {len(TABLE)} training rows and 2048 sampled rows" in str(found)


def test_feasibility_of_a_rare_condition_suggests_what_to_relax(model, tmp_path):
    found = model.feasibility("x >= 50 and kind = 'b'", random_state=1)
    assert found.probability == 0
    assert found.interval == (0, pytest.approx(1 - 0.05 ** (1 / found.support.rows)))
    assert "No row can satisfy it: x >= 50 is never true, because x is from" in found.suggestion
    near = re.search(r"x >= (\S+) would be met by about (\S+) % of the training rows", found.suggestion)
    bound, share = near.groups()
    assert float(share) / 100 == pytest.approx((TABLE["x"] >= float(bound)).mean(), abs=0.005)
    model.save(tmp_path / "m.harpoon")
    loaded = Harpoon.load(tmp_path / "m.harpoon", progress=False)
    assert loaded.feasibility("x >= 1").training_fraction is None
    assert loaded.feasibility("x >= 1", data=TABLE).training_fraction == pytest.approx((TABLE["x"] >= 1).mean())


# Regressions


def test_sampled_cells_are_not_missing(model):
    assert len(model.sample(5, where="x is not null and not (kind is null)")) == 5


def test_a_term_that_overflows_still_compares(model):
    rows = model.sample(N, where="exp(abs(x) * 10000) >= 1", random_state=1)
    assert rows["x"].abs().median() > 0.3


def test_a_condition_on_a_constant_column_is_checked_against_the_table():
    table = TABLE.assign(one=1)
    with pytest.warns(match="constant"):
        model = Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table)
    other = table.head(5).assign(one=7, x=None)
    with pytest.raises(InvalidCondition, match="one"):
        model.impute(other, where="one = 1")
    with pytest.raises(InvalidCondition, match="one"):
        model.sample(given=other[["one", "kind"]], where="one = 1")
    assert (model.impute(table.head(5).assign(x=None), where="one = 1")["one"] == 1).all()


def test_guided_rows_are_distinct(model):
    rows = model.sample(300, where='"odd name" > x + 2.4', strategy="guidance", random_state=1)
    assert violations(rows, '"odd name" > x + 2.4') == 0
    assert rows["x"].nunique() > 60


def test_an_equality_is_satisfied_for_any_observed_cells(model):
    assert (model.sample(20, given={"kind": "a"}, where="x = 0.25", random_state=1)["x"] == 0.25).all()
    incomplete = TABLE.head(20).assign(x=None)
    assert (model.impute(incomplete, where="x = 0.25")["x"] == 0.25).all()


def test_an_equality_terminates_with_the_paper_preset(paper):
    rows = paper.sample(5, where="x = 0.5", on_shortfall="return", random_state=1)
    assert (rows["x"] == 0.5).all()


def test_a_loss_is_not_overshot(model):
    rows = model.sample(300, loss=lambda row: (row["x"] - 1.5).abs(), random_state=1)
    assert rows["x"].mean() == pytest.approx(1.5, abs=0.15)


def test_a_loss_without_a_gradient_is_an_error_for_given_rows_and_for_both_networks(model, paper):
    for one in (model, paper):
        with pytest.raises(InvalidOption, match="differentiable"):
            one.sample(given=TABLE[["kind"]].head(3), loss=lambda row: row["x"].detach())


def test_sampling_info_names_the_strategy_of_every_call(model):
    model.impute(TABLE.head(5).assign(x=None), where="x > 1")
    assert model.sampling_info_.strategy == "completion"
    assert 0 < model.sampling_info_.rows <= 5
    model.sample(3)
    assert (model.sampling_info_.strategy, model.sampling_info_.rows) == ("unconditional", 3)
    with pytest.raises(InvalidOption, match="strategy"):
        model.sample(3, strategy="auot")
    with pytest.raises(InvalidOption, match="where"):
        model.sample(3, given="x > 3")


def test_sampling_info_is_of_the_last_call_or_absent(model):
    model.sample(5, where="x > 0", random_state=0)
    assert model.sampling_info_.rows == 5
    with pytest.raises(InvalidCondition):
        model.sample(5, where="nothing > 0")
    assert not hasattr(model, "sampling_info_")
    model.sample(5)
    model.impute(TABLE.head(5).assign(x=None))
    with pytest.raises(AttributeError, match=r"Read sampling_info_ right after sample\(\.\.\.\) or impute"):
        model.sampling_info_  # noqa: B018


@pytest.mark.parametrize("where", ["least(x, 0) < -0.5", "greatest(x, 0) > 0.5", "least(0, x) <= -0.5"])
def test_the_least_of_a_column_and_a_number_is_unknown_before_the_column_is(model, where):
    assert len(model.sample(10, where=where, random_state=0)) == 10


def test_a_number_with_few_values_has_no_others():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.choice([2500, 15000, 75000], 200), "x": rng.normal(size=200)})
    few = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    with pytest.raises(InfeasibleCondition, match="income has only the values 2500, 15000, 75000"):
        few.sample(5, where="income between 20000 and 60000")
    assert set(few.sample(20, where="income > 20000")["income"]) == {75000}


def test_a_row_under_two_narrow_bounds_is_completed():
    """The network would meet two single values at once in one of a million candidates."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"u": rng.integers(0, 1000, 600), "v": rng.integers(0, 1000, 600), "w": rng.normal(size=600)})
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    row = pd.DataFrame({"u": [np.nan], "v": [np.nan], "w": [0.5]})
    for where in ("u = 335 and v = 674", "u = 335 and v between 670 and 672 and w > 0"):
        filled = model.impute(row, where=where, random_state=0)
        assert duckdb.from_df(filled).filter(where).count("*").fetchall() == [(1,)]
        assert filled["w"][0] == 0.5
