"""Masks hide cells by their mechanism and at their rate."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from harpoon import InvalidOption
from harpoon.metrics import masks


def table(n: int = 4000, columns: int = 10) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    data = {f"n{i}": rng.normal(i, i + 1, n) for i in range(columns - 2)}
    return pl.DataFrame({**data, "c": rng.choice(["a", "b", "c"], n), "d": rng.integers(0, 5, n)})


@pytest.mark.parametrize("mechanism", ["MCAR", "MAR", "MNAR"])
@pytest.mark.parametrize("p", [0.25, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_rate_is_reached(mechanism, p, seed):
    assert masks.sample_mask(mechanism, table(), p, seed).mean() == pytest.approx(p, abs=0.03)


def test_mar_keeps_its_inputs_and_hides_the_others_at_the_rate_of_the_protocol():
    mask = masks.sample_mask("MAR", table(), 0.5, seed=0)
    always_observed = ~mask.any(axis=0)
    assert always_observed.sum() == 3  # 30 % of ten columns
    assert mask[:, ~always_observed].mean(axis=0) == pytest.approx(np.full(7, 0.5 / 0.7), abs=0.04)
    rare = masks.sample_mask("MAR", table(), 0.75, seed=0)
    assert (~rare.any(axis=0)).sum() == 1
    assert rare[:, rare.any(axis=0)].mean() == pytest.approx(0.75 / 0.9, abs=0.03)


def test_mar_depends_on_observed_values_and_mcar_on_nothing():
    data = table()
    matrix = masks.to_matrix(data)

    def max_correlation(mask):
        observed = matrix[:, ~mask.any(axis=0)] if (~mask.any(axis=0)).any() else matrix
        hidden = mask[:, mask.any(axis=0)]
        return max(abs(np.corrcoef(x, h)[0, 1]) for x in observed.T for h in hidden.T)

    assert max_correlation(masks.sample_mask("MAR", data, 0.5, seed=0)) > 0.2
    assert max_correlation(masks.sample_mask("MCAR", data, 0.5, seed=0)) < 0.08


def test_mnar_hides_cells_in_every_column():
    assert masks.sample_mask("MNAR", table(), 0.25, seed=0).any(axis=0).all()


def test_the_seed_determines_the_mask():
    same = [masks.sample_mask("MAR", table(), 0.25, seed=4) for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], masks.sample_mask("MAR", table(), 0.25, seed=5))


def test_a_constant_column_does_not_break_the_logistic_model():
    data = pl.DataFrame({"k": [1.0] * 500, "x": np.arange(500.0)})
    for seed in range(4):
        assert masks.sample_mask("MAR", data, 0.25, seed).mean() == pytest.approx(0.25 / 0.7 / 2, abs=0.06)


def test_invalid_arguments_are_named():
    with pytest.raises(InvalidOption, match="MCAR"):
        masks.sample_mask("mcar ", table(), 0.25, seed=0)
    with pytest.raises(InvalidOption, match="from 0 to 1"):
        masks.sample_mask("MCAR", table(), 25, seed=0)


def bisected_intercept(scores, rate):
    """The intercept by 100 bisections, as in the published protocol."""
    low, high = -50.0 - scores.mean(), 50.0 - scores.mean()
    for _ in range(100):
        middle = (low + high) / 2
        above = np.exp(-np.logaddexp(0, -(scores + middle))).mean() >= rate
        low, high = (low, middle) if above else (middle, high)
    return (low + high) / 2


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.1, 0.5, 0.9, 1.0, 1.2])
def test_probabilities_are_those_of_a_bisected_intercept(rate):
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(seed, 1, 200)
        ours, bisected = (expit(scores + f(scores, rate)) for f in (masks._intercept, bisected_intercept))
        assert ours == pytest.approx(bisected, abs=1e-13)


@pytest.mark.parametrize("mechanism", ["MAR", "MNAR"])
def test_masks_are_those_of_bisection(mechanism, monkeypatch):
    ours = [masks.sample_mask(mechanism, table(500), p, seed) for p in (0.25, 0.9) for seed in range(3)]
    monkeypatch.setattr(masks, "_intercept", bisected_intercept)
    theirs = [masks.sample_mask(mechanism, table(500), p, seed) for p in (0.25, 0.9) for seed in range(3)]
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("mechanism", ["MAR", "MNAR"])
@pytest.mark.parametrize(("p", "inputs"), [(0.5, 6), (0.7, 6), (0.75, 2)])
def test_high_rates_have_fewer_input_columns(mechanism, p, inputs, monkeypatch):
    found = []
    logistic_mask = masks._logistic_mask
    monkeypatch.setattr(masks, "_logistic_mask", lambda *args: found.append(logistic_mask(*args)) or found[-1])
    data = pl.DataFrame(np.random.default_rng(0).normal(size=(200, 20)))
    masks.sample_mask(mechanism, data, p, seed=0)
    assert len(found[0][1]) == inputs
