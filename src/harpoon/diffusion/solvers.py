"""Solvers: one step of the reverse process, from x_t to x_s with s < t.

To add a solver, write a function of `StepInputs` and register it in `SOLVERS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from harpoon.diffusion.denoiser import DenoiserFn
from harpoon.diffusion.schedules import NoiseLevel, posterior_variance


class StepInputs(NamedTuple):
    """The inputs of one step."""

    x_t: Tensor  # the noisy rows, (n, d)
    x0_hat: Tensor  # the estimate of the clean rows at t, (n, d)
    now: NoiseLevel  # of x_t
    after: NoiseLevel  # of the result
    noise: Tensor  # standard normal, (n, d)
    previous: tuple[Tensor, NoiseLevel] | None  # x0_hat of the previous step and its noise level; None at the first
    denoise: DenoiserFn  # for solvers that evaluate it again within a step
    times: tuple[float, float]  # of x_t and of the result


@dataclass(frozen=True)
class Solver:
    """A step function from `StepInputs` to the rows at the next noise level, (n, d)."""

    step: Callable[[StepInputs], Tensor]
    stochastic: bool  # whether it uses the noise of its inputs


def ddpm(inputs: StepInputs) -> Tensor:
    """Ancestral step (Ho et al., 2020): noise scaled by the posterior standard deviation."""
    return posterior_mean(inputs) + math.sqrt(posterior_variance(inputs.now, inputs.after)) * inputs.noise


def ddpm_printed(inputs: StepInputs) -> Tensor:
    """Ancestral step with noise scaled by the posterior variance, as printed in Algorithm 1, line 7."""
    return posterior_mean(inputs) + posterior_variance(inputs.now, inputs.after) * inputs.noise


def ddim(inputs: StepInputs) -> Tensor:
    """Deterministic step: x̂_0 noised to the next level by the estimated noise (Song et al., 2021, eq. 12, σ = 0)."""
    x0_hat, now, after = inputs.x0_hat, inputs.now, inputs.after
    return after.signal * x0_hat + after.noise / now.noise * (inputs.x_t - now.signal * x0_hat)


def dpmpp_2m(inputs: StepInputs) -> Tensor:
    """Deterministic step of second order, DPM-Solver++(2M) (Lu et al., 2022, Algorithm 2).

    x̂_0 is extrapolated to the middle of the step, linearly in log(a_t / s_t). The first step has no previous estimate,
    and the last step ends at an infinite ratio; both are DDIM steps.
    """
    x0_hat, now, after = inputs.x0_hat, inputs.now, inputs.after
    if inputs.previous is not None and after.noise:
        previous_x0_hat, before = inputs.previous
        h_previous, h = now.log_snr - before.log_snr, after.log_snr - now.log_snr
        x0_hat = x0_hat + h / (2 * h_previous) * (x0_hat - previous_x0_hat)
    return ddim(inputs._replace(x0_hat=x0_hat))


def posterior_mean(inputs: StepInputs) -> Tensor:
    """Return the mean of x_{t-1}: (x_t - (1 - α_t) / sqrt(1 - ᾱ_t) ε_θ) / sqrt(α_t) (Algorithm 1, line 8).

    It is written as a combination of x̂_0 and x_t (Ho et al., 2020, eq. 7), which does not divide by a small α_t.
    """
    now, after = inputs.now, inputs.after
    alpha = (now.signal / after.signal) ** 2
    return (
        after.signal * (1 - alpha) / now.noise**2 * inputs.x0_hat
        + math.sqrt(alpha) * after.noise**2 / now.noise**2 * inputs.x_t
    )


SOLVERS: dict[str, Solver] = {
    "ddpm": Solver(ddpm, stochastic=True),
    "ddpm_printed": Solver(ddpm_printed, stochastic=True),
    "ddim": Solver(ddim, stochastic=False),
    "dpmpp_2m": Solver(dpmpp_2m, stochastic=False),
}
