"""The diffusion that DiffPuter stands on: noise is added, never traded for signal (EDM, Karras et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon.diffusion.denoiser import Denoiser, DenoiserFn
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.solvers import Step
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.paper import PaperNetwork

MOST_CHURN = math.sqrt(2) - 1


@dataclass(frozen=True)
class KarrasSchedule:
    """x_σ = x_0 + σ ε: the time is the noise σ itself, from `highest` down to `lowest` and then to 0.

    `churn` is by how much of itself the noise is raised before each step.

    >>> [round(sigma, 3) for sigma in KarrasSchedule(churn=0.0).times(4)]
    [80.0, 9.723, 0.47, 0.002, 0.0]
    """

    lowest: float = 0.002
    highest: float = 80.0
    rho: float = 7.0
    churn: float = 1 / 50

    def times(self, steps: int) -> list[float]:
        """The noise at the beginning of each step, and 0."""
        ends = self.highest ** (1 / self.rho), self.lowest ** (1 / self.rho)
        shares = [step / max(steps - 1, 1) for step in range(steps)]
        ladder = [(ends[0] + share * (ends[1] - ends[0])) ** self.rho for share in shares]
        return [*(sigma * (1 + self.churn) for sigma in ladder), 0.0]

    def level(self, t: float) -> NoiseLevel:
        """All of the signal, and noise t."""
        return NoiseLevel(1.0, t)


class EdmDenoiser(Denoiser):
    """D(x, σ) = c_skip x + c_out F(c_in x, ln σ / 4): what goes into the network F and comes out has unit variance."""

    sees_known = False
    schedule: KarrasSchedule

    def __init__(
        self,
        width: int,
        hidden: int,
        schedule: KarrasSchedule,
        *,
        deviation: float,
        log_mean: float,
        log_deviation: float,
    ) -> None:
        super().__init__(width, schedule)
        self.network = PaperNetwork(width, hidden)
        self.deviation, self.log_mean, self.log_deviation = deviation, log_mean, log_deviation

    def knowing(self, given: EncodedRows | None = None) -> DenoiserFn:  # noqa: ARG002
        """The estimate of clean rows, whatever is known."""
        return self.estimate

    def estimate(self, x_t: Tensor, t: float) -> Tensor:
        """The expected clean rows, all at one noise."""
        return self.denoised(x_t, torch.full((len(x_t), 1), t, dtype=x_t.dtype))

    def denoised(self, x: Tensor, sigma: Tensor) -> Tensor:
        """The expected clean rows, each at its own noise (n, 1)."""
        skip, out, inner = preconditioning(sigma, self.deviation)
        answer: Tensor = self.network(inner * x, sigma.squeeze(1).log() / 4)
        return skip * x + out * answer

    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """The squared error of the clean rows, weighed so that every noise counts the same."""
        sigma = torch.randn((len(data.x), 1), generator=generator).mul(self.log_deviation).add(self.log_mean).exp()
        epsilon = torch.randn(data.x.shape, generator=generator)
        error = (self.denoised(data.x + sigma * epsilon, sigma) - data.x) / preconditioning(sigma, self.deviation)[1]
        return (error**2).mean()


def preconditioning(sigma: Tensor, deviation: float) -> tuple[Tensor, Tensor, Tensor]:
    """c_skip, c_out and c_in at noise σ, for rows of that deviation."""
    total = sigma**2 + deviation**2
    return deviation**2 / total, sigma * deviation / total.sqrt(), 1 / total.sqrt()


def ancestral(x_t: Tensor, x0_hat: Tensor, now: NoiseLevel, after: NoiseLevel, z: Tensor) -> Tensor:
    """One step of the reverse SDE: less of the noise that there was, and new noise to what the next time asks for."""
    share = (after.noise / now.noise) ** 2
    return x0_hat + share * (x_t - x0_hat) + after.noise * math.sqrt(1 - share) * z


def heun(estimate: Callable[[Tensor, float], Tensor], churn: float) -> Step:
    """A step along the mean of the slopes at both of its ends, and then the noise that the next step begins with."""

    def stepped(x_t: Tensor, x0_hat: Tensor, now: NoiseLevel, after: NoiseLevel, z: Tensor) -> Tensor:
        target = after.noise / (1 + churn)
        slope = (x_t - x0_hat) / now.noise
        if target:
            there = x_t + (target - now.noise) * slope
            slope = (slope + (there - estimate(there, target)) / target) / 2
        return x_t + (target - now.noise) * slope + math.sqrt(after.noise**2 - target**2) * z

    return stepped
