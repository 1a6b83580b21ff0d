"""Rows under a condition have the truncated distribution, and do not pile up at its bounds."""

import numpy as np
import pytest
from scipy import stats

from harpoon import Harpoon
from tests.support.oracles import mixture_table

N, N_TRAIN = 5000, 40_000
KS_CRITICAL = 1.63  # of the two-sample statistic at a level of 1 %, times sqrt(1 / n + 1 / m)


@pytest.fixture(scope="module")
def truth():
    """Values of x, and whether the class is a."""
    table = mixture_table(500_000, seed=5)
    return np.asarray(table["x"]), np.asarray(table["c"]) == "a"


@pytest.fixture(scope="module")
def model():
    options = {"hidden": 64, "depth": 2, "max_epochs": 25, "max_time": 900, "learning_rate": 3e-3}
    return Harpoon(random_state=0, progress=False, **options).fit(mixture_table(N_TRAIN, seed=0))


@pytest.mark.parametrize("bound", [0.0, 2.0])
def test_rows_above_a_bound_have_the_truncated_distribution(model, truth, bound):
    """That of the model's own rows; and of the population, as well as the training rows above the bound show it."""
    x, is_a = truth
    rows = model.sample(N, where=f"x >= {bound}", random_state=3)
    above = bound <= x
    unconditional = np.asarray(model.sample(20 * N, random_state=9)["x"])
    own = stats.ks_2samp(np.asarray(rows["x"]), unconditional[unconditional >= bound], method="asymp")
    assert own.pvalue > 0.01
    distance = stats.ks_2samp(np.asarray(rows["x"]), x[above], method="asymp").statistic
    assert distance < KS_CRITICAL * np.sqrt(1 / N + 1 / (N_TRAIN * above.mean()))
    fraction = is_a[above].mean()
    error = np.sqrt(fraction * (1 - fraction) / N)
    assert np.mean(np.asarray(rows["c"]) == "a") == pytest.approx(fraction, abs=4 * error + 0.005)


def test_guided_rows_do_not_pile_up_at_the_bound(model, truth):
    rows = np.asarray(model.sample(2000, where="x >= 1", strategy="guidance", random_state=3)["x"])
    alone = np.asarray(model.sample(2000, where="x >= 1", strategy="paper", sampling_steps=50, random_state=3)["x"])
    x = truth[0][truth[0] >= 1]
    assert np.median(rows) == pytest.approx(np.median(x), abs=0.15)
    assert np.mean(rows < 1.1) == pytest.approx(np.mean(x < 1.1), abs=0.05)
    distance = [stats.ks_2samp(found[found >= 1], x, method="asymp").statistic for found in (rows, alone)]
    assert distance[0] < distance[1]


def test_a_row_that_is_in_two_alternatives_counts_once(model):
    """By conditioning, the second branch is "x > 1 and not y > x": rows with y > x are of the first branch only."""
    truth = mixture_table(500_000, seed=5)
    x, y = np.asarray(truth["x"]), np.asarray(truth["y"])
    satisfied = (y > x) | (x > 0)
    rows = model.sample(N, where="y > x or x > 0", strategy="conditioning", random_state=3)
    found = np.asarray(rows["x"]), np.asarray(rows["y"])
    for event in (lambda x, y: y > x, lambda x, y: x > 0, lambda x, y: (y > x) & (x > 0)):
        fraction = event(x, y)[satisfied].mean()
        assert event(*found).mean() == pytest.approx(fraction, abs=4 * np.sqrt(fraction * (1 - fraction) / N) + 0.01)
