"""Gradient guidance: a penalty without a gradient is no guidance, and updates are clipped."""

import numpy as np
import pytest
import torch

from harpoon._utils.rng import row_noise
from harpoon.diffusion.denoiser import initialize_linear
from harpoon.diffusion.guidance import Guidance, TwistedGuidance, constant
from harpoon.diffusion.reverse_process import reverse_process, standard_noise
from harpoon.diffusion.schedules import LinearSchedule, NoiseLevel, posterior_variance
from harpoon.diffusion.solvers import SOLVERS
from harpoon.networks.paper_denoiser import PaperDenoiser

ZERO_PENALTIES = {
    "a constant": lambda x0_hat: torch.zeros(len(x0_hat)),
    "zero times the rows": lambda x0_hat: (0 * x0_hat).sum(dim=1),
    "a bound that every row satisfies": lambda x0_hat: torch.relu(-1e9 - x0_hat).square().sum(dim=1),
}
NOW, AFTER = NoiseLevel(0.8, 0.6), NoiseLevel(0.96, 0.28)


@pytest.mark.parametrize("penalty", ZERO_PENALTIES.values(), ids=ZERO_PENALTIES.keys())
def test_a_zero_penalty_equals_no_guidance(penalty):
    denoiser = PaperDenoiser(3, 16, LinearSchedule(steps=10))
    initialize_linear(denoiser, torch.Generator().manual_seed(0))
    noise, times = row_noise(1, np.arange(8), 11, 3), denoiser.schedule.times(10)
    free, guided = (
        reverse_process(
            denoiser,
            noise,
            times=times,
            initial_noise=standard_noise,
            solver=SOLVERS["ddpm"],
            guidance=guidance,
        )
        for guidance in (None, Guidance(penalty, constant(5.0)))
    )
    assert torch.equal(free, guided)


def test_an_update_is_no_longer_than_its_limit_in_units_of_the_noise():
    gradient = torch.tensor([[3.0, 4.0], [0.03, 0.04], [0.0, 0.0]])
    unlimited, limited = (Guidance(lambda x: x.sum(dim=1), constant(2.0), max_norm) for max_norm in (0.0, 0.5))
    assert torch.equal(unlimited.step(gradient, 0.0, NOW, AFTER), 2 * gradient)
    norms = limited.step(gradient, 0.0, NOW, AFTER).norm(dim=1)
    assert norms.tolist() == pytest.approx([0.5 * NOW.noise, 0.1, 0.0])


def test_twisted_guidance_moves_by_the_variance_of_the_step_times_the_gradient_of_the_log_potential():
    gradient = torch.tensor([[3.0, 4.0]])
    update = TwistedGuidance(lambda x: x.sum(dim=1), constant(1.0)).step(gradient, 0.0, NOW, AFTER)
    expected = posterior_variance(NOW, AFTER) * gradient / (2 * NOW.noise**2)
    assert torch.allclose(update, expected)
