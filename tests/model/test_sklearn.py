"""HarpoonImputer is a scikit-learn transformer like any other."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from harpoon import Column, HarpoonError, InvalidOption, Kind, ModelFileError, Privacy, Schema
from harpoon.sklearn import HarpoonImputer
from harpoon.training import private_fit


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


def weighted_frame():
    """Return rows of two groups, and weights by which the second group is nine tenths of the population."""
    frame = incomplete_frame()
    frame["colour"] = np.where(np.arange(len(frame)) % 2, "red", "blue")
    return frame, np.where(np.arange(len(frame)) % 2, 9.0, 1.0)


def share_of_red(imputer):
    codec = imputer.model_.codec_
    start = next(part.start for part in codec.slices if part.name == "colour")
    return imputer.model_.denoiser_.mean[start + 1].item()


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pl.Series], ids=["array", "list", "pandas", "polars"])
def test_rows_count_by_their_weights(kind):
    frame, weights = weighted_frame()
    assert share_of_red(quick().fit(frame, sample_weight=kind(weights))) == pytest.approx(0.9)
    assert share_of_red(quick().fit(frame)) == pytest.approx(0.5)


def test_a_row_of_weight_0_is_left_out():
    frame, weights = weighted_frame()
    weights[:10] = 0.0
    imputer = quick().fit(frame, sample_weight=weights)
    expected = quick().fit(frame.iloc[10:], sample_weight=weights[10:])
    assert imputer.transform(frame).equals(expected.transform(frame))


def test_metadata_routing_brings_the_weights_through_a_pipeline():
    frame, weights = weighted_frame()
    with sklearn.config_context(enable_metadata_routing=True):
        requesting = quick().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(requesting, OneHotEncoder()).fit(frame, sample_weight=weights)
        assert share_of_red(pipeline[0]) == pytest.approx(0.9)
        with pytest.raises(ValueError, match="sample_weight"):
            make_pipeline(quick(), OneHotEncoder()).fit(frame, sample_weight=weights)
    pipeline = make_pipeline(quick(), OneHotEncoder()).fit(frame, harpoonimputer__sample_weight=weights)
    assert share_of_red(pipeline[0]) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0], "shape"),
        ([[1.0]] * 60, "shape"),
        (["a"] * 60, "one number per row"),
        ([-1.0] * 60, "must be positive"),
        ([float("nan")] * 60, "must be positive"),
        ([0.0] * 60, "every weight is zero"),
    ],
)
def test_wrong_weights_are_an_error(weights, words):
    with pytest.raises(ValueError, match=words):
        quick().fit(incomplete_frame(), sample_weight=weights)


def store_by_joblib(estimator):
    joblib.dump(estimator, file := io.BytesIO())
    file.seek(0)
    return joblib.load(file)


def store_by_skops(estimator):
    skops = pytest.importorskip("skops.io", reason="needs skops")
    data = skops.dumps(estimator)
    trusted = skops.get_untrusted_types(data=data)
    assert trusted == ["harpoon.sklearn.HarpoonImputer"]  # neither torch nor any other class of ours
    return skops.loads(data, trusted=trusted)


STORES = {
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),  # noqa: S301
    "joblib": store_by_joblib,
    "skops": store_by_skops,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("store", STORES)
def test_a_stored_pipeline_imputes_as_before(store):
    frame = incomplete_frame()
    schema = Schema.infer(frame)
    pipeline = make_pipeline(quick(schema=schema), OneHotEncoder(handle_unknown="ignore")).fit(frame)
    stored = STORES[store](pipeline)
    pd.testing.assert_frame_equal(stored[0].transform(frame), pipeline[0].transform(frame))
    assert stored[0].schema == schema
    assert (stored.transform(frame) != pipeline.transform(frame)).nnz == 0
    assert list(stored[0].get_feature_names_out()) == list(frame.columns)
    assert clone(stored[0]).get_params() == pipeline[0].get_params()


def test_an_imputer_can_be_stored_before_it_is_fitted():
    stored = STORES["pickle"](quick())
    assert stored.get_params() == quick().get_params()
    with pytest.raises(NotFittedError):
        stored.transform(incomplete_array())


def test_a_pickle_holds_a_model_file_and_no_object_of_torch():
    data = pickle.dumps(quick().fit(incomplete_array()))
    assert b"torch" not in data.split(b"__metadata__")[0]
    assert b"_rebuild_tensor" not in data


@pytest.mark.parametrize("damage", [lambda model: model[:-8], lambda model: b"", lambda model: 7])
def test_a_damaged_model_in_a_pickle_is_an_error(damage):
    state = quick().fit(incomplete_array()).__getstate__()
    with pytest.raises(ModelFileError):
        quick().__setstate__({**state, "model_": damage(state["model_"])})


PUBLIC = Schema(
    (
        Column("length", Kind.NUMBER, minimum=-5.0, maximum=5.0),
        Column("width", Kind.NUMBER, minimum=-5.0, maximum=5.0),
        Column("colour", Kind.CATEGORY, categories=("blue", "red")),
    )
)


FEW_ROWS = pytest.mark.filterwarnings("ignore:About .* rows are too few to learn")


def private_imputer(**changes) -> HarpoonImputer:
    options = {"hidden": 8, "privacy": Privacy(8.0, 1e-5, steps=2)}
    return HarpoonImputer(schema=PUBLIC, options=options).set_params(**changes)


@FEW_ROWS
def test_a_budget_is_spent_as_by_harpoon_itself(monkeypatch):
    seen, release = [], private_fit.release
    monkeypatch.setattr(private_fit, "release", lambda *arguments: seen.append(0) or release(*arguments))
    imputer = private_imputer().fit(incomplete_frame())
    assert len(seen) == 1
    assert imputer.model_.privacy_.privacy == imputer.options["privacy"]
    assert imputer.model_.history_.epochs == []
    assert not imputer.transform(incomplete_frame()).isna().to_numpy().any()


def test_what_cannot_be_private_is_refused():
    frame = incomplete_frame()
    with pytest.raises(InvalidOption, match="privacy needs a schema"):
        private_imputer(schema=None).fit(frame)
    with pytest.raises(InvalidOption, match="Weights of rows"):
        private_imputer().fit(frame, sample_weight=np.ones(len(frame)))
    with pytest.raises(InvalidOption, match="max_epochs"):
        private_imputer(max_epochs=3).fit(frame)


@FEW_ROWS
@pytest.mark.parametrize("store", STORES)
def test_a_private_imputer_is_stored_with_its_budget(store):
    imputer = private_imputer().fit(incomplete_frame())
    stored = STORES[store](imputer)
    assert stored.options == imputer.options
    assert stored.model_.privacy_ == imputer.model_.privacy_
