"""Numbers with few values, such as 0/1 flags and ratings: categories that are written as numbers."""

import numpy as np
import pandas as pd
import pytest

import harpoon
from harpoon import Harpoon, Schema, metrics
from harpoon.conditions import bind
from harpoon.conditions.language.parser import parse
from harpoon.data import dataframe
from harpoon.report import imputation
from harpoon.report.what_if import shift, training_counts

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
    summary = model.report(table().head(200), rows=200, random_state=0).summary
    by_name = {column["name"]: column["scores"][1] for column in summary["imputation"]["columns"]}
    assert by_name["flag"]["mse"] is None
    assert 0.4 < by_name["flag"]["accuracy"] <= 1
    assert by_name["rating"]["accuracy"] is None
    assert not {"flag", "sign"} & {column["name"] for column in summary["intervals"]["columns"]}
    pictures = {one["name"]: one["picture"] for one in summary["marginals"]}
    assert [pictures[name]["categories"] for name in ("flag", "sign")] == [["0", "1"], ["-1", "1"]]
    assert [tick["text"] for tick in pictures["rating"]["ticks"]] == ["1", "2", "3", "4", "5"]


def test_a_condition_changes_the_shares_of_a_flag(model):
    predicate, rows = bind(parse("rating >= 4"), model.schema_), model.sample(200, where="rating >= 4", random_state=0)
    before, after = dataframe.read(table()), dataframe.read(rows)
    met = table().query("rating >= 4")
    for name, labels in (("flag", (0, 1)), ("sign", (-1.0, 1.0))):
        column = model.schema_[name]
        found = training_counts(model, predicate, column, dataframe.read(met))
        moved = shift(column, before, after, found)
        label = next(one for one in labels if moved.text.startswith(f"{one:g}: "))
        old, new = ((one[name] == label).mean() for one in (table(), rows))
        assert moved.size == pytest.approx(new - old)
        low, high = moved.interval
        assert low < (met[name] == label).mean() < high
        assert moved.interval_text.startswith("95 % interval of the ")
        assert training_counts(model, bind(parse(f"{name} = {labels[1]:g}"), model.schema_), column) is None
        counted = training_counts(model, predicate, column)
        assert counted.share(label) == pytest.approx((met[name] == label).mean(), abs=0.05)


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


def test_a_number_that_is_hidden_with_a_label_that_implies_it_keeps_a_small_error():
    """The most probable label, "big", has a single size, 100, which has a larger squared error than 40."""
    rng = np.random.default_rng(0)
    town = rng.choice(["big", "a", "b", "c"], 600, p=[0.4, 0.2, 0.2, 0.2])
    size = np.where(town == "big", 100, rng.choice([1, 20, 40], 600))
    frame = pd.DataFrame({"size": size, "town": town, "x": rng.normal(size=600).round(2)})
    model = Harpoon(hidden=32, depth=2, max_epochs=20, random_state=0, progress=False).fit(frame)
    filled = model.impute(frame.assign(size=np.nan, town=None))
    errors = ((filled["size"] - size) ** 2).mean(), *(((value - size) ** 2).mean() for value in (1, 20, 40, 100))
    assert errors[0] < 1.02 * min(errors[1:]) < 0.8 * errors[-1]
    assert ((filled["town"] == "big") == (filled["size"] == 100)).all()
    known = model.impute(frame.assign(size=np.nan))
    assert (known["size"][town == "big"] == 100).all()
