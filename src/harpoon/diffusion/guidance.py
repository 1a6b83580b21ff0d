"""Gradient guidance: from a penalty on x̂_0 to an update of x_t (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon.diffusion.denoiser import DenoiserFn
from harpoon.diffusion.schedules import NoiseLevel, posterior_variance
from harpoon.encoding.encoded_rows import Penalty

MIN_NORM = 1e-30
GuidanceSchedule = Callable[[float], float]


@dataclass(frozen=True)
class Guidance:
    """A penalty on x̂_0 and the scale of its gradient."""

    penalty: Penalty  # encoded rows, (n, d), to a penalty per row, (n,)
    scale: GuidanceSchedule  # η by progress, from 0 at the first step of the reverse process to almost 1 at its last
    max_norm: float = 0.0  # largest norm of an update, in units of the remaining noise; 0: no limit, as in the paper

    def step(self, gradient: Tensor, progress: float, now: NoiseLevel, after: NoiseLevel) -> Tensor:
        """Return the update η g, (n, d), which is subtracted from x_{t-1} (Algorithm 1, line 9)."""
        update = self.step_size(progress, now, after) * gradient
        if not self.max_norm:
            return update
        norm: Tensor = update.norm(dim=1, keepdim=True)
        return update * (self.max_norm * now.noise / norm.clamp(min=MIN_NORM)).clamp(max=1.0)

    def step_size(self, progress: float, now: NoiseLevel, after: NoiseLevel) -> float:  # noqa: ARG002
        """Return η."""
        return self.scale(progress)


@dataclass(frozen=True)
class TwistedGuidance(Guidance):
    """Guidance by the twisting potential exp(-L(x̂_0) / 2s_t²), for twisted SMC (Wu et al., 2023).

    The update is the posterior variance of the step times the gradient of the log potential. It shifts the mean of the
    step towards rows that satisfy the condition; `SMCResampler` corrects the remaining bias.
    """

    def step_size(self, progress: float, now: NoiseLevel, after: NoiseLevel) -> float:
        """Return η times the posterior variance over 2s_t²."""
        return self.scale(progress) * posterior_variance(now, after) / (2 * now.noise**2)


def constant(eta: float) -> GuidanceSchedule:
    """Return the same η for each step, the default of the paper."""
    return lambda _progress: eta


def linear(eta: float) -> GuidanceSchedule:
    """Return η that grows from 0 (ablation of guidance schedules, section 4.5)."""
    return lambda progress: eta * progress


def tangential_gradient(estimate: DenoiserFn, x_t: Tensor, t: float, penalty: Penalty) -> tuple[Tensor, Tensor]:
    """Return x̂_0 and g = ∇_{x_t} L(x̂_0), each (n, d) (Algorithm 1, lines 5 and 6; Theorem 3.2)."""
    with torch.enable_grad():
        x_t = x_t.detach().requires_grad_()
        x0_hat = estimate(x_t, t)
        penalties = penalty(x0_hat)
        if not penalties.requires_grad:  # a penalty that does not depend on the rows
            return x0_hat.detach(), torch.zeros_like(x_t)
        (gradient,) = torch.autograd.grad(penalties.sum(), x_t, allow_unused=True, materialize_grads=True)
    return x0_hat.detach(), gradient


GUIDANCE_SCHEDULES: dict[str, Callable[[float], GuidanceSchedule]] = {"constant": constant, "linear": linear}
