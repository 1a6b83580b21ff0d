"""impute(point=...): the best single value of a number, in Python, scikit-learn, engines, command line and service."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from harpoon import Harpoon, InvalidOption
from harpoon.apps.cli import app
from harpoon.apps.server.responses import to_records
from harpoon.apps.server.routes import create_app
from harpoon.engines import local
from harpoon.sklearn import HarpoonImputer
from tests.support.frames import fit

POINTS = ("mean", "median", "mode")


def waits(rows, seed=0):
    """An exponential wait, ten times as long in the second shop; whole dollars; business days; a total."""
    rng = np.random.default_rng(seed)
    shop = rng.choice(["a", "b"], rows)
    frame = pd.DataFrame({"shop": shop, "wait": rng.exponential(np.where(shop == "a", 1.0, 10.0))})
    frame["price"] = rng.integers(1, 60, rows)
    frame["tip"] = np.where(rng.random(rows) < 0.4, 0, rng.integers(1, 50, rows))
    frame["total"] = frame["price"] + frame["tip"]
    days = pd.bdate_range("2024-01-01", "2024-12-31").to_numpy()
    frame["day"] = rng.choice(days, rows)
    return frame


@pytest.fixture(scope="module")
def model() -> Harpoon:
    return fit(waits(2000), hidden=32, max_epochs=20)


@pytest.fixture(scope="module")
def baseline_model() -> Harpoon:
    return fit(waits(600), hidden=32, max_epochs=12, gaussian_baseline=True)


@pytest.mark.parametrize("which", ["model", "baseline_model"])
def test_the_median_is_best_in_absolute_and_the_mean_in_squared_error(which, request):
    model, test = request.getfixturevalue(which), waits(1500, seed=1)
    hidden = test.assign(wait=np.nan)
    errors = {point: model.impute(hidden, point=point)["wait"] - test["wait"] for point in POINTS}
    absolute, squared = ({point: f(error).mean() for point, error in errors.items()} for f in (np.abs, np.square))
    assert absolute["median"] == min(absolute.values())
    assert squared["mean"] == min(squared.values())
    medians = model.impute(hidden, point="median")["wait"].groupby(test["shop"]).mean()
    assert medians["b"] == pytest.approx(10 * np.log(2), rel=0.25)  # the median of an exponential distribution
    assert model.impute(hidden, point="mode")["wait"].mean() < medians.mean()


def test_the_mean_is_the_default_and_the_others_need_one_evaluation(model):
    hidden = waits(100, seed=2).assign(wait=np.nan, tip=np.nan)
    pd.testing.assert_frame_equal(model.impute(hidden), model.impute(hidden, point="mean"))
    medians = model.impute(hidden, point="median")
    parts = [model.impute(part, point="median", sampling_batch_size=7) for part in (hidden[:30], hidden[30:])]
    pd.testing.assert_frame_equal(medians, pd.concat(parts))
    pd.testing.assert_frame_equal(medians, model.impute(hidden, point="median", random_state=5))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), point=st.sampled_from(POINTS), fraction=st.floats(0.1, 1.0))
def test_observed_cells_stay_and_imputed_ones_are_valid(model, seed, point, fraction):
    rng, whole = np.random.default_rng(seed), waits(40, seed)
    mask = rng.random(whole.shape) < fraction
    hidden = whole.mask(mask)
    filled = model.impute(hidden, point=point)
    assert filled.notna().all(axis=None)
    for name in whole:
        assert filled[name][hidden[name].notna()].tolist() == hidden[name].dropna().tolist()
    known = model.schema_
    for name in ("wait", "price", "tip", "total"):
        imputed = filled[name][hidden[name].isna()]
        assert imputed.between(known[name].minimum, known[name].maximum).all()
        assert name == "wait" or (filled[name] == filled[name].round()).all()
    if point != "mean":  # a mean may lie between two business days
        assert (filled["day"].dt.day_of_week < 5).all()
    determined = hidden[["price", "tip", "total"]].notna().sum(axis=1) >= 2
    assert (filled["total"] == filled["price"] + filled["tip"])[determined].all()


def test_categories_are_the_most_probable_ones_whatever_the_point(model):
    hidden = waits(200, seed=3).assign(shop=None)
    shops = [model.impute(hidden, point=point)["shop"].tolist() for point in POINTS]
    assert shops[0] == shops[1] == shops[2]


def test_a_condition_and_structural_cells_go_with_it(model):
    hidden = waits(60, seed=4).assign(wait=np.nan)
    filled = model.impute(hidden, point="median", where="wait < 5", random_state=0)
    assert (filled["wait"] < 5).all()
    kept = filled["wait"] == model.impute(hidden, point="median")["wait"]
    assert kept.any()


def test_where_it_means_nothing_it_is_refused(model):
    table = waits(30, seed=5)
    paper = fit(table[["shop", "wait"]], preset="paper")
    hidden = table.assign(wait=np.nan)
    with pytest.raises(InvalidOption, match="'point' has no effect"):
        paper.impute(hidden[["shop", "wait"]], point="median")
    other = fit(table[["shop", "wait"]], encoding="onehot")
    with pytest.raises(InvalidOption, match="encoding='mixed'"):
        other.impute(hidden[["shop", "wait"]], point="median")
    with pytest.raises(InvalidOption, match="point must be one of 'mean', 'median', 'mode', got 'middle'"):
        model.impute(hidden, point="middle")


def test_the_other_front_ends_give_the_same_rows(model, tools, tmp_path):
    hidden = waits(50, seed=6).assign(wait=np.nan)
    expected = model.impute(hidden, point="median")
    model.save(tmp_path / "model.harpoon")
    hidden.to_parquet(tmp_path / "in.parquet")
    out = local.impute(tmp_path / "in.parquet", model, tmp_path / "out", options={"point": "median"}, block_size=20)
    assert pq.read_table(out)["wait"].to_pylist() == expected["wait"].tolist()
    with pytest.raises(InvalidOption, match="'point' has no effect"):
        local.impute(tmp_path / "in.parquet", model, tmp_path / "no", options={"point": "median"}, draws=2)
    arguments = ["impute", tmp_path / "model.harpoon", tmp_path / "in.parquet", "-o", tmp_path / "filled.parquet"]
    done = CliRunner().invoke(app, [*map(str, arguments), "--option", "point=median"])
    assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "filled.parquet")["wait"].to_pylist() == expected["wait"].tolist()
    with tools.serving(create_app(model)) as url:
        rows = to_records(pa.Table.from_pandas(hidden, preserve_index=False))
        for draws in ({}, {"draws": 3}):
            body = {"rows": rows, "options": {"point": "median"}, "seed": 0, **draws}
            answer = requests.post(f"{url}/impute", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            assert [row["wait"] for row in answer.json()["rows"]] == expected["wait"].tolist()


def test_the_transformer_of_scikit_learn_takes_it_without_training_again():
    x = np.random.default_rng(0).exponential(size=(300, 2))
    x[::3, 1] = np.nan
    imputer = HarpoonImputer(max_epochs=5, random_state=0, options={"hidden": 16}).fit(x)
    means, medians = imputer.transform(x), imputer.set_params(point="median").transform(x)
    assert medians[::3, 1].mean() < means[::3, 1].mean()
    assert (medians[:, 0] == x[:, 0]).all()
