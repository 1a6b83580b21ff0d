"""The budget: the accountant agrees with published and independent values, and a split spends no more than allowed."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from harpoon import InvalidOption, MissingExtra, Privacy, PrivacyRecord
from harpoon.privacy.differential import budget
from harpoon.privacy.differential.budget import (
    COUNTS,
    GRADIENTS,
    INSECURE_NOISE,
    ORDERS,
    SECURE_NOISE,
    Mechanism,
    spent,
)

# ε of the MNIST tutorial of TensorFlow Privacy: 60,000 rows, batches of 256, δ = 1e-5. Noise multiplier, epochs, ε.
PUBLISHED = [(1.3, 15, 1.19), (1.1, 60, 3.01), (0.7, 45, 7.10)]
# By the privacy loss distributions of dp-accounting 0.6.0, which bound ε tightly: one Gaussian, then steps on Poisson
# samples of the rows. δ, ε.
TIGHT = [
    ([Mechanism(COUNTS, 5.0), Mechanism(GRADIENTS, 2.0, 0.05, 1000)], 1e-6, 4.281874),
    ([Mechanism(COUNTS, 10.0), Mechanism(GRADIENTS, 1.2, 0.01, 2000)], 1e-5, 1.904087),
    ([Mechanism(COUNTS, 3.0), Mechanism(GRADIENTS, 4.0, 0.1, 500)], 1e-6, 3.096660),
]


@pytest.mark.parametrize(("noise", "epochs", "published"), PUBLISHED)
def test_the_divergences_give_published_values(noise, epochs, published):
    """The published values use the first conversion from Rényi differential privacy (Mironov, 2017, proposition 3)."""
    from opacus.accountants.analysis.rdp import compute_rdp

    rate, orders = 256 / 60_000, np.array(ORDERS)
    divergences = compute_rdp(q=rate, noise_multiplier=noise, steps=round(epochs / rate), orders=list(ORDERS))
    assert min(divergences + math.log(1e5) / (orders - 1)) == pytest.approx(published, abs=0.01)
    # The newer conversion is tighter (Balle et al., 2020).
    assert 0.75 * published < spent([Mechanism(GRADIENTS, noise, rate, round(epochs / rate))], 1e-5) < published


@pytest.mark.parametrize(("mechanisms", "delta", "tight"), TIGHT)
def test_it_is_an_upper_bound_of_an_independent_accountant(mechanisms, delta, tight):
    found = spent(mechanisms, delta)
    assert tight < found < 1.15 * tight


@pytest.mark.parametrize("noise", [0.5, 2.0, 20.0])
def test_one_gaussian_spends_no_less_than_its_exact_profile(noise):
    """The exact δ of the Gaussian mechanism (Balle and Wang, 2018, theorem 8) at the ε of the accountant is smaller."""
    epsilon = spent([Mechanism(COUNTS, noise)], 1e-6)
    delta = norm.cdf(0.5 / noise - epsilon * noise) - math.exp(epsilon) * norm.cdf(-0.5 / noise - epsilon * noise)
    assert 1e-8 < delta <= 1e-6


@pytest.mark.parametrize(
    "privacy",
    [
        Privacy(2.0, 1e-6),
        Privacy(0.1, 1e-9, steps=100),
        Privacy(8.0, 1e-5, sample_rate=0.5, steps=10, counts_share=0.9),
    ],
)
def test_a_plan_spends_almost_all_and_no_more(privacy):
    split = privacy.split(8)
    assert split.count_sensitivity == 3.0  # the root of 8 columns and the number of rows
    assert 0.97 * privacy.epsilon < spent(split.mechanisms, privacy.delta) <= privacy.epsilon
    assert spent([split.counts], privacy.delta) <= privacy.counts_share * privacy.epsilon
    assert (split.gradients.sample_rate, split.gradients.steps) == (privacy.sample_rate, privacy.steps)


def test_a_record_says_what_was_spent_and_is_restored():
    record = Privacy(1.0, 1e-6, steps=50).split(3).record(seeded=False)
    assert record.epsilon_spent <= 1
    assert max(record.epsilon_alone) < record.epsilon_spent < sum(record.epsilon_alone)
    assert str(record).startswith("epsilon 0.99") or str(record).startswith("epsilon 1 of 1")
    assert "opacus" in record.accountant
    assert record.is_guaranteed
    assert PrivacyRecord.from_json(record.to_json()) == record


def test_a_seeded_record_guarantees_nothing():
    record = Privacy(1.0, 1e-6, steps=50).split(3).record(seeded=True)
    assert not record.is_guaranteed
    assert str(record).startswith("for tests only, no guarantee")


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0},
        {"epsilon": "2"},
        {"delta": 0},
        {"delta": 1},
        {"steps": 0},
        {"steps": 1.5},
        {"sample_rate": 0.9},
        {"secure": 1},
        {"counts_share": 1.0},
    ],
)
def test_wrong_budgets_are_refused(options):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        Privacy(**({"epsilon": 1.0, "delta": 1e-6} | options))


def test_a_budget_that_no_noise_keeps_is_refused(monkeypatch):
    monkeypatch.setattr(budget, "spent", lambda *_: math.inf)
    with pytest.raises(InvalidOption, match=r"No noise keeps epsilon=1 at delta=1e-06\. Raise one of them\."):
        Privacy(1.0, 1e-6).split(1)


def test_the_signal_is_that_of_equal_gradients_of_all_rows():
    """By a simulation of the sum: rows of norm 1 in one direction, and noise on every weight."""
    privacy = Privacy(2.0, 1e-6, steps=40, sample_rate=0.1)
    split, n_rows, n_weights = privacy.split(3), 500, 2000
    rng = np.random.default_rng(0)
    signal = sum(int(rng.binomial(n_rows, privacy.sample_rate)) for _ in range(privacy.steps))
    noise = rng.normal(scale=split.gradients.noise_multiplier, size=(privacy.steps, n_weights)).sum(axis=0)
    assert split.signal_to_noise(n_rows, n_weights) == pytest.approx(signal / np.linalg.norm(noise), rel=0.1)


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("secure", [False, True])
def test_a_record_says_where_its_noise_came_from(secure, seeded):
    text = str(Privacy(2.0, 1e-6, secure=secure).split(2).record(seeded=seeded))
    assert (SECURE_NOISE in text, INSECURE_NOISE in text) == (secure, not secure)
    assert text.startswith("for tests only") == seeded


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opacus.accountants", None)
    with pytest.raises(MissingExtra, match=r'pip install -c constraints\.txt "\.\[privacy\]"'):
        spent([Mechanism(COUNTS, 1.0)], 1e-6)
