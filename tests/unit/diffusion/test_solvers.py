"""Steps that look ahead are of second order: on Gaussian rows, whose denoiser is known, far fewer of them do."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from harpoon._utils.rng import row_noise
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.samplers import reverse_process, standard_start
from harpoon.diffusion.schedules import CosineSchedule, NoiseLevel
from harpoon.diffusion.solvers import ddim_step, looked_ahead

MEAN = torch.tensor([1.0, -0.5, 0.0], dtype=torch.float64)
COVARIANCE = torch.tensor([[1.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 0.25]], dtype=torch.float64)
STEPS = (8, 16, 32, 64)
MANY = 4096


class GaussianDenoiser(Denoiser):
    """E[x_0 | x_t] of Gaussian rows in closed form."""

    def __init__(self) -> None:
        super().__init__(3, CosineSchedule())

    def knowing(self, given=None):
        def estimate(x_t, t):
            level = self.schedule.level(t)
            noisy = level.signal**2 * COVARIANCE + level.noise**2 * torch.eye(3, dtype=torch.float64)
            return MEAN + level.signal * torch.linalg.solve(noisy, (x_t - level.signal * MEAN).T).T @ COVARIANCE

        return estimate

    def loss(self, data, generator):
        raise AssertionError("a perfect denoiser is not trained")


def rows(steps, order, count=500):
    denoiser, noise = GaussianDenoiser(), row_noise(0, np.arange(count), 1, 3).double()
    times = denoiser.schedule.times(steps)
    return reverse_process(denoiser, noise, times=times, initial_noise=standard_start, step=ddim_step, order=order)


@pytest.fixture(scope="module")
def errors():
    """How far rows of each order and number of steps are from those of very many steps."""
    truth = rows(MANY, 2)
    return {order: [(rows(n, order) - truth).square().mean().sqrt().item() for n in STEPS] for order in (1, 2)}


def test_both_orders_converge_to_the_same_rows(errors):
    for found in errors.values():
        assert all(later < earlier for earlier, later in pairwise(found))
    assert (rows(MANY, 1) - rows(MANY, 2)).abs().max() < 0.01


def test_the_rows_of_many_steps_follow_the_law():
    drawn = rows(200, 2, count=10_000)
    assert torch.allclose(drawn.mean(dim=0), MEAN, atol=0.03)
    assert torch.allclose(torch.cov(drawn.T), COVARIANCE, atol=0.04)


def test_looking_ahead_is_far_better_at_the_default_number_of_steps(errors):
    place = STEPS.index(16)
    assert errors[2][place] < errors[1][place] / 5


def test_halving_the_step_halves_the_error_of_the_first_order_and_quarters_that_of_the_second(errors):
    first, second = (np.divide(errors[order][:-1], errors[order][1:]) for order in (1, 2))
    assert first[-1] == pytest.approx(2, abs=0.3)
    assert second[-1] > 3


def test_on_a_line_looking_ahead_is_exact():
    """Where the estimate moves evenly with the log of signal to noise, half-way is half-way."""
    then, now, after = (NoiseLevel(np.cos(t), np.sin(t)) for t in (1.2, 0.9, 0.5))
    line = lambda level: torch.tensor([[2.0 + 3 * level.log_ratio]])  # noqa: E731
    half_way = 2.0 + 3 * (now.log_snr + after.log_snr) / 2
    assert looked_ahead(line(now), line(then), then, now, after).item() == pytest.approx(half_way)


def test_the_last_step_has_nowhere_to_look():
    now, then, last = NoiseLevel(0.8, 0.6), NoiseLevel(0.6, 0.8), NoiseLevel(1.0, 0.0)
    x0_hat, before = torch.ones(1, 2), torch.zeros(1, 2)
    assert torch.equal(looked_ahead(x0_hat, before, then, now, last), x0_hat)
