"""Intervals cover, and areas and advantages are those of independent implementations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from harpoon.privacy.rates import (
    Rate,
    advantage,
    area_under_curve,
    difference,
    exceeds,
    excess_risk,
    mean_excess_risk,
    random_halves,
    split_error,
)

LEVEL = 0.9
REPEATS = 400
# Binomial: of 400 intervals of 90 %, fewer than 84 % cover once in a hundred thousand times.
LEAST_COVERAGE = 0.84

scores = st.lists(st.integers(0, 8).map(float), min_size=2, max_size=30).map(np.array)


@given(scores, scores)
def test_the_area_is_that_of_scikit_learn(positive, negative):
    labels = np.repeat([1, 0], [len(positive), len(negative)])
    expected = roc_auc_score(labels, np.concatenate([positive, negative]))
    assert area_under_curve(positive, negative, LEVEL).value == pytest.approx(expected)


def test_intervals_of_areas_cover():
    rng = np.random.default_rng(0)
    truth = 0.6381631951  # of two normal variables whose means differ by 0.5: Φ(0.5 / √2)
    found = [area_under_curve(rng.normal(0.5, 1, 60), rng.normal(size=50), LEVEL) for _ in range(REPEATS)]
    assert np.mean([one.low <= truth <= one.high for one in found]) > LEAST_COVERAGE


@pytest.mark.parametrize("probability", [0.02, 0.3, 0.9])
def test_intervals_of_risks_cover_0_where_there_is_none(probability):
    rng = np.random.default_rng(1)
    rates = [[Rate(int(rng.binomial(300, probability)), 300) for _ in range(2)] for _ in range(REPEATS)]
    for estimate in (excess_risk, difference):
        found = [estimate(*pair, LEVEL) for pair in rates]
        assert np.mean([one.low <= 0 <= one.high for one in found]) > LEAST_COVERAGE


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 19), (19, 5), (12, 12)])
def test_a_risk_of_few_attacks_is_found_by_chance_as_rarely_as_the_level_says(n, m):
    """By all possible outcomes, of equal rates."""
    level = 0.95
    for p in np.linspace(0.02, 0.98, 25):
        outcomes = [(i, j) for i in range(n + 1) for j in range(m + 1) if exceeds(Rate(i, n), Rate(j, m), level)]
        assert outcomes or min(n, m) < 4
        assert sum(binom.pmf(i, n, p) * binom.pmf(j, m, p) for i, j in outcomes) <= (1 - level) / 2


def test_intervals_of_mean_risks_cover():
    rng = np.random.default_rng(2)
    found = [mean_excess_risk(rng.uniform(size=80), rng.uniform(size=90), LEVEL) for _ in range(REPEATS)]
    assert np.mean([one.low <= 0 <= one.high for one in found]) > LEAST_COVERAGE


def test_the_risk_is_the_share_of_what_the_baseline_leaves():
    risk = excess_risk(Rate(60_000, 100_000), Rate(20_000, 100_000), LEVEL)
    assert risk.value == pytest.approx(0.5, abs=1e-3)
    assert risk.low < 0.5 < risk.high


def test_the_advantage_of_scores_that_say_nothing_is_0_on_average():
    rng = np.random.default_rng(3)
    found = [advantage(rng.normal(size=40), rng.normal(size=40), LEVEL, rng) for _ in range(REPEATS)]
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(REPEATS)
    assert np.mean([one.low <= 0 <= one.high for one in found]) > LEAST_COVERAGE


def test_the_advantage_of_perfect_scores_is_1():
    assert advantage(np.ones(50), np.zeros(50), LEVEL, np.random.default_rng(0)).value == 1


def test_no_attack_is_no_success():
    assert Rate(0, 0).value == 0


def test_the_error_of_dependent_attacks_is_that_of_the_rows():
    """Each row makes 20 attacks succeed: the error is that of rows, not that of 20 times as many attacks."""
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(REPEATS // 2):
        succeeds = rng.random(400) < 0.3  # rows, of which the first half is one table
        halves = random_halves(400, rng)
        differences = [(succeeds[half].sum() - succeeds[~half].sum()) / 200 for half in halves]
        error = split_error(np.array(differences), LEVEL)
        both = [Rate(20 * int(part.sum()), 20 * 200) for part in (succeeds[:200], succeeds[200:])]
        risk = excess_risk(*both, LEVEL, least_error=error)
        covered.append(risk.low <= 0 <= risk.high)
    assert np.mean(covered) > LEAST_COVERAGE


def test_random_halves_are_halves():
    halves = random_halves(40, np.random.default_rng(0))
    assert (halves.sum(axis=1) == 20).all()
    assert len(np.unique(halves, axis=0)) == len(halves)
