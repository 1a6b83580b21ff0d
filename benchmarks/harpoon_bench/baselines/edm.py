"""EDM, the diffusion model of DiffPuter (Karras et al., 2022): noise is added to the signal at full strength."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon.diffusion.denoiser import Denoiser, DenoiserFn
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.solvers import Solver, StepInputs
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.paper_denoiser import PaperNetwork

MAX_CHURN = math.sqrt(2) - 1


@dataclass(frozen=True)
class KarrasSchedule:
    """x_σ = x_0 + σ ε. The time is σ itself, from `max_noise` to `min_noise` and then 0.

    `churn` is the factor by which the noise is increased before each step.

    >>> [round(sigma, 3) for sigma in KarrasSchedule(churn=0.0).times(4)]
    [80.0, 9.723, 0.47, 0.002, 0.0]
    """

    min_noise: float = 0.002
    max_noise: float = 80.0
    rho: float = 7.0
    churn: float = 1 / 50

    def times(self, steps: int) -> list[float]:
        """Return σ at the beginning of each step, and 0."""
        start, end = self.max_noise ** (1 / self.rho), self.min_noise ** (1 / self.rho)
        fractions = [step / max(steps - 1, 1) for step in range(steps)]
        sigmas = [(start + fraction * (end - start)) ** self.rho for fraction in fractions]
        return [*(sigma * (1 + self.churn) for sigma in sigmas), 0.0]

    def level(self, t: float) -> NoiseLevel:
        """Return signal 1 and noise t."""
        return NoiseLevel(1.0, t)


class EdmDenoiser(Denoiser):
    """D(x, σ) = c_skip x + c_out F(c_in x, ln σ / 4), with a network F of unit-variance input and output."""

    is_conditional = False
    schedule: KarrasSchedule

    def __init__(
        self,
        width: int,
        hidden: int,
        schedule: KarrasSchedule,
        *,
        data_std: float,
        log_noise_mean: float,
        log_noise_std: float,
    ) -> None:
        super().__init__(width, schedule)
        self.network = PaperNetwork(width, hidden)
        self.data_std, self.log_noise_mean, self.log_noise_std = data_std, log_noise_mean, log_noise_std

    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:  # noqa: ARG002
        """Return the denoiser; it is not conditioned on observed cells."""
        return self.estimate

    def estimate(self, x_t: Tensor, t: float) -> Tensor:
        """Return x̂_0 of rows at one noise level."""
        return self.denoise(x_t, torch.full((len(x_t), 1), t, dtype=x_t.dtype))

    def denoise(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Return x̂_0 of rows, (n, d), each at its own noise level, (n, 1)."""
        skip, out, inner = preconditioning(sigma, self.data_std)
        output: Tensor = self.network(inner * x, sigma.squeeze(1).log() / 4)
        return skip * x + out * output

    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Return the squared error of x̂_0, weighted by 1 / c_out²."""
        sigma = (
            torch.randn((len(data.x), 1), generator=generator).mul(self.log_noise_std).add(self.log_noise_mean).exp()
        )
        epsilon = torch.randn(data.x.shape, generator=generator)
        error = (self.denoise(data.x + sigma * epsilon, sigma) - data.x) / preconditioning(sigma, self.data_std)[1]
        return (error**2).mean()


def preconditioning(sigma: Tensor, data_std: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return c_skip, c_out and c_in at noise σ, for rows of this standard deviation."""
    variance = sigma**2 + data_std**2
    return data_std**2 / variance, sigma * data_std / variance.sqrt(), 1 / variance.sqrt()


def ancestral(inputs: StepInputs) -> Tensor:
    """Take one step of the reverse SDE."""
    fraction = (inputs.after.noise / inputs.now.noise) ** 2
    mean = inputs.x0_hat + fraction * (inputs.x_t - inputs.x0_hat)
    return mean + inputs.after.noise * math.sqrt(1 - fraction) * inputs.noise


def heun(churn: float) -> Solver:
    """Return Heun's solver: a step along the mean of the slopes at both ends, then the churn of the next step."""

    def step(inputs: StepInputs) -> Tensor:
        x_t, now, after = inputs.x_t, inputs.now, inputs.after
        target = after.noise / (1 + churn)
        slope = (x_t - inputs.x0_hat) / now.noise
        if target:
            end = x_t + (target - now.noise) * slope
            slope = (slope + (end - inputs.denoise(end, target)) / target) / 2
        return x_t + (target - now.noise) * slope + math.sqrt(after.noise**2 - target**2) * inputs.noise

    return Solver(step, stochastic=True)
