"""Conditions are graded against real rows, and columns are ranked by what exceeds chance."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon.data import dataframe
from harpoon.data.schema import Schema
from harpoon.inference.diagnostics.answer_grade import MIN_GRADED_ROWS, OWN_CHECK, grade_answer
from harpoon.inference.diagnostics.support import Support
from harpoon.metrics.marginals import ks_distance, ks_noise, total_variation_distance, total_variation_noise
from harpoon.report import compare
from harpoon.report.agreement import MIN_REAL_ROWS, MIN_ROWS_FOR_A, agreement
from harpoon.report.distributions import by_excess, distance, distance_noise
from harpoon.report.overview import associations
from harpoon.training.calibration import Calibration

LETTERS = [f"city {number}" for number in range(200)]


def people(rows, leavers, seed):
    rng = np.random.default_rng(seed)
    left = np.where(rng.random(rows) < leavers, "yes", "no")
    return pd.DataFrame({"age": rng.normal(65, 3, rows), "left": left, "city": rng.choice(LETTERS, rows)})


SCHEMA = Schema.infer(people(5000, 0.3, 9))


def grade(sampled, real):
    return agreement(SCHEMA.modelled, dataframe.read(sampled), dataframe.read(real))


def test_a_wrong_share_has_a_bad_grade_and_a_sentence_with_both_numbers():
    found = grade(people(2000, 0.47, 0), people(400, 0.26, 1))
    assert found["grade"] in ("C", "D")
    assert found["column"] == "left"
    percents = [f"{100 * (people(*of)['left'] == 'yes').mean():.3g} %" for of in ((2000, 0.47, 0), (400, 0.26, 1))]
    assert f"yes in {percents[0]} of the sampled and {percents[1]} of the real rows" in found["sentence"]


def test_rows_of_the_same_distribution_have_the_best_grade():
    found = [grade(people(2000, 0.26, seed), people(300, 0.26, 100 + seed)) for seed in range(20)]
    assert [one["grade"] for one in found] == ["A"] * 20
    assert sum(one["excess"] == 0 for one in found) >= 17  # chance exceeds the noise in one of twenty
    assert "by more than chance explains" in found[0]["sentence"]


def test_with_few_real_rows_no_difference_is_no_proof():
    found = grade(people(2000, 0.26, 0), people(MIN_ROWS_FOR_A - 1, 0.26, 100))
    assert found["excess"] == 0
    assert found["grade"] == "B"
    assert "few rows, which have little power" in found["sentence"]
    assert grade(people(2000, 0.26, 0), people(MIN_ROWS_FOR_A, 0.26, 100))["grade"] == "A"


def test_the_calibration_says_what_the_other_cells_of_a_row_tell():
    text = str(Calibration(cells=567, gain=np.log(1.32), calibration_error=0.01, coverage=None, categories=567))
    other = "Knowing the other cells of a row makes a hidden cell 1.32 times as probable, on average over 567 held-out"
    assert text.startswith(f"Calibration: A. {other} cells; ")
    assert text.endswith("does not say whether whole rows look real: the report of harpoon evaluate does.")


def test_few_real_rows_have_no_grade():
    found = grade(people(2000, 0.47, 0), people(12, 0.26, 1))
    assert found["grade"] == ""
    assert found["sentence"].startswith("No grade: 12 real rows satisfy the condition")
    assert grade(people(2000, 0.4, 0).head(0), people(100, 0.26, 1))["grade"] == ""


def test_an_own_grade_says_why_rows_were_not_compared():
    support = Support(1629, 0, 0.0, 0, 1629.0, 0.0, is_counted=True)
    own = grade_answer(Calibration(cells=1000, gain=0.5, calibration_error=0.0, categories=1000), support)
    sampled = dataframe.read(people(50, 0.4, 0))
    found = agreement(SCHEMA.modelled, sampled, dataframe.read(people(50, 0.26, 1)).take(np.arange(0)), own)
    assert found["sentence"] == (
        f"{own.sentence} A comparison needs {MIN_REAL_ROWS} real rows that satisfy it, and there are none."
    )


def test_a_column_with_many_categories_does_not_lead_by_chance():
    before, after = dataframe.read(people(2000, 0.3, 0)), dataframe.read(people(500, 0.42, 1))
    found = {one.name: (distance(one, before, after), distance_noise(one, before, after)) for one in SCHEMA.modelled}
    assert max(found, key=lambda name: found[name][0]) == "city"
    assert min(found, key=lambda name: by_excess(*found[name])) == "left"


@pytest.mark.parametrize("level", [0.05, 0.005])
@pytest.mark.parametrize("p", [[0.5, 0.5], [0.9, 0.1], [0.6, 0.3, 0.1], [0.05] * 20, [0.005] * 200])
def test_chance_exceeds_the_noise_as_often_as_stated(p, level):
    rng = np.random.default_rng(0)
    left, right = (rng.multinomial(n, p, size=4000) / n for n in (200, 2000))
    exceeded = (np.abs(left - right).sum(axis=1) / 2 > total_variation_noise(np.array(p), 200, 2000, level)).mean()
    assert exceeded == pytest.approx(level, rel=0.6, abs=0.005)


def test_chance_exceeds_the_ks_noise_as_often_as_stated():
    rng = np.random.default_rng(0)
    found = [ks_distance(rng.random(300), rng.random(500)) for _ in range(600)]
    assert np.mean(np.array(found) > ks_noise(300, 500)) == pytest.approx(0.05, abs=0.025)


def test_distances_of_samples_are_those_of_the_metrics():
    left, right = people(300, 0.3, 0), people(300, 0.5, 1)
    found = distance(SCHEMA["left"], dataframe.read(left), dataframe.read(right))
    truth = total_variation_distance(left["left"].to_numpy(), right["left"].to_numpy())
    assert found == pytest.approx(truth, abs=1e-6)


def test_the_headline_names_no_column_that_chance_explains():
    """Two samples of one distribution: the city differs most, and by no more than 200 categories do by chance."""
    left, right = people(400, 0.3, 1), people(400, 0.3, 2)
    summary = compare(left, right, random_state=0)
    cities = next(one for one in summary["marginals"] if one["name"] == "city")
    assert cities["distance"] == max(one["distance"] for one in summary["marginals"]) <= cities["noise"]
    meaning = next(one for one in summary["headlines"] if one["name"] == "Marginal similarity")["meaning"]
    assert meaning.endswith("no column differs by more than chance explains.")
    other = compare(left, people(400, 0.6, 2), random_state=0)
    meaning = next(one for one in other["headlines"] if one["name"] == "Marginal similarity")["meaning"]
    assert "left differs most" in meaning


ROWS = st.integers(5, 10**5)


@given(st.floats(-1, 3), st.floats(0, 0.5), ROWS, st.data())
def test_the_own_grade_is_never_better_than_the_calibration_nor_than_the_support_allows(gain, error, rows, data):
    calibration = Calibration(cells=1000, gain=gain, calibration_error=error, coverage=0.9, categories=500, numbers=500)
    count = data.draw(st.integers(0, rows))
    support = Support(rows, count, float(count), count, float(rows), float(count), is_counted=True)
    own = grade_answer(calibration, support)
    assert own.grade >= calibration.grade
    assert (own.grade == "D") == (calibration.grade == "D" or count < 5)
    assert own.grade >= "C" or count >= MIN_GRADED_ROWS
    assert own.sentence.startswith(f"Grade {own.grade}: {OWN_CHECK}")
    assert agreement((), dataframe.read(people(5, 0.5, 0)), None, own)["source"] == "model"
    assert not grade_answer(Calibration(), replace(support, exact=rows)).grade


def test_associations_of_two_samples_of_one_distribution_differ_by_chance_only():
    """Once in twenty times a pair of columns exceeds the noise; a real difference does."""
    exceeded = 0
    for seed in range(40):
        left, right = (dataframe.read(people(300, 0.3, number)) for number in (seed, 1000 + seed))
        first = associations(SCHEMA, left, right)["pairs"][0]
        exceeded += abs(first["real"] - first["synthetic"]) > first["noise"]
    assert exceeded <= 6  # of 40; 2 are expected
    left = people(300, 0.3, 1)
    related = compare(left.assign(age=left["age"] + 9 * (left["left"] == "yes")), people(300, 0.3, 2), random_state=0)
    meaning = next(one for one in related["headlines"] if one["name"] == "Association error")["meaning"]
    assert "most beyond chance for age and left" in meaning


def test_a_pair_with_few_observed_rows_is_not_named_before_one_that_chance_does_not_explain():
    """Correlations of 12 rows differ by more than that of x and y does, and by no more than chance explains."""
    rng = np.random.default_rng(2)

    def table(correlation):
        x, noise, few, other = rng.normal(size=(4, 3000))
        few += 2 * (correlation - 0.8) * x  # from 0.2 to -0.2
        few[12:] = other[12:] = np.nan
        y = correlation * x + np.sqrt(1 - correlation**2) * noise
        return pd.DataFrame({"x": x, "y": y, "few": few, "other": other})

    found = compare(table(0.9), table(0.7), random_state=0)
    pairs = {(one["left"], one["right"]): one for one in found["associations"]["pairs"]}
    differences = {pair: abs(one["real"] - one["synthetic"]) for pair, one in pairs.items()}
    assert max(differences, key=differences.get) != ("x", "y")
    assert next(iter(pairs)) == ("x", "y")
    assert pairs["few", "other"]["noise"] > 5 * pairs["x", "y"]["noise"]
    meaning = next(one for one in found["headlines"] if one["name"] == "Association error")["meaning"]
    assert "most beyond chance for x and y (real 0.9" in meaning
