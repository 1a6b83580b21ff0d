"""Noise schedules of the forward process.

At time t the noisy row is x_t = a_t x_0 + s_t ε with ε ~ N(0, I), a_t = sqrt(ᾱ_t) and s_t = sqrt(1 - ᾱ_t) (eq. 1). A
schedule maps a time to its `NoiseLevel` (a_t, s_t).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class NoiseLevel:
    """The coefficients of x_0 (`signal`, a_t) and of ε (`noise`, s_t) in x_t.

    a_t² + s_t² = 1 for variance-preserving schedules.
    """

    signal: float
    noise: float

    @property
    def log_snr(self) -> float:
        """Half the log signal-to-noise ratio, log(a_t / s_t)."""
        return math.log(self.signal / self.noise)


def posterior_variance(now: NoiseLevel, after: NoiseLevel) -> float:
    """Return (1 - α_t)(1 - ᾱ_{t-1}) / (1 - ᾱ_t) (Algorithm 1, line 7; Ho et al., 2020, eq. 7); 0 at the last step."""
    alpha = (now.signal / after.signal) ** 2
    return (1 - alpha) * after.noise**2 / now.noise**2


class Schedule(Protocol):
    """A noise schedule, as the reverse process uses it."""

    def times(self, steps: int) -> list[float]:
        """Return the `steps` + 1 times that the reverse process visits, from the largest to 0."""

    def level(self, t: float) -> NoiseLevel:
        """Return the noise level at time t."""


@dataclass(frozen=True)
class LinearSchedule:
    """The schedule of the paper: T discrete steps, β_t linear in t, α_t = 1 - β_t (Ho et al., 2020).

    Time 0 is the clean row, time T the largest noise level.

    >>> schedule = LinearSchedule(steps=200, beta_start=1e-4, beta_end=0.02)
    >>> round(schedule.level(200).signal ** 2, 3)
    0.132
    """

    steps: int = 200
    beta_start: float = 1e-4
    beta_end: float = 0.02

    @cached_property
    def alpha_bars(self) -> Tensor:
        """ᾱ_0 = 1, ᾱ_1, ..., ᾱ_T in double precision, (T + 1,)."""
        betas = torch.linspace(self.beta_start, self.beta_end, self.steps, dtype=torch.float64)
        return torch.cat([torch.ones(1, dtype=torch.float64), torch.cumprod(1 - betas, dim=0)])

    def times(self, steps: int) -> list[float]:
        """Return T, T - 1, ..., 0, or fewer times that are evenly spaced."""
        steps = min(steps, self.steps)
        return [float(round(self.steps * i / steps)) for i in range(steps, -1, -1)]

    def level(self, t: float) -> NoiseLevel:
        """Return the noise level at time t."""
        alpha_bar = float(self.alpha_bars[int(t)])
        return NoiseLevel(math.sqrt(alpha_bar), math.sqrt(1 - alpha_bar))

    def levels(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return a_t and s_t for times of shape (n,), each (n, 1)."""
        alpha_bars = self.alpha_bars.to(t.device)[t].unsqueeze(1)
        return alpha_bars.sqrt().float(), (1 - alpha_bars).sqrt().float()


@dataclass(frozen=True)
class CosineSchedule:
    """Continuous time from 0, the clean row, to 1, pure noise: a_t = cos(πt/2), s_t = sin(πt/2).

    Training uses times from `margin` to 1 - `margin`. The last step of the reverse process ends at 0.
    """

    margin: float = 1e-3

    @property
    def max_time(self) -> float:
        """The largest time, at which x_t is practically pure noise."""
        return 1 - self.margin

    def times(self, steps: int) -> list[float]:
        """Return evenly spaced times from `max_time` to 0."""
        return [self.max_time * i / steps for i in range(steps, -1, -1)]

    def level(self, t: float) -> NoiseLevel:
        """Return the noise level at time t."""
        return NoiseLevel(math.cos(math.pi * t / 2), math.sin(math.pi * t / 2))

    def levels(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return a_t and s_t for times of shape (n,), each (n, 1)."""
        angle = (math.pi / 2) * t.unsqueeze(1)
        return angle.cos(), angle.sin()
