"""The Gaussian baseline against the closed form of a conditional Gaussian."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.encoding.codec import ColumnSlice, PartType
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.gaussian_baseline import MAX_INPUTS, PRIOR_ROWS, GaussianBaseline

N_NUMBERS = 3
SLICES = [
    part
    for column in range(N_NUMBERS)
    for part in (
        ColumnSlice(f"x{column}", column, 2 * column, 2 * column + 1, PartType.CONTINUOUS),
        ColumnSlice(f"x{column}", column, 2 * column + 1, 2 * column + 2, PartType.REGRESSION),
    )
]
SLICES.append(ColumnSlice("kind", N_NUMBERS, 2 * N_NUMBERS, 2 * N_NUMBERS + 2, PartType.CATEGORICAL))
RANKS, STANDARDISED = [0, 2, 4], [1, 3, 5]
COVARIANCE = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])


def rows(n, seed=0):
    """Numbers of a known Gaussian, each beside twice its value, and a category of a fair coin."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal(np.zeros(3), COVARIANCE, n)
    kind = np.eye(2)[rng.integers(0, 2, n)]
    x = np.concatenate([np.stack([z, 2 * z], axis=2).reshape(n, 6), kind], axis=1)
    return EncodedRows(torch.from_numpy(x).float(), torch.ones(n, 8, dtype=torch.bool))


def baseline(data, *, enabled=True):
    made = GaussianBaseline(SLICES, RANKS, [], STANDARDISED, enabled=enabled)
    made.initialize(data)
    return made


def hide(data, hidden):
    """Return rows with numbers hidden, (n, 3)."""
    observed = data.observed.clone()
    observed[:, :6] &= ~torch.from_numpy(np.repeat(hidden, 2, axis=1))
    return EncodedRows(data.x, observed)


def std(width):
    return torch.nn.functional.softplus(width).numpy()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 1000))
def test_predictions_are_those_of_the_conditional_gaussian(hidden, seed):
    made, data = baseline(rows(20_000)), rows(5, seed)
    found = made(hide(data, np.tile(hidden, (5, 1))))
    o, m = np.flatnonzero(~np.array(hidden)), np.flatnonzero(hidden)
    z = data.x[:, RANKS].numpy()
    weights = np.linalg.solve(COVARIANCE[np.ix_(o, o)], COVARIANCE[np.ix_(o, m)])
    variance = COVARIANCE[np.ix_(m, m)] - COVARIANCE[np.ix_(m, o)] @ weights
    np.testing.assert_allclose(found.rank_mean[:, m].numpy(), z[:, o] @ weights, atol=0.1)
    np.testing.assert_allclose(found.standardised[:, m].numpy(), 2 * z[:, o] @ weights, atol=0.2)
    np.testing.assert_allclose(std(found.rank_width[:, m]), np.tile(np.sqrt(np.diag(variance)), (5, 1)), atol=0.05)


def test_the_covariance_of_complete_rows_is_that_of_the_table():
    data = rows(500)
    made = baseline(data)
    z = data.x[:, RANKS].double().numpy()
    expected = np.corrcoef(z.T) + np.eye(3) * PRIOR_ROWS / 500
    np.testing.assert_allclose(made.covariance[:3, :3].numpy(), expected, atol=1e-3)


def test_cells_missing_at_random_bias_neither_mean_nor_slope():
    """The second number is missing wherever the first is large."""
    data = rows(20_000)
    hidden = np.zeros((20_000, 3), dtype=bool)
    hidden[:, 1] = data.x[:, 0].numpy() > 0
    made = baseline(hide(data, hidden))
    nothing = EncodedRows(torch.zeros(1, 8), torch.zeros(1, 8, dtype=torch.bool))
    assert abs(made(nothing).rank_mean[0, 1].item()) < 0.05  # the mean of the observed ones is -0.48
    one = EncodedRows(torch.full((1, 8), 1.0), torch.tensor([[True, True, *[False] * 6]]))
    assert made(one).rank_mean[0, 1].item() == pytest.approx(0.6, abs=0.05)


def test_without_inputs_nothing_is_predicted():
    for made in (
        baseline(rows(50), enabled=False),
        GaussianBaseline(
            [ColumnSlice("kind", 0, 0, MAX_INPUTS + 1, PartType.CATEGORICAL)], RANKS, [], [], enabled=True
        ),
    ):
        found = made(rows(4))
        assert not made
        assert found.logits is None
        assert not torch.cat([part.flatten() for part in found[:3]]).any()


@pytest.mark.parametrize("n", [8, 60, 2000])
def test_drawn_parameters_vary_as_the_estimates_of_new_tables_do(n):
    made, generator = baseline(rows(n)), np.random.default_rng(0)
    drawn = [made.draw_parameters(generator) for _ in range(200)]
    for one in drawn:
        one.validate_state()
    drawn_covariances = np.stack([one.covariance[:2, :2].numpy() for one in drawn])
    variances = drawn_covariances[:, [0, 1], [0, 1]]
    correlation = drawn_covariances[:, 0, 1] / np.sqrt(variances.prod(axis=1))
    spread = np.arctanh(correlation).std() * np.sqrt(n - 3)
    assert n < 60 or spread == pytest.approx(1.0, abs=0.15)  # that of Fisher's z
    means = np.array([one.mean[:3].numpy() for one in drawn])
    np.testing.assert_allclose(means.std(axis=0) * np.sqrt(n), made.covariance.diagonal()[:3].sqrt().numpy(), rtol=0.25)


def test_a_damaged_state_is_an_error():
    made = baseline(rows(50))
    made.validate_state()
    made.covariance[0, 0] = -1.0
    with pytest.raises(ValueError, match="positive definite"):
        made.validate_state()
    made.mean[0] = torch.nan
    with pytest.raises(ValueError, match="finite"):
        made.validate_state()


@pytest.mark.parametrize(("n", "fraction"), [(400, 0.5), (2000, 0.1)])
def test_drawn_logits_vary_as_those_of_a_logistic_regression_do(n, fraction):
    """The kind is independent of the numbers: log odds have the variance 1 / (n p (1 - p)), and so do their slopes."""
    data = rows(n)
    kind = torch.arange(n) % round(1 / fraction) == 0
    data.x[:, 6:] = torch.stack([kind, ~kind], dim=1).float()
    made, generator = baseline(data), np.random.default_rng(0)
    assert made(data).logits is None
    drawn = [made.draw_parameters(generator).drawn_logits for _ in range(400)]
    expected = np.sqrt(1 / (n * fraction * (1 - fraction)))
    intercept = np.array([(one.intercept[0] - one.intercept[1]).item() for one in drawn])
    assert intercept.std() == pytest.approx(expected, rel=0.15)
    slopes = np.stack([(one.slopes[:3, 0] - one.slopes[:3, 1]).numpy() for one in drawn])
    precision = np.linalg.inv(np.corrcoef(data.x[:, RANKS].numpy().T))
    np.testing.assert_allclose(slopes.std(axis=0), expected * np.sqrt(precision.diagonal()), rtol=0.2)
    assert not np.stack([one.slopes[3:].numpy() for one in drawn]).any()  # a label does not predict itself


def test_drawn_logits_follow_the_observed_inputs():
    made = baseline(rows(200)).draw_parameters(np.random.default_rng(0))
    data = rows(3)
    nothing = EncodedRows(data.x, torch.zeros_like(data.observed))
    np.testing.assert_allclose(made(nothing).logits, made.drawn_logits.intercept.expand(3, 2))
    assert made(data).logits.std(dim=0).min() > 0
