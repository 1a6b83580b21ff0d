"""Survey weights at every door: Python, the command line, reports, pooled estimates."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
import statsmodels.formula.api as smf
from scipy.stats import beta

from harpoon import Harpoon, InvalidOption, InvalidTable, Schema
from harpoon.conditions import bind
from harpoon.conditions.language.parser import to_predicate
from harpoon.data import count_columns, dataframe
from harpoon.report import evaluate
from harpoon.report.what_if import estimate_interval, training_counts
from harpoon.training.fit import TrainingData
from tests.support import cli
from tests.support.frames import TINY

TRAINED = {**TINY, "max_epochs": 25}
SHARE = 0.75  # of label a in the population; half of the rows have it


def survey(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    label = np.where(np.arange(rows) % 2, "a", "b")
    x = np.where(label == "a", 10.0, 0.0) + rng.normal(size=rows)
    y = x + rng.normal(size=rows)
    y[rng.random(rows) < 0.2] = np.nan
    return pa.table({"label": label, "x": x, "y": pa.array(y, from_pandas=True), "w": np.where(label == "a", 3.0, 1.0)})


@pytest.fixture(scope="module")
def table():
    return survey()


@pytest.fixture(scope="module")
def model(table):
    return Harpoon(**TRAINED).fit(table, weights="w")


def weights_of(model):
    return {name: value.numpy() for name, value in model.denoiser_.state_dict().items()}


def test_samples_follow_the_weights(model, table):
    share = np.mean(np.array(model.sample(2000)["label"].to_pylist()) == "a")
    assert share == pytest.approx(SHARE, abs=0.06)
    unweighted = Harpoon(**TRAINED).fit(table.drop_columns("w")).sample(2000)
    assert np.mean(np.array(unweighted["label"].to_pylist()) == "a") == pytest.approx(0.5, abs=0.06)


def test_the_column_is_kept_by_impute_and_not_needed_by_it(model, table, tmp_path):
    filled = model.impute(table)
    assert filled.column_names == table.column_names
    assert filled["w"].equals(table["w"])
    assert "w" not in model.sample(3).column_names
    model.save(tmp_path / "m.harpoon")
    loaded = Harpoon.load(tmp_path / "m.harpoon")
    assert loaded.schema_.weights == "w"
    assert loaded.impute(table.drop_columns("w"))["y"].equals(filled["y"])


def test_support_counts_rows(model, table):
    assert model.support("label = 'a'").counted == table.num_rows // 2


@pytest.mark.parametrize("weight", [1, 1.0, 0.1])
def test_equal_weights_equal_none_to_the_last_bit(weight):
    table = survey(80).drop_columns("w")
    weighted = table.append_column("w", pa.array([weight] * 80))
    plain, ours = Harpoon(**TINY).fit(table), Harpoon(**TINY).fit(weighted, weights="w")
    assert ours.codec_.to_json() == plain.codec_.to_json()
    assert ours.history_.calibration == plain.history_.calibration
    for name, value in weights_of(plain).items():
        assert np.array_equal(weights_of(ours)[name], value), name


def test_a_factor_of_all_weights_changes_nothing():
    table = survey(80)
    scaled = table.set_column(3, "w", pa.array(np.array(table["w"]) * 4096))
    one, other = (weights_of(Harpoon(**TINY).fit(each, weights="w")) for each in (table, scaled))
    assert all(np.array_equal(other[name], value) for name, value in one.items())


def test_the_schema_may_say_which_column_has_weights(model, table):
    schema = Schema.infer(table, kinds={"w": "weight"})
    ours = Harpoon(schema=schema, **TRAINED).fit(table)
    assert ours.schema_ == model.schema_
    assert all(np.array_equal(weights_of(model)[name], value) for name, value in weights_of(ours).items())


def test_wrong_weights_leave_the_model_as_it_was(model, table):
    before = model.schema_
    for values, words in (([0.0] * 400, "row 0 has 0"), (["1"] * 400, "must be numbers")):
        with pytest.raises(InvalidTable, match=words):
            model.fit(table.set_column(3, "w", pa.array(values)), weights="w")
    with pytest.raises(InvalidOption, match="Did you mean 'label'"):
        model.fit(table, weights="labl")
    assert model.schema_ is before


@pytest.mark.filterwarnings("ignore::harpoon.exceptions.RowsDroppedWarning")
@pytest.mark.parametrize("options", [{"preset": "paper"}, {"rare": "suppress", "k": 5}, {"incomplete_rows": "drop"}])
def test_weights_work_with_every_way_to_train(options, table):
    ours = Harpoon(**{**TINY, **options}).fit(table, weights="w")
    mean = ours.denoiser_.mean.numpy()
    first = ours.codec_.slices[[part.name for part in ours.codec_.slices].index("label")].start
    expected = SHARE
    if ours.config.incomplete_rows == "drop":
        complete = table.filter(table["y"].is_valid())
        expected = np.average(np.array(complete["label"]) == "a", weights=np.array(complete["w"]))
    assert mean[first] == pytest.approx(expected, abs=1e-5)


def test_weighted_estimates_are_pooled(model, table):
    """The weights belong into the estimator; they are in every completed table."""
    draws = model.impute(table.to_pandas(), draws=4, random_state=0)
    pooled = draws.pool(lambda t: smf.wls("y ~ x", t, weights=t["w"]).fit())
    by_hand = [smf.wls("y ~ x", t, weights=t["w"]).fit().params for t in draws.tables]
    assert pooled.estimate == pytest.approx(np.mean(by_hand, axis=0))
    assert pooled.estimate[1] == pytest.approx(1.0, abs=0.1)


def test_a_report_chooses_real_rows_by_their_weights(model, table):
    summary = evaluate(model, survey(seed=1), rows=400)
    of_label = next(each for each in summary["marginals"] if each["name"] == "label")
    unweighted = evaluate(model, survey(seed=1).drop_columns("w"), rows=400)
    other = next(each for each in unweighted["marginals"] if each["name"] == "label")
    assert of_label["distance"] < 0.1
    assert other["distance"] > 0.18
    assert any("in proportion to 'w'" in note and "320 of 400 rows" in note for note in summary["notes"])
    assert any("no column 'w'" in note for note in unweighted["notes"])


def test_the_command_line_takes_weights(table, tmp_path):
    pacsv.write_csv(table, tmp_path / "survey.csv")
    pacsv.write_csv(table.drop_columns("w"), tmp_path / "new.csv")
    model = tmp_path / "m.harpoon"
    options = ["--max-epochs", 2, "--option", "hidden=16", "--seed", 0, "--json"]
    done = cli.call("fit", tmp_path / "survey.csv", "-o", model, "--weights", "w", *options)
    assert done.code == 0, done.said
    assert Harpoon.load(model).schema_.weights == "w"
    for name in ("survey", "new"):
        done = cli.call("impute", model, tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}-filled.csv")
        assert done.code == 0, done.said
    both = [pd.read_csv(tmp_path / f"{name}-filled.csv") for name in ("survey", "new")]
    pd.testing.assert_frame_equal(both[0].drop(columns="w"), both[1])
    done = cli.call("evaluate", model, tmp_path / "survey.csv", "--rows", 50, "--json")
    assert any("in proportion to" in note for note in json.loads(done.out)["notes"])
    done = cli.call("fit", tmp_path / "survey.csv", "-o", tmp_path / "n.harpoon", "--weights", "v")
    assert done.code == 2
    assert "no column 'v'" in done.said
    assert not (tmp_path / "n.harpoon").exists()


def four_to_one(rows=400):
    """Half of the rows are men, each of whom stands for four: 80 % of the population."""
    rng = np.random.default_rng(1)
    sex = np.where(np.arange(rows) % 2, "Male", "Female")
    age = np.where(sex == "Male", 50.0, 30.0) + rng.normal(size=rows).round(2)
    tall = np.where(rng.random(rows) < np.where(sex == "Male", 0.8, 0.2), "yes", "no")
    return pd.DataFrame({"sex": sex, "age": age, "tall": tall, "w": np.where(sex == "Male", 4, 1)})


@pytest.fixture(scope="module")
def people():
    return four_to_one()


@pytest.fixture(scope="module")
def of_people(people, tmp_path_factory):
    """A weighted model that was saved and loaded, so that the file says what its rows are worth."""
    file = tmp_path_factory.mktemp("people") / "m.harpoon"
    Harpoon(**TRAINED).fit(people, weights="w").save(file)
    return Harpoon.load(file)


@pytest.mark.parametrize("with_table", [False, True])
@pytest.mark.parametrize("where", ["sex = 'Male'", "age > 40", "tall = 'yes'", "sex = 'Male' and age > 40"])
def test_an_interval_is_that_of_the_weighted_population(of_people, people, where, with_table):
    met = people.eval(where.replace(" = ", " == ")).to_numpy()
    weighted = np.average(met, weights=people["w"])
    found = of_people.feasibility(where, data=people if with_table else None)
    low, high = found.interval
    assert low <= weighted <= high
    assert not low <= met.mean() <= high
    effective = people["w"].sum() ** 2 / (people["w"] ** 2).sum()
    assert found.support.effective_rows == pytest.approx(effective)
    of_table = beta(weighted * effective + 0.5, (1 - weighted) * effective + 0.5)
    assert high - low == pytest.approx(of_table.ppf(0.975) - of_table.ppf(0.025), abs=0.04)
    assert "of the weighted population" in str(found)
    assert "(rows, not weighted)" in str(found.support)
    if with_table:
        assert found.support.exact == met.sum()
        assert found.weighted_fraction == found.support.weighted_share == pytest.approx(weighted)
        assert low <= beta(weighted * effective + 0.5, (1 - weighted) * effective + 0.5).ppf(0.025) + 1e-12


def test_a_table_without_weights_tells_rows_only(of_people, people):
    found = of_people.feasibility("sex = 'Male'", data=people.drop(columns="w"))
    assert found.weighted_fraction is None
    assert found.interval[0] > 0.5  # the share of rows is no share of the population
    assert "met by 50 % of the rows of the table (rows, not weighted)" in str(found)


def test_rows_beside_given_cells_have_their_own_effective_number(of_people, people):
    support = of_people.support("age > 40", given={"sex": "Male"}, data=people)
    assert (support.exact, support.weighted_share) == (200, 1.0)
    assert support.effective_rows == pytest.approx(200)  # they all have the same weight
    without = of_people.support("age > 40", given={"sex": "Male"})
    assert without.effective_rows == pytest.approx(without.given_rows * 25 / 34)


def test_what_a_condition_changes_has_intervals_of_the_weighted_population(of_people, people):
    """Of men and women over 20, 68 % of the population are tall, and 50 % of the rows."""
    weighted = np.average(people["tall"] == "yes", weights=people["w"])
    predicate = bind(to_predicate("age > 20", of_people.schema_.names), of_people.schema_)
    rows = dataframe.read(of_people.sample(2000, random_state=0))
    for real in (None, dataframe.read(people)):
        for name, truth in (("tall", weighted), ("age", np.average(people["age"], weights=people["w"]))):
            column = of_people.schema_[name]
            counts = training_counts(of_people, predicate, column, real)
            low, high = estimate_interval(column, rows, counts, "yes")
            assert low <= truth <= high, name
            assert not low <= (0.5 if name == "tall" else people["age"].mean()) <= high, name


def test_models_without_weights_or_with_equal_ones_have_the_same_interval(people):
    plain = Harpoon(**TINY).fit(people.drop(columns="w"))
    equal = Harpoon(**TINY).fit(people.assign(w=0.1), weights="w")
    for one in (plain, equal):
        assert one.support("age > 40").effective_rows is None
    where = "sex = 'Male'"
    assert str(equal.feasibility(where, random_state=0)) == str(plain.feasibility(where, random_state=0))


def test_a_column_of_weights_may_have_an_empty_name_or_a_number(people, tmp_path):
    named = Harpoon(**TINY).fit(people, weights="w")
    for label in ("", 5):
        ours = Harpoon(**TINY).fit(people.rename(columns={"w": label}), weights=label)
        assert ours.schema_.weights == str(label)
        assert [column.name for column in ours.schema_.modelled] == ["sex", "age", "tall"]
        assert all(np.array_equal(weights_of(named)[name], value) for name, value in weights_of(ours).items())
        again = Harpoon(schema=Schema.infer(people.rename(columns={"w": label})), **TINY)
        assert again.fit(people.rename(columns={"w": label}), weights=label).schema_.weights == str(label)
    people.rename(columns={"w": ""}).to_csv(tmp_path / "people.csv", index=False)
    options = ["--max-epochs", 1, "--option", "hidden=16", "--seed", 0]
    done = cli.call("fit", tmp_path / "people.csv", "-o", tmp_path / "m.harpoon", "--weights", "", *options)
    assert done.code == 0, done.said
    assert Harpoon.load(tmp_path / "m.harpoon").schema_.weights == ""


@pytest.mark.parametrize(
    "weights",
    [5, True, ["w"], ("w",), b"w", 1.5, pd.Series([1.0]), pd.DataFrame({"w": [1.0]}), np.ones(2), {"w": 1}],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_name_of_a_column_is_refused_in_one_sentence(people, weights):
    with pytest.raises(InvalidOption, match=r"^weights must be the name of (one|a) column ") as error:
        Harpoon(**TINY).fit(people, weights=weights)
    assert error.value.__cause__ is None
    assert len(str(error.value)) < 250


def test_weights_that_differ_too_much_are_refused(people):
    for small, large in ((1e-45, 1.0), (1.0, 1e40), (1e-50, 1e50)):
        weights = np.where(people["sex"] == "Male", small, large)
        with pytest.raises(InvalidTable, match="differ by a factor of at most 1e\\+15, got"):
            Harpoon(**TINY).fit(people.assign(w=weights), weights="w")
    ours = Harpoon(**TINY).fit(people.assign(w=np.where(people["sex"] == "Male", 1e-7, 1e7)), weights="w")
    assert np.isfinite(ours.sample(5)["age"]).all()


def test_weights_of_parts_of_a_table_may_not_differ_too_much(people):
    """Each process has a part of the rows, whose weights alone are equal."""
    table, part = dataframe.read(people), dataframe.read(people.iloc[:100])
    counts = count_columns(table, np.where(np.arange(400) < 100, 1e-40, 1.0))
    small = np.full(100, 1e-40)
    with pytest.raises(InvalidTable, match="differ by a factor"):
        TrainingData.from_parts(part, counts, part, weights=small, sample_weights=small)
