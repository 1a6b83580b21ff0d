"""Numbers with few values, such as 0/1 flags and ratings: categories that are written as numbers."""

import numpy as np
import pandas as pd
import pytest

import harpoon
from harpoon import Harpoon, Schema, metrics
from harpoon.report import imputation

VALUES = {"flag": (0, 1), "sign": (-1.0, 1.0), "half": (0.0, 0.5, 1.0), "dose": (0, 10, 50), "rating": (1, 2, 3, 4, 5)}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    noisy = x + rng.normal(size=400)
    return pd.DataFrame(
        {
            "x": x.round(2),
            "flag": (noisy > 0).astype(int),
            "sign": np.where(noisy > 0.5, 1.0, -1.0),
            "half": np.clip(np.round(x), -1, 1) / 2 + 0.5,
            "dose": np.select([x > 1, x > 0], [50, 10], 0),
            "rating": np.clip((3 + x).round(), 1, 5).astype(int),
        }
    )


@pytest.fixture(scope="module")
def model() -> Harpoon:
    return Harpoon(hidden=16, max_epochs=8, random_state=0, progress=False).fit(table())


@pytest.fixture(scope="module")
def holes() -> pd.DataFrame:
    return table().mask(np.random.default_rng(1).random((400, 6)) < 0.5)


def test_the_schema_lists_the_values_and_a_file_keeps_them(model, tmp_path):
    assert {c.name: c.values for c in model.schema_ if c.values} == VALUES
    assert "rating  integer  5 values: 1, 2, 3, 4, 5" in str(model.schema_)
    assert [column.name for column in model.schema_ if column.is_flag] == ["flag", "sign"]
    model.save(tmp_path / "m")
    assert harpoon.load(tmp_path / "m", progress=False).schema_ == model.schema_


@pytest.mark.parametrize("how", ["expected", "mean of draws", "draw"])
def test_imputed_cells_have_one_of_the_values_and_the_dtype_of_the_column(model, holes, how):
    draws = model.impute(holes, draws=3, random_state=0)
    filled = {"expected": lambda: model.impute(holes), "mean of draws": draws.mean, "draw": lambda: next(iter(draws))}[
        how
    ]()
    for name, values in VALUES.items():
        assert set(filled[name]) <= set(values), name
        assert filled[name].dtype == table()[name].dtype


def test_conditions_compare_them_as_numbers(model):
    rows = model.sample(30, where="flag = 1 and rating >= 4 and half + flag > 1 and sign < 0", random_state=0)
    assert set(rows["flag"]) == {1}
    assert set(rows["rating"]) <= {4, 5}
    assert set(rows["sign"]) == {-1.0}


def test_a_flag_is_scored_by_its_accuracy_and_has_no_interval(model):
    scored = {column.name: column for column in imputation.scored_columns(model.schema_)}
    assert [name for name, column in scored.items() if column.kind.discrete] == ["flag", "sign"]
    summary = model.report(table().head(200), random_state=0).summary
    by_name = {column["name"]: column["scores"][1] for column in summary["imputation"]["columns"]}
    assert by_name["flag"]["mse"] is None
    assert 0.4 < by_name["flag"]["accuracy"] <= 1
    assert by_name["rating"]["accuracy"] is None
    assert not {"flag", "sign"} & {column["name"] for column in summary["intervals"]["columns"]}
    ticks = {one["name"]: [tick["text"] for tick in one["picture"]["ticks"]] for one in summary["marginals"]}
    assert (ticks["flag"], ticks["rating"]) == (["0", "1"], ["1", "2", "3", "4", "5"])


def test_the_accuracy_of_a_flag_is_the_fraction_of_equal_cells():
    rows = pd.DataFrame({"flag": [0, 1, 1, 0] * 5})
    guess = rows.assign(flag=[0.0, 1.0, 0.0, 0.0] * 5)
    schema = Schema(tuple(imputation.scored_columns(Schema.infer(rows))))
    assert metrics.accuracy(schema, rows, guess, np.ones((20, 1), dtype=bool)) == 0.75


@pytest.mark.parametrize("kind", ["category", "boolean", "number"])
def test_the_kind_can_be_overridden(kind):
    schema = Schema.infer(table(), kinds={"flag": kind})
    assert schema["flag"].kind == kind
    model = Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False, schema=schema).fit(table())
    rows = model.sample(5, where="flag = true" if kind == "boolean" else "flag = 1", random_state=0)
    assert rows["flag"].tolist() == [1] * 5


def test_values_outside_the_table_are_possible_if_they_are_wanted():
    schema = Schema.infer(table()).replace("rating", clip=False)
    assert "1 to 5, step 1" in str(schema)
    assert not schema.replace("flag", clip=False)["flag"].is_flag


def test_an_imputed_number_of_few_values_is_the_one_nearest_to_its_mean_beside_labels_that_exclude_each_other():
    """The most probable value, 1, has twice the squared error."""
    rng = np.random.default_rng(0)
    size = rng.choice([1, 40, 100], 400, p=[0.45, 0.25, 0.3])
    city = rng.choice(["Bern", "Lyon"], 400)
    frame = pd.DataFrame({"size": size, "city": city, "country": np.where(city == "Bern", "CH", "FR")})
    model = Harpoon(hidden=32, depth=2, max_epochs=40, random_state=0, progress=False).fit(frame)
    assert model.relations()
    incomplete = frame.assign(size=np.nan)
    filled, expected = model.impute(incomplete)["size"], model.expect(incomplete).numbers["size"]
    values = np.unique(size)
    np.testing.assert_array_equal(filled, values[np.abs(values[:, None] - np.asarray(expected)).argmin(axis=0)])
    assert ((filled - size) ** 2).mean() < 0.7 * ((1 - size) ** 2).mean()
