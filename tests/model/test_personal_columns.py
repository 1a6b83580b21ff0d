"""Personal columns are left out with one line, kept by impute, and modelled if their kind is given."""

import warnings

import numpy as np
import pandas as pd
import pytest

import harpoon
from harpoon import Harpoon, Kind, PersonalColumnWarning, Schema
from harpoon.sklearn import HarpoonImputer
from tests.support.cli import call

TINY = {"hidden": 16, "max_epochs": 1, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "email": [f"user{i % 5}@example.org" for i in range(80)],
            "last_name": rng.choice(["Smith", "Rossi", "Nguyen"], 80),
            "age": rng.integers(20, 60, 80),
            "price": rng.normal(size=80).round(2),
        }
    )


def fit_with_warning(model, table):
    with pytest.warns(PersonalColumnWarning) as caught:
        model.fit(table)
    assert len(caught) == 1
    return caught[0]


def test_one_warning_names_all_of_them_and_points_at_the_caller(table):
    warning = fit_with_warning(Harpoon(**TINY), table)
    assert str(warning.message) == (
        "Left out, because they look personal: 'email' (e-mail addresses), 'last_name' (names of people). Model one "
        "all the same with Schema.infer(table, kinds={'email': \"category\"})."
    )
    assert warning.filename == __file__


def test_samples_do_not_have_them_and_impute_keeps_them(table):
    model = Harpoon(**TINY)
    fit_with_warning(model, table)
    assert list(model.sample(3)) == ["age", "price"]
    holes = table.assign(price=[None, *table["price"][1:]], email=[None, *table["email"][1:]])
    filled = model.impute(holes)
    assert filled["price"].notna().all()
    pd.testing.assert_frame_equal(filled[["email", "last_name"]], holes[["email", "last_name"]])
    with pytest.raises(harpoon.InvalidCondition, match="looks like e-mail addresses"):
        model.sample(3, where="email = 'user1@example.org'")


def test_a_kind_that_is_given_models_them_without_a_warning(table, tmp_path):
    schema = Schema.infer(table, kinds={"email": "category", "last_name": "category"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Harpoon(**TINY, schema=schema).fit(table)
    assert set(model.sample(20, random_state=0)["last_name"]) <= set(table["last_name"])
    left = Harpoon(**TINY)
    fit_with_warning(left, table)
    left.save(tmp_path / "m")
    assert harpoon.load(tmp_path / "m", progress=False).schema_["email"].kind is Kind.PERSONAL


def test_the_command_line_has_one_note_with_its_own_option(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--max-epochs", 1, "--option", "hidden=16")
    shown = call(*fit).said
    assert shown.count("Note: Left out, because they look personal: 'email' (e-mail addresses), 'last_name'") == 1
    assert "Model one all the same with --kind email=category." in shown
    kinds = ["--kind", "email=category", "--kind", "last_name=category", "--force"]
    assert "personal" not in call(*fit, *kinds).said
    assert b"personal" in call("schema", tmp_path / "t.csv").out


@pytest.mark.parametrize("call", ["fit", "fit_transform"])
def test_warnings_of_scikit_learn_estimators_point_at_the_caller(table, call):
    imputer = HarpoonImputer(max_epochs=1, random_state=0, options={"hidden": 16})
    with pytest.warns(PersonalColumnWarning) as caught:
        getattr(imputer, call)(table)
    assert {warning.filename for warning in caught} == {__file__}


def test_warnings_of_sample_and_impute_point_at_the_caller(continuous_model):
    with pytest.warns(harpoon.ExtrapolationWarning) as caught:
        continuous_model.sample(2, where="x > 2.4 and y < -2.4", on_shortfall="return", random_state=0)
    table = continuous_model.sample(3, random_state=0)
    with pytest.warns(harpoon.ExtraColumnWarning) as extra:
        continuous_model.impute(table.append_column("z", [[1, 2, 3]]))
    assert {warning.filename for warning in (*caught, *extra)} == {__file__}
