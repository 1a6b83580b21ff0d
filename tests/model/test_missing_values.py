"""Which models have missing indicators, and the options of missing cells."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binomtest

from harpoon import Harpoon, InfeasibleCondition, InvalidOption, Schema, load
from tests.support import missingness
from tests.support.frames import TINY

OPTIONS = {**TINY, "max_epochs": 3}


@pytest.fixture(scope="module")
def complete():
    return missingness.table(400, seed=0)[["visits", "side"]].assign(x=np.random.default_rng(0).normal(size=400))


@pytest.fixture(scope="module")
def model():
    return Harpoon(**OPTIONS).fit(missingness.table(400, seed=0))


def test_a_model_of_a_complete_table_has_no_indicator_and_is_unchanged(complete):
    models = [Harpoon(**OPTIONS, missing_indicators=value).fit(complete) for value in (True, False)]
    assert not models[0].codec_.nullable
    assert models[0].codec_.width == models[1].codec_.width
    weights = [dict(model.denoiser_.state_dict()) for model in models]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    first, second, filled = (
        models[0].sample(50, random_state=1),
        models[1].sample(50, random_state=1),
        models[0].sample(50, missing="complete", random_state=1),
    )
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    pd.testing.assert_frame_equal(first, filled, check_exact=True)


def test_only_incomplete_columns_have_indicators(model):
    assert model.codec_.nullable == {"score", "level", "group", "answer"}
    rows = model.sample(200, random_state=0)
    assert rows[["visits", "side"]].notna().all().all()
    assert rows.isna().any().sum() == 4


@pytest.mark.filterwarnings("ignore::harpoon.RowsDroppedWarning")
def test_the_preset_of_the_paper_has_no_indicators():
    paper = Harpoon("paper", **OPTIONS).fit(missingness.table(400, seed=0))
    assert not paper.codec_.nullable
    assert paper.sample(20, random_state=0).notna().all().all()


def test_without_the_option_sampled_rows_are_complete():
    model = Harpoon(**OPTIONS, missing_indicators=False).fit(missingness.table(400, seed=0))
    assert not model.codec_.nullable
    assert model.sample(50, random_state=0).notna().all().all()


def test_structural_missingness_holds_after_a_short_training(model):
    rows = model.sample(500, random_state=0)
    assert (rows["score"].isna() == (rows["visits"] == 0)).all()


def test_a_null_that_a_dependency_knows_nothing_of_keeps_its_share():
    """Half of the clients were never called; the outcome of the others follows from the number of calls."""
    clients = pd.DataFrame({"calls": [0, 0, 1, 3] * 50, "outcome": [None, None, "success", "failure"] * 50})
    model = Harpoon(max_epochs=20, hidden=32, random_state=0, progress=False).fit(clients)
    rows = model.sample(400, random_state=1)
    assert (rows["outcome"].isna() == (rows["calls"] == 0)).all()
    assert binomtest(int((rows["calls"] == 0).sum()), 400, 0.5).pvalue > 1e-3


def test_categories_that_contradict_each_other_through_a_third_column_exclude_each_other():
    """Kind 0 never has an amount and level 0 always has one, so that no row is of kind 0 and level 0."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["0", "1", "2"], 600)
    amount = np.where((kind == "0") | ((kind == "1") & (rng.random(600) < 0.5)), np.nan, rng.normal(size=600))
    level = np.where(np.isnan(amount), "1", rng.choice(["0", "1"], 600))
    table = pd.DataFrame({"kind": kind, "amount": amount, "level": level})
    model = Harpoon(**{**OPTIONS, "max_epochs": 1}).fit(table)
    for steps in (1, 2, 64):
        rows = model.sample(1000, random_state=0, ar_steps=steps)
        assert rows.loc[rows["kind"] == "0", "amount"].isna().all()
        assert rows.loc[rows["level"] == "0", "amount"].notna().all()
        assert not ((rows["kind"] == "0") & (rows["level"] == "0")).any()
    expected = model.expect(pd.DataFrame({"kind": ["0"], "amount": [np.nan], "level": [None]}))
    assert dict(zip(expected.categories["level"], expected.probabilities["level"][0], strict=True)) == {"0": 0, "1": 1}


def test_a_saved_model_keeps_indicators_and_exclusions(model, tmp_path):
    model.save(tmp_path / "model.harpoon")
    loaded = load(tmp_path / "model.harpoon", progress=False)
    assert loaded.codec_.indicator_of == model.codec_.indicator_of
    assert len(model.denoiser_.exclusions.excluded)
    assert torch.equal(loaded.denoiser_.exclusions.excluded, model.denoiser_.exclusions.excluded)
    pd.testing.assert_frame_equal(loaded.sample(80, random_state=0), model.sample(80, random_state=0), check_exact=True)


def test_complete_rows_agree_with_incomplete_rows_where_those_have_values(model):
    rows, complete = model.sample(200, random_state=0), model.sample(200, missing="complete", random_state=0)
    assert complete.notna().all().all()
    for name in rows:
        observed = rows[name].notna()
        assert rows.loc[observed, name].tolist() == complete.loc[observed, name].tolist(), name


def test_an_unknown_way_to_treat_missing_cells_is_an_error(model):
    with pytest.raises(InvalidOption, match="as_trained"):
        model.sample(5, missing="as_train")


def test_complete_rows_never_satisfy_is_null(model):
    assert len(model.sample(5, where="score is not null", missing="complete", random_state=0)) == 5
    rows = model.sample(5, where="score is null", missing="complete", on_shortfall="return", random_state=0)
    assert not len(rows)


def test_a_missing_cell_of_a_table_of_partial_rows_is_sampled_and_may_stay_missing(model):
    partial = missingness.table(200, seed=3)
    partial[["score", "answer"]] = None
    rows = model.sample(given=partial, random_state=0)
    assert (rows["score"].isna() == (rows["visits"] == 0)).all()
    assert rows["answer"].isna().any()
    seen = missingness.table(400, seed=0)["score"].dropna()
    assert rows["score"].dropna().between(seen.min(), seen.max()).all()  # no value stands for a missing cell


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"where": "visits is null"}, "because visits is never missing in the training table"),
        ({"where": "score is null", "missing": "complete"}, "because every cell of score is filled here"),
    ],
)
def test_a_missing_cell_where_none_can_be_is_a_sentence(model, arguments, why):
    with pytest.raises(InfeasibleCondition, match=why):
        model.sample(3, **arguments)


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA, pd.NaT], ids=str)
def test_everything_that_a_library_calls_missing_can_be_given(model, nothing):
    assert model.sample(5, given={"score": nothing}, random_state=0)["score"].isna().all()


def test_a_category_in_two_levels_is_missing_as_often_as_in_training():
    """The group of a hidden category is shown in half of the training rows, which must not show that it has a value."""
    rng = np.random.default_rng(2)
    codes = pd.Series([f"c{code:03d}" for code in rng.integers(0, 300, 2000)])
    table = pd.DataFrame({"code": codes.where(rng.random(2000) < 0.7), "z": rng.normal(size=2000)})
    schema = Schema.infer(table, kinds={"code": "category"})
    with pytest.warns(match="296 categories"):
        model = Harpoon(**{**OPTIONS, "max_epochs": 8}, schema=schema).fit(table)
    missing = int(model.sample(1500, random_state=0)["code"].isna().sum())
    assert abs(missing / 1500 - table["code"].isna().mean()) < 0.06


@pytest.mark.filterwarnings("error")
def test_a_single_value_with_missing_cells_is_sampled_and_stays_missing():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"flag": np.where(rng.random(300) < 0.7, None, "Y"), "z": rng.normal(size=300)})
    model = Harpoon(**{**OPTIONS, "max_epochs": 8}).fit(table)
    sampled = model.sample(400, random_state=0)["flag"]
    assert abs(sampled.isna().mean() - table["flag"].isna().mean()) < 0.1
    assert set(sampled.dropna()) == {"Y"}
    assert model.sample(5, where="flag is null")["flag"].isna().all()
