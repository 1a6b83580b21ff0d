"""Noise schedules: what the forward process is, apart from how it is reversed.

At time t a clean row x_0 has become x_t = a_t x_0 + s_t ε (eq. 1), with a_t = sqrt(ᾱ_t), s_t = sqrt(1 - ᾱ_t).
A `Level` is that pair; a schedule maps times to levels.
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
    """How much of the signal (a_t) and of the noise (s_t) is in x_t; a_t² + s_t² = 1 where variance is preserved."""

    signal: float
    noise: float

    @property
    def log_snr(self) -> float:
        """The log of signal to noise, log(a_t / s_t)."""
        return math.log(self.signal / self.noise)


def posterior_variance(now: NoiseLevel, after: NoiseLevel) -> float:
    """σ_t = (1 - α_t)(1 - ᾱ_{t-1}) / (1 - ᾱ_t) (Algorithm 1, line 7); zero on the last step."""
    alpha = (now.signal / after.signal) ** 2
    return (1 - alpha) * after.noise**2 / now.noise**2


class Schedule(Protocol):
    """What a reverse process asks of the forward one."""

    def times(self, steps: int) -> list[float]:
        """The times to visit, from the noisiest to the clean row's."""

    def level(self, t: float) -> NoiseLevel:
        """Signal and noise at time t."""


@dataclass(frozen=True)
class LinearSchedule:
    """The paper's schedule: T discrete steps, β_t linear from `beta_start` to `beta_end`, α_t = 1 - β_t.

    Time 0 is the clean row, time T the noisiest.

    >>> schedule = LinearSchedule(steps=200, beta_start=1e-4, beta_end=0.02)
    >>> round(schedule.level(200).a ** 2, 3)
    0.132
    """

    steps: int = 200
    beta_start: float = 1e-4
    beta_end: float = 0.02

    @cached_property
    def alpha_bars(self) -> Tensor:
        """ᾱ_0 = 1, ᾱ_1, ..., ᾱ_T: the products of α_s up to t, in double precision."""
        betas = torch.linspace(self.beta_start, self.beta_end, self.steps, dtype=torch.float64)
        return torch.cat([torch.ones(1, dtype=torch.float64), torch.cumprod(1 - betas, dim=0)])

    def times(self, steps: int) -> list[float]:
        """The times that the reverse process visits: T, T - 1, ..., 0, or fewer of them, evenly spaced."""
        steps = min(steps, self.steps)
        return [float(round(self.steps * i / steps)) for i in range(steps, -1, -1)]

    def level(self, t: float) -> NoiseLevel:
        """Signal and noise at time t."""
        alpha_bar = float(self.alpha_bars[int(t)])
        return NoiseLevel(math.sqrt(alpha_bar), math.sqrt(1 - alpha_bar))

    def levels(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Signal and noise at many times, as columns that multiply rows."""
        alpha_bars = self.alpha_bars.to(t.device)[t].unsqueeze(1)
        return alpha_bars.sqrt().float(), (1 - alpha_bars).sqrt().float()


@dataclass(frozen=True)
class CosineSchedule:
    """Continuous time from 0, the clean row, to 1, nothing but noise: a_t = cos(πt/2), s_t = sin(πt/2).

    Rows are noised at times kept off both ends by `margin`; the last step of the reverse process lands on 0.
    """

    margin: float = 1e-3

    @property
    def max_time(self) -> float:
        """The time at which a row is forgotten."""
        return 1 - self.margin

    def times(self, steps: int) -> list[float]:
        """The times that the reverse process visits, from the noisiest to 0."""
        return [self.max_time * i / steps for i in range(steps, -1, -1)]

    def level(self, t: float) -> NoiseLevel:
        """Signal and noise at time t."""
        return NoiseLevel(math.cos(math.pi * t / 2), math.sin(math.pi * t / 2))

    def levels(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Signal and noise at many times, as columns that multiply rows."""
        angle = (math.pi / 2) * t.unsqueeze(1)
        return angle.cos(), angle.sin()
