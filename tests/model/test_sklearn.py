"""HarpoonImputer is a scikit-learn transformer like any other."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from harpoon import HarpoonError
from harpoon.sklearn import HarpoonImputer


def quick(**changes) -> HarpoonImputer:
    return HarpoonImputer(max_epochs=1, random_state=0, options={"hidden": 8, "diffusion_steps": 5}).set_params(
        **changes
    )


def incomplete_array(rows: int = 60, columns: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def incomplete_frame() -> pd.DataFrame:
    X = incomplete_array(columns=2)
    colours = np.random.default_rng(1).choice(["red", "blue", None], len(X))
    return pd.DataFrame({"length": X[:, 0], "width": X[:, 1], "colour": colours}, index=np.arange(100, 160))


# Checks of array API inputs need an environment variable that scipy reads at import; the others all run.
@parametrize_with_checks([quick()], expected_failed_checks=lambda _e: {})
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def test_missing_cells_are_filled_and_observed_cells_kept():
    X = incomplete_array()
    filled = quick().fit_transform(X)
    assert not np.isnan(filled).any()
    assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_transform_never_trains():
    X = incomplete_array()
    imputer = quick().fit(X)
    weights = {name: value.clone() for name, value in imputer.model_.denoiser_.state_dict().items()}
    imputer.transform(X[:10] + 5)
    assert all((imputer.model_.denoiser_.state_dict()[name] == value).all() for name, value in weights.items())


def test_it_works_in_a_pipeline():
    X = incomplete_array()
    pipeline = make_pipeline(StandardScaler(), quick(), LinearRegression()).fit(X, np.arange(len(X)))
    assert np.isfinite(pipeline.predict(X)).all()
    assert list(pipeline[:-1].get_feature_names_out()) == ["x0", "x1", "x2"]


def test_it_works_in_a_column_transformer():
    frame = incomplete_frame()
    columns = ColumnTransformer(
        [("numbers", quick(), ["length", "width"]), ("colours", OneHotEncoder(), ["colour"])],
        verbose_feature_names_out=False,
    )
    out = columns.fit_transform(frame)
    assert np.isfinite(out[:, :2]).all()
    assert list(columns.get_feature_names_out())[:2] == ["length", "width"]


def test_a_frame_of_mixed_columns_comes_back_as_a_frame():
    frame = incomplete_frame()
    imputer = quick().fit(frame)
    filled = imputer.transform(frame)
    assert isinstance(filled, pd.DataFrame)
    assert not filled.isna().to_numpy().any()
    assert filled.index.equals(frame.index)
    assert list(imputer.get_feature_names_out()) == list(frame.columns)


@pytest.mark.parametrize("make", [incomplete_array, incomplete_frame], ids=["array", "frame"])
@pytest.mark.parametrize(("name", "kind"), [("polars", pl.DataFrame), ("pandas", pd.DataFrame)])
def test_set_output_decides_the_kind_of_frame(make, name, kind):
    data = make()
    filled = quick().set_output(transform=name).fit_transform(data)
    assert isinstance(filled, kind)
    assert filled.shape == data.shape
    expected = list(data.columns) if isinstance(data, pd.DataFrame) else ["x0", "x1", "x2"]
    assert list(filled.columns) == expected


def test_polars_in_polars_out():
    frame = pl.from_pandas(incomplete_frame())
    filled = quick().fit_transform(frame)
    assert isinstance(filled, pl.DataFrame)
    assert filled.null_count().sum_horizontal().item() == 0


def test_an_unfitted_imputer_is_an_error():
    with pytest.raises(NotFittedError):
        quick().transform(incomplete_array())


def test_other_columns_than_in_fit_are_an_error():
    imputer = quick().fit(incomplete_frame())
    with pytest.raises((HarpoonError, ValueError), match="width"):
        imputer.transform(incomplete_frame().drop(columns="width"))


def test_a_clone_has_the_same_parameters():
    imputer = quick(max_time=7.0)
    assert clone(imputer).get_params() == imputer.get_params()


def test_a_column_without_any_value_stays_empty_and_a_constant_one_is_filled():
    X = incomplete_array()
    X[:, 1] = np.nan
    X[::2, 2], X[1::2, 2] = 4.0, np.nan
    filled = quick().fit_transform(X)
    assert np.isnan(filled[:, 1]).all()
    assert (filled[:, 2] == 4.0).all()
