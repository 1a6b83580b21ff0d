"""Solvers: one step of the reverse process, from x_t to x_s with s < t."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from harpoon.diffusion.denoiser import DenoiserFn
from harpoon.diffusion.schedules import NoiseLevel, posterior_variance


class StepInputs(NamedTuple):
    """What a solver may use for one step.

    Attributes:
        x_t: The noisy rows, (n, d).
        x0_hat: The estimate of the clean rows at t, (n, d).
        now: The noise level of x_t.
        after: The noise level of the result.
        noise: Standard normal numbers, (n, d).
        previous: The estimate of the step before and its noise level; None at the first step. For multistep solvers.
        denoise: The denoiser, for solvers that evaluate it once more within a step.
    """

    x_t: Tensor
    x0_hat: Tensor
    now: NoiseLevel
    after: NoiseLevel
    noise: Tensor
    previous: tuple[Tensor, NoiseLevel] | None
    denoise: DenoiserFn


@dataclass(frozen=True)
class Solver:
    """A step function, and whether it uses the noise that it is given."""

    step: Callable[[StepInputs], Tensor]
    stochastic: bool


def ddpm(inputs: StepInputs) -> Tensor:
    """Ancestral step (Ho et al., 2020): noise scaled by the posterior standard deviation."""
    return posterior_mean(inputs) + math.sqrt(posterior_variance(inputs.now, inputs.after)) * inputs.noise


def ddpm_printed(inputs: StepInputs) -> Tensor:
    """Ancestral step with noise scaled by the posterior variance, as printed in Algorithm 1, line 7."""
    return posterior_mean(inputs) + posterior_variance(inputs.now, inputs.after) * inputs.noise


def ddim(inputs: StepInputs) -> Tensor:
    """Deterministic step (Song et al., 2021): x̂_0 noised to the next level with the predicted noise."""
    return _ddim(inputs, inputs.x0_hat)


def dpmpp_2m(inputs: StepInputs) -> Tensor:
    """Deterministic step of second order, DPM-Solver++ 2M (Lu et al., 2022).

    x̂_0 is extrapolated to the middle of the step, linearly in the log of the signal-to-noise ratio. The first step has
    nothing to extrapolate from; the last ends at an infinite ratio and has no middle.
    """
    x0_hat, now, after = inputs.x0_hat, inputs.now, inputs.after
    if inputs.previous is not None and after.noise:
        previous, then = inputs.previous
        went, goes = now.log_snr - then.log_snr, after.log_snr - now.log_snr
        x0_hat = x0_hat + goes / (2 * went) * (x0_hat - previous)
    return _ddim(inputs, x0_hat)


def posterior_mean(inputs: StepInputs) -> Tensor:
    """Mean of the next row (Algorithm 1, line 8): (x_t - (1 - α_t) / sqrt(1 - ᾱ_t) ε_θ) / sqrt(α_t).

    Written as a weighted mean of x̂_0 and x_t, which is the same and does not divide by an α_t near 0.
    """
    now, after = inputs.now, inputs.after
    alpha = (now.signal / after.signal) ** 2
    return (
        after.signal * (1 - alpha) / now.noise**2 * inputs.x0_hat
        + math.sqrt(alpha) * after.noise**2 / now.noise**2 * inputs.x_t
    )


def _ddim(inputs: StepInputs, x0_hat: Tensor) -> Tensor:
    now, after = inputs.now, inputs.after
    return after.signal * x0_hat + after.noise / now.noise * (inputs.x_t - now.signal * x0_hat)


SOLVERS: dict[str, Solver] = {
    "ddpm": Solver(ddpm, stochastic=True),
    "ddpm_printed": Solver(ddpm_printed, stochastic=True),
    "ddim": Solver(ddim, stochastic=False),
    "dpmpp_2m": Solver(dpmpp_2m, stochastic=False),
}
