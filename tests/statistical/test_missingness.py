"""Sampled rows have missing cells as the training table has: the joint distribution of cells and of holes.

The judge is the closed form of `tests.support.missingness`. Tolerances are four standard errors, of the training rows
and of the sampled rows together, and 0.015 for a network that is trained for seconds.
"""

import duckdb
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from harpoon import Harpoon, InfeasibleCondition, StructuralMissingWarning, load
from harpoon.report import compare, evaluate
from tests.support import missingness
from tests.support.missingness import LEVEL_MEAN, NULL, states

N_TRAIN, N = 6000, 8000
BIAS = 0.015
COLUMNS = ["visits", "score", "side", "level", "group", "answer"]


@pytest.fixture(scope="module")
def train():
    return missingness.table(N_TRAIN, seed=0)


@pytest.fixture(scope="module")
def model(train):
    options = {"hidden": 32, "batch_size": 256, "max_epochs": 60, "learning_rate": 3e-3}
    return Harpoon(random_state=0, progress=False, **options).fit(train)


@pytest.fixture(scope="module")
def rows(model):
    return model.sample(N, random_state=1)


def tolerance(p, n=N):
    return 4 * np.sqrt(p * (1 - p) * (1 / N_TRAIN + 1 / n)) + BIAS


def fraction(rows, state):
    """The fraction of rows in a state: the value of each column, NULL for a missing cell."""
    holds = np.ones(len(rows), dtype=bool)
    for name, value in state.items():
        holds &= (rows[name].isna() if value is NULL else rows[name] == value).to_numpy(dtype=bool)
    return holds.mean()


def selected(rows, where):
    """The rows that satisfy a condition in DuckDB."""
    connection = duckdb.connect()
    connection.register("sampled", rows.astype(dict.fromkeys(("group", "answer", "side"), object)))
    return connection.execute(f"SELECT * FROM sampled WHERE {where}").df()  # noqa: S608


@pytest.mark.parametrize("pair", missingness.pair_probabilities(), ids="-".join)
def test_cells_and_holes_have_the_joint_distribution_of_the_mechanism(rows, pair):
    found = states(rows)
    for values, p in missingness.pair_probabilities()[pair].items():
        state = dict(zip(pair, values, strict=True))
        assert fraction(found, state) == pytest.approx(p, abs=tolerance(p) if p else 0), state


@pytest.mark.parametrize("pair", [("score", "level"), ("score", "answer"), ("level", "group"), ("visits", "answer")])
def test_independent_mechanisms_stay_independent(rows, pair):
    null = rows.isna()
    first = null["score"] if pair[0] == "visits" else null[pair[0]]  # the two are the same event
    together, product = (first & null[pair[1]]).mean(), first.mean() * null[pair[1]].mean()
    assert together == pytest.approx(product, abs=tolerance(product))


@pytest.mark.parametrize("side", LEVEL_MEAN)
def test_observed_values_have_their_distribution(rows, side):
    level = rows.loc[rows["side"] == side, "level"].dropna()
    assert level.mean() == pytest.approx(LEVEL_MEAN[side], abs=0.15)
    assert level.std() == pytest.approx(1, abs=0.15)
    distance = stats.kstest(level, stats.norm(LEVEL_MEAN[side], 1).cdf).statistic
    assert distance < 1.63 * np.sqrt(1 / len(level) + 1 / (N_TRAIN / 5)) + 0.03  # the critical value at 1 %, and a bias


def test_the_value_of_a_structural_column_fits_the_column_that_decides_whether_it_exists(rows):
    for visits in (1, 2):
        score = rows.loc[rows["visits"] == visits, "score"]
        assert score.mean() == pytest.approx(10 * visits, abs=0.6)
        assert score.std() == pytest.approx(2, abs=0.6)


def test_complete_columns_keep_their_distribution(train, rows):
    for name, value in (("visits", 0), ("side", "left")):
        p = fraction(train, {name: value})
        assert fraction(rows, {name: value}) == pytest.approx(p, abs=2 * np.sqrt(p * (1 - p) * (1 / N + 1 / N_TRAIN)))
    assert rows[["visits", "side"]].notna().all().all()


def test_a_column_is_missing_as_often_as_in_training(train, rows):
    for name in COLUMNS:
        p = train[name].isna().mean()
        assert rows[name].isna().mean() == pytest.approx(p, abs=tolerance(p) if p else 0), name


@pytest.mark.parametrize("options", [{}, {"ar_steps": 1}, {"ar_steps": 2}, {"ar_steps": 5}], ids=str)
def test_structural_missingness_holds_in_every_row(model, options):
    rows = model.sample(4000, random_state=2, **options)
    assert (rows["score"].isna() == (rows["visits"] == 0)).all()


def test_the_warning_says_beside_what_a_cell_is_always_missing(model, train):
    with pytest.warns(StructuralMissingWarning, match=r"cells of 'score' \(visits = 0\), always missing in such"):
        model.impute(train)


def test_complete_rows_are_the_same_rows_with_their_holes_filled(model, rows):
    complete = model.sample(N, missing="complete", random_state=1)
    assert complete.notna().all().all()
    observed = rows.notna()
    pd.testing.assert_frame_equal(complete.where(observed), rows.where(observed), check_exact=True, check_dtype=False)


def test_filled_holes_have_the_distribution_given_the_observed_cells(model, rows):
    complete, null = model.sample(N, missing="complete", random_state=1), rows["level"].isna()
    for side, mean in LEVEL_MEAN.items():  # missing at random: the holes have the distribution of the observed values
        filled = complete.loc[null & (rows["side"] == side), "level"]
        assert filled.mean() == pytest.approx(mean, abs=0.25)
        assert filled.std() == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("strategy", ["auto", "rejection", "conditioning", "guidance"])
@pytest.mark.parametrize(
    "where",
    [
        "score is null",
        "level is not null and score > 12",
        "answer is null or visits = 2",
        "level is null and \"group\" = 'y'",
        "not (\"group\" = 'x')",
    ],
)
def test_rows_under_a_condition_on_missing_cells_satisfy_it_in_duckdb(model, where, strategy):
    rows = model.sample(300, where=where, strategy=strategy, random_state=3)
    assert len(rows) == len(selected(rows, where)) == 300


@pytest.mark.parametrize(
    "where",
    [
        "score is null",
        "answer is null",
        "level is not null and score > 12",
        "level is null or visits = 2",
        "\"group\" is null and answer = 'yes'",
        "answer is null and (\"group\" = 'y' or level > 1)",
    ],
)
def test_conditioning_has_the_distribution_of_rejection(model, where):
    n = 3000
    by_rejection, by_conditioning = (
        model.sample(n, where=where, strategy=strategy, random_state=4) for strategy in ("rejection", "conditioning")
    )
    left, right = states(by_rejection), states(by_conditioning)
    for name in left:
        for value in [*left[name].dropna().unique(), NULL]:
            p = fraction(left, {name: value})
            within = 4 * np.sqrt(2 * p * (1 - p) / n) + 0.03
            assert fraction(right, {name: value}) == pytest.approx(p, abs=within), (name, value)
    for name in ("score", "level"):
        values = by_rejection[name].dropna(), by_conditioning[name].dropna()
        assert abs(values[0].notna().sum() - values[1].notna().sum()) < 4 * np.sqrt(n / 2) + 0.03 * n
        if min(map(len, values)) > 200:
            assert values[0].mean() == pytest.approx(values[1].mean(), abs=0.15 * values[0].std()), name


def test_a_condition_against_structural_missingness_cannot_be_met(model):
    for where in ("visits = 0 and score is not null", "visits = 1 and score is null", "visits = 0 and score > 1"):
        with pytest.raises(InfeasibleCondition):
            model.sample(10, where=where, random_state=0)
    assert model.sample(10, where="visits = 0 and score is null", random_state=0)["score"].isna().all()


def test_given_cells_and_holes_decide_what_can_be_missing(model):
    assert model.sample(500, given={"visits": 0}, random_state=0)["score"].isna().all()
    assert model.sample(500, given={"visits": 2}, random_state=0)["score"].notna().all()
    assert (model.sample(500, given={"score": 12.0}, random_state=0)["visits"] != 0).all()
    assert (model.sample(500, given={"score": None}, random_state=0)["visits"] == 0).all()


def test_a_hole_says_what_a_value_would(model):
    """The answer of group y is often missing, so that a row without an answer is probably of group y."""
    joint = missingness.pair_probabilities()["group", "answer"]
    p = joint["y", NULL] / (joint["x", NULL] + joint["y", NULL])
    groups = model.sample(4000, given={"answer": None}, random_state=0)["group"].dropna()
    assert (groups == "y").mean() == pytest.approx(p, abs=0.06)


def test_imputation_is_conditioned_on_observed_cells_not_on_holes(model):
    """A hole of a table to impute may be there for any reason, so that it says nothing about the row."""
    answerless = pd.DataFrame({"visits": [1], "score": [10.0], "side": ["left"], "level": [0.0]})
    answerless = answerless.assign(group=pd.Series([NULL], dtype=object), answer=pd.Series([NULL], dtype=object))
    expected = model.expect(answerless)
    probabilities = dict(zip(expected.categories["group"], expected.probabilities["group"][0], strict=True))
    assert probabilities["y"] == pytest.approx(missingness.GROUPS["y"], abs=0.06)  # with the hole it would be 0.8
    p_yes = sum(p * (1 - missingness.ANSWER_MISSING[g]) * missingness.YES[g] for g, p in missingness.GROUPS.items())
    p_yes /= sum(p * (1 - missingness.ANSWER_MISSING[g]) for g, p in missingness.GROUPS.items())
    answers = dict(zip(expected.categories["answer"], expected.probabilities["answer"][0], strict=True))
    assert answers["yes"] == pytest.approx(p_yes, abs=0.06)


def test_a_saved_model_gives_the_same_rows(model, rows, tmp_path):
    model.save(tmp_path / "holes.harpoon")
    loaded = load(tmp_path / "holes.harpoon", progress=False)
    assert loaded.codec_.nullable == model.codec_.nullable == {"score", "level", "group", "answer"}
    assert torch.equal(loaded.denoiser_.exclusions.excluded, model.denoiser_.exclusions.excluded)
    assert len(model.denoiser_.exclusions.excluded)
    pd.testing.assert_frame_equal(loaded.sample(N, random_state=1), rows, check_exact=True)


@pytest.mark.parametrize("missing", ["as_trained", "complete"])
def test_rows_do_not_depend_on_the_size_of_batches(model, missing):
    whole, parts = (model.sample(500, missing=missing, random_state=1, sampling_batch_size=size) for size in (500, 96))
    null = whole.isna()
    pd.testing.assert_frame_equal(null, parts.isna())
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-4)


def test_reports_score_whole_rows_among_complete_rows_of_both_tables(model):
    """Filled rows would be rows without visits that have a score, which no complete row of the real table is."""
    real, scores = missingness.table(2000, seed=2), {}
    for missing in ("as_trained", "complete"):
        found = compare(real, model.sample(2000, missing=missing, random_state=0), random_state=0)["fidelity"]
        scores[missing] = next(one["value"] for one in found["scores"] if one["key"] == "detection")
    evaluated = evaluate(model, real, rows=2000, random_state=0)["fidelity"]["scores"]
    assert scores["as_trained"] < scores["complete"] - 0.1
    assert next(one["value"] for one in evaluated if one["key"] == "detection") < scores["complete"] - 0.1
