"""Guidance: from a penalty on the clean estimate to a gradient on the noisy row. Knows no columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon.diffusion.denoiser import DenoiserFn
from harpoon.diffusion.schedules import NoiseLevel, posterior_variance
from harpoon.encoding.batch import Penalty

TINY = 1e-30


@dataclass(frozen=True)
class Guidance:
    """A penalty on x̂_0, one number per row, and how hard to follow its gradient.

    `strength` is η as a function of how far the reverse process has come, 0 at its start and near 1 at its end.
    `longest` bounds the length of a pull in units of the noise left in the row, for penalties of any scale; 0: no
    bound, as in the paper.
    """

    penalty: Penalty
    scale: Callable[[float], float]
    max_norm: float = 0.0

    def step(self, gradient: Tensor, progress: float, now: NoiseLevel, after: NoiseLevel) -> Tensor:  # noqa: ARG002
        """How far a row is moved (Algorithm 1, line 9)."""
        return self.clip(self.scale(progress) * gradient, now)

    def clip(self, pull: Tensor, now: NoiseLevel) -> Tensor:
        """No longer than it may be."""
        if not self.max_norm:
            return pull
        length: Tensor = pull.norm(dim=1, keepdim=True)
        return pull * (self.max_norm * now.noise / length.clamp(min=TINY)).clamp(max=1.0)


@dataclass(frozen=True)
class TwistedGuidance(Guidance):
    """Guidance by what a row promises: the log of exp(-L / 2s²), the chance that its penalty will come to nothing.

    A step then moves by its own variance times the gradient of that, as the law of the rows that keep the promise does.
    """

    def step(self, gradient: Tensor, progress: float, now: NoiseLevel, after: NoiseLevel) -> Tensor:
        """How far a row is moved."""
        return self.clip(self.scale(progress) * posterior_variance(now, after) / (2 * now.noise**2) * gradient, now)


def constant(eta: float) -> Callable[[float], float]:
    """The same η at every step (the paper's default)."""
    return lambda _progress: eta


def linear(eta: float) -> Callable[[float], float]:
    """η growing from zero (the paper's schedule ablation)."""
    return lambda progress: eta * progress


def tangential_gradient(estimate: DenoiserFn, x_t: Tensor, t: float, penalty: Penalty) -> tuple[Tensor, Tensor]:
    """The dirty estimate x̂_0 and g = ∇_{x_t} L(x̂_0) (Algorithm 1, lines 5 and 6; Theorem 3.2)."""
    with torch.enable_grad():
        x_t = x_t.detach().requires_grad_()
        x0_hat = estimate(x_t, t)
        penalties = penalty(x0_hat)
        if not penalties.requires_grad:  # a penalty that does not look at the rows does not move them
            return x0_hat.detach(), torch.zeros_like(x_t)
        (gradient,) = torch.autograd.grad(penalties.sum(), x_t, allow_unused=True, materialize_grads=True)
    return x0_hat.detach(), gradient


GUIDANCE_SCHEDULES = {"constant": constant, "linear": linear}
