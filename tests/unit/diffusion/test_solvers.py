"""Solvers on Gaussian rows, whose denoiser has a closed form: order of convergence, and a new solver in a few lines."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from harpoon._utils.rng import row_noise
from harpoon.diffusion.denoiser import Denoiser
from harpoon.diffusion.reverse_process import reverse_process, standard_noise
from harpoon.diffusion.schedules import CosineSchedule, NoiseLevel
from harpoon.diffusion.solvers import SOLVERS, Solver, StepInputs, ddim, dpmpp_2m

MEAN = torch.tensor([1.0, -0.5, 0.0], dtype=torch.float64)
COVARIANCE = torch.tensor([[1.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 0.25]], dtype=torch.float64)
STEPS = (8, 16, 32, 64)
MANY = 4096


def heun(inputs: StepInputs) -> torch.Tensor:
    """Heun's method, second order: the mean of the estimates at both ends of the step (Karras et al., 2022).

    The step is a DDIM step, the Euler method in log(a_t / s_t), with the mean as its estimate.
    """
    x_next = ddim(inputs)
    if not inputs.after.noise:  # the last step ends at an infinite ratio
        return x_next
    x0_hat_next = inputs.denoise(x_next, inputs.times[1])
    return ddim(inputs._replace(x0_hat=(inputs.x0_hat + x0_hat_next) / 2))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(SOLVERS, "heun", Solver(heun, stochastic=False))


class GaussianDenoiser(Denoiser):
    """E[x_0 | x_t] of Gaussian rows in closed form."""

    is_conditional = False

    def __init__(self) -> None:
        super().__init__(3, CosineSchedule())

    def condition_on(self, observed=None):
        def estimate(x_t, t):
            level = self.schedule.level(t)
            covariance = level.signal**2 * COVARIANCE + level.noise**2 * torch.eye(3, dtype=torch.float64)
            return MEAN + level.signal * torch.linalg.solve(covariance, (x_t - level.signal * MEAN).T).T @ COVARIANCE

        return estimate

    def loss(self, data, generator):
        raise AssertionError("a perfect denoiser is not trained")


def sample(n_steps: int, solver: str, n_rows: int = 500) -> torch.Tensor:
    denoiser, noise = GaussianDenoiser(), row_noise(0, np.arange(n_rows), 1, 3).double()
    times = denoiser.schedule.times(n_steps)
    return reverse_process(denoiser, noise, times=times, initial_noise=standard_noise, solver=SOLVERS[solver])


@pytest.fixture(scope="module")
def errors():
    """The distance of rows of each solver and number of steps from those of very many steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SOLVERS, "heun", Solver(heun, stochastic=False))
        truth = sample(MANY, "dpmpp_2m")
        return {
            solver: [(sample(n, solver) - truth).square().mean().sqrt().item() for n in STEPS]
            for solver in ("ddim", "dpmpp_2m", "heun")
        }


def test_all_deterministic_solvers_converge_to_the_same_rows(errors):
    for found in errors.values():
        assert all(later < earlier for earlier, later in pairwise(found))
    assert (sample(MANY, "ddim") - sample(MANY, "dpmpp_2m")).abs().max() < 0.01
    assert (sample(MANY, "heun") - sample(MANY, "dpmpp_2m")).abs().max() < 1e-3


@pytest.mark.parametrize("solver", ["dpmpp_2m", "heun"])
def test_rows_of_many_steps_follow_the_distribution(solver):
    rows = sample(200, solver, n_rows=10_000)
    assert torch.allclose(rows.mean(dim=0), MEAN, atol=0.03)
    assert torch.allclose(torch.cov(rows.T), COVARIANCE, atol=0.04)


@pytest.mark.parametrize("solver", ["dpmpp_2m", "heun"])
def test_second_order_solvers_are_far_better_at_16_steps(errors, solver):
    assert errors[solver][STEPS.index(16)] < errors["ddim"][STEPS.index(16)] / 5


def test_halving_the_step_halves_the_error_of_first_order_and_quarters_that_of_second_order(errors):
    ratios = {solver: np.divide(found[:-1], found[1:])[-1] for solver, found in errors.items()}
    assert ratios["ddim"] == pytest.approx(2, abs=0.3)
    assert ratios["dpmpp_2m"] > 3
    assert ratios["heun"] > 3


def test_ancestral_sampling_follows_the_distribution():
    denoiser, times = GaussianDenoiser(), CosineSchedule().times(200)
    noise = row_noise(0, np.arange(10_000), 201, 3).double()
    rows = reverse_process(denoiser, noise, times=times, initial_noise=standard_noise, solver=SOLVERS["ddpm"])
    assert torch.allclose(rows.mean(dim=0), MEAN, atol=0.04)
    assert torch.allclose(torch.cov(rows.T), COVARIANCE, atol=0.06)


def inputs(x0_hat, previous, now, after):
    x_t = torch.full_like(x0_hat, 0.3)
    return StepInputs(x_t, x0_hat, now, after, torch.zeros_like(x_t), previous, lambda x, _t: x, (0.5, 0.4))


def test_extrapolation_is_exact_for_estimates_that_are_linear_in_the_log_ratio():
    before, now, after = (NoiseLevel(math.cos(t), math.sin(t)) for t in (1.2, 0.9, 0.5))
    line = lambda log_snr: torch.tensor([[2.0 + 3 * log_snr]], dtype=torch.float64)  # noqa: E731
    step = dpmpp_2m(inputs(line(now.log_snr), (line(before.log_snr), before), now, after))
    middle = ddim(inputs(line((now.log_snr + after.log_snr) / 2), None, now, after))
    assert step.item() == pytest.approx(middle.item())


def test_the_first_and_the_last_step_of_dpmpp_2m_are_ddim_steps():
    before, now, after, last = NoiseLevel(0.6, 0.8), NoiseLevel(0.8, 0.6), NoiseLevel(0.96, 0.28), NoiseLevel(1.0, 0.0)
    x0_hat, previous = torch.ones(1, 2), (torch.zeros(1, 2), before)
    for step in (inputs(x0_hat, None, now, after), inputs(x0_hat, previous, now, last)):
        assert torch.equal(dpmpp_2m(step), ddim(step))
    assert not torch.equal(dpmpp_2m(inputs(x0_hat, previous, now, after)), ddim(inputs(x0_hat, previous, now, after)))
